import numpy as np
import pytest
from scipy import stats

from drl_cli import confidence
from drl_cli.analysis import reward_statistics

REWARDS = [210.5, -13.0, 250.25, 198.0, 231.0, 244.5, 12.0, 220.0, 263.5, 205.0]


def test_describe_gives_documented_numbers():
    told = reward_statistics.describe([1.0, 2.0, 3.0, 10.0], [5, 5, 5, 9])
    assert (told["episodes"], told["mean"], told["median"], told["iqm"]) == (4, 4.0, 2.5, 2.5)
    assert told["sd"] == pytest.approx(3.5355339)
    assert (told["min"], told["max"], told["length_mean"], told["length_min"], told["length_max"]) == (
        1.0,
        10.0,
        6.0,
        5,
        9,
    )


def test_describe_of_one_episode_has_no_interval():
    told = reward_statistics.describe([7.0], [3])
    assert (told["mean"], told["sd"], told["iqm"], told["iqm_low"], told["iqm_high"]) == (7.0, 0.0, 7.0, None, None)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 10])
def test_interquartile_mean_is_scipys_trimmed_mean(count):
    assert reward_statistics.interquartile_mean(REWARDS[:count]) == pytest.approx(
        stats.trim_mean(REWARDS[:count], 0.25), abs=1e-12
    )


def test_bootstrap_interval_is_scipys_percentile_bootstrap():
    theirs = stats.bootstrap(
        (np.array(REWARDS),),
        lambda values, axis: stats.trim_mean(values, 0.25, axis=axis),
        method="percentile",
        n_resamples=10_000,
        rng=np.random.default_rng(0),
    ).confidence_interval
    assert reward_statistics.bootstrap_interval(REWARDS) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


def test_bootstrap_interval_does_not_depend_on_the_block_size(monkeypatch):
    whole = reward_statistics.bootstrap_interval(REWARDS)
    monkeypatch.setattr(confidence, "MAX_DRAWN", 70)
    assert reward_statistics.bootstrap_interval(REWARDS) == whole


def test_bootstrap_interval_covers_the_true_value_about_as_often_as_it_says():
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(100):
        low, high = reward_statistics.bootstrap_interval(rng.normal(0.0, 1.0, 40))
        hits += low <= 0.0 <= high
    assert 88 <= hits <= 99
