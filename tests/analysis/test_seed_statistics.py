"""Statistics over seeds, against slow loops, SciPy, and literals."""

import itertools

import numpy as np
import pytest
from scipy import stats

from drl_cli.analysis import reward_statistics

SCORES = [3.0, 1.0, 8.0, 5.0, 4.0, 9.0, 2.0, 7.0]


def slow_bootstrap(strata, statistic, resamples, seed=0):
    """The stratified bootstrap as the paper describes it, one resample at a time."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(resamples):
        drawn = [np.array([s[rng.integers(len(s))] for _ in s]) for s in strata]
        found.append(statistic(np.concatenate(drawn)))
    return np.percentile(found, [2.5, 97.5])


def test_describe_gives_mean_sd_and_iqm():
    told = reward_statistics.describe_seeds(SCORES)
    assert (told["n"], told["mean"], told["min"], told["max"]) == (8, 4.875, 1.0, 9.0)
    assert told["sd"] == pytest.approx(2.9001, abs=1e-4)  # over runs, n - 1
    assert told["iqm"] == pytest.approx(stats.trim_mean(SCORES, 0.25)) == 4.75
    assert told["iqm_low"] < told["iqm"] < told["iqm_high"]


def test_describe_of_a_single_run_has_no_interval():
    told = reward_statistics.describe_seeds([5.0])
    assert (told["mean"], told["iqm"], told["sd"]) == (5.0, 5.0, None)
    assert told["mean_low"] is None and told["iqm_high"] is None


def test_describe_gives_the_same_interval_every_time():
    assert reward_statistics.describe_seeds(SCORES) == reward_statistics.describe_seeds(SCORES)


def test_interval_of_the_mean_agrees_with_scipy():
    told = reward_statistics.describe_seeds(SCORES)
    theirs = stats.bootstrap((SCORES,), np.mean, n_resamples=20_000, method="percentile", rng=1).confidence_interval
    assert told["mean_low"] == pytest.approx(theirs.low, abs=0.15)
    assert told["mean_high"] == pytest.approx(theirs.high, abs=0.15)


def test_stratified_interval_agrees_with_the_slow_one():
    strata = [[1.0, 2.0, 4.0], [10.0, 11.0, 13.0, 17.0]]
    fast = reward_statistics.stratified_interval(strata, reward_statistics.iqm_of)
    slow = slow_bootstrap([np.array(s) for s in strata], lambda x: stats.trim_mean(x, 0.25), 4000)
    assert fast == pytest.approx(tuple(slow), abs=0.4)


def test_stratified_interval_never_mixes_strata():
    drawn = []
    reward_statistics.stratified_interval(
        [[1.0, 2.0], [10.0]], lambda s: drawn.extend(s) or s[0].mean(axis=1), resamples=50
    )
    assert set(np.unique(drawn[0])) == {1.0, 2.0} and set(np.unique(drawn[1])) == {10.0}
    assert drawn[0].shape == (50, 2)


def test_improvement_counts_pairs_and_half_of_the_ties():
    x, y = [1.0, 3.0, 3.0], [2.0, 3.0]
    pairs = [1.0 if a > b else 0.5 if a == b else 0.0 for a, b in itertools.product(x, y)]
    told = reward_statistics.improvement([(x, y)])
    assert told["probability"] == pytest.approx(sum(pairs) / 6) == 0.5
    u = stats.mannwhitneyu(x, y).statistic
    assert told["probability"] == pytest.approx(u / 6)


def test_improvement_over_environments_is_the_mean_of_each():
    told = reward_statistics.improvement([([2.0, 3.0], [0.0, 1.0]), ([0.0], [5.0, 6.0])])
    assert told["probability"] == 0.5
    assert (told["low"], told["high"]) == (0.5, 0.5)  # nothing that is drawn can change either environment


def test_improvement_of_single_runs_has_no_interval():
    assert reward_statistics.improvement([([2.0], [1.0])]) == {"probability": 1.0, "low": None, "high": None}


def test_improvement_beside_a_single_run_has_no_interval():
    assert reward_statistics.improvement([([2.0, 3.0, 4.0], [1.0])])["low"] is None
    assert reward_statistics.improvement([([1.0], [2.0, 3.0]), ([1.0], [0.0, 0.5])])["high"] is None
    assert reward_statistics.improvement([([2.0, 3.0], [1.0, 1.5])])["low"] is not None


def test_improvement_interval_agrees_with_a_slow_one():
    x, y = np.array([1.0, 4.0, 6.0, 7.0]), np.array([2.0, 3.0, 5.0])
    rng = np.random.default_rng(3)
    slow = []
    for _ in range(4000):
        a, b = rng.choice(x, 4), rng.choice(y, 3)
        slow.append(np.mean([p > q for p in a for q in b]) + 0.5 * np.mean([p == q for p in a for q in b]))
    told = reward_statistics.improvement([(x, y)])
    assert (told["low"], told["high"]) == pytest.approx(
        tuple(np.percentile(slow, [2.5, 97.5])), abs=1 / 12 + 1e-9
    )  # one pair


def test_mean_band_of_one_run_is_the_run():
    values = np.array([[1.0, 2.0]])
    assert [band.tolist() for band in reward_statistics.mean_band(values)] == [[1.0, 2.0]] * 3


@pytest.mark.parametrize("kind, low, high", [("range", [0.0, 5.0], [4.0, 5.0]), ("sd", [0.0, 5.0], [4.0, 5.0])])
def test_mean_band_of_range_and_sd(kind, low, high):
    values = np.array([[0.0, 5.0], [4.0, 5.0]]) if kind == "range" else np.array([[0.0, 5], [2.0, 5], [4.0, 5]])
    mean, lower, upper = reward_statistics.mean_band(values, kind)
    assert (mean.tolist(), lower.tolist(), upper.tolist()) == ([2.0, 5.0], low, high)


def test_mean_band_of_the_interval_agrees_with_a_bootstrap_of_each_point():
    values = np.array([[0.0], [1.0], [5.0], [9.0], [4.0]])
    _, low, high = reward_statistics.mean_band(values)
    slow = slow_bootstrap([values[:, 0]], np.mean, 4000)
    assert (low[0], high[0]) == pytest.approx(tuple(slow), abs=0.35)
