"""Environments in processes of their own do what they do in one, side by side; what breaks there costs an episode here."""

import os
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import slow_env  # noqa: F401 - registers it here

from drl_cli.algorithms.sac import SACConfig
from drl_cli.envs import remote_env
from drl_cli.envs.env_batch import EnvBatch
from drl_cli.errors import EnvError


@pytest.fixture
def batch(monkeypatch):
    """A function that makes an EnvBatch, which is closed behind the test."""
    made = []

    def make(env_id, count=3, remote=True, horizon=None, **env_config):
        imports = ("slow_env",) if env_id == "Slow-v0" else ()
        name = {"id": env_id, "env_config": env_config, "imports": imports, "remote": remote}
        made.append(EnvBatch(name, count, (5, 1), horizon))
        return made[-1]

    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    yield make
    for one in made:
        one.close()


def played(batch, actions):
    """Return what ``actions`` (a list of [N, …]) bring: observations, rewards, ends with their observations."""
    seen = [batch.reset().copy()]
    rewards, ends = [], []
    for row in actions:
        stepped = batch.step_all(row)
        rewards.append(stepped.rewards)
        ends += [(index, terminated, truncated, last.tolist()) for index, terminated, truncated, last in stepped.ends]
        seen.append(batch.obs().copy())
    return np.array(seen), rewards, ends


@pytest.mark.parametrize("env_id", ["CartPole-v1", "LunarLanderContinuous-v3", "Taxi-v3"])
def test_remote_environments_do_what_local_ones_do_to_the_bit(batch, env_id):
    space = gymnasium.make(env_id).action_space
    space.seed(3)
    actions = [np.array([space.sample() for _ in range(3)]) for _ in range(120)]
    here, there = (played(batch(env_id, remote=remote, horizon=50), actions) for remote in (False, True))
    assert np.array_equal(here[0], there[0]) and here[0].dtype == there[0].dtype
    assert here[1:] == there[1:] and here[2]  # episodes ended on the way


def test_remote_environments_have_a_process_each_and_their_state_is_replayed(batch):
    first = batch("Slow-v0", count=2)
    first.reset()
    first.step_all(np.array([0, 0]))
    first.step_all(np.array([0, 0]))
    processes = first.obs()[:, 1]
    assert len({*processes, os.getpid()}) == 3 and first.obs()[:, 0].tolist() == [2, 2]
    lander = batch("LunarLanderContinuous-v3", count=2)
    lander.reset()
    lander.step_all(np.full((2, 2), 0.5, np.float32))
    arrays, facts = lander.state()
    again = batch("LunarLanderContinuous-v3", count=2)
    again.load(arrays, facts)
    assert np.array_equal(again.obs(), lander.obs())


def test_remote_environments_step_at_once(batch, tmp_path):
    envs = batch("Slow-v0", count=4, meeting=str(tmp_path), together=4)
    envs.reset()
    envs.step_all(np.full(4, 3))  # one after the other, the first would wait for the second for ever
    assert envs.obs()[:, 0].tolist() == [1] * 4


def test_environment_that_raises_or_dies_costs_its_episode_only(batch):
    envs = batch("Slow-v0", count=3)
    envs.reset()
    before = envs.obs()[:, 1].copy()
    stepped = envs.step_all(np.array([1, 2, 0]))
    assert stepped.broken == [0, 1] and envs.obs()[:, 0].tolist() == [0, 0, 1]
    assert "ArithmeticError: told to" in envs.notes[0] and "its process died with code 7" in envs.notes[1]
    assert "slow_env.py:30, in step)" in envs.notes[0]
    assert envs.obs()[0, 1] == before[0] and envs.obs()[1, 1] != before[1]
    assert envs.step_all(np.array([0, 0, 0])).broken == []


def test_single_environment_needs_no_process(batch):
    envs = batch("Slow-v0", count=1)
    envs.reset()
    assert envs.obs()[0, 1] == np.float32(os.getpid())


def test_environment_that_cannot_be_made_says_why():
    env = remote_env.RemoteEnv({"id": "Nothing-v0", "env_config": {}}, (None, None))
    with pytest.raises(Exception, match="There is no environment|Nothing-v0") as caught:
        env.reset(1)
    assert type(caught.value).__name__ == "EnvError"
    env.close()
    with pytest.raises(EnvError, match="its process died"):
        env.reset(1)


@pytest.mark.parametrize("array", [np.float32([[1, 2]]), np.uint8(3), np.zeros((0, 2)), np.int64([5])])
def test_arrays_travel_with_dtype_and_shape(array):
    back = remote_env.unpack(remote_env.pack(np.asarray(array)))
    assert back.dtype == array.dtype and back.shape == array.shape and np.array_equal(back, array)


def test_what_needs_the_environment_here_is_refused():
    asked = {"remote_worker_envs": True, "record_env": True, "callbacks": "mine"}
    told = remote_env.misfits(SACConfig(num_envs_per_worker=2, **asked))
    assert [line.partition(":")[0] for line in told] == ["record_env", "callbacks"]
    assert remote_env.misfits(SACConfig(num_envs_per_worker=1, **asked)) == []
