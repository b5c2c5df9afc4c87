"""``deterministic: true``: the same weights with any number of workers, when workers die, and after an interruption."""

import os
import signal

import numpy as np
import pytest
from runtime_runs import SINCE_RESTORE, env_facts, small_config, timeless

from drl_cli import checkpoints
from drl_cli.algorithms import table
from drl_cli.envs import make as envs
from drl_cli.errors import ConfigError
from drl_cli.extras import load
from drl_cli.runtime import assembly, run_restore
from drl_cli.runtime.driver import Driver

COMMON = {
    "seed": 7,
    "deterministic": True,
    "num_workers": 0,
    "timesteps_per_iteration": 200,
    "num_cpus_per_worker": 0,
    "evaluation_interval": 2,
    "evaluation_num_episodes": 1,
    "evaluation_config": {"horizon": 30},
    "xla": False,
}
FRAGMENTS = {"num_envs_per_worker": 3, "rollout_fragment_length": 10, "model": {"fcnet_hiddens": [8]}}
REPLAY = {"num_envs_per_worker": 2, "rollout_fragment_length": 10, "train_batch_size": 32, "learning_starts": 200}
RUNS = {
    "PPO": (
        "CartPole-v1",
        FRAGMENTS
        | {"train_batch_size": 90, "num_sgd_iter": 2, "sgd_minibatch_size": 30, "observation_filter": "MeanStdFilter"},
    ),
    "IMPALA": ("CartPole-v1", FRAGMENTS | {"train_batch_size": 60}),
    "APPO": ("CartPole-v1", FRAGMENTS | {"train_batch_size": 60}),
    "SAC": (
        "Pendulum-v1",
        REPLAY
        | {"updates_per_call": 10, "publish_every": 10, "buffer_size": 5000}
        | {"policy_model": {"fcnet_hiddens": [8]}, "Q_model": {"fcnet_hiddens": [8]}},
    ),
    "DQN": ("CartPole-v1", REPLAY | {"buffer_size": 5000, "model": {"fcnet_hiddens": [8]}}),
    "APEX": ("CartPole-v1", REPLAY | {"buffer_size": 5000, "model": {"fcnet_hiddens": [8]}}),
    "ES": ("CartPole-v1", {"num_envs_per_worker": 2, "episodes_per_batch": 8, "train_batch_size": 100}),
}


@pytest.fixture
def start():
    """Function (row, restore=None, **keys) → a started Driver, closed after the test."""
    drivers = []

    def begin(name, restore=None, **keys):
        env, own = RUNS[name]
        row = table.find(name)
        facts = {"id": env, "asked": env, "env_config": {}, "imports": (), "spaces": envs.check(env, {}, row)}
        drivers.append(Driver(name, load(row.config).model_validate(COMMON | own | keys), facts))
        if restore is not None:
            drivers[-1].restore(checkpoints.load(restore), exact=True)
        drivers[-1].start()
        return drivers[-1]

    yield begin
    for driver in drivers:
        driver.close()


@pytest.fixture(scope="module")
def ray():
    """A Ray for all runs of this file."""
    cluster = load("drl_cli.runtime.ray_cluster:RayCluster")({}, 1)
    yield cluster
    cluster.close()


def weights(driver):
    """Everything that the learner holds, by name."""
    return driver.parts.learner.call("state").result()


def assert_equal(one, other):
    assert set(one) == set(other)
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)


def kill_a_worker(driver):
    """Kill the process of worker 0 while it has a fragment in hand."""
    os.kill(driver.parts.pool.handles()[0].ready().result(), signal.SIGKILL)


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", ["PPO", "SAC"])
def test_deterministic_run_without_workers_goes_on_from_a_checkpoint_bit_for_bit(start, tmp_path, reports, name):
    whole = start(name)
    [whole.train() for _ in range(2)]
    path = whole.save(tmp_path)
    after = [timeless(whole.train(), SINCE_RESTORE) for _ in range(2)]
    resumed = start(name, path)
    found = [timeless(resumed.train(), SINCE_RESTORE) for _ in range(2)]
    for one, other in zip(found, after, strict=True):
        assert {n: (v, other[n]) for n, v in one.items() if v != other[n]} == {}
    assert_equal(weights(resumed), weights(whole))
    assert any("bit for bit: a reset" in fields.get("text", "") for _, fields in reports)


@pytest.mark.process
def test_number_of_blocks_changes_what_is_sampled(quick_learner, run):
    def sampled(blocks):
        keys = {"deterministic": True, "num_env_blocks": blocks, "num_envs_per_worker": 2}
        driver = run("Pendulum-v1", small_config(**keys))
        [driver.train() for _ in range(2)]
        assert driver.loop.ledger.updates
        return np.concatenate([array.ravel() for array in weights(driver).values()])

    assert not np.array_equal(sampled(2), sampled(3))


@pytest.mark.ray
def test_killed_worker_and_resume_with_fewer_workers_leave_the_weights_of_ppo_as_they_are(ray, start, tmp_path):
    inline = start("PPO")
    found = [(inline.train(), weights(inline))[1] for _ in range(4)]
    two = start("PPO", num_workers=2)
    two.train()
    assert_equal(weights(two), found[0])
    kill_a_worker(two)
    two.train()
    assert two.parts.pool.restarts == 1
    assert_equal(weights(two), found[1])
    path = two.save(tmp_path)
    two.close()
    one = start("PPO", path, num_workers=1)
    [one.train() for _ in range(2)]
    assert_equal(weights(one), found[3])


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.parametrize("name", ["IMPALA", "APPO", "SAC", "DQN", "APEX", "ES"])
def test_workers_that_are_killed_leave_the_weights_as_they_are(ray, start, name):
    inline, two = start(name), start(name, num_workers=2)
    for iteration in range(5):
        inline.train()
        two.train()
        assert_equal(weights(two), weights(inline))
        if iteration in (1, 3):
            kill_a_worker(two)


@pytest.mark.process
@pytest.mark.parametrize(("keys", "count"), [({}, 1), ({"fresh_envs": True}, 0)])
def test_environment_whose_episodes_cannot_be_replayed_is_warned_of_at_the_start(reports, keys, count):
    config = small_config(deterministic=True, num_workers=2, **keys)
    run_restore.report_carry_over(assembly.setup_of(table.find("SAC"), config, env_facts("BipedalWalker-v3")))
    texts = [fields["text"] for kind, fields in reports if kind == "warning"]
    assert len(texts) == count
    assert all(
        "BipedalWalker-v3 keeps something over a seeded reset" in text and "fresh_envs" in text for text in texts
    )


@pytest.mark.process
def test_team_of_agents_is_refused_in_one_line():
    config = load(table.find("MAPPO").config).model_validate({"deterministic": True})
    with pytest.raises(ConfigError, match="^deterministic: it is for one agent; leave it out"):
        assembly.setup_of(table.find("MAPPO"), config, env_facts("Pendulum-v1"))
