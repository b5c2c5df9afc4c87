"""Adam and the clipping of gradients against NumPy."""

import numpy as np
import pytest

from drl_cli.tf1.optimizers import Adam, clipped
from drl_cli.tf1.tensorflow import tf

pytestmark = pytest.mark.tensorflow

START = {"w": np.float32([[1.0, -2.0], [0.5, 3.0]]), "b": np.float32([0.0, 1.0])}


def _reference(gradients, rates, epsilon=1e-8, beta_1=0.9):
    """Kingma & Ba 2015, algorithm 1, in the order of its section 2 that folds the corrections into the step size."""
    value, m, v = START["w"].astype(np.float64), 0.0, 0.0
    values = []
    for t, (gradient, rate) in enumerate(zip(gradients, rates, strict=True), start=1):
        m = beta_1 * m + (1 - beta_1) * gradient
        v = 0.999 * v + 0.001 * gradient**2
        step = rate * np.sqrt(1 - 0.999**t) / (1 - beta_1**t)
        value = value - step * m / (np.sqrt(v) + epsilon)
        values.append(value)
    return values, m, v


@pytest.mark.parametrize("keys", [{}, {"epsilon": 0.1, "beta_1": 0.5}], ids=["the paper's", "others"])
def test_adam_over_five_steps_matches_the_paper(keys):
    rng = np.random.default_rng(0)
    gradients = rng.normal(0, 1, (5, 2, 2)) * np.array([1e-6, 1.0, 1e3, 1.0, 1.0])[:, None, None]
    rates = [0.1, 0.1, 0.1, 0.01, 0.0]
    with tf.Graph().as_default(), tf.Session() as session:
        weights = {name: tf.Variable(value, name=name, use_resource=True) for name, value in START.items()}
        adam = Adam("part", weights, **keys)
        gradient, rate = tf.placeholder(tf.float32, [2, 2]), tf.placeholder(tf.float32, [])
        before = set(tf.get_default_graph().get_operations())
        adam.apply([gradient, tf.zeros([2])], rate)
        steps = [op for op in tf.get_default_graph().get_operations() if op not in before and "Apply" in op.type]
        assert len(steps) == 2
        session.run(tf.variables_initializer([*weights.values(), *adam.variables.values()]))
        values, m, v = _reference(gradients, rates, **keys)
        for number in range(5):
            session.run(steps, {gradient: gradients[number], rate: rates[number]})
            # float32: one part in 1e5 of the step, and of the value itself
            np.testing.assert_allclose(session.run(weights["w"]), values[number], rtol=2e-5, atol=2e-5)
        assert session.run(adam.variables["part_adam/count"]) == 5
        np.testing.assert_allclose(session.run(adam.variables["part_adam/w/m"]), m, rtol=1e-5)
        np.testing.assert_allclose(session.run(adam.variables["part_adam/w/v"]), v, rtol=1e-4)
        assert session.run(weights["b"]).tolist() == [0.0, 1.0]  # a gradient of zero


def test_adam_names_its_slots_after_the_weights():
    with tf.Graph().as_default():
        weights = {name: tf.Variable(value, name=name, use_resource=True) for name, value in START.items()}
        variables = Adam("part", weights).variables
        assert sorted(variables) == [
            "part_adam/b/m",
            "part_adam/b/v",
            "part_adam/count",
            "part_adam/w/m",
            "part_adam/w/v",
        ]
        assert all(variable.op.name == name for name, variable in variables.items())
        assert [v.op.name for v in tf.trainable_variables()] == ["w", "b"]


@pytest.mark.parametrize(
    ("most", "expected"),
    [(None, [3.0, 4.0, 12.0]), (13.0, [3.0, 4.0, 12.0]), (100.0, [3.0, 4.0, 12.0]), (6.5, [1.5, 2.0, 6.0])],
)
def test_clipped_scales_all_gradients_to_the_global_norm(most, expected):
    with tf.Graph().as_default(), tf.Session() as session:
        gradients, norm = clipped([tf.constant([3.0, 4.0]), tf.constant([[12.0]])], most)
        first, second, norm = session.run([*gradients, norm])
    assert norm == 13.0
    np.testing.assert_allclose([*first, *second[0]], expected, rtol=1e-6)


def test_clipped_of_zero_gradients_stays_zero():
    with tf.Graph().as_default(), tf.Session() as session:
        gradients, norm = clipped([tf.zeros([2])], 1.0)
        assert session.run(gradients[0]).tolist() == [0.0, 0.0]
        assert session.run(norm) == 0.0
