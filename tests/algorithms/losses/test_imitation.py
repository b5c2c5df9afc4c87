"""Losses of policies that stay near recorded actions: numbers made by hand, and what must get no gradient."""

import math

import numpy as np
import pytest

from drl_cli.algorithms.losses.imitation import advantage_weight, cloned_gain_loss, weighted_imitation_loss
from drl_cli.algorithms.losses.value import expectile_loss
from drl_cli.tf1.tensorflow import tf

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def run():
    """Evaluate a tensor, or None where there is none."""
    with tf.Graph().as_default(), tf.Session() as session:
        yield lambda tensor: None if tensor is None else session.run(tensor)


def test_expectile_loss_weighs_what_is_too_low_by_tau_and_what_is_too_high_by_the_rest(run):
    error = tf.constant([2.0, -2.0, 0.0])
    np.testing.assert_allclose(run(expectile_loss(error, 0.75)), [3.0, 1.0, 0.0])
    np.testing.assert_allclose(run(expectile_loss(error, 0.5)), [2.0, 2.0, 0.0])
    np.testing.assert_allclose(run(tf.gradients(expectile_loss(error, 0.75), error)[0]), [3.0, -1.0, 0.0])


@pytest.mark.parametrize("expectile", [0.5, 0.75, 0.9])
def test_expectile_loss_is_least_at_the_expectile(run, expectile):
    """Of 0 and 2 with equal chances the τ-expectile is 2τ."""
    value = 2.0 * expectile
    found = [
        run(tf.reduce_sum(expectile_loss(tf.constant([0.0, 2.0]) - v, expectile)))
        for v in (value - 0.1, value, value + 0.1)
    ]
    assert found[1] < min(found[0], found[2])


def test_advantage_weight_is_an_exponential_with_a_cap_and_without_gradient(run):
    advantage = tf.constant([0.0, math.log(2.0), -math.log(2.0), 5.0, 1e30])
    np.testing.assert_allclose(
        run(advantage_weight(advantage, 1.0, 2.0, 100.0)), [1.0, 4.0, 0.25, 100.0, 100.0], rtol=1e-5
    )
    np.testing.assert_allclose(run(advantage_weight(advantage, 1.0, 0.0, 100.0)), np.ones(5))
    assert tf.gradients(advantage_weight(advantage, 1.0, 2.0, 100.0), advantage) == [None]


def test_weighted_imitation_loss_gives_a_gradient_to_the_likelihood_alone(run):
    logp, weight = tf.constant([-1.0, 2.0]), tf.constant([3.0, 0.5])
    loss = weighted_imitation_loss(logp, weight)
    np.testing.assert_allclose(run(loss), [3.0, -1.0])
    by_logp, by_weight = tf.gradients(loss, [logp, weight])
    np.testing.assert_allclose(run(by_logp), [-3.0, -0.5])
    assert by_weight is None


def test_cloned_gain_is_in_means_of_the_values_size(run):
    q, distance = tf.constant([4.0, -2.0]), tf.constant([[1.0, 0.0], [2.0, 2.0]])
    # λ = 1.5 / 3; the mean square of the distances is ½ and 4
    np.testing.assert_allclose(run(cloned_gain_loss(q, distance, 1.5)), [0.5 - 2.0, 4.0 + 1.0])
    for unit in (100.0, 1e-5):
        scaled = run(cloned_gain_loss(unit * q, distance, 1.5))
        np.testing.assert_allclose(scaled, run(cloned_gain_loss(q, distance, 1.5)), rtol=1e-6)


def test_cloned_gain_differentiates_the_value_and_not_its_scale(run):
    q, distance = tf.constant([4.0, -2.0]), tf.constant([[1.0, 0.0], [2.0, 2.0]])
    by_q, by_distance = tf.gradients(cloned_gain_loss(q, distance, 1.5), [q, distance])
    np.testing.assert_allclose(run(by_q), [-0.5, -0.5])
    np.testing.assert_allclose(run(by_distance), [[1.0, 0.0], [2.0, 2.0]])


def test_cloned_gain_of_values_that_are_all_zero_is_finite(run):
    q, distance = tf.constant([0.0, 0.0]), tf.constant([[0.5], [0.5]])
    np.testing.assert_allclose(run(cloned_gain_loss(q, distance, 2.5)), [0.25, 0.25])
