"""The plan of preprocessing on its way to workers, the tester and the manifest, and what a restore makes of it."""

from types import SimpleNamespace

import pytest
from runtime_runs import small_config

from drl_cli.algorithms import table
from drl_cli.envs.preprocessors import NOTHING
from drl_cli.errors import CheckpointError
from drl_cli.runtime import assembly, run_restore, run_state
from drl_cli.runtime.pool import Standing

pytestmark = pytest.mark.process

GAME = {"noop_max": 30, "frame_skip": 4, "fire": True, "lives": True}
PLAN = NOTHING | {"frames": 4, "dim": 84, "atari": GAME}
SPACES = {"obs": {"shape": [84, 84, 1]}, "action": {"shape": [], "n": 6}}


def env(**over):
    return {"id": "Pong", "env_config": {}, "imports": (), "preprocessing": PLAN, "spaces": SPACES} | over


def spawned(*args):
    """Return the arguments of the part that is spawned."""
    return args[2]


def test_tester_is_told_to_play_whole_games():
    cluster = SimpleNamespace(spawn=spawned)
    asked = assembly.make_tester(assembly.RunSetup("row", small_config(), env(), "spec"), cluster, "server")[0]
    assert asked["preprocessing"] == PLAN | {"atari": GAME | {"lives": False}}
    assert (
        assembly.make_tester(
            assembly.RunSetup("row", small_config(), env(preprocessing=None), "spec"), cluster, "server"
        )[0]["preprocessing"]
        is None
    )


def test_evaluation_env_config_of_a_team_reaches_its_agents_environment():
    team = env(
        id="drl/Team-v1", env_config={"env": "mpe2/simple_spread-v3", "env_config": {"N": 3}}, preprocessing=None
    )
    config = small_config(evaluation_config={"env_config": {"N": 5}})
    cluster = SimpleNamespace(spawn=spawned)
    asked = assembly.make_tester(assembly.RunSetup("row", config, team, "spec"), cluster, "server")[0]
    assert asked["env_config"] == {"env": "mpe2/simple_spread-v3", "env_config": {"N": 5}}


def test_worker_is_told_the_plan():
    setup = assembly.RunSetup(table.find("SAC"), small_config(), env(), "spec")
    make = assembly.WorkerMaker("worker", setup, SimpleNamespace(spawn=spawned, is_remote=True), "server")
    assert make(0, 0, Standing())[1] == {
        "id": "Pong",
        "env_config": {},
        "imports": (),
        "plugins": (),
        "preprocessing": PLAN,
    }


def test_checkpoint_holds_the_plan(quick_learner, run, tmp_path):
    trainer = run("Pendulum-v1", small_config())
    trainer.env["preprocessing"] = NOTHING
    found = run_state.manifest(trainer.setup, trainer.moment(), None)
    assert found["preprocessing"] == NOTHING


@pytest.mark.parametrize(
    ("mine", "text"),
    [
        (env(preprocessing=PLAN | {"frames": 2}), "its frame stack is 4, this run's is 2"),
        (env(spaces={**SPACES, "action": {"shape": [], "n": 4}}), "its number of actions is 6, this run's is 4"),
        (env(preprocessing=None), "its frame stack is 4, this run's is 1"),
    ],
)
def test_checkpoint_of_another_stack_or_other_actions_is_refused(mine, text):
    facts = {"algorithm": "DQN", "env": "Pong", "spaces": SPACES, "preprocessing": PLAN, "config": {}}
    config = SimpleNamespace(observation_filter="NoFilter", reward_scaling=False)
    row = SimpleNamespace(name="DQN")
    ckpt = SimpleNamespace(path="c", require_facts=lambda: facts)
    with pytest.raises(CheckpointError, match=text):
        run_restore.check_fits(row, config, mine, ckpt)
    run_restore.check_fits(row, config, env(), ckpt)
