"""Environments in processes of their own do what they do in one, side by side; what breaks there costs an episode here."""

import importlib
import os
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import slow_env  # noqa: F401 - registers it here

from drl_cli import plugins
from drl_cli.algorithms.sac import SACConfig
from drl_cli.envs import preprocessors, remote_env, remote_plugins
from drl_cli.envs.custom_envs import register_env
from drl_cli.envs.custom_preprocessors import register_preprocessor
from drl_cli.envs.env_batch import EnvBatch
from drl_cli.envs.env_wrappers import register_env_wrapper
from drl_cli.errors import EnvError


@pytest.fixture
def batch(monkeypatch):
    """A function that makes an EnvBatch, which is closed behind the test."""
    made = []

    def make(env_id, count=3, remote=True, horizon=None, timeout_s=None, **env_config):
        imports = ("slow_env",) if env_id == "Slow-v0" else ()
        name = {"id": env_id, "env_config": env_config, "imports": imports, "remote": remote, "timeout_s": timeout_s}
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


def test_environment_that_does_not_answer_is_killed_after_the_limit(batch, tmp_path):
    envs = batch("Slow-v0", count=2, timeout_s=10.0, meeting=str(tmp_path), together=3)
    envs.reset()
    for env in envs._envs:
        env._process._timeout_s = 0.5  # its first answer may take longer on a busy machine
    stepped = envs.step_all(np.array([3, 0]))  # waits for a third one for ever
    assert stepped.broken == [0] and envs.obs()[:, 0].tolist() == [0, 1]
    assert "no answer for 0.5 s (env_timeout_s): its process was killed" in envs.notes[0]
    assert envs.step_all(np.array([0, 0])).broken == []


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


PROGRAM = """
import gymnasium
import numpy as np
from gymnasium.envs.classic_control import PendulumEnv


class Half(gymnasium.RewardWrapper):
    def reward(self, reward):
        return reward / 2


class Angle:
    def __init__(self, space, options):
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def transform(self, obs):
        return np.float32([np.arctan2(obs[1], obs[0]) / np.pi, obs[2] / 8.0])


class Swing(PendulumEnv):
    pass
"""
REGISTRIES = (plugins.ENVIRONMENTS, plugins.ENV_WRAPPERS, plugins.PREPROCESSORS)


@pytest.fixture
def setup(monkeypatch, tmp_path):
    """An environment that is registered by this process, of classes of a module that registers nothing."""
    (tmp_path / "tests_own_parts.py").write_text(PROGRAM)
    monkeypatch.syspath_prepend(str(tmp_path))
    for registry in REGISTRIES:
        monkeypatch.setattr(registry, "_things", {})
    held = importlib.import_module("tests_own_parts")
    register_env("TestsSwing-v0", held.Swing, max_episode_steps=7)
    register_env_wrapper("half", held.Half)
    register_preprocessor("angle", held.Angle)
    plan = {**preprocessors.NOTHING, "wrappers": [["half", {}]], "preprocessor": ["angle", {}]}
    yield {"id": "TestsSwing-v0", "env_config": {}, "preprocessing": plan, "imports": ()}
    sys.modules.pop("tests_own_parts", None)
    gymnasium.registry.pop("TestsSwing-v0", None)


def test_what_the_program_registered_is_known_in_the_process_of_an_environment(setup):
    actions = [np.zeros((2, 1), np.float32)] * 8
    found = []
    for remote in (False, True):
        batch = EnvBatch({**setup, "remote": remote}, 2, (5, 1), None)
        found.append(played(batch, actions))
        batch.close()
    here, there = found
    assert here[0].shape == (9, 2, 2) and np.array_equal(here[0], there[0])
    assert here[1:] == there[1:] and [end[2] for end in there[2]] == [True, True]


@pytest.mark.parametrize(
    ("registry", "told"),
    zip(REGISTRIES, ("the environment TestsSwing-v0", "the wrapper half", "the preprocessor angle"), strict=True),
)
def test_what_the_program_itself_holds_is_refused(setup, monkeypatch, registry, told):
    (thing,) = registry.known().values()
    held = thing.creator.create if registry is plugins.ENVIRONMENTS else thing
    monkeypatch.setattr(held, "__module__", "__main__")
    config = SACConfig(num_envs_per_worker=2, remote_worker_envs=True)
    assert remote_env.misfits(config, setup) == [
        f"remote_worker_envs: {told} is defined in the program itself, and the processes of the environments import modules "
        "only. Move it to a module which the program imports, or set remote_worker_envs to false."
    ]


def test_a_function_that_only_a_module_can_register_is_registered_by_it(setup, tmp_path):
    (tmp_path / "tests_own_parts.py").write_text(
        PROGRAM + "import drl_cli\ndrl_cli.register_env_wrapper('half', lambda env: Half(env))\n"
    )
    sys.modules.pop("tests_own_parts")
    importlib.import_module("tests_own_parts")
    env = remote_env.RemoteEnv(setup, (None, None))
    env.reset(1)
    env.close()
    assert [row[2:4] for row in remote_plugins.references(setup)][1] == ["tests_own_parts", "<lambda>"]


def test_what_needs_the_environment_here_is_refused():
    asked = {"remote_worker_envs": True, "record_env": True, "callbacks": "mine"}
    facts = {"id": "CartPole-v1", "env_config": {}, "preprocessing": None}
    told = remote_env.misfits(SACConfig(num_envs_per_worker=2, **asked), facts)
    assert [line.partition(":")[0] for line in told] == ["record_env", "callbacks"]
    assert remote_env.misfits(SACConfig(num_envs_per_worker=1, **asked), facts) == []
