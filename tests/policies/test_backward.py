"""The reverse pass of dense nets: equal to TensorFlow's gradients, and to differences."""

import itertools

import numpy as np
import pytest

from drl_cli.policies.backward import ACTIVATION, Backward, is_differentiable
from drl_cli.policies.forward import Forward
from drl_cli.policies.forward_tf import TFNet
from drl_cli.policies.nets import Residual
from drl_cli.policies.policy_spec import ACTIVATIONS, Conv, Dense, NetSpec
from drl_cli.tf1.tensorflow import tf

pytestmark = pytest.mark.tensorflow

ROWS = np.random.default_rng(7).normal(0, 2, (6, 5)).astype(np.float32)
HEADS = (("logits", 3), ("value", 1))
WIDTHS = (7, 8, 6)


def _weights(net, dtype=np.float32):
    """Weights none of which is at its special first value (bias 0, scale 1)."""
    rng = np.random.default_rng(0)
    first = net.initial_weights(np.random.default_rng(1))
    return {name: (value + rng.normal(0, 0.3, value.shape)).astype(dtype) for name, value in first.items()}


def _worth(heads):
    rng = np.random.default_rng(2)
    return {head: rng.normal(0, 1, value.shape).astype(np.float32) for head, value in heads.items()}


def _in_tensorflow(net, weights, worth):
    with tf.Graph().as_default(), tf.Session() as session:
        values = {name: tf.constant(value) for name, value in weights.items()}
        heads = TFNet(net, values)(tf.constant(ROWS))
        total = tf.add_n([tf.reduce_sum(heads[head] * value) for head, value in worth.items()])
        found = tf.gradients(total, list(values.values()), unconnected_gradients="zero")
        return session.run(dict(zip(values, found, strict=True)))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradients_are_tensorflows_for_every_depth_and_normalisation(activation):
    for layer_norm, depth, own in itertools.product((False, True), range(4), (0, 2)):
        layers = tuple(Dense(units, activation, layer_norm) for units in WIDTHS[:depth])
        own = tuple(Dense(units, activation, layer_norm) for units in WIDTHS[:own])
        net = NetSpec("net", (("obs", 5),), layers, HEADS, head_layers=own)
        weights = _weights(net)
        backward = Backward(net, weights)
        heads, tape = backward(ROWS)
        expected_heads = Forward(net, weights)(ROWS)
        for head, size in HEADS:
            assert heads[head].shape == (6, size)
            np.testing.assert_allclose(heads[head], expected_heads[head], atol=1e-5, rtol=1e-5)
        worth = _worth(heads)
        found, expected = backward.gradients(tape, worth), _in_tensorflow(net, weights, worth)
        assert set(found) == set(net.weight_shapes())
        for name, shape in net.weight_shapes().items():
            assert (found[name].shape, found[name].dtype) == (shape, np.float32)
            np.testing.assert_allclose(found[name], expected[name], atol=2e-4, rtol=2e-4, err_msg=name)


