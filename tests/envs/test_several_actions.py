"""MultiDiscrete and MultiBinary actions: described, refused where they do not fit, handed on, replayed for a resume."""

from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from scored_policies import ACTIONS, made

from drl_cli.envs import make
from drl_cli.envs.env_batch import EnvBatch
from drl_cli.envs.spaces import describe_space, misfit
from drl_cli.envs.steps import ActionLogs, as_action
from drl_cli.policies.numpy_policy import NumpyPolicy

ALL = SimpleNamespace(
    team=False, name="PPO", actions=("Box", "Discrete", "MultiDiscrete", "MultiBinary"), observations=("Box1d", "Image")
)
SPACES = {
    "Levers": spaces.MultiDiscrete([2, 4, 3], start=[0, 1, -5]),
    "Switches": spaces.MultiBinary(3),
}


class Noting(gymnasium.Env):
    """Its observation is a running mix of all actions so far; says what it was given."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    given = []

    def __init__(self, render_mode=None, kind="Levers"):
        self.action_space = SPACES[kind]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.sum = self.np_random.random(2)
        return self.sum.astype(np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.given.append((action.dtype, action.tolist()))
        self.sum = 0.9 * self.sum + [action @ [1, 2, 3], action[0]]
        return self.sum.astype(np.float32), float(action.sum()), False, False, {}


gymnasium.register("Noting-v0", entry_point=Noting)


def test_spaces_as_plain_data():
    assert describe_space(SPACES["Levers"]) == {
        "kind": "MultiDiscrete",
        "nvec": [2, 4, 3],
        "start": [0, 1, -5],
        "shape": [3],
        "dtype": "int64",
    }
    assert describe_space(SPACES["Switches"]) == {"kind": "MultiBinary", "n": 3, "shape": [3], "dtype": "int8"}


@pytest.mark.parametrize("space", [spaces.MultiDiscrete([[2, 3], [4, 5]]), spaces.MultiBinary([2, 3])])
def test_actions_of_more_than_one_axis_are_refused(space):
    obs = describe_space(spaces.Box(-1, 1, (2,), np.float32))
    message = misfit({"obs": obs, "action": describe_space(space)}, ALL)
    assert message.startswith(
        "PPO needs a Box, Discrete, MultiDiscrete or MultiBinary action space; its actions are Multi"
    )
    assert message.endswith("which have more than one axis. Reshape them in a wrapper.")


@pytest.mark.parametrize("kind", SPACES)
def test_an_environment_of_several_actions_passes(kind):
    assert make.check("Noting-v0", {"kind": kind}, ALL)["action"] == describe_space(SPACES[kind])


def test_numbers_reach_the_environment_from_its_start_on_and_as_its_own_kind():
    several = NumpyPolicy(made("multi_categorical")[0]).to_env(np.int32([[0, 3, 2], [1, 0, 0]]))
    assert several.tolist() == [[0, 4, -3], [1, 1, -5]] and several.dtype == np.int64
    switches = NumpyPolicy(made("multi_bernoulli")[0]).to_env(np.int32([[0, 1, 1]]))
    assert switches.tolist() == [[0, 1, 1]] and switches.dtype == np.int8
    one = NumpyPolicy(made("categorical")[0]).to_env(np.int32([0, 2]))
    assert one.tolist() == [2, 4] and one.dtype == np.int64
    assert as_action(several[0]) is not None and type(as_action(one[0])) is int


def test_box_actions_are_drawn_beyond_the_bounds_and_clipped_for_the_environment_alone():
    spec, weights = made("gaussian", free=True)
    weights["policy/log_std/free"][:] = 2.0
    policy = NumpyPolicy(spec, weights)
    action, _, columns = policy.act(np.zeros((400, 6), np.float32), (), np.random.default_rng(0), True)
    assert np.abs(action).max() > 5.0 and columns["logp"].shape == (400,)
    sent = policy.to_env(action)
    low, high = np.float32(ACTIONS["gaussian"].low), np.float32(ACTIONS["gaussian"].high)
    assert (sent >= low).all() and (sent <= high).all() and (sent == high).any()


@pytest.mark.parametrize("kind", SPACES)
def test_running_episode_is_replayed_with_the_very_actions(kind):
    name = {"id": "Noting-v0", "env_config": {"kind": kind}}
    policy = NumpyPolicy(made("multi_categorical" if kind == "Levers" else "multi_bernoulli")[0])
    batch, rng = EnvBatch(name, 1, (3, 0)), np.random.default_rng(0)
    batch.reset()
    Noting.given.clear()
    for _ in range(5):
        batch.step(0, policy.to_env(policy.random(np.zeros((1, 6)), rng))[0])
    first, (arrays, facts) = list(Noting.given), batch.state()
    assert arrays["actions_0"].dtype == np.int32 and first[0][0] == SPACES[kind].dtype
    again = EnvBatch(name, 1, (3, 0))
    Noting.given.clear()
    again.load(arrays, facts)
    assert Noting.given == first and np.array_equal(again.obs(), batch.obs())


def test_log_keeps_whole_numbers_and_gives_them_back_as_the_space_has_them():
    logs = ActionLogs(2, SPACES["Switches"])
    logs.append(np.int8([[1, 0, 1], [0, 0, 1]]))
    assert logs.taken(0).tolist() == [[1, 0, 1]] and logs.taken(0).dtype == np.int32
    given = logs.as_given(logs.taken(0))
    assert given.dtype == np.int8 and given.tolist() == [[1, 0, 1]]
    assert logs.fits(logs.taken(0)) and not logs.fits(given)
