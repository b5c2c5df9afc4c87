"""Passes in minibatches: every row once a pass, in an order that seed and number make, none that has no valid step."""

import numpy as np
import pytest

from drl_cli.tf1.epochs import Plan, epochs, orders
from drl_cli.tf1.tensorflow import function, tf

pytestmark = pytest.mark.tensorflow

NAMES = ("rows", "valid")


def visited(mask, plan, seed=3, number=0, xla=False, fails_at=None):
    """Return (for each step taken the rows that it saw, Passed) for rows whose values are their indices from 1."""
    mask = np.asarray(mask, np.float32)
    most = plan.passes * len(mask)
    with tf.Graph().as_default(), tf.Session() as session:
        seen = tf.Variable(np.zeros((most, plan.width), np.float32), use_resource=True)

        def step(minibatch, index):
            present = minibatch["mask"] if minibatch["mask"].shape.rank == 1 else minibatch["mask"][:, 0]
            finite = tf.not_equal(index, -1 if fails_at is None else fails_at)
            keep = tf.cast(finite, tf.float32)
            seen.assign(tf.tensor_scatter_nd_update(seen, [[index]], [minibatch["x"] * present * keep]))
            return {"rows": tf.reduce_sum(present), "valid": tf.reduce_sum(minibatch["mask"])}, finite

        def run(mask, number):
            rows = {"x": tf.range(1.0, len(mask_) + 1.0), "mask": mask}
            return epochs(rows, plan, (seed, number), NAMES, step)

        mask_ = mask
        call = function(run, jit_compile=True if xla else None, autograph=False)
        passed = call(tf.constant(mask), tf.constant(number, tf.int64))
        session.run(seen.initializer)
        passed = session.run(passed)
        found = session.run(seen)
    return [sorted(int(x) for x in row if x) for row in found if row.any()], passed


def flat(lists):
    return [x for each in lists for x in each]


def test_each_pass_visits_every_row_once_in_even_minibatches():
    steps, passed = visited(np.ones(10), Plan(3, 4, 4, True))
    assert [len(step) for step in steps] == [4, 3, 3] * 3
    assert [sorted(flat(steps[at : at + 3])) for at in (0, 3, 6)] == [list(range(1, 11))] * 3
    assert steps[:3] != steps[3:6] and (passed.updates, passed.finite) == (9, True)


def test_rows_stay_in_order_without_shuffling():
    steps, _ = visited(np.ones(5), Plan(2, 2, 2, False))
    assert steps == [[1, 2], [3, 4], [5]] * 2


def test_rows_without_a_valid_step_are_never_visited():
    mask = [[0, 0], [1, 1], [0, 0], [1, 0], [1, 1], [0, 0], [1, 0]]
    steps, passed = visited(mask, Plan(2, 3, 3, True))
    assert [len(step) for step in steps] == [2, 2] * 2
    assert sorted(flat(steps[:2])) == [2, 4, 5, 7]
    assert passed.last["rows"] == 2.0 and passed.last["valid"] == 3.0


def test_nothing_is_called_without_a_valid_step():
    steps, passed = visited(np.zeros(4), Plan(2, 2, 2, True))
    assert steps == [] and (passed.updates, passed.finite) == (0, True)


def test_wider_tensors_change_nothing_but_their_padding():
    narrow, wide = (visited(np.ones(7), Plan(2, 3, width, True))[0] for width in (3, 4))
    assert narrow == wide


def test_first_step_that_is_not_finite_ends_the_loop():
    steps, passed = visited(np.ones(6), Plan(3, 2, 2, True), fails_at=4)
    assert len(steps) == 4 and (passed.updates, passed.finite) == (4, False)


def test_statistics_are_those_of_the_first_minibatch_and_means_of_the_last_pass():
    _, passed = visited(np.ones(5), Plan(2, 2, 2, False))
    assert (passed.first, passed.last["rows"]) == ({"rows": 2.0, "valid": 2.0}, pytest.approx(5 / 3))


def test_xla_goes_the_same_way():
    mask = [1, 1, 0, 1, 1, 1, 0, 1, 1]
    assert visited(mask, Plan(2, 3, 3, True), xla=True)[0] == visited(mask, Plan(2, 3, 3, True))[0]


def test_order_depends_on_seed_and_number_alone():
    found = [visited(np.ones(12), Plan(1, 4, 4, True), *key)[0] for key in ((3, 0), (3, 0), (3, 1), (4, 0))]
    assert found[0] == found[1] and found[0] != found[2] and found[0] != found[3]


def test_every_row_comes_first_about_equally_often():
    with tf.Graph().as_default(), tf.Session() as session:
        order = session.run(orders(tf.ones([5], tf.bool), Plan(2000, 1, 1, True), 1, tf.constant(7, tf.int64)))
    counts = np.bincount(order[:, 0], minlength=5)
    assert counts.sum() == 2000 and counts.min() > 330 and counts.max() < 470
