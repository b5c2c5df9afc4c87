"""Every row of the table through the commands, in this process: trained, played, scored, resumed; and what is refused."""

import json
from pathlib import Path

import composite_envs  # noqa: F401  registers Levers-v0
import odd_envs  # noqa: F401  registers environments of every kind of actions
import pytest
from experience_files import random_set

from drl_cli import cli
from drl_cli.algorithms import table
from drl_cli.config.result_names import RESULT_FIELDS, flatten
from drl_cli.extras import load

pytestmark = pytest.mark.process

SMALL = {
    "num_workers": 0,
    "timesteps_per_iteration": 100,
    "train_batch_size": 16,
    "evaluation_interval": 1,
    "evaluation_num_episodes": 2,
    "horizon": 30,
    "xla": False,
}
REPLAYED = {"learning_starts": 100}
SHORTER = {"model": {"lstm_cell_size": 8, "max_seq_len": 6}}  # of 20 steps
RECORDED = {"training_intensity": 1, "updates_per_call": 1}
TRAJECTORIES = {"num_envs_per_worker": 2, "rollout_fragment_length": 10, "train_batch_size": 20}
PASSES = {"sgd_minibatch_size": 10, "num_sgd_iter": 2, "vf_iterations": 2}  # of the rows that have such keys
ENVS = {
    "Box": "Pendulum-v1",
    "Discrete": "CartPole-v1",
    "MultiDiscrete": "Odd-multi-v0",
    "MultiBinary": "Odd-binary-v0",
    "Composite": "drl/SteerAndStop-v1",
    "Team": "drl/Team-v1",
}
LSTM = {"use_lstm": True, "lstm_cell_size": 4, "max_seq_len": 5}
RESUMED = ("SAC", "DQN", "R2D2", "CQL", "A2C", "A3C", "PPO", "IMPALA", "QMIX")
"""Rows of every loop and kind of state; ``tests/algorithms/test_contract*`` shows that every learner goes on bit for bit."""
BOTH, SEVERAL = ("Box", "Discrete"), ("MultiDiscrete", "MultiBinary")


