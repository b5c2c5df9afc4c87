"""How a team's values become one: numbers made by hand, growth with each value, choices of agents."""

import numpy as np
import pytest

from drl_cli.algorithms.losses import mixers
from drl_cli.tf1.tensorflow import tf

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def run():
    """Evaluate tensors."""
    with tf.Graph().as_default(), tf.Session() as session:
        yield session.run


def test_sum_of_values_is_that_of_each_row(run):
    assert run(mixers.summed_values(tf.constant([[1.0, 2.0, 4.0], [0.0, -1.0, 3.0]]))).tolist() == [7.0, 2.0]


def test_mixing_by_hand(run):
    weights = {"w1": [[1.0, -2.0, 0.5, 3.0]], "b1": [[0.0, -10.0]], "w2": [[-2.0, 1.0]], "b2": [[0.25]]}
    values = tf.constant([[1.0, 2.0]])
    total = mixers.monotonic_mix(values, {name: tf.constant(w) for name, w in weights.items()})
    found, gradient = run([total, tf.gradients(total, values)[0]])
    # hidden: |1|*1 + |0.5|*2 = 2, and elu(|-2|*1 + 3*2 - 10) = elu(-2); total: 2*2 + 1*elu(-2) + 0.25.
    assert found.tolist() == pytest.approx([4.0 + np.expm1(-2.0) + 0.25])
    slope = np.exp(-2.0)
    assert gradient[0].tolist() == pytest.approx([2 * 1 + slope * 2, 2 * 0.5 + slope * 3])


def test_mixing_of_two_rows_keeps_agents_and_hidden_units_apart(run):
    w1 = [[1.0, 2.0, 3.0, 10.0, 20.0, 30.0], [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]]  # agent by agent, three units each
    weights = {
        "w1": w1,
        "b1": [[0.0] * 3, [5.0, 6.0, 7.0]],
        "w2": [[1.0, 1.0, -1.0], [1.0, 0.0, 2.0]],
        "b2": [[0.0], [-1.0]],
    }
    total = mixers.monotonic_mix(
        tf.constant([[1.0, 2.0], [3.0, 4.0]]), {name: tf.constant(w) for name, w in weights.items()}
    )
    # Row 0: units 21, 42 and 63, all weighed by 1. Row 1: units 4 + 5, 6 and 3 + 7, weighed by 1, 0 and 2, less 1.
    assert run(total).tolist() == [126.0, 28.0]


def test_mixing_grows_with_every_agent_s_value_whatever_the_weights(run):
    rng = np.random.default_rng(1)
    values = tf.constant(rng.normal(0, 3, (500, 3)).astype(np.float32))
    shapes = {"w1": 15, "b1": 5, "w2": 5, "b2": 1}
    weights = {name: tf.constant(rng.normal(0, 2, (500, size)).astype(np.float32)) for name, size in shapes.items()}
    gradient = run(tf.gradients(mixers.monotonic_mix(values, weights), values)[0])
    assert gradient.min() >= 0.0
    assert np.median(gradient) > 1.0


def test_best_of_each_agent_is_the_highest_allowed_value(run):
    values = tf.constant([[[1.0, 5.0, 3.0], [-4.0, -6.0, -5.0]]])
    allowed = tf.constant([[[True, False, True], [False, True, True]]])
    assert run(mixers.best_of_each(values, allowed)).tolist() == [[2, 2]]


def test_value_of_each_agent_is_that_of_its_action_and_alone_gets_a_gradient(run):
    values, action = tf.constant([[[1.0, 5.0, 3.0], [4.0, 6.0, 8.0]]]), tf.constant([[1, 2]])
    found = mixers.value_of_each(values, action)
    assert run(found).tolist() == [[5.0, 8.0]]
    assert run(tf.gradients(found, values)[0]).tolist() == [[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]]
