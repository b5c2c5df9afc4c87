"""Every exploration of action values carries the recurrent state on."""

import numpy as np
import pytest

from drl_cli.algorithms.r2d2 import R2D2Config
from drl_cli.policies import exploration
from drl_cli.policies.numpy_policy import NumpyPolicy
from drl_cli.policies.policy_spec import Dense, DiscreteSpec, NetSpec, PolicySpec, ValueSpec

NET = NetSpec("q", (("obs", 2),), (Dense(4, "tanh"),), (("q", 3),), lstm=5)
SPEC = PolicySpec((NET,), "q", (2,), DiscreteSpec(3), state=NET.state_shapes, value=ValueSpec())
OBS = np.random.default_rng(1).normal(0, 1, (2, 2)).astype(np.float32)
EPSILON = {"type": "EpsilonGreedy", "initial_epsilon": 1.0, "final_epsilon": 1.0}


def _policy():
    return NumpyPolicy(SPEC, NET.initial_weights(np.random.default_rng(0)))


def _made(settings, random_steps=0):
    config = R2D2Config.model_validate({"num_envs_per_worker": 2, "exploration_config": settings})
    return exploration.make(config, SPEC, {"stream": 0, "streams": 2, "random_steps": random_steps, "base": 0})


@pytest.mark.parametrize(
    ("settings", "random_steps"),
    [
        (EPSILON, 0),
        (EPSILON, 9),
        ({"type": "SoftQ"}, 0),
        ({"type": "Random"}, 0),
        ({"type": "PerWorkerEpsilonGreedy"}, 0),
    ],
)
def test_exploration_carries_the_state_on_whatever_it_does(settings, random_steps):
    policy, exploring, rng = _policy(), _made(settings, random_steps), np.random.default_rng(2)
    state = greedy = policy.initial_state(2)
    for step in range(3):
        action, state, _ = exploring.act(policy, OBS * step, state, rng, step)
        _, greedy, _ = policy.act(OBS * step, greedy, rng, False)
        assert action.shape == (2,) and action.dtype == np.int32
    for mine, other in zip(state, greedy, strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-6)
        assert np.abs(mine).max() > 0


def test_state_of_one_environment_is_carried_alone():
    policy, exploring = _policy(), _made(EPSILON)
    state = tuple(np.full((1, 5), 0.5, np.float32) for _ in range(2))
    _, after, _ = exploring.act(policy, OBS[1:], state, np.random.default_rng(0), 0, 1)
    expected = policy.act(OBS[1:], state, None, False)[1]
    for mine, other in zip(after, expected, strict=True):
        assert mine.shape == (1, 5)
        np.testing.assert_allclose(mine, other, atol=1e-6)


def test_before_the_first_weights_the_state_stays_as_it_is():
    policy = NumpyPolicy(SPEC)
    state = policy.initial_state(2)
    action, after, _ = _made(EPSILON).act(policy, OBS, state, np.random.default_rng(0), 0)
    assert after is state and [part.tolist() for part in state] == [[[0.0] * 5] * 2] * 2
    assert action.shape == (2,)


def test_parameter_noise_is_refused_for_recurrent_nets():
    with pytest.raises(ValueError, match="exploration_config.type"):
        R2D2Config.model_validate({"exploration_config": {"type": "ParameterNoise"}})
