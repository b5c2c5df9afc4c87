"""NumPy's forward pass and TensorFlow's give the same numbers, for every kind of net that a spec can describe."""

import itertools

import numpy as np
import pytest

from drl_cli.networks import distributions as numpy_distributions
from drl_cli.networks.forward import Forward
from drl_cli.networks.spec import ACTIVATIONS, Dense, NetSpec
from drl_cli.tf1 import distributions as graph_distributions
from drl_cli.tf1.build import ACTIVATION, Net, variables_of
from drl_cli.tf1.tensorflow import tf

HEADS = {"one": (("q", 1),), "two": (("mean", 3), ("log_std", 3)), "three": (("a", 1), ("b", 5), ("c", 2))}
WIDTHS = (17, 8, 9)
ROWS = np.random.default_rng(7).normal(0, 3, (6, 5)).astype(np.float32)


def _net(activation, layer_norm, depth, heads, copies=1):
    layers = tuple(Dense(units, activation, layer_norm) for units in WIDTHS[:depth])
    return NetSpec("net", (("obs", 3), ("action", 2)), layers, HEADS[heads], copies)


def _weights(net):
    """Weights none of which is at its special first value (bias 0, scale 1)."""
    rng = np.random.default_rng(0)
    return {name: value + rng.normal(0, 0.3, value.shape).astype("f4") for name, value in _initial(net).items()}


def _initial(net):
    return net.initial_weights(np.random.default_rng(1))


def _in_tensorflow(net, weights):
    with tf.Graph().as_default():
        variables = variables_of(net.weight_shapes(), weights)
        heads = Net(net, variables)(tf.constant(ROWS[:, :3]), tf.constant(ROWS[:, 3:]))
        with tf.Session() as session:
            session.run(tf.variables_initializer(list(variables.values())))
            return session.run(heads)


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_forward_and_graph_agree_for_every_depth_and_normalisation(activation, heads):
    for layer_norm, depth in itertools.product((False, True), range(4)):
        net = _net(activation, layer_norm, depth, heads)
        weights = _weights(net)
        expected, found = Forward(net, weights)(ROWS), _in_tensorflow(net, weights)
        assert set(found) == {head for head, _ in net.heads}
        for head, size in net.heads:
            assert found[head].shape == (6, size)
            np.testing.assert_allclose(found[head], expected[head], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_two_copies_in_the_graph_are_two_single_nets(activation):
    for layer_norm, depth in itertools.product((False, True), range(4)):
        twins, single = _net(activation, layer_norm, depth, "two", 2), _net(activation, layer_norm, depth, "two")
        weights = _weights(twins)
        found = _in_tensorflow(twins, weights)
        for copy in (0, 1):
            expected = Forward(single, {name: value[copy] for name, value in weights.items()})(ROWS)
            np.testing.assert_allclose(found["mean"][copy], expected["mean"], atol=1e-5, rtol=1e-5)
            np.testing.assert_allclose(found["log_std"][copy], expected["log_std"], atol=1e-5, rtol=1e-5)


def test_both_know_the_same_activations():
    assert tuple(ACTIVATION) == ACTIVATIONS == ("relu", "tanh", "elu", "swish", "linear")


def test_variables_of_an_initial_value_of_another_shape_are_refused():
    with tf.Graph().as_default(), pytest.raises(ValueError, match="net/bias: initial value of shape"):
        variables_of({"net/bias": (3,)}, {"net/bias": np.zeros(2, np.float32)})


def test_greedy_action_is_the_same_in_both():
    low, high = np.float32([-2.0, 0.0, -1.0]), np.float32([2.0, 10.0, 0.5])
    heads = {"mean": ROWS[:, :3], "log_std": np.zeros((6, 3), np.float32)}
    with tf.Graph().as_default(), tf.Session() as session:
        found = session.run(graph_distributions.SquashedGaussian(low, high).greedy(heads))
    np.testing.assert_allclose(found, numpy_distributions.SquashedGaussian(low, high).greedy(heads), atol=1e-5)
