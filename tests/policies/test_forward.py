"""The NumPy forward pass against hand-made numbers, and what it refuses."""

import numpy as np
import pytest

from drl_cli.policies.forward import ACTIVATION, Forward
from drl_cli.policies.policy_spec import ACTIVATIONS, Conv, Dense, NetSpec

NET = NetSpec("policy", (("obs", 2),), (Dense(2, "relu"),), (("mean", 1), ("log_std", 1)))
WEIGHTS = {
    "policy/dense_0/kernel": np.float32([[1.0, -1.0], [2.0, 0.5]]),
    "policy/dense_0/bias": np.float32([0.5, -0.25]),
    "policy/mean/kernel": np.float32([[3.0], [1.0]]),
    "policy/mean/bias": np.float32([0.125]),
    "policy/log_std/kernel": np.float32([[-1.0], [4.0]]),
    "policy/log_std/bias": np.float32([0.0]),
}


def test_forward_of_one_hidden_layer_gives_the_hand_made_heads():
    heads = Forward(NET, WEIGHTS)(np.float32([[1.0, 2.0], [-1.0, 1.0]]))
    # row 0: relu([5.5, -0.25]) = [5.5, 0]; row 1: relu([1.5, 1.25]) = [1.5, 1.25]
    assert heads["mean"].tolist() == [[16.625], [5.875]]
    assert heads["log_std"].tolist() == [[-5.5], [3.5]]
    assert heads["mean"].dtype == np.float32


def test_forward_normalises_before_scale_offset_and_activation():
    net = NetSpec("policy", (("obs", 2),), (Dense(2, "linear", layer_norm=True),), (("mean", 2),))
    weights = {
        "policy/dense_0/kernel": np.eye(2, dtype=np.float32),
        "policy/dense_0/bias": np.zeros(2, np.float32),
        "policy/dense_0/norm_scale": np.float32([2.0, 3.0]),
        "policy/dense_0/norm_offset": np.float32([10.0, 20.0]),
        "policy/mean/kernel": np.eye(2, dtype=np.float32),
        "policy/mean/bias": np.zeros(2, np.float32),
    }
    # [3, 7] has mean 5 and deviation 2: normalised [-1, 1]
    np.testing.assert_allclose(Forward(net, weights)(np.float32([[3.0, 7.0]]))["mean"], [[8.0, 23.0]], rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("relu", [0.0, 0.0, 2.0]),
        ("tanh", [-0.7615942, 0.0, 0.9640276]),
        ("elu", [-0.6321206, 0.0, 2.0]),
        ("swish", [-0.2689414, 0.0, 1.7615942]),
        ("linear", [-1.0, 0.0, 2.0]),
    ],
)
def test_activation_at_three_points_has_its_published_value(name, expected):
    np.testing.assert_allclose(ACTIVATION[name](np.float32([-1.0, 0.0, 2.0])), expected, rtol=1e-6)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_of_huge_inputs_is_finite(name):
    with np.errstate(all="raise", under="ignore"):
        assert np.isfinite(ACTIVATION[name](np.float32([-1e30, -100.0, 100.0, 1e30]))).all()


def test_forward_changes_neither_its_input_nor_the_weights():
    for layers in ((), (Dense(2, "relu"),), (Dense(2, "relu", layer_norm=True),)):
        net = NetSpec("policy", (("obs", 2),), layers, (("mean", 1),))
        weights = net.initial_weights(np.random.default_rng(0))
        before = {name: array.copy() for name, array in weights.items()}
        x = np.float32([[-1.0, 2.0]])
        Forward(net, weights)(x)
        assert x.tolist() == [[-1.0, 2.0]]
        assert all(np.array_equal(weights[name], before[name]) for name in weights)


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (None, "policy/mean/bias: expected shape (1,), found missing"),
        (np.zeros((2,), np.float32), "policy/mean/bias: expected shape (1,), found (2,)"),
        (np.zeros((1,), np.float64), "policy/mean/bias: expected float32, found float64"),
        (np.zeros((1,), np.int8), "policy/mean/bias: expected float32, found int8"),
    ],
)
def test_forward_of_weights_that_do_not_fit_is_refused_by_name(array, said):
    weights = {name: value for name, value in WEIGHTS.items() if name != "policy/mean/bias"}
    if array is not None:
        weights["policy/mean/bias"] = array
    with pytest.raises(ValueError, match="policy/mean/bias") as caught:
        Forward(NET, weights)
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("padding", "side", "kernel", "stride", "pads"),
    [("valid", 9, 4, 2, (0, 0)), ("same", 9, 3, 2, (1, 1)), ("same", 8, 3, 2, (0, 1)), ("same", 84, 8, 4, (2, 2))],
)
def test_padding_is_tensorflows_with_the_odd_pixel_behind(padding, side, kernel, stride, pads):
    assert Conv(1, kernel, stride, padding=padding).padding_of(side) == pads
