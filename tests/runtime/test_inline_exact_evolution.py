"""ES and ARS without workers: repeatable bit for bit, resumed as if they had not stopped, and without TensorFlow."""

import json
import subprocess
import sys

import numpy as np
import pytest
from runtime_runs import SINCE_RESTORE, timeless

from drl_cli import checkpoints
from drl_cli.algorithms import table
from drl_cli.envs import make as envs
from drl_cli.envs import preprocessors
from drl_cli.extras import load
from drl_cli.runtime.driver import Driver

pytestmark = pytest.mark.process

SMALL = {
    "seed": 7,
    "num_workers": 0,
    "num_envs_per_worker": 6,
    "rollout_fragment_length": 13,
    "timesteps_per_iteration": 400,
    "evaluation_interval": 2,
    "evaluation_num_episodes": 1,
    "evaluation_config": {"horizon": 30},
    "horizon": 200,  # shorter ones all end there, and equal returns make no step
}
BATCH = {"ES": {"episodes_per_batch": 10}, "ARS": {"num_rollouts": 5, "rollouts_used": 3}}
RUNS = {
    "ES": ("ES", "CartPole-v1", {}),
    "ARS": ("ARS", "CartPole-v1", {}),
    "ES, more directions": ("ES", "CartPole-v1", {"train_batch_size": 300}),
    "ES, Box, layers": ("ES", "Pendulum-v1", {"model": {"fcnet_hiddens": (5,)}, "action_noise_std": 0.1}),
    "ARS, Box, table, unperturbed": ("ARS", "Pendulum-v1", {"noise_size": 1000, "eval_prob": 0.3}),
    "ARS, no filter": ("ARS", "CartPole-v1", {"observation_filter": "NoFilter", "offset": 0.5}),
}


@pytest.fixture
def start():
    """Function (row, env_id, keys, restore=None) → a started Driver, closed behind the test."""
    trainers = []

    def make(name, env_id, keys, restore=None):
        row = table.find(name)
        config = load(row.config).model_validate(SMALL | BATCH[name] | keys)
        plan = preprocessors.plan(config, env_id)
        facts = {"id": env_id, "asked": env_id, "env_config": {}, "imports": (), "preprocessing": plan}
        trainers.append(Driver(name, config, facts | {"spaces": envs.check(env_id, {}, row, plan)}))
        if restore:
            trainers[-1].restore(checkpoints.load(restore), True)
        trainers[-1].start()
        return trainers[-1]

    yield make
    for trainer in trainers:
        trainer.close()


def _state(trainer):
    """Everything that what comes next depends on."""
    counters = {name: value for name, value in trainer.counters().items() if name != "time_total_s"}
    plain = [counters, trainer.loop.state(), trainer.loop.ledger.version, trainer.scoring.count]
    return trainer.parts.learner.call("state").result(), plain


@pytest.mark.parametrize(("name", "env_id", "keys"), RUNS.values(), ids=RUNS)
def test_run_interrupted_after_two_iterations_equals_the_whole_run(start, tmp_path, name, env_id, keys):
    whole = start(name, env_id, keys)
    for _ in range(2):
        whole.train()
    path = whole.save(tmp_path)
    after = [timeless(whole.train(), SINCE_RESTORE) for _ in range(2)]
    arrays, plain = _state(whole)
    info = after[1]["info"]
    assert info["num_steps_trained"] == info["num_steps_sampled"] >= 1600
    assert info["num_updates"] == arrays["default_policy/num_updates"] >= 4
    assert (info["weight_lag_mean"], info["num_target_updates"]) == (0, 0)
    assert info["learner"]["default_policy"]["grad_norm"] > 0
    assert (info["unperturbed_reward_mean"] is not None) == ("eval_prob" in keys)
    assert after[1]["evaluation"]["training_iteration"] == 4
    if whole.setup.spec.filter:
        assert arrays["default_policy/filter/count"] == info["num_steps_sampled"]

    resumed = start(name, env_id, keys, restore=path)
    assert [timeless(resumed.train(), SINCE_RESTORE) for _ in range(2)] == after
    others, told = _state(resumed)
    assert sorted(others) == sorted(arrays)
    assert [name for name in arrays if not np.array_equal(arrays[name], others[name])] == []
    assert told == plain


def test_search_does_not_depend_on_how_long_calls_are(start):
    one, other = (start("ES", "CartPole-v1", {"rollout_fragment_length": length}) for length in (5, 1000))
    for trainer in (one, other):
        trainer.train()
    assert one.loop.ledger.updates == other.loop.ledger.updates > 0
    mine, others = _state(one)[0], _state(other)[0]
    for name in mine:
        np.testing.assert_allclose(mine[name], others[name], rtol=1e-5, atol=1e-6, err_msg=name)


TYPED = """
import json, sys
from drl_cli import cli
code = cli.main(sys.argv[1:])
loaded = [name for name in ("tensorflow", "ray", "keras", "torch") if name in sys.modules]
print(json.dumps({"code": code, "loaded": loaded}))
"""


@pytest.mark.parametrize(("name", "env_id"), [("ES", "CartPole-v1"), ("ARS", "Pendulum-v1")])
def test_command_trains_evaluates_and_saves_without_tensorflow_or_ray(tmp_path, name, env_id):
    config = json.dumps({**SMALL, **BATCH[name], "evaluation_interval": 1})
    words = [
        "train",
        "--run",
        name,
        "--env",
        env_id,
        "--local-dir",
        str(tmp_path),
        "--stop",
        "timesteps_total=800",
        "-q",
    ]
    done = subprocess.run(
        [sys.executable, "-c", TYPED, *words, "--config", config], capture_output=True, text=True, timeout=120
    )
    assert json.loads(done.stdout.splitlines()[-1]) == {"code": 0, "loaded": []}, done.stderr
    (result,) = tmp_path.glob("*/*/result.json")
    last = json.loads(result.read_text().splitlines()[-1])
    assert last["evaluation"]["episode_reward_mean"] is not None and last["info"]["num_updates"] > 0
    assert list(tmp_path.glob("*/*/checkpoint_*/COMMIT"))
