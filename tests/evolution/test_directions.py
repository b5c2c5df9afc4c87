"""What returns weigh: average ranks for ties, nothing for equal ones, the best directions in units of their deviation."""

import numpy as np
import pytest
from scipy import stats

from drl_cli.evolution.directions import centered_ranks, rank_weights, top_weights


def test_ranks_of_different_values_are_even_from_minus_to_plus_a_half():
    assert centered_ranks(np.array([30.0, -7.0, 4.0])).tolist() == [0.5, -0.5, 0.0]
    assert centered_ranks(np.array([[1.0, 2.0], [4.0, 3.0], [6.0, 5.0]])).round(2).tolist() == [
        [-0.5, -0.3],
        [0.1, -0.1],
        [0.5, 0.3],
    ]


def test_tied_values_share_the_mean_of_their_ranks():
    assert centered_ranks(np.array([1.0, 9.0, 1.0, 1.0, 9.0])).tolist() == [-0.25, 0.375, -0.25, -0.25, 0.375]


@pytest.mark.parametrize("seed", range(5))
def test_ranks_are_those_of_rank_statistics(seed):
    values = np.random.default_rng(seed).integers(0, 9, (10, 2)).astype(float)
    expected = stats.rankdata(values, "average").reshape(10, 2)
    np.testing.assert_allclose(centered_ranks(values), (expected - 1) / 19 - 0.5, atol=1e-12)


def test_one_value_has_the_middle_rank():
    assert centered_ranks(np.array([3.0])).tolist() == [0.0]


def test_direction_counts_by_the_difference_of_its_sides_ranks():
    # Ranks 0 to 3: (3, 0) and (1, 2) of 3, over four returns.
    np.testing.assert_allclose(rank_weights(np.array([[9.0, 1.0], [2.0, 3.0]])), [1 / 4, -1 / 3 / 4])


def test_direction_whose_sides_are_equal_counts_nothing_wherever_they_rank():
    weights = rank_weights(np.array([[5.0, 5.0], [0.0, 9.0], [2.0, 2.0]]))
    assert weights[0] == weights[2] == 0.0 > weights[1]


@pytest.mark.parametrize("value", [0.0, 500.0, -1e9, 0.1])
def test_equal_returns_say_nothing(value):
    returns = np.full((8, 2), value)
    assert rank_weights(returns) is None
    assert top_weights(returns, 4) is None


def test_returns_that_differ_by_rounding_alone_say_nothing_to_ars():
    returns = np.full((3, 2), 0.1 + 0.2)
    returns[1, 0] = 0.3
    assert top_weights(returns, 3) is None


def test_best_directions_count_in_deviations_of_their_own_returns():
    returns = np.array([[1.0, 0.0], [0.0, 9.0], [4.0, 3.0], [2.0, 2.0]])
    weights = top_weights(returns, 2)
    deviation = np.std([0.0, 9.0, 4.0, 3.0])
    np.testing.assert_allclose(weights, [0.0, -9.0 / (2 * deviation), 1.0 / (2 * deviation), 0.0])


def test_of_equally_good_directions_the_first_are_used():
    weights = top_weights(np.array([[5.0, 1.0], [5.0, 2.0], [5.0, 3.0]]), 2)
    assert (weights != 0).tolist() == [True, True, False]


def test_equal_best_directions_say_nothing_although_the_others_differ():
    assert top_weights(np.array([[5.0, 5.0], [5.0, 5.0], [4.0, 3.0]]), 2) is None
