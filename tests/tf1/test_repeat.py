"""Many updates in one call: how they are split, when they stop, what they report."""

import functools

import numpy as np
import pytest

from drl_cli.tf1.graph import Gradients, LearnerGraph
from drl_cli.tf1.repeat import repeated
from drl_cli.tf1.stateless_random import stateless_normal
from drl_cli.tf1.tensorflow import tf

pytestmark = pytest.mark.tensorflow

MOST, BATCH = 50, 4
BLOCK = {
    "x": np.random.default_rng(0).normal(0, 1, (MOST, BATCH, 3)).astype(np.float32),
    "y": np.random.default_rng(1).normal(0, 1, (MOST, BATCH)).astype(np.float32),
}


def _noisy_regression(more_stats=0, more_rows=()):
    """A LearnerGraph that fits y to w·x + noise by plain gradient descent; its statistics are of every kind."""
    w = tf.Variable(np.float32([0.5, -0.5, 1.0]), name="w", use_resource=True)
    number = tf.Variable(np.int64(0), name="num_updates", use_resource=True)

    def gradients(batch, at):
        value = w.read_value()
        noise = stateless_normal([BATCH], 3, at, 0)
        error = tf.linalg.matvec(batch["x"], value) + 0.01 * noise - batch["y"]
        loss = tf.reduce_mean(tf.square(error))
        stats = {"loss": loss, "min_y": tf.reduce_min(batch["y"]), "max_y": tf.reduce_max(batch["y"])}
        stats |= {f"more_{index}": loss for index in range(more_stats)}
        rows = {name: tf.square(error) for name in more_rows}
        return Gradients({"w": tf.gradients(loss, [value])}, stats, tf.math.is_finite(loss), rows)

    def apply(parts, rates, at):
        w.assign_sub(rates["rate"] * parts["w"][0])

    columns = {"x": ((3,), "float32"), "y": ((), "float32")}
    return LearnerGraph(columns, ("rate",), {"w": w, "num_updates": number}, ("w",), gradients, apply)


@functools.cache
def _opened(xla):
    """The graph in a session, which is built and compiled once: its loop, variables, session, and what starts it anew."""
    with tf.Graph().as_default() as graph:
        built = _noisy_regression()
        loop = repeated(built, MOST, BATCH, xla)
        start = tf.variables_initializer(list(built.variables.values()))
    return loop, built.variables, tf.Session(graph=graph), start


class _Machine:
    """The graph with the first values in its variables; one at a time."""

    def __init__(self, xla):
        self.loop, self.variables, self.session, start = _opened(xla)
        self.session.run(start)

    def run(self, first, count, rate=0.05, **columns):
        block = {name: np.roll(values, -first, axis=0) for name, values in (BLOCK | columns).items()}
        feeds = {self.loop.block[name]: values for name, values in block.items()}
        feeds |= {self.loop.count: count, self.loop.rates["rate"]: rate}
        return self.session.run(self.loop.fetches, feeds)

    def values(self):
        return self.session.run(self.variables)


def _after(xla, *counts):
    machine = _Machine(xla)
    first = 0
    for count in counts:
        out = machine.run(first, count)
        assert out["done"] == count and bool(out["finite"])
        first += count
    return machine.values()


def _reference(updates):
    """The same in float64, one update at a time."""
    w = np.float64([0.5, -0.5, 1.0])
    with tf.Graph().as_default(), tf.Session() as session:
        number = tf.placeholder(tf.int64, [])
        draw = stateless_normal([BATCH], 3, number, 0)
        noise = [session.run(draw, {number: n}) for n in range(updates)]
    for n in range(updates):
        x, y = BLOCK["x"][n].astype(np.float64), BLOCK["y"][n]
        w -= 0.05 * 2 / BATCH * x.T @ (x @ w + 0.01 * noise[n] - y)
    return w


@pytest.mark.parametrize("xla", [True, False])
def test_fifty_updates_are_the_same_bits_however_they_are_split(xla):
    whole = _after(xla, 50)
    for counts in ((20, 30), (1,) * 50):
        split = _after(xla, *counts)
        assert np.array_equal(whole["w"], split["w"]) and whole["num_updates"] == split["num_updates"] == 50


def test_updates_with_and_without_the_compiler_match_a_plain_loop():
    expected = _reference(50)
    for xla in (True, False):
        np.testing.assert_allclose(_after(xla, 50)["w"], expected, atol=1e-5)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"more_stats": 64}, "an update has 67 statistics; the loop has room for 64 of a kind"),
        ({"more_rows": ("a", "b")}, "an update has the rows a, b; the loop has room for one"),
    ],
)
def test_more_statistics_or_rows_than_the_loop_has_room_for_are_refused(more, message):
    with tf.Graph().as_default(), pytest.raises(ValueError, match=message):
        repeated(_noisy_regression(**more), MOST, BATCH, False)


def test_no_updates_change_nothing():
    machine = _Machine(True)
    machine.run(0, 3)
    before = machine.values()
    out = machine.run(3, 0)
    after = machine.values()
    assert out["done"] == 0 and bool(out["finite"])
    assert np.array_equal(before["w"], after["w"]) and after["num_updates"] == 3


@pytest.mark.parametrize("xla", [True, False])
@pytest.mark.parametrize("bad", [0, 7])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_batch_that_is_not_finite_is_not_applied_and_ends_the_call(xla, bad, value):
    y = BLOCK["y"].copy()
    y[bad, 2] = value
    machine = _Machine(xla)
    out = machine.run(0, 50, y=y)
    found = machine.values()
    assert out["done"] == bad and not out["finite"]
    assert found["num_updates"] == bad
    np.testing.assert_allclose(found["w"], _reference(bad), atol=1e-6)


def test_statistics_are_means_minima_and_maxima_of_the_updates_made():
    machine = _Machine(True)
    whole = machine.run(0, 10, rate=0.0)["stats"]
    single = [machine.run(n, 1, rate=0.0)["stats"]["loss"] for n in range(10)]
    assert whole["min_y"] == BLOCK["y"][:10].min()
    assert whole["max_y"] == BLOCK["y"][:10].max()
    # The noise of updates 10 to 19 differs from that of 0 to 9, by a hundredth of what a target is.
    np.testing.assert_allclose(whole["loss"], np.mean(single), rtol=0.05)
    x, y = BLOCK["x"][:10].astype(np.float64), BLOCK["y"][:10]
    np.testing.assert_allclose(whole["loss"], np.mean((x @ [0.5, -0.5, 1.0] - y) ** 2), rtol=0.02)


def test_rates_are_fed_to_every_update_of_a_call():
    machine = _Machine(True)
    machine.run(0, 5, rate=0.0)
    assert machine.values()["w"].tolist() == [0.5, -0.5, 1.0]
