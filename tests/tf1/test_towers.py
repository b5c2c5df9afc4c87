"""Towers on devices of their own: the sums of all, whatever each of them has."""

import numpy as np
import pytest

from drl_cli.tf1.tensorflow import tf
from drl_cli.tf1.towers import Sums, Towers

pytestmark = pytest.mark.tensorflow

X = np.float32([[1, 2], [3, 4], [5, 6], [7, 8], [9, 10], [0, 1]])
MASK = np.float32([1, 1, 1, 1, 0, 1])


def squares(weights, minibatch):
    """Σ mask·(x·w)²."""
    rows = tf.square(tf.reduce_sum(minibatch["x"] * weights["w"], axis=1))
    mask = minibatch["mask"]
    return Sums(
        tf.reduce_sum(mask * rows), {"x": tf.reduce_sum(mask * minibatch["x"][:, 0])},
        {"most": tf.reduce_max(mask * rows)}, tf.reduce_sum(mask),
    )  # fmt: skip


@pytest.mark.parametrize("xla", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_gradients_of_towers_add_up_to_those_of_the_whole(count, xla):
    devices = [f"/CPU:{index}" for index in range(count)]
    options = tf.ConfigProto(device_count={"CPU": 3}, allow_soft_placement=False)
    with tf.Graph().as_default(), tf.Session(config=options) as session:
        towers = Towers(devices, xla)
        weights = {"w": tf.constant([1.0, 0.5]), "unused": tf.constant([3.0])}
        (found, unused), sums = towers.gradients(squares, weights, {"x": tf.constant(X), "mask": tf.constant(MASK)})
        found, unused, sums = session.run([found, unused, sums])
    outputs = X @ [1.0, 0.5]
    np.testing.assert_allclose(found, (2 * outputs * MASK) @ X)
    assert (unused.tolist(), sums.count, sums.stats["x"], sums.tops["most"]) == ([0.0], 5.0, 16.0, 121.0)
    assert sums.loss == np.sum(MASK * outputs**2)
    assert towers.in_one_place == (count == 1)


def test_width_is_the_next_multiple_of_the_towers():
    assert [Towers(["/CPU:0"] * 3, False).width(rows) for rows in (1, 3, 4)] == [3, 3, 6]
    assert Towers(["/CPU:0"] * 3, True).in_one_place
