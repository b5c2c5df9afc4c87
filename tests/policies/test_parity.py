"""NumPy's forward pass and TensorFlow's give the same numbers, for every kind of net that a spec can describe."""

import itertools

import numpy as np
import pytest

from drl_cli.policies import distributions, distributions_tf
from drl_cli.policies.forward import Forward
from drl_cli.policies.forward_tf import ACTIVATION, TFNet, variables_of
from drl_cli.policies.nets import Residual
from drl_cli.policies.policy_spec import ACTIVATIONS, ActionSpec, Conv, Dense, NetSpec, PolicySpec
from drl_cli.tf1.tensorflow import tf

pytestmark = pytest.mark.tensorflow

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
        heads = TFNet(net, variables)(tf.constant(ROWS[:, :3]), tf.constant(ROWS[:, 3:]))
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
        found = session.run(distributions_tf.TFSquashedGaussian(low, high).greedy(heads))
    spec = PolicySpec((), "squashed_gaussian", (5,), ActionSpec(tuple(low), tuple(high), normalize=False))
    np.testing.assert_allclose(found, distributions.SquashedGaussian(spec).greedy(heads), atol=1e-5)


FEATURES = {
    "noisy layers and heads": {"layers": (Dense(7, noisy=True),), "noisy_heads": True},
    "heads with layers of their own": {"layers": (Dense(7),), "head_layers": (Dense(6, "tanh"), Dense(5, noisy=True))},
    "residual blocks": {"layers": (Residual(6, 2, "swish"),), "head_layers": (Dense(4),)},
    "batch normalisation": {"layers": (Dense(7), Dense(6, "tanh")), "batch_norm": True},
    "kernels of unit length": {"layers": (Dense(7), Dense(6, "tanh")), "batch_norm": True, "unit_kernels": True},
    "batch normalisation without layers": {"layers": (), "batch_norm": True},
    "state-dependent exploration": {"layers": (Dense(7, "tanh"),), "sde": True},
}
IMAGES = {
    "same and valid": ((9, 11, 3), (Conv(4, 3, 2), Conv(5, 3, 1, "tanh", "valid"))),
    "kernel of even size, stride 4": ((16, 16, 1), (Conv(4, 8, 4), Conv(3, 4, 2))),
    "no convolution": ((8, 8, 1), ()),
}


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("feature", FEATURES)
def test_forward_and_graph_agree_for_every_feature_of_a_net(feature, copies):
    if FEATURES[feature].get("sde") and copies > 1:
        pytest.skip("only acting nets have it")
    net = NetSpec("net", (("obs", 3), ("action", 2)), heads=HEADS["two"], copies=copies, **FEATURES[feature])
    weights = {name: np.abs(value) + 0.5 if name.endswith("/var") else value for name, value in _weights(net).items()}
    expected, found = Forward(net, weights)(ROWS), _in_tensorflow(net, weights)
    assert set(found) == set(expected) == {"mean", "log_std"} | ({"features"} if net.sde else set())
    for head in found:
        assert found[head].shape == expected[head].shape
        np.testing.assert_allclose(found[head], expected[head], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("zero_mean", [True, False])
@pytest.mark.parametrize("kind", IMAGES)
def test_forward_and_graph_agree_on_images(kind, zero_mean, copies):
    shape, convs = IMAGES[kind]
    inputs = (("obs", int(np.prod(shape))), ("action", 2))
    net = NetSpec("net", inputs, (Dense(7),), HEADS["two"], copies, shape, convs, zero_mean)
    weights = _weights(net)
    image = np.random.default_rng(3).integers(0, 256, (6, *shape), dtype=np.uint8)
    expected = Forward(net, weights)([image, ROWS[:, 3:]])
    with tf.Graph().as_default():
        variables = variables_of(net.weight_shapes(), weights)
        heads = TFNet(net, variables)(tf.constant(image), tf.constant(ROWS[:, 3:]))
        with tf.Session() as session:
            session.run(tf.variables_initializer(list(variables.values())))
            found = session.run(heads)
    for head in ("mean", "log_std"):
        assert found[head].shape == expected[head].shape == ((2, 6, 3) if copies == 2 else (6, 3))
        np.testing.assert_allclose(found[head], expected[head], atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("copies", [1, 2])
def test_a_board_within_a_vector_is_an_image_with_the_other_numbers_beside_it(copies):
    convs, rng = (Conv(4, 3, 1, "tanh", "valid"),), np.random.default_rng(5)
    board, beside = rng.normal(size=(6, 5, 4, 2)).astype("f4"), rng.normal(size=(6, 3)).astype("f4")
    rows = np.concatenate([beside[:, :2], board.reshape(6, 40), beside[:, 2:]], axis=1)
    within = NetSpec("net", (("obs", 43),), (Dense(7),), HEADS["two"], copies, (5, 4, 2), convs, image_at=2)
    apart = NetSpec("net", (("board", 40), ("rest", 3)), (Dense(7),), HEADS["two"], copies, (5, 4, 2), convs)
    weights = _weights(within)
    assert within.weight_shapes() == apart.weight_shapes()
    expected, found = Forward(apart, weights)([board, beside]), Forward(within, weights)(rows)
    with tf.Graph().as_default(), tf.Session() as session:
        in_graph = session.run(TFNet(within, {name: tf.constant(value) for name, value in weights.items()})(rows))
    for head in ("mean", "log_std"):
        np.testing.assert_array_equal(found[head], expected[head])
        np.testing.assert_allclose(in_graph[head], expected[head], atol=2e-5, rtol=2e-5)


def test_noise_of_a_noisy_layer_enters_both_alike():
    net = NetSpec("net", (("obs", 5),), (), (("q", 2),), noisy_heads=True)
    weights = _weights(net)
    given = [np.float32([[1.0], [-2.0], [0.5], [0.0], [3.0]]), np.float32([[0.25, -1.5]])]
    with tf.Graph().as_default(), tf.Session() as session:
        fed = iter(given)
        heads = TFNet(net, {n: tf.constant(v) for n, v in weights.items()}, lambda shape: tf.constant(next(fed)))(
            tf.constant(ROWS)
        )
        found = session.run(heads["q"])
    kernel = weights["net/q/kernel"] + weights["net/q/kernel_sigma"] * (given[0] @ given[1])
    bias = weights["net/q/bias"] + weights["net/q/bias_sigma"] * given[1][0]
    np.testing.assert_allclose(found, ROWS @ kernel + bias, atol=1e-5)


def test_numpy_draws_noise_anew_for_every_pass_and_none_without_a_generator():
    net = NetSpec("net", (("obs", 5),), (Dense(4, noisy=True),), (("q", 2),), noisy_heads=True)
    forward, rng = Forward(net, _weights(net)), np.random.default_rng(0)
    first, second, mean = forward(ROWS, rng)["q"], forward(ROWS, rng)["q"], forward(ROWS)["q"]
    assert np.abs(first - second).max() > 0.01
    np.testing.assert_array_equal(mean, forward(ROWS)["q"])
    several = np.mean([forward(ROWS, rng)["q"] for _ in range(3)], axis=0)
    assert several.shape == mean.shape


def test_training_mode_normalises_by_the_batch_and_hands_out_its_statistics():
    net = NetSpec("net", (("obs", 5),), (), (("q", 1),), batch_norm=True)
    weights = _initial(net)
    with tf.Graph().as_default(), tf.Session() as session:
        built = TFNet(net, {n: tf.constant(v) for n, v in weights.items()}, training=True)
        q = built(tf.constant(ROWS))["q"]
        found, statistics = session.run([q, built.statistics])
    mean, var = ROWS.mean(axis=0), ROWS.var(axis=0)
    np.testing.assert_allclose(statistics["net/norm_0/mean"], mean, atol=1e-5)
    np.testing.assert_allclose(statistics["net/norm_0/var"], var, rtol=1e-4)
    np.testing.assert_allclose(found, (ROWS - mean) / np.sqrt(var + 1e-3) @ weights["net/q/kernel"], atol=1e-4)


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("image", [False, True])
def test_several_actions_in_a_state_are_judged_as_one_by_one(image, copies):
    rng = np.random.default_rng(3)
    inputs = (("obs", 64 if image else 3), ("action", 2))
    sight = {"image": (8, 8, 1), "convs": (Conv(4, 3, 2),)} if image else {}
    net = NetSpec("net", inputs, (Dense(7, "tanh", layer_norm=True),), HEADS["three"], copies, **sight)
    obs = rng.integers(0, 256, (5, 8, 8, 1), np.uint8) if image else rng.normal(0, 1, (5, 3)).astype(np.float32)
    action = rng.normal(0, 1, (5, 4, 2)).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        seen = TFNet(net, {name: tf.constant(value) for name, value in _weights(net).items()})
        together = session.run(seen.several(tf.constant(obs), tf.constant(action)))
        singly = [session.run(seen(tf.constant(obs), tf.constant(action[:, index]))) for index in range(4)]
    for head, size in net.heads:
        assert together[head].shape == (*([2] if copies > 1 else []), 5, 4, size)
        for index in range(4):
            np.testing.assert_allclose(together[head][..., index, :], singly[index][head], rtol=1e-4, atol=1e-5)
