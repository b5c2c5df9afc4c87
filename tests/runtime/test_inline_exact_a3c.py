"""A3C without workers repeats bit for bit and goes on from a checkpoint as if it had not stopped, with NumPy or the graph."""

import numpy as np
import pytest
from runtime_runs import SINCE_RESTORE, timeless

from drl_cli import checkpoints
from drl_cli.algorithms import table
from drl_cli.algorithms.a3c import A3CConfig
from drl_cli.envs import make as envs
from drl_cli.envs import preprocessors
from drl_cli.runtime.driver import Driver

pytestmark = pytest.mark.process

SMALL = {
    "seed": 7,
    "num_workers": 0,
    "num_envs_per_worker": 3,
    "rollout_fragment_length": 10,
    "timesteps_per_iteration": 200,
    "evaluation_interval": 2,
    "evaluation_num_episodes": 1,
    "evaluation_config": {"horizon": 30},
    "horizon": 40,
}
NET = {"fcnet_hiddens": (8,)}
RUNS = {
    "dense, scheduled": (
        "CartPole-v1",
        {"model": NET, "entropy_coeff": ((0, 0.1), (700, 0.0)), "lr": ((0, 1e-2), (900, 1e-3))},
    ),
    "Gaussian, RMSProp": (
        "Pendulum-v1",
        {"model": NET | {"free_log_std": True}, "opt_type": "rmsprop", "momentum": 0.5},
    ),
    "filter, scaled rewards": (
        "Pendulum-v1",
        {"model": NET, "observation_filter": "MeanStdFilter", "reward_scaling": True},
    ),
    "complete episodes": ("CartPole-v1", {"model": NET, "batch_mode": "complete_episodes", "use_gae": False}),
    "LSTM": ("drl/StatelessCartPole-v1", {"model": NET | {"use_lstm": True, "lstm_cell_size": 4, "max_seq_len": 5}}),
}


@pytest.fixture
def start():
    """Function (env_id, keys, restore=None) → a started Driver of A3C, closed behind the test."""
    trainers = []

    def make(env_id, keys, restore=None):
        row, config = table.find("A3C"), A3CConfig.model_validate(SMALL | keys)
        plan = preprocessors.plan(config, env_id)
        facts = {"id": env_id, "asked": env_id, "env_config": {}, "imports": (), "preprocessing": plan}
        trainers.append(Driver("A3C", config, facts | {"spaces": envs.check(env_id, {}, row, plan)}))
        if restore:
            trainers[-1].restore(checkpoints.load(restore), True)
        trainers[-1].start()
        return trainers[-1]

    yield make
    for trainer in trainers:
        trainer.close()


def _state(trainer):
    """Everything that what comes next depends on: arrays by name, and plain data."""
    arrays = dict(trainer.parts.learner.call("state").result())
    own, worker = trainer.parts.pool.handles()[0].call("state").result()
    arrays |= {f"worker/{name}": array.copy() for name, array in own.items()}
    counters = {name: value for name, value in trainer.counters().items() if name != "time_total_s"}
    return arrays, [counters, worker, trainer.loop.state(), trainer.loop.ledger.version, trainer.scoring.count]


@pytest.mark.parametrize(("env_id", "keys"), RUNS.values(), ids=RUNS)
def test_run_interrupted_after_two_iterations_equals_the_whole_run(start, tmp_path, env_id, keys):
    whole = start(env_id, keys)
    for _ in range(2):
        whole.train()
    path = whole.save(tmp_path)
    after = [timeless(whole.train(), SINCE_RESTORE) for _ in range(2)]
    arrays, plain = _state(whole)
    info = after[1]["info"]
    assert info["num_steps_trained"] == info["num_steps_sampled"] >= 800
    assert info["num_updates"] == arrays["default_policy/num_updates"] > 8
    if whole.setup.spec.filter:
        # What every fragment saw has been counted once.
        assert arrays["default_policy/filter/count"] == info["num_steps_sampled"]
        assert (arrays["default_policy/filter/var"] != 1).all()
    assert info["weight_lag_mean"] == info["weight_lag_max"] == 0
    assert info["learner"]["default_policy"]["grad_norm"] > 0

    resumed = start(env_id, keys, restore=path)
    assert [timeless(resumed.train(), SINCE_RESTORE) for _ in range(2)] == after
    others, told = _state(resumed)
    assert sorted(others) == sorted(arrays)
    assert [name for name in arrays if not np.array_equal(arrays[name], others[name])] == []
    assert told == plain


def test_two_runs_of_one_seed_are_the_same(start):
    first, second = (start("CartPole-v1", {"model": NET}) for _ in range(2))
    assert [timeless(first.train()) for _ in range(2)] == [timeless(second.train()) for _ in range(2)]
