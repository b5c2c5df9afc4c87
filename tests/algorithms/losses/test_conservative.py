"""Losses of conservative Q-learning: numbers made by hand, an integral, and what must get no gradient."""

import math

import numpy as np
import pytest

from drl_cli.algorithms.losses.conservative import multiplier_loss, sampled_soft_maximum, soft_maximum
from drl_cli.tf1.tensorflow import tf

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def run():
    """Evaluate a tensor, or None where there is none."""
    with tf.Graph().as_default(), tf.Session() as session:
        yield lambda tensor: None if tensor is None else session.run(tensor)


def test_soft_maximum_is_the_logarithm_of_the_sum_of_exponentials(run):
    q = tf.constant([[[0.0, math.log(3.0)], [5.0, 5.0]], [[1.0, 1.0], [-200.0, 100.0]]])
    expected = [[math.log(4.0), 5.0 + math.log(2.0)], [1.0 + math.log(2.0), 100.0]]
    np.testing.assert_allclose(run(soft_maximum(q, 1.0)), expected, rtol=1e-6)


def test_soft_maximum_at_another_temperature_nears_the_largest_as_it_falls(run):
    q = tf.constant([[[0.0, 2.0 * math.log(3.0)]]])
    assert run(soft_maximum(q, 2.0)) == pytest.approx(2.0 * math.log(4.0))  # 2·log(e^0 + e^log 3)
    assert run(soft_maximum(q, 0.01)) == pytest.approx(2.0 * math.log(3.0), rel=1e-6)


def test_gradient_of_the_soft_maximum_is_a_softmax(run):
    q = tf.constant([[[0.0, math.log(3.0)]]])
    np.testing.assert_allclose(run(tf.gradients(soft_maximum(q, 1.0), q)[0]), [[[0.25, 0.75]]], rtol=1e-6)


def test_sampled_soft_maximum_by_hand(run):
    q = tf.constant([[[math.log(2.0), math.log(6.0)]], [[math.log(4.0), 0.0]]])  # [2, 1, 2]
    log_density = tf.constant([[math.log(0.5), math.log(2.0)]])
    # log ½(2/0.5 + 6/2) and log ½(4/0.5 + 1/2)
    expected = [[math.log(3.5)], [math.log(4.25)]]
    np.testing.assert_allclose(run(sampled_soft_maximum(q, log_density, 1.0)), expected, rtol=1e-6)


def test_sampled_soft_maximum_of_equal_values_does_not_depend_on_how_many_are_drawn(run):
    for count in (1, 4, 30):
        q, log_density = tf.fill([1, 1, count], 7.0), tf.fill([1, count], math.log(0.5))
        assert run(sampled_soft_maximum(q, log_density, 1.0)) == pytest.approx(7.0 + math.log(2.0), rel=1e-6)


@pytest.mark.parametrize("temperature", [1.0, 0.5, 3.0])
def test_sampled_soft_maximum_estimates_the_integral_whatever_the_draws_come_from(run, temperature):
    """Q(a) = −3·(a − 0.2)² over [-1, 1]: by uniform draws, by draws from the density (1 + a)/2, and by both."""
    rng, count = np.random.default_rng(0), 40_000
    points = np.linspace(-1, 1, 200_001)
    exact = temperature * np.log(np.mean(np.exp(-3.0 * (points - 0.2) ** 2 / temperature)) * 2.0)
    uniform = rng.uniform(-1, 1, count)
    tilted = 2.0 * np.sqrt(rng.uniform(0, 1, count)) - 1.0
    draws = {"uniform": (uniform, np.full(count, 0.5)), "tilted": (tilted, (1.0 + tilted) / 2.0)}
    draws["both"] = tuple(np.concatenate(parts) for parts in zip(*draws.values(), strict=True))
    for name, (action, density) in draws.items():
        q = tf.constant(-3.0 * (action - 0.2) ** 2, tf.float32)[None, None]
        log_density = tf.constant(np.log(density), tf.float32)[None]
        found = run(sampled_soft_maximum(q, log_density, temperature))[0, 0]
        assert found == pytest.approx(exact, abs=0.1 if name == "tilted" else 0.02), name


def test_sampled_soft_maximum_gives_a_gradient_to_the_values_alone(run):
    q, log_density = tf.constant([[[0.0, math.log(3.0)]]]), tf.constant([[0.0, 0.0]])
    by_q, by_density = tf.gradients(sampled_soft_maximum(q, log_density, 2.0), [q, log_density])
    root = math.sqrt(3.0)  # e^(log 3 / 2)
    np.testing.assert_allclose(run(by_q), [[[1 / (1 + root), root / (1 + root)]]], rtol=1e-5)
    assert by_density is None


def test_sampled_soft_maximum_of_huge_values_is_finite(run):
    q, log_density = tf.constant([[[1e6, -1e6]]]), tf.constant([[-30.0, 40.0]])
    assert run(sampled_soft_maximum(q, log_density, 1.0)) == pytest.approx(1e6 + 30.0 - math.log(2.0))


def test_multiplier_grows_while_the_gap_is_above_its_threshold(run):
    log_multiplier, gap = tf.constant(0.5), tf.constant([[7.0, 3.0], [2.0, 4.0]])
    loss = multiplier_loss(log_multiplier, gap, 3.0)
    np.testing.assert_allclose(run(loss), [[-2.0, 0.0], [0.5, -0.5]])
    by_multiplier, by_gap = tf.gradients(tf.reduce_mean(loss), [log_multiplier, gap])
    assert run(by_multiplier) == pytest.approx(-1.0)  # −(4 − 3): descending raises it
    assert by_gap is None
