"""Losses of truncated quantile critics: numbers made by hand, a sort, loops, and what must get no gradient."""

import numpy as np
import pytest

from drl_cli.algorithms.losses import quantile
from drl_cli.algorithms.losses.quantile import kept_shares, shared_quantile_huber, soft_target_quantiles
from drl_cli.tf1.tensorflow import tf

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def run():
    """Evaluate a tensor, or None where there is none."""
    with tf.Graph().as_default(), tf.Session() as session:
        yield lambda tensor: None if tensor is None else session.run(tensor)


def test_kept_shares_are_none_for_the_largest_of_the_pool(run):
    pooled = tf.constant([[3.0, -1.0, 5.0, 2.0], [-4.0, -2.0, -3.0, -1.0]])
    assert run(kept_shares(pooled, 1)).tolist() == [[1, 1, 0, 1], [1, 1, 1, 0]]
    assert run(kept_shares(pooled, 3)).tolist() == [[0, 1, 0, 0], [1, 0, 0, 0]]
    assert run(kept_shares(pooled, 0)).tolist() == [[1, 1, 1, 1], [1, 1, 1, 1]]


def test_kept_shares_of_equal_quantiles_add_up_to_what_stays_of_them(run):
    pooled = tf.constant([[7.0, 5.0, 5.0, 1.0], [5.0, 5.0, 5.0, 5.0], [9.0, 9.0, 9.0, 1.0]])
    # of two: the 7 and one of the two 5; half of all; two of three 9
    assert run(kept_shares(pooled, 2)) == pytest.approx(
        np.array([[0, 0.5, 0.5, 1], [0.5, 0.5, 0.5, 0.5], [1 / 3, 1 / 3, 1 / 3, 1]])
    )


@pytest.mark.parametrize("most_passes", [0, 40], ids=["by a sort", "by passes"])
@pytest.mark.parametrize("dropped", [1, 2, 5, 11])
def test_kept_shares_keep_what_a_sort_keeps_with_and_without_ties(run, monkeypatch, dropped, most_passes):
    monkeypatch.setattr(quantile, "MOST_PASSES", most_passes)
    rng = np.random.default_rng(dropped)
    rows = np.concatenate([rng.normal(0, 1, (40, 12)), rng.integers(0, 4, (40, 12)), np.zeros((1, 12))])
    pooled = rows.astype(np.float32)
    shares = run(kept_shares(tf.constant(pooled), dropped))
    kept = np.sort(pooled, axis=1)[:, : 12 - dropped]
    np.testing.assert_allclose(shares.sum(axis=1), np.full(81, 12 - dropped), rtol=1e-6)
    # whatever is summed over the kept ones, the sum is the same
    for function in (lambda x: x, np.square, np.tanh):
        np.testing.assert_allclose((shares * function(pooled)).sum(1), function(kept).sum(1), rtol=1e-4, atol=1e-5)


def test_soft_target_quantiles_shift_all_and_end_at_the_reward(run):
    target = soft_target_quantiles(
        reward=tf.constant([1.0, 3.0]),
        discount=tf.constant([0.5, 0.0]),
        next_quantiles=tf.constant([[4.0, 8.0], [5.0, 6.0]]),
        next_logp=tf.constant([-2.0, 1.0]),
        alpha=tf.constant(0.5),
    )
    assert run(target).tolist() == [[3.5, 5.5], [3.0, 3.0]]  # 1 + 0.5·(4 + 1), 1 + 0.5·(8 + 1)


def test_soft_target_quantiles_give_no_gradient(run):
    inputs = [tf.constant([1.0]), tf.constant([0.5]), tf.constant([[3.0, 4.0]]), tf.constant([2.0]), tf.constant(0.1)]
    assert tf.gradients(soft_target_quantiles(*inputs), inputs) == [None] * 5


def test_shared_quantile_huber_of_two_quantiles_by_hand(run):
    quantiles, target, shares = tf.constant([[[0.0, 1.0]]]), tf.constant([[0.5, 3.0]]), tf.constant([[1.0, 1.0]])
    # θ 0 at τ ¼: ¼·⅛ + ¼·2.5; θ 1 at ¾: ¼·⅛ (from above) + ¾·1.5; over four pairs
    loss = shared_quantile_huber(quantiles, target, shares)
    assert run(loss) == pytest.approx(np.array([[(0.03125 + 0.625 + 0.03125 + 1.125) / 4]]))
    # slopes: −¼·½ − ¼·1; +¼·½ − ¾·1; over four pairs
    assert run(tf.gradients(loss, quantiles)[0]) == pytest.approx(np.array([[[-0.375 / 4, -0.625 / 4]]]))


def test_shared_quantile_huber_leaves_out_what_has_no_share(run):
    quantiles, shares = tf.constant([[[0.0, 1.0]]]), tf.constant([[1.0, 0.0]])
    one = run(shared_quantile_huber(quantiles, tf.constant([[0.5, 3.0]]), shares))
    assert one == pytest.approx(run(shared_quantile_huber(quantiles, tf.constant([[0.5, -70.0]]), shares)))
    assert one == pytest.approx(np.array([[0.0625 / 2]]))  # (¼·⅛ + ¼·⅛) over two pairs


def test_shared_quantile_huber_matches_loops_over_critics_rows_and_pairs(run):
    rng = np.random.default_rng(0)
    quantiles, target = rng.normal(0, 1.5, (2, 3, 4)), rng.normal(0, 1.5, (3, 5))
    shares = np.array([[1, 1, 1, 0, 0], [1, 0.5, 0.5, 1, 0], [1, 1, 1, 1, 1]])
    expected, slopes = np.zeros((2, 3)), np.zeros((2, 3, 4))
    for c, b, m, i in np.ndindex(2, 3, 4, 5):
        error, tau = target[b, i] - quantiles[c, b, m], (m + 0.5) / 4
        part = abs(tau - (error < 0)) * shares[b, i] / (4 * shares[b].sum())
        expected[c, b] += part * (0.5 * error**2 if abs(error) <= 1 else abs(error) - 0.5)
        slopes[c, b, m] -= part * np.clip(error, -1, 1)
    tensors = [tf.constant(value, tf.float32) for value in (quantiles, target, shares)]
    loss = shared_quantile_huber(*tensors)
    np.testing.assert_allclose(run(loss), expected, rtol=1e-5)
    upstream = rng.normal(0, 1, (2, 3)).astype(np.float32)
    found = tf.gradients(loss, tensors, grad_ys=tf.constant(upstream))
    np.testing.assert_allclose(run(found[0]), slopes * upstream[..., None], rtol=1e-4, atol=1e-7)
    assert found[1:] == [None, None]
