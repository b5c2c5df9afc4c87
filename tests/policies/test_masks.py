"""Action masks: where they are found, and that nothing which acts in NumPy takes an action that is not allowed."""

from types import SimpleNamespace

import numpy as np
import pytest
from exploration.exploring import CONFIGS
from gymnasium import spaces
from masked_envs import N
from scored_policies import made

from drl_cli.config.sections.exploration_settings import exploration_settings
from drl_cli.envs import make
from drl_cli.errors import EnvError
from drl_cli.policies import exploration
from drl_cli.policies.numpy_policy import NumpyPolicy
from drl_cli.policies.policy_spec import Dense, DiscreteSpec, NetSpec, PolicySpec, ValueSpec

ANY = SimpleNamespace(name="DQN", actions=("Discrete",), team=False, observations=("Box1d",))
START = 2  # of the mask in observations of 2 + 4 numbers


def _values(seed=0):
    net = NetSpec("q", (("obs", 2 + N),), (Dense(8, "tanh"),), (("q", N),))
    spec = PolicySpec((net,), "q", (2 + N,), DiscreteSpec(N), value=ValueSpec(), mask=(START, N))
    return NumpyPolicy(spec, net.initial_weights(np.random.default_rng(seed)))


def _obs(rows, seed=0):
    rng = np.random.default_rng(seed)
    obs = rng.normal(0, 1, (rows, 2 + N)).astype(np.float32)
    obs[:, START:] = rng.random((rows, N)) < 0.4
    obs[np.arange(rows), START + rng.integers(0, N, rows)] = 1.0
    return obs


def _is_allowed(obs, action):
    return bool((obs[np.arange(len(obs)), START + action] == 1.0).all())


def test_mask_is_found_where_flattening_put_it():
    found = make.check("Doors-v0", {}, ANY)
    env = make.make("Doors-v0", {})
    obs = env.reset(seed=0)[0]
    start, count = found["mask"]
    assert count == 4 and sorted(obs[start : start + count]) == [0.0, 0.0, 1.0, 1.0]
    assert np.delete(obs, range(start, start + count)).tolist()[1] == 1.0  # what is left is the time


def test_environments_without_a_mask_have_none():
    assert "mask" not in make.check("CartPole-v1", {}, ANY)


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (
            {"mask": spaces.MultiBinary(3)},
            "its 'action_mask' is MultiBinary(3); for 4 actions it is a MultiBinary or Box",
        ),
        ({"mask": spaces.MultiDiscrete([2] * 4)}, "its 'action_mask' is MultiDiscrete([2 2 2 2]); for 4 actions"),
        ({"actions": spaces.MultiBinary(4)}, "which is for Discrete actions; its actions are MultiBinary(4)."),
    ],
)
def test_mask_that_does_not_fit_is_refused(config, text):
    with pytest.raises(EnvError) as caught:
        make.check("Doors-v0", config, ANY)
    assert str(caught.value).startswith("Doors-v0: ") and text in str(caught.value)


@pytest.mark.parametrize("explore", [False, True])
def test_scored_policies_and_action_values_take_what_is_allowed(explore):
    spec, weights = made("masked")
    obs = np.random.default_rng(1).normal(0, 1, (500, 6)).astype(np.float32)
    obs[:, 2:5] = np.eye(3)[np.random.default_rng(2).integers(0, 3, 500)]
    action, _, columns = NumpyPolicy(spec, weights).act(obs, (), np.random.default_rng(0), explore)
    assert action.tolist() == obs[:, 2:5].argmax(axis=-1).tolist()
    np.testing.assert_allclose(columns["logp"], 0.0, atol=1e-6)  # nothing else could be done
    obs = _obs(500)
    action, _, columns = _values().act(obs, (), np.random.default_rng(0), explore)
    assert _is_allowed(obs, action) and columns == {} and set(action) == {0, 1, 2, 3}


def test_random_actions_are_uniform_among_what_is_allowed():
    policy, obs = _values(), np.tile(np.float32([0, 0, 1, 0, 1, 1]), (30_000, 1))
    action = policy.random(obs, np.random.default_rng(0))
    np.testing.assert_allclose(np.bincount(action, minlength=4) / 30_000, [1 / 3, 0, 1 / 3, 1 / 3], atol=0.01)
    obs[:, START:] = 0.0
    assert set(policy.random(obs, np.random.default_rng(0))) == {0, 1, 2, 3}


def test_random_actions_of_scored_policies_are_scored():
    rng = np.random.default_rng(0)
    for name, chance in (("gaussian", 1 / 4), ("categorical", 1 / 3), ("multi_categorical", 1 / 24)):
        policy = NumpyPolicy(made(name)[0])
        np.testing.assert_allclose(policy.random_columns(np.zeros((2, 6)))["logp"], [np.log(chance)] * 2, rtol=1e-6)
        assert policy.random(np.zeros((2, 6)), rng).shape == (2, *policy.spec.action.shape)
    obs = np.zeros((2, 6), np.float32)
    obs[0, 2:4] = 1.0
    found = NumpyPolicy(made("masked")[0]).random_columns(obs)["logp"]
    np.testing.assert_allclose(found, np.log([1 / 2, 1 / 3]), rtol=1e-6)


KINDS = {
    "greedy with errors": {"type": "EpsilonGreedy", "initial_epsilon": 0.9, "final_epsilon": 0.9},
    "held": {"type": "EpsilonGreedy", "initial_epsilon": 0.9, "final_epsilon": 0.9, "hold_steps": 5},
    "random": {"type": "Random"},
    "in proportion": {"type": "SoftQ", "temperature": 10.0},
    "noisy parameters": {"type": "ParameterNoise", "initial_stddev": 1.0, "random_timesteps": 0},
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_exploration_takes_what_is_allowed(kind):
    count, policy, rng = 6, _values(), np.random.default_rng(0)
    settings = KINDS[kind] if kind in ("random", "in proportion") else {"random_timesteps": 0} | KINDS[kind]
    config = CONFIGS["q"](num_envs_per_worker=count, exploration_config=settings)
    assert exploration_settings(config)["type"] == settings["type"]
    place = {"stream": 0, "streams": count, "random_steps": 5, "base": 0}
    explored = exploration.make(config, policy.spec, place)
    taken = []
    for step in range(200):
        obs = _obs(count, step)
        action, _, _ = explored.act(policy, obs, (), rng, step)
        assert _is_allowed(obs, action)
        taken.append(action)
    assert set(np.concatenate(taken)) == {0, 1, 2, 3}
