"""Environments with goals: what they say of other goals, the ones that come with this program, what is refused."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from drl_cli.envs import goals, make
from drl_cli.envs.spaces import find_goal
from drl_cli.errors import EnvError

BOX = gymnasium.spaces.Box
BUNDLED = ["drl/BitFlipping-v1", "drl/PointReach-v1"]


class Line(gymnasium.Env):
    """A walk over numbers to the number desired, for one pair of goals at a time."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Dict({"achieved_goal": BOX(-9, 9, (1,)), "desired_goal": BOX(-9, 9, (1,))})
    rewarded = 0.0  # beside what compute_reward says

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.goal = self.np_random.integers(-3, 4, (2, 1)).astype(np.float32)
        return self._obs(), {}

    def step(self, action):
        self.at = self.at + np.float32(2 * action - 1)
        reward = self.compute_reward(self.at, self.goal, {}) + self.rewarded
        return self._obs(), reward, self.compute_terminated(self.at, self.goal, {}), False, {}

    def compute_reward(self, achieved_goal, desired_goal, info):
        return -1.0 if abs(achieved_goal - desired_goal) > 0.5 else 0.0  # ValueError for several

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return bool(np.linalg.norm(achieved_goal - desired_goal) < 0.5)  # one answer, however many are asked for

    def _obs(self):
        return {"achieved_goal": self.at, "desired_goal": self.goal}


class Mute(Line):
    compute_reward = None

    def __getattribute__(self, name):
        if name == "compute_reward":
            raise AttributeError(name)
        return super().__getattribute__(name)

    def step(self, action):
        return self._obs(), 0.0, False, False, {}


class Generous(Line):
    rewarded = 0.25


class Breaking(Line):
    def compute_reward(self, achieved_goal, desired_goal, info):
        if np.ndim(achieved_goal) > 1:
            raise TypeError("one by one")
        return np.nan if achieved_goal == desired_goal else -1.0


class Late(Line):
    def step(self, action):
        obs, reward, _, truncated, info = super().step(action)
        return obs, reward, reward < 0, truncated, info


def wrapped(env):
    return gymnasium.wrappers.FlattenObservation(env)


@pytest.mark.parametrize("env_id", BUNDLED)
def test_environment_with_goals_passes_gymnasiums_checks_and_our_own(env_id):
    check_env(gymnasium.make(env_id).unwrapped, skip_render_check=True)
    env = make.make(env_id, {})
    layout = make.describe(env)["goal"]
    goals.check(env, layout)


@pytest.mark.parametrize("env_id", BUNDLED)
def test_goals_are_where_the_layout_says(env_id):
    env = make.make(env_id, {})
    achieved, desired, size = make.describe(env)["goal"]
    seen = env.reset(seed=4)[0]
    raw = env.unwrapped.reset(seed=4)[0]
    assert np.array_equal(seen[achieved : achieved + size], raw["achieved_goal"])
    assert np.array_equal(seen[desired : desired + size], raw["desired_goal"])


def test_bits_flip_until_they_are_the_goal():
    env = gymnasium.make("drl/BitFlipping-v1", bits=6).unwrapped
    obs, _ = env.reset(seed=1)
    wrong = np.flatnonzero(obs["achieved_goal"] != obs["desired_goal"])
    told = [env.step(bit)[1:] for bit in wrong]
    assert [reward for reward, *_ in told] == [-1.0] * (len(wrong) - 1) + [0.0]
    assert told[-1][1] and told[-1][3]["is_success"] and not any(one[1] for one in told[:-1])


def test_point_reaches_its_goal_stays_there_and_walls_hold_it():
    env = gymnasium.make("drl/PointReach-v1").unwrapped
    obs, _ = env.reset(seed=2)
    for _ in range(50):
        push = 8.0 * (obs["desired_goal"] - obs["achieved_goal"]) - 6.0 * obs["observation"]
        obs, reward, terminated, truncated, info = env.step(push)
    assert (reward, terminated, truncated, info["is_success"]) == (0.0, False, False, True)
    for _ in range(60):
        obs = env.step(np.ones(3, np.float32))[0]
    assert np.array_equal(obs["achieved_goal"], np.ones(3)) and not obs["observation"].any()


@pytest.mark.parametrize(("env_id", "key"), [("drl/BitFlipping-v1", "bits"), ("drl/PointReach-v1", "dimensions")])
def test_size_out_of_range_is_one_line(env_id, key):
    with pytest.raises(EnvError, match=rf"^env_config.{key}: 0 is no whole number from 1 to"):
        make.make(env_id, {key: 0})


def test_functions_for_one_goal_at_a_time_are_asked_so():
    outcomes = goals.GoalOutcomes(wrapped(Line()))
    achieved, desired = np.float32([[1], [2], [3]]), np.float32([[1], [1], [3]])
    for _ in range(2):
        reward, ends = outcomes(achieved, desired)
        assert reward.tolist() == [0.0, -1.0, 0.0] and ends.tolist() == [True, False, True]


def test_functions_for_many_goals_are_called_once():
    env, calls = gymnasium.make("drl/BitFlipping-v1", bits=4), []
    plain = env.unwrapped.compute_reward
    env.unwrapped.compute_reward = lambda *goals: calls.append(len(goals[0])) or plain(*goals)
    outcomes = goals.GoalOutcomes(env, knows_ends=False)
    bits = np.random.default_rng(0).integers(0, 2, (2, 100, 4)).astype(np.float32)
    first = outcomes(*bits)
    calls.clear()
    assert np.array_equal(outcomes(*bits)[0], first[0]) and calls == [100] and first[1] is None
    assert np.array_equal(first[0] == 0.0, (bits[0] == bits[1]).all(axis=1))


@pytest.mark.parametrize(
    ("env", "told"),
    [
        (Mute, "it has no compute_reward(achieved_goal, desired_goal, info)"),
        (Generous, "whose reward was"),
        (Breaking, "compute_reward returned"),
        (Late, "compute_terminated says"),
    ],
)
def test_environment_whose_goals_cannot_be_replaced_is_refused(env, told):
    with pytest.raises(EnvError) as caught:
        goals.check(wrapped(env()), [0, 1, 1])
    assert told in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "parts",
    [
        {"achieved_goal": BOX(0, 1, (2,))},
        {"achieved_goal": BOX(0, 1, (2,)), "desired_goal": BOX(0, 1, (3,))},
        {"achieved_goal": gymnasium.spaces.Discrete(3), "desired_goal": gymnasium.spaces.Discrete(3)},
        {"achieved_goal": BOX(0, 1, (2, 2)), "desired_goal": BOX(0, 1, (2, 2))},
    ],
)
def test_other_observations_have_no_goals(parts):
    assert find_goal(gymnasium.spaces.Dict(parts), gymnasium.spaces.flatdim) is None


def test_goals_are_found_behind_other_parts():
    parts = {
        "a": BOX(0, 1, (5,)),
        "achieved_goal": BOX(0, 1, (2,)),
        "b": BOX(0, 1, (1,)),
        "desired_goal": BOX(0, 1, (2,)),
    }
    assert find_goal(gymnasium.spaces.Dict(parts), gymnasium.spaces.flatdim) == [5, 8, 2]