def rows():
    """Every row on the kinds of actions that it takes; of those that share their nets, each on two of the four, by its name.

    Those without TensorFlow have a file of their own, ``test_evolution_rows``; those that learn from files have some for two.
    """
    for row in (row for row in table.built_in() if row.tensorflow and not row.team):
        number = sum(map(ord, row.name))
        shared = row.postprocess == "trajectory" and len(row.actions) > 1
        kinds = (BOTH[number % 2], SEVERAL[number // 2 % 2]) if shared else row.actions
        kinds = tuple(kind for kind in kinds if not row.reads or kind in BOTH)
        assert set(kinds) <= set(row.actions)
        yield from ((row.name, kind, {}) for kind in kinds)
    yield "A2C", "Discrete", {"model": LSTM}
    yield "PPO", "Composite", {"env_config": {"kind": "dict"}}
    yield "PPO", "Discrete", {"observation_filter": "MeanStdFilter"}
    yield "DQN", "Discrete", {"observation_filter": "MeanStdFilter"}
    teams = [row for row in table.built_in() if row.team]
    yield from ((row.name, "Team", {"env_config": {"env": "drl/TwoStepGame-v1"}}) for row in teams)


def cases():
    """The rows, each trained, played and scored; some resumed as well, in make test-slow all on every kind."""
    for name, kind, more in rows():
        case = f"{name}-{kind}-{'-'.join(more) or 'plain'}"
        if name not in RESUMED:
            yield pytest.param(
                name, kind, more, False, id=f"{case}-scored", marks=pytest.mark.slow if kind in SEVERAL else ()
            )
        slow = () if name in RESUMED and kind not in SEVERAL else pytest.mark.slow
        yield pytest.param(name, kind, more, True, id=case, marks=slow)


def keys_of(name):
    """The keys of a small run of the algorithm ``name``."""
    row = table.find(name)
    if row.reads:
        return SMALL | RECORDED
    if row.postprocess != "trajectory":
        return SMALL | REPLAYED | (SHORTER if row.postprocess == "sequences" else {})
    known = load(row.config).model_fields
    return SMALL | TRAJECTORIES | {key: value for key, value in PASSES.items() if key in known}


def typed(name, env, folder, *more):
    return ["train", "--run", name, "--env", env, "--local-dir", str(folder), "--seed", "3", *more]


@pytest.mark.parametrize(("name", "kind", "more", "resumed"), cases())
def test_row_is_trained_played_scored_and_resumed_by_the_commands(tmp_path, capsys, name, kind, more, resumed):
    if table.find(name).reads:
        more = more | {"input": random_set(tmp_path / "recorded" / "a.json", ENVS[kind])}
    short = ["--config", json.dumps(keys_of(name) | more), "--stop", "timesteps_total=300"]
    assert cli.main(typed(name, ENVS[kind], tmp_path, *short, "--json")) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["training_iteration"] for line in lines[:-1]] == [1, 2, 3]
    updates = lines[2]["info"]["num_updates"]
    assert updates > 10
    named = {field for field in flatten(lines[2]) if not field.startswith("config")}
    assert named - set(RESULT_FIELDS) == set()
    assert lines[2]["evaluation"]["training_iteration"] == 3
    (run,) = (path.parent for path in Path(tmp_path).glob("*/*/params.json"))

    assert cli.main(["rollout", str(run), "--latest", "--episodes", "2", "--seed", "1"]) == 0
    played = capsys.readouterr().out.splitlines()
    assert [line.split(": reward:")[0] for line in played[:2]] == ["Episode #0", "Episode #1"]
    assert cli.main(["evaluate", str(run / "checkpoint_000003"), "--episodes", "2", "--seed", "1", "--json"]) == 0
    (scored,) = json.loads(capsys.readouterr().out)["checkpoints"]
    rewards = [float(line.partition(": reward: ")[2]) for line in played[:2]]
    assert scored["greedy"]["mean"] == pytest.approx(sum(rewards) / 2, abs=0.01)  # the same games on the same seeds

    if not resumed:
        return
    assert cli.main(["train", "--resume", str(run), "--stop", "timesteps_total=400", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["training_iteration"] for line in lines[:-1]] == [4]
    assert lines[0]["info"]["num_updates"] > updates


@pytest.mark.parametrize(
    ("name", "env", "settings", "message"),
    [
        ("DQN", "Pendulum-v1", [], "DQN needs a Discrete action space; its actions are a Box of [1]. Algorithms for"),
        ("TD3", "CartPole-v1", [], "its actions are Discrete(2). Algorithms for such actions: SAC, DQN, QRDQN"),
        ("td4", "Pendulum-v1", [], "Unknown algorithm 'td4'. Did you mean 'TD3'?"),
        ("DQN", "CartPole-v1", ["twin_q=true"], "not of DQN: the equivalent key is double_q"),
        ("TD3", "Pendulum-v1", ["dueling=true"], "dueling: a key of DQN, QRDQN, SimpleQ, APEX, R2D2, not of TD3"),
        ("SAC", "CartPole-v1", ["use_sde=true"], "state-dependent noise is for Box actions"),
        ("DQN", "CartPole-v1", ["exploration_config.type=GaussianNoise"], "that is for Box actions; it takes one of"),
        ("PPO", "Odd-dictaction-v0", [], "PPO needs"),
        (
            "DQN",
            "drl/SteerAndStop-v1",
            [],
            "such actions: SAC, PG, A2C, A3C, PPO, DDPPO, TRPO, IMPALA, APPO, MARWIL, BC.",
        ),
        ("SAC", "drl/SteerAndStop-v1", ["use_sde=true"], "is for Box actions, the environment's are a Dict or Tuple"),
        (
            "SAC",
            "Levers-v0",
            [],
            "SAC: actions with parts that are MultiBinary and MultiDiscrete, where Box and Discrete",
        ),
        ("PPO", "drl/SteerAndStop-v1", ["env_config.kind=dct"], "is no kind of action space. Did you mean 'dict'?"),
        ("DQN", "Odd-multi-v0", [], "Algorithms for such actions: PG, A2C, A3C, PPO, DDPPO, TRPO, IMPALA, APPO"),
        ("SAC", "Odd-binary-v0", [], "Algorithms for such actions: PG, A2C, A3C, PPO, DDPPO, TRPO, IMPALA, APPO"),
        ("A2C", "CartPole-v1", ["clip_param=0.2"], "clip_param: a key of PPO, DDPPO, MAPPO, APPO"),
        ("PPO", "CartPole-v1", ["buffer_size=1000"], "buffer_size: a key of"),
        ("TRPO", "CartPole-v1", ["vf_share_layers=true"], "vf_share_layers: TRPO needs false"),
        ("PG", "CartPole-v1", ["use_critic=false"], "false needs batch_mode complete_episodes"),
        ("PPO", "CartPole-v1", ["exploration_config.type=EpsilonGreedy"], "exploration_config.type: "),
        ("IMPALA", "CartPole-v1", ["num_gpus=2"], "only the batches of synchronous loops"),
        ("PPO", "CartPole-v1", ["use_sde=true"], "use_sde"),
        ("PPO", "Odd-image-v0", ["observation_filter=MeanStdFilter"], "observation_filter"),
        ("DQN", "CartPole-v1", ["exploration_config.stddev=0.2"], "EpsilonGreedy does not use it; it takes"),
        ("SAC", "CartPole-v1", ["model.dim=42"], "model.dim, grayscale and framestack are for images"),
        (
            "SAC",
            "Pendulum-v1",
            ["prioritized_replay=true", "worker_side_prioritization=true"],
            "the learner computes all of them",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(tmp_path, capsys, name, env, settings, message):
    words = [word for setting in settings for word in ("-s", setting)]
    assert cli.main(typed(name, env, tmp_path, *words)) == 2
    said = capsys.readouterr()
    (line,) = said.err.splitlines()
    assert line.startswith("Error: ") and message in line
    assert said.out == ""
    assert list(tmp_path.iterdir()) == []
