"""Log-probabilities of recorded actions: squashed Gaussians and policies over action values."""

import numpy as np
import pytest

from drl_cli.policies import distributions, distributions_tf
from drl_cli.policies.policy_spec import ActionSpec, DiscreteSpec, PolicySpec, ValueSpec
from drl_cli.tf1.tensorflow import tf

pytestmark = pytest.mark.tensorflow

LN2 = 0.6931472


def _squashed(low, high):
    action = ActionSpec(low, high, normalize=False)
    return distributions.SquashedGaussian(PolicySpec((), "squashed_gaussian", (3,), action))


def _heads(mean, log_std):
    return {"mean": np.float32(mean), "log_std": np.float32(log_std)}


def test_log_density_of_a_squashed_gaussian_in_the_middle_is_the_gaussians_less_the_stretch():
    # N(0; 0, 1) = −½ ln 2π; the slope of tanh at 0 is 1, and the action is stretched by 2
    assert _squashed((-1.0,), (3.0,)).logp(_heads([[0.0]], [[0.0]]), np.float32([[1.0]])) == pytest.approx(
        [-0.9189385 - LN2]
    )


def test_log_density_of_a_squashed_gaussian_integrates_to_one():
    made = _squashed((-1.0,), (3.0,))
    edges = np.linspace(-1.0, 3.0, 200_001)
    action = ((edges[1:] + edges[:-1]) / 2)[:, None]
    heads = _heads(np.full((len(action), 1), 0.4), np.full((len(action), 1), -0.7))
    assert (np.exp(made.logp(heads, action)) * np.diff(edges)).sum() == pytest.approx(1.0, abs=1e-5)


def test_log_density_of_a_squashed_gaussian_is_that_of_the_graph():
    rng = np.random.default_rng(0)
    mean, log_std, noise = rng.normal(0, 0.5, (3, 6, 2)).astype(np.float32)
    low, high = np.float32([-2.0, 0.0]), np.float32([4.0, 1.0])
    with tf.Graph().as_default(), tf.Session() as session:
        heads = {"mean": tf.constant(mean), "log_std": tf.constant(log_std)}
        action, expected = session.run(distributions_tf.TFSquashedGaussian(low, high).sample(heads, noise))
    found = _squashed(tuple(low.tolist()), tuple(high.tolist())).logp(_heads(mean, log_std), action)
    np.testing.assert_allclose(found, expected, atol=2e-4)


def test_action_at_the_bounds_has_a_finite_density_and_that_of_equal_policies_is_equal():
    made, action = _squashed((-2.0,), (2.0,)), np.float32([[2.0], [-2.0], [5.0]])
    heads = _heads([[3.0]] * 3, [[0.0]] * 3)
    found = made.logp(heads, action)
    assert np.isfinite(found).all() and found[0] == found[2] > found[1]
    assert np.array_equal(found, made.logp(heads, action))


def _values(*rows, allowed=None):
    made = distributions.ActionValues(PolicySpec((), "q", (3,), DiscreteSpec(3), value=ValueSpec()))
    heads = {"q": np.float32(rows)}
    if allowed is not None:
        heads["allowed"] = np.asarray(allowed)
    return made, heads


def test_probability_of_an_epsilon_greedy_action_is_the_mixture():
    made, heads = _values([1, 3, 2], [1, 3, 2], [9, 3, 2])
    found = np.exp(made.logp(heads, np.int32([1, 2, 0]), epsilon=0.3))
    np.testing.assert_allclose(found, [0.8, 0.1, 0.8], rtol=1e-12)
    by_row = np.exp(made.logp(heads, np.int32([1, 2, 1]), epsilon=np.array([0.3, 0.6, 0.9])))
    np.testing.assert_allclose(by_row, [0.8, 0.2, 0.3], rtol=1e-12)


def test_greedy_values_take_one_action_and_no_other():
    made, heads = _values([1, 3, 2], [1, 3, 2], [2, 2, 2])
    assert made.logp(heads, np.int32([1, 2, 0])).tolist() == [0.0, -np.inf, 0.0]  # of equal values the first


def test_soft_values_are_drawn_by_temperature():
    made, heads = _values([0, 2 * LN2, 0])
    # exp(Q / 2) = 1, 2, 1
    np.testing.assert_allclose(np.exp(made.logp(heads, np.int32([1]), temperature=2.0)), [0.5], rtol=1e-6)
    np.testing.assert_allclose(
        np.exp(made.logp(heads, np.int32([0]), epsilon=0.5, temperature=2.0)), [0.125 + 1 / 6], rtol=1e-6
    )


def test_unlikely_action_of_soft_values_keeps_its_finite_logarithm():
    made, heads = _values([0, 2000, 0])
    assert made.logp(heads, np.int32([0]), temperature=1.0).tolist() == [-2000.0]


def test_forbidden_actions_have_no_probability_and_leave_theirs_to_the_others():
    made, heads = _values([9, 1, 2], [9, 1, 2], [9, 1, 2], allowed=[[False, True, True]] * 2 + [[False] * 3])
    found = np.exp(made.logp(heads, np.int32([0, 1, 0]), epsilon=0.5))
    np.testing.assert_allclose(found, [0.0, 0.25, 0.5 + 0.5 / 3], rtol=1e-12)
