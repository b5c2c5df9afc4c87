"""Tasks of environments: set on all of a batch, on new objects too, and brought back where an episode is replayed."""

import gymnasium
import numpy as np
import pytest

from drl_cli import plugins
from drl_cli.config.sections.common import CommonKeys
from drl_cli.envs import bundled_envs, env_tasks, make
from drl_cli.envs.env_batch import EnvBatch
from drl_cli.errors import EnvError, InputError, PluginFailed


class Counting(gymnasium.Env):
    """Every step adds the task to the observation."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    made = 0

    def __init__(self):
        Counting.made += 1
        self.task, self.total, self.begun_with = 0, 0.0, None

    def set_task(self, task):
        if task == "bad":
            raise ValueError("no such task")
        self.task = task

    def get_task(self):
        return self.task

    def reset(self, *, seed=None, options=None):
        self.total, self.begun_with = 10.0 * self.task, self.task
        return np.array([self.total], np.float32), {}

    def step(self, action):
        self.total += self.task + 0.5
        return np.array([self.total], np.float32), 0.0, False, False, {}


class Phased(Counting):
    """As RLlib's own example has it."""

    set_task = None

    def set_phase(self, phase):
        self.task = phase


del Phased.set_task
gymnasium.register("CountingTasks-v0", Counting, max_episode_steps=6)
gymnasium.register("Phased-v0", Phased, max_episode_steps=6)


def batch(count=2, env_id="CountingTasks-v0", **setup):
    return EnvBatch({"id": env_id, "env_config": {}, **setup}, count, (1, 0))


def step(envs, times):
    for _ in range(times):
        envs.step_all(np.zeros(envs.count, np.int32))


@pytest.mark.parametrize("env_id", ["CountingTasks-v0", "Phased-v0"])
def test_task_is_set_on_every_environment_at_once(env_id):
    envs = batch(env_id=env_id)
    envs.reset()
    step(envs, 1)
    envs.set_task(3)
    step(envs, 1)
    assert envs.obs().tolist() == [[4.0], [4.0]]
    assert [env_tasks.task_of(env) for env in envs.objects()] == [3, 3]


def test_task_of_the_setup_is_there_before_the_first_reset():
    envs = batch(task=[2])
    assert envs.reset().tolist() == [[20.0], [20.0]]


def test_new_objects_get_the_task():
    envs = batch(fresh_envs=True)
    envs.reset()
    envs.set_task(4)
    made = Counting.made
    step(envs, 6)
    assert Counting.made == made + 2
    assert envs.obs().tolist() == [[40.0], [40.0]]


def test_replayed_episodes_have_each_task_from_the_step_on_at_which_it_was_set():
    envs = batch()
    envs.reset()
    step(envs, 2)
    envs.set_task(1)
    step(envs, 5)  # the second episodes begin with task 1
    envs.set_task(2)
    envs.set_task(5)
    step(envs, 2)
    envs.set_task(7)
    other = batch()
    assert other.load(*envs.state()) == []
    assert other.obs().tolist() == envs.obs().tolist() == [[22.5], [22.5]]
    for one in (envs, other):
        step(one, 4)
    assert other.obs().tolist() == envs.obs().tolist() == [[77.5], [77.5]]
    assert other.state()[1] == envs.state()[1]


def test_state_of_a_batch_without_tasks_is_as_it_was():
    envs = batch()
    envs.reset()
    assert envs.state()[1] == {"episode": [1, 1], "failures": [0, 0]}


def test_environment_without_tasks_is_named():
    envs = EnvBatch({"id": "CartPole-v1", "env_config": {}}, 1, (1, 0))
    envs.reset()
    with pytest.raises(EnvError, match="CartPole-v1 has neither set_task nor set_phase"):
        envs.set_task(1)


def test_task_that_the_environment_refuses_is_one_line_with_its_place():
    envs = batch()
    envs.reset()
    with pytest.raises(
        PluginFailed, match=r"set_task of the environment failed: ValueError: no such task \(.*\.py:\d+\)"
    ):
        envs.set_task("bad")


def test_functions_are_found_by_name(plug_ins):
    env_tasks.register_env_task_fn("mine", lambda result, env, context: 1)
    assert env_tasks.find("mine")({}, None, {}) == 1
    assert list(plugins.registered()["task function"]) == ["mine"]
    with pytest.raises(InputError, match="register_env_task_fn: mine: '7' is not a function."):
        env_tasks.register_env_task_fn("mine", 7)
    (line,) = env_tasks.problems(CommonKeys(env_task_fn="mime"))
    assert line.startswith("env_task_fn: No task function is registered as 'mime'. Did you mean 'mine'?")
    assert env_tasks.problems(CommonKeys()) == []


def test_mountain_car_gets_a_weaker_push_when_nine_of_ten_reach_the_top():
    env = make.make("drl/MountainCarTasks-v1", {"task": 2})
    obs, _ = env.reset(seed=1)
    assert env_tasks.task_of(env) == 2 and obs[1] == np.float32(0.05)
    env_tasks.give(env, 5)
    obs, _ = env.reset(seed=1)
    assert -0.6 <= obs[0] <= -0.4 and obs[1] == 0.0
    env.unwrapped.state = np.array([0.49, 0.05])
    assert env.step(2)[1:3] == (5.0, True)
    present = env_tasks.CurrentTask(2)
    found = [bundled_envs.weaker_push({"episode_reward_mean": mean}, present, {}) for mean in (None, 1.7, 1.8)]
    assert found == [2, 2, 3]
    assert bundled_envs.weaker_push({"episode_reward_mean": 5.0}, env_tasks.CurrentTask(5), {}) == 5
    with pytest.raises(EnvError, match="task 6 is not from 1 to 5"):
        make.make("drl/MountainCarTasks-v1", {"task": 6})
    env.close()
