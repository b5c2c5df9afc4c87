"""RMSProp against NumPy."""

import numpy as np
import pytest

from drl_cli.tf1.optimizers import RMSProp
from drl_cli.tf1.tensorflow import tf

pytestmark = pytest.mark.tensorflow

START = {"w": np.float32([[1.0, -2.0], [0.5, 3.0]]), "b": np.float32([0.0, 1.0])}


def _reference(gradients, rates, decay, momentum, epsilon, start=1.0):
    """The module's three lines, one after the other, in float64."""
    value, ms, mom, values = START["w"].astype(np.float64), start, 0.0, []
    for gradient, rate in zip(gradients, rates, strict=True):
        ms = decay * ms + (1 - decay) * gradient**2
        mom = momentum * mom + rate * gradient / np.sqrt(ms + epsilon)
        value = value - mom
        values.append(value)
    return values, ms, mom


@pytest.mark.parametrize("constants", [(0.99, 0.0, 0.1), (0.9, 0.5, 1e-5, 0.01)], ids=["IMPALA's", "with momentum"])
def test_rmsprop_over_five_steps_matches_its_formula(constants):
    rng = np.random.default_rng(0)
    gradients = rng.normal(0, 1, (5, 2, 2)) * np.array([1e-6, 1.0, 1e3, 1.0, 1.0])[:, None, None]
    rates = [0.1, 0.1, 0.1, 0.01, 0.0]
    with tf.Graph().as_default(), tf.Session() as session:
        weights = {name: tf.Variable(value, name=name, use_resource=True) for name, value in START.items()}
        rmsprop = RMSProp("part", weights, *constants)
        gradient, rate = tf.placeholder(tf.float32, [2, 2]), tf.placeholder(tf.float32, [])
        rmsprop.apply([gradient, tf.zeros([2])], rate)
        steps = [op for op in tf.get_default_graph().get_operations() if op.type == "ResourceApplyRMSProp"]
        assert len(steps) == 2
        session.run(tf.variables_initializer([*weights.values(), *rmsprop.variables.values()]))
        values, ms, mom = _reference(gradients, rates, *constants)
        for number in range(5):
            session.run(steps, {gradient: gradients[number], rate: rates[number]})
            np.testing.assert_allclose(session.run(weights["w"]), values[number], rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(session.run(rmsprop.variables["part_rmsprop/w/ms"]), ms, rtol=1e-5)
        np.testing.assert_allclose(session.run(rmsprop.variables["part_rmsprop/w/mom"]), mom, rtol=1e-4, atol=1e-7)
        assert session.run(weights["b"]).tolist() == [0.0, 1.0]  # a gradient of zero


def test_rmsprop_names_its_slots_after_the_weights():
    with tf.Graph().as_default():
        weights = {name: tf.Variable(value, name=name, use_resource=True) for name, value in START.items()}
        variables = RMSProp("part", weights, 0.99, 0.0, 0.1).variables
        assert sorted(variables) == [f"part_rmsprop/{name}/{slot}" for name in "bw" for slot in ("mom", "ms")]
        assert all(variable.op.name == name for name, variable in variables.items())
        assert [v.op.name for v in tf.trainable_variables()] == ["w", "b"]
