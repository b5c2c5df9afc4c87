"""Runs without a replay go on from a checkpoint as if they had not stopped: bit for bit."""

import masked_envs  # noqa: F401  registers Doors-v0
import numpy as np
import pytest
from runtime_runs import SINCE_RESTORE, timeless

from drl_cli import checkpoints
from drl_cli.algorithms import table
from drl_cli.envs import make as envs
from drl_cli.envs import preprocessors
from drl_cli.errors import CheckpointError
from drl_cli.extras import load
from drl_cli.runtime.driver import Driver

pytestmark = pytest.mark.process

SMALL = {
    "seed": 7,
    "num_workers": 0,
    "num_envs_per_worker": 3,
    "rollout_fragment_length": 10,
    "train_batch_size": 60,
    "timesteps_per_iteration": 100,  # no multiple of a batch
    "model": {"fcnet_hiddens": [8]},
    "evaluation_interval": 2,
    "evaluation_num_episodes": 1,
    "evaluation_config": {"horizon": 30},
    "xla": False,
}
PASSES = {"num_sgd_iter": 2, "sgd_minibatch_size": 20}
FRAGMENT = {"train_batch_size": None}
FIT = {"vf_iterations": 2, "sgd_minibatch_size": 20}
FILTER = {"observation_filter": "MeanStdFilter"}
LSTM = {"model": {"fcnet_hiddens": [8], "use_lstm": True, "lstm_cell_size": 4, "max_seq_len": 5}}
SHORT_LSTM = {"model": LSTM["model"] | {"max_seq_len": 2}}
RUNS = {
    "PPO": ("PPO", "CartPole-v1", PASSES),
    "PPO averaged": ("PPO", "CartPole-v1", PASSES | {"policy_average": 0.9}),
    "PPO Box": ("PPO", "Pendulum-v1", PASSES),
    "PPO LSTM": ("PPO", "drl/StatelessCartPole-v1", PASSES | LSTM),
    "PPO whole episodes": ("PPO", "CartPole-v1", PASSES | {"batch_mode": "complete_episodes"}),
    "PPO LSTM whole episodes": ("PPO", "CartPole-v1", PASSES | LSTM | {"batch_mode": "complete_episodes"}),
    "A2C": ("A2C", "CartPole-v1", {}),
    "A2C averaged": ("A2C", "CartPole-v1", {"policy_average": 0.9}),
    "PG": ("PG", "CartPole-v1", {"batch_mode": "complete_episodes", "horizon": 12}),
    "TRPO": ("TRPO", "Pendulum-v1", FIT | {"reward_scaling": True}),
    "TRPO LSTM filter mask": ("TRPO", "Doors-v0", FIT | SHORT_LSTM | FILTER),
    "A2C LSTM filter": ("A2C", "Pendulum-v1", LSTM | FILTER),
    "PQN": ("PQN", "CartPole-v1", {"num_sgd_iter": 2, "sgd_minibatch_size": 32, "policy_average": 0.9}),
    "PPO filter mask": ("PPO", "Doors-v0", PASSES | FILTER),
    "DDPPO": ("DDPPO", "CartPole-v1", PASSES | FRAGMENT),
    "DDPPO averaged filter": (
        "DDPPO",
        "Pendulum-v1",
        PASSES | FRAGMENT | FILTER | {"policy_average": 0.9, "kl_coeff": 0.2},
    ),
    "DDPPO LSTM": ("DDPPO", "drl/StatelessCartPole-v1", PASSES | FRAGMENT | LSTM),
    "DDPPO whole episodes": ("DDPPO", "CartPole-v1", PASSES | FRAGMENT | {"batch_mode": "complete_episodes"}),
}


@pytest.fixture
def start():
    """Function (row, env, keys, restore=None) → a started Driver, closed behind the test."""
    trainers = []

    def make(name, env_id, keys, restore=None):
        row = table.find(name)
        config = load(row.config).model_validate(SMALL | keys)
        plan = preprocessors.plan(config, env_id)
        facts = {"id": env_id, "asked": env_id, "env_config": {}, "imports": (), "preprocessing": plan}
        trainer = Driver(name, config, facts | {"spaces": envs.check(env_id, {}, row, plan)})
        trainers.append(trainer)
        if restore:
            trainer.restore(restore, True)
        trainer.start()
        return trainer

    yield make
    for trainer in trainers:
        trainer.close()


def state_of(trainer):
    """Everything that what comes next depends on: arrays by name, and plain data."""
    arrays = dict(trainer.parts.learner.call("state").result())
    own, worker = trainer.parts.pool.handles()[0].call("state").result()
    arrays |= {f"worker/{name}": array.copy() for name, array in own.items()}
    counters = {name: value for name, value in trainer.counters().items() if name != "time_total_s"}
    return arrays, {"counters": counters, "worker": worker, "loop": trainer.loop.state()}


@pytest.mark.parametrize(("name", "env_id", "keys"), RUNS.values(), ids=RUNS)
def test_run_interrupted_after_two_iterations_equals_the_whole_run(start, tmp_path, name, env_id, keys):
    whole = start(name, env_id, keys)
    before = [timeless(whole.train(), SINCE_RESTORE) for _ in range(2)]
    path = whole.save(tmp_path)
    after = [timeless(whole.train(), SINCE_RESTORE) for _ in range(2)]
    arrays, plain = state_of(whole)
    sampled, trained = (before[1]["info"][f"num_steps_{kind}"] for kind in ("sampled", "trained"))
    assert sampled == trained >= 240  # nothing is in hand between iterations
    assert after[1]["info"]["num_updates"] > before[1]["info"]["num_updates"] > 0
    assert after[1]["evaluation"]["episode_reward_mean"] is not None

    if "observation_filter" in keys:
        # Of every fragment the filter has heard once.
        assert arrays["default_policy/filter/count"] == after[1]["info"]["num_steps_sampled"]

    resumed = start(name, env_id, keys, restore=checkpoints.load(path))
    assert [timeless(resumed.train(), SINCE_RESTORE) for _ in range(2)] == after
    others, told = state_of(resumed)
    assert sorted(others) == sorted(arrays)
    assert [name for name in arrays if not np.array_equal(arrays[name], others[name])] == []
    assert told == plain


def test_checkpoint_of_a_run_without_replay_holds_none_and_says_nothing_of_it(start, tmp_path, reports):
    trainer = start("A2C", "CartPole-v1", {})
    trainer.train()
    found = checkpoints.load(trainer.save(tmp_path))
    assert not found.has("replay")
    assert found.json("state")["replay"] is None and found.json("state")["exact"] is True
    again = start("A2C", "CartPole-v1", {}, restore=found)
    result = again.train()
    assert "replay_size" not in result["info"] and result["info"]["fragments_dropped"] == 0
    notices = [fields["text"] for kind, fields in reports if kind == "notice"]
    assert notices == ["Resumed bit for bit: a reset of CartPole-v1 with a seed clears all earlier state."]
    progress = [fields for kind, fields in reports if kind == "progress"]
    assert progress[-1]["replay_capacity"] is None


def test_checkpoint_of_another_algorithm_is_refused(start, tmp_path):
    trainer = start("A2C", "CartPole-v1", {})
    path = trainer.save(tmp_path)
    with pytest.raises(CheckpointError, match="its algorithm is 'A2C', this run's is 'PPO'"):
        start("PPO", "CartPole-v1", PASSES, restore=checkpoints.load(path))
