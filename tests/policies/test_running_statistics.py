"""Moments of parts add up to those of the whole, whatever the parts; discounted returns against a loop over episodes."""

import functools

import numpy as np
import pytest

from drl_cli.policies.filters import discounted, merged, moments, nothing

ROWS = np.random.default_rng(3).normal([0, 1e4, -3], [1, 0.5, 1e-3], (1000, 3)).astype(np.float32)


@pytest.mark.parametrize("cuts", [(), (1,), (500,), (1, 2, 3), (0, 999), (10, 10, 700), tuple(range(1, 1000, 7))])
@pytest.mark.parametrize("backwards", [False, True])
def test_merged_parts_of_any_split_are_numpy_s_mean_and_variance(cuts, backwards):
    parts = np.split(ROWS, cuts)
    whole = functools.reduce(merged, map(moments, reversed(parts) if backwards else parts), nothing((3,)))
    assert whole.count == 1000
    np.testing.assert_allclose(whole.mean, ROWS.astype(np.float64).mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(whole.variance(), ROWS.astype(np.float64).var(axis=0), rtol=1e-9)


def test_moments_of_four_numbers():
    found = moments(np.float32([1.0, 2.0, 3.0, 6.0]))
    assert (found.count, found.mean, found.m2, found.variance()) == (4.0, 3.0, 14.0, 3.5)
    both = merged(found, moments(np.float32([8.0])))
    assert (both.count, both.mean, both.m2) == (5.0, 4.0, 34.0)


def test_moments_do_not_change_what_they_are_of():
    rows = np.array([[1.0], [3.0]])
    moments(rows)
    assert rows.tolist() == [[1.0], [3.0]]


def test_no_rows_have_no_moments_and_change_none():
    none, some = moments(np.zeros((0, 2), np.float32)), moments(np.float32([[1, 2], [3, 6]]))
    assert none.count == 0 and none.variance().tolist() == [0.0, 0.0]
    for both in (merged(none, some), merged(some, none)):
        assert (both.count, both.mean.tolist(), both.m2.tolist()) == (2.0, [2.0, 4.0], [2.0, 8.0])
    assert merged(none, nothing((2,))).count == 0


def test_a_small_variance_behind_a_large_mean_survives():
    rows = np.float32(1e6) + np.float32([0, 0.25, 0.5, 0.75] * 50)
    whole = functools.reduce(merged, [moments(rows[at : at + 3]) for at in range(0, 200, 3)])
    np.testing.assert_allclose(whole.variance(), 0.078125, rtol=1e-9)  # 5/64


def test_discounted_returns_restart_behind_an_end_and_go_on_into_the_next_fragment():
    running = np.array([8.0, 0.0])
    reward = np.float32([[1, 1], [1, 2], [1, 3]])
    ends = np.array([[False, False], [True, False], [False, False]])
    assert discounted(reward, ends, running, 0.5).tolist() == [[5.0, 1.0], [3.5, 2.5], [1.0, 4.25]]
    assert running.tolist() == [1.0, 4.25]
    assert discounted(reward[:1], ends[1:2], running, 0.5).tolist() == [[1.5, 3.125]]
    assert running.tolist() == [0.0, 3.125]


def test_steps_behind_a_column_s_length_change_no_return():
    running = np.zeros(2)
    reward, ends = np.float32([[1, 1], [1, 9], [1, 9]]), np.zeros((3, 2), bool)
    sums = discounted(reward, ends, running, 0.5, np.array([3, 1]))
    assert running.tolist() == [1.75, 1.0] and sums[:, 0].tolist() == [1.0, 1.5, 1.75]
