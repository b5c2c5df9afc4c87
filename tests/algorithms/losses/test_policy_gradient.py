"""Losses of policies that learn from trajectories: numbers made by hand, their gradients, and what must get none."""

import numpy as np
import pytest

from drl_cli.algorithms.losses import policy_gradient as losses
from drl_cli.tf1.tensorflow import tf

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def run():
    """Evaluate tensors, gradients that do not exist as None."""
    with tf.Graph().as_default(), tf.Session() as session:
        yield lambda *tensors: [
            None if t is None else np.round(np.float64(session.run(t)), 5).tolist() for t in tensors
        ]


def test_policy_gradient_is_the_gradient_of_logp_times_advantage(run):
    logp, advantages = tf.constant([-1.0, -2.0]), tf.constant([3.0, -0.5])
    loss = losses.policy_gradient_loss(logp, advantages)
    assert run(loss, *tf.gradients(loss, [logp, advantages])) == [[3.0, -1.0], [-3.0, 0.5], None]


def test_surrogate_has_no_gradient_beyond_the_clip_in_the_direction_of_the_advantage(run):
    ratio = tf.constant([1.0, 1.5, 1.5, 0.5, 0.5])
    advantages = tf.constant([2.0, 2.0, -2.0, 2.0, -2.0])
    loss = losses.surrogate_loss(ratio, advantages, 0.2)
    gradient, none = tf.gradients(loss, [ratio, advantages])
    assert run(loss, gradient, none) == [[-2.0, -2.4, 3.0, -1.0, 1.6], [-2.0, 0.0, 2.0, -2.0, 0.0], None]


def test_surrogate_without_a_clip_is_linear(run):
    ratio = tf.constant([1.5, 0.5])
    loss = losses.surrogate_loss(ratio, tf.constant([2.0, -2.0]), None)
    assert run(loss, *tf.gradients(loss, [ratio])) == [[-3.0, 1.0], [-2.0, 2.0]]


def test_clipped_value_loss_is_the_larger_square(run):
    value, old, target = tf.constant([5.0, 5.0, 1.5]), tf.constant([1.0, 1.0, 1.0]), tf.constant([6.0, 0.0, 6.0])
    loss = losses.clipped_value_loss(value, old, target, 1.0)
    gradients = tf.gradients(loss, [value, old, target])
    # moved past the clip towards the target: no gradient; away from it: the plain square; inside: the plain square
    assert run(loss, *gradients) == [[16.0, 25.0, 20.25], [0.0, 10.0, -9.0], None, None]


def test_value_loss_without_a_clip_is_the_square(run):
    value, target = tf.constant([5.0, 1.0]), tf.constant([2.0, 2.0])
    loss = losses.clipped_value_loss(value, tf.zeros([2]), target, None)
    assert run(loss, *tf.gradients(loss, [value])) == [[9.0, 1.0], [6.0, -2.0]]


def test_standardized_advantages_of_valid_steps_have_mean_0_and_deviation_1(run):
    mask = tf.constant([[1.0, 1.0], [1.0, 0.0]])
    found = losses.standardized(tf.constant([[1.0, 2.0], [3.0, 100.0]]), mask)
    assert run(found) == [[[-1.22474, 0.0], [1.22474, 0.0]]]
    assert run(losses.standardized(tf.constant([[5.0, 5.0], [5.0, 9.0]]), mask)) == [[[0.0, 0.0], [0.0, 0.0]]]


def test_standardized_advantage_of_the_only_valid_step_is_0_and_padding_alone_stays_0(run):
    advantages = tf.constant([[4.0, 7.0]])
    found = [losses.standardized(advantages, tf.constant(mask)) for mask in ([[0.0, 1.0]], [[0.0, 0.0]])]
    assert run(*found) == [[[0.0, 0.0]], [[0.0, 0.0]]]


def test_clip_fraction_counts_ratios_beyond_the_clip(run):
    assert run(losses.clip_fraction(tf.constant([0.7, 0.9, 1.1, 1.3]), 0.2)) == [[1.0, 0.0, 0.0, 1.0]]


def test_explained_variance_is_1_for_a_perfect_value_and_0_for_a_constant(run):
    target, mask = tf.constant([[1.0, 3.0], [5.0, 99.0]]), tf.constant([[1.0, 1.0], [1.0, 0.0]])
    found = [losses.explained_variance(target, value, mask) for value in (target, tf.zeros([2, 2]), -target)]
    assert run(*found) == [1.0, 0.0, -3.0]


def test_explained_variance_leaves_out_the_mean_and_knows_no_unit(run):
    target, mask = tf.constant([[1.0, 3.0], [5.0, 99.0]]), tf.constant([[1.0, 1.0], [1.0, 0.0]])
    value = tf.constant([[3.0, 5.0], [4.0, 0.0]])  # errors −2, −2 and 1: variance 2 of 8/3
    small = losses.explained_variance(0.01 * target, 0.01 * value, mask)
    assert run(losses.explained_variance(target, target - 2.0, mask), small) == [1.0, 0.25]


def test_explained_variance_of_targets_that_are_all_alike_or_all_padding_is_finite(run):
    target = tf.constant([[3.0, 3.0]])
    assert run(losses.explained_variance(target, target, tf.ones([1, 2]))) == [1.0]
    assert run(losses.explained_variance(target, target + 1.0, tf.zeros([1, 2]))) == [1.0]


@pytest.mark.parametrize(("kl", "wanted"), [(0.021, 0.3), (0.02, 0.2), (0.01, 0.2), (0.005, 0.2), (0.0049, 0.1)])
def test_kl_coefficient_grows_above_twice_the_target_and_shrinks_below_half(run, kl, wanted):
    assert run(losses.adapted(tf.constant(0.2), tf.constant(kl), tf.constant(0.01))) == [pytest.approx(wanted)]