def test_gradient_of_a_layer_by_hand():
    net = NetSpec("n", (("obs", 2),), (Dense(1, "tanh"),), (("q", 1),))
    weights = {
        "n/dense_0/kernel": np.float32([[1.0], [0.0]]),
        "n/dense_0/bias": np.float32([0.0]),
        "n/q/kernel": np.float32([[3.0]]),
        "n/q/bias": np.float32([0.5]),
    }
    backward = Backward(net, weights)
    heads, tape = backward(np.float32([[0.5, 2.0]]))
    y = np.tanh(0.5)
    np.testing.assert_allclose(heads["q"], [[3 * y + 0.5]], rtol=1e-6)
    found = backward.gradients(tape, {"q": np.float32([[2.0]])})
    slope = 6 * (1 - y * y)
    np.testing.assert_allclose(found["n/dense_0/kernel"], [[0.5 * slope], [2.0 * slope]], rtol=1e-5)
    np.testing.assert_allclose(found["n/dense_0/bias"], [slope], rtol=1e-5)
    np.testing.assert_allclose(found["n/q/kernel"], [[2 * y]], rtol=1e-5)
    np.testing.assert_allclose(found["n/q/bias"], [2.0])


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradients_are_slopes_of_differences(activation):
    net = NetSpec("net", (("obs", 5),), (Dense(7, activation, True), Dense(6, activation)), HEADS)
    weights = _weights(net, np.float64)
    heads, tape = Backward(net, weights)(ROWS.astype(np.float64))
    worth = _worth(heads)
    found = Backward(net, weights).gradients(tape, worth)

    def total():
        heads, _ = Backward(net, weights)(ROWS.astype(np.float64))
        return sum((heads[head] * value).sum() for head, value in worth.items())

    rng, step = np.random.default_rng(3), 1e-6
    for name, value in weights.items():
        at = tuple(rng.integers(0, side) for side in value.shape)
        middle = value[at]
        value[at] = middle + step
        above = total()
        value[at] = middle - step
        slope = (above - total()) / (2 * step)
        value[at] = middle
        np.testing.assert_allclose(found[name][at], slope, rtol=1e-5, atol=1e-6, err_msg=name)


def test_head_that_is_worth_nothing_gets_no_gradient_and_gives_none():
    net = NetSpec("net", (("obs", 5),), (Dense(7, "tanh"),), HEADS)
    weights = _weights(net)
    backward = Backward(net, weights)
    heads, tape = backward(ROWS)
    worth = _worth(heads)
    alone = backward.gradients(tape, {"value": worth["value"]})
    both = backward.gradients(tape, {"value": worth["value"], "logits": np.zeros_like(worth["logits"])})
    assert sorted(set(both) - set(alone)) == ["net/logits/bias", "net/logits/kernel"]
    for name, gradient in alone.items():
        np.testing.assert_array_equal(gradient, both[name])


def test_activations_are_those_of_the_specs():
    assert tuple(ACTIVATION) == ACTIVATIONS


def test_sigmoid_of_huge_inputs_does_not_overflow():
    net = NetSpec("net", (("obs", 1),), (Dense(1, "swish"),), (("q", 1),))
    weights = {name: np.ones(shape, np.float32) for name, shape in net.weight_shapes().items()}
    backward = Backward(net, weights)
    with np.errstate(all="raise", under="ignore"):
        heads, tape = backward(np.float32([[1e4], [-1e4]]))
        found = backward.gradients(tape, {"q": np.ones((2, 1), np.float32)})
    np.testing.assert_allclose(heads["q"], [[10_002.0], [1.0]], rtol=1e-6)
    np.testing.assert_allclose(found["net/dense_0/kernel"], [[1e4]], rtol=1e-5)


SPECIAL = {
    "image": {"image": (4, 4, 1), "convs": (Conv(2, 3, 1),)},
    "lstm": {"lstm": 3},
    "batch normalisation": {"batch_norm": True},
    "state-dependent exploration": {"sde": True},
    "noisy heads": {"noisy_heads": True},
    "two copies": {"copies": 2},
}


@pytest.mark.parametrize("part", SPECIAL)
def test_net_with_other_parts_is_left_to_the_graph(part):
    net = NetSpec("net", (("obs", 16),), (Dense(3),), HEADS, **SPECIAL[part])
    assert not is_differentiable(net)
    with pytest.raises(ValueError, match="the net net has parts"):
        Backward(net, {})


def test_net_with_a_noisy_layer_or_residual_blocks_is_left_to_the_graph():
    assert not is_differentiable(NetSpec("net", (("obs", 2),), (Residual(3, 1),), HEADS))
    assert not is_differentiable(NetSpec("net", (("obs", 2),), (Dense(3, noisy=True),), HEADS))
    assert is_differentiable(NetSpec("net", (("obs", 2),), (Dense(3, layer_norm=True),), HEADS))
