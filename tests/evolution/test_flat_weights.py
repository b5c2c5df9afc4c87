"""Weights as a vector and back, one net or many."""

import numpy as np

from drl_cli.evolution.net import Flat

SHAPES = {"policy/dense_0/kernel": (2, 3), "policy/dense_0/bias": (3,), "policy/mean/kernel": (3, 1)}


def test_vector_holds_the_weights_in_the_order_of_their_shapes():
    flat = Flat(SHAPES)
    weights = {
        "policy/mean/kernel": np.float32([[7], [8], [9]]),
        "policy/dense_0/bias": np.float32([6, 6, 6]),
        "policy/dense_0/kernel": np.float32([[0, 1, 2], [3, 4, 5]]),
    }
    vector = flat.vector(weights)
    assert (flat.size, vector.dtype, vector.tolist()) == (12, np.float32, [0, 1, 2, 3, 4, 5, 6, 6, 6, 7, 8, 9])
    for name, value in flat.weights(vector).items():
        np.testing.assert_array_equal(value, weights[name])


def test_rows_become_weights_with_a_leading_axis():
    vectors = np.arange(24, dtype=np.float32).reshape(2, 12)
    weights = Flat(SHAPES).weights(vectors)
    assert {name: value.shape[1:] for name, value in weights.items()} == SHAPES
    assert weights["policy/dense_0/bias"].tolist() == [[6, 7, 8], [18, 19, 20]]
    assert weights["policy/mean/kernel"][1, :, 0].tolist() == [21, 22, 23]
