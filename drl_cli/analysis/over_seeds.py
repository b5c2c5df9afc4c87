"""What runs with different seeds say about an algorithm, and how sure that is.

Used by ``drl compare`` and the curves of ``drl plot``. A score is one number a run; the runs of one algorithm on one
environment are a stratum. Intervals are percentile bootstraps at 95 % that draw runs anew within each stratum, by a generator
of fixed seed, so that the same scores always give the same interval.

Source: Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the Statistical Precipice": interquartile mean,
stratified bootstrap (section 4.1), probability of improvement (section 4.3).
Deviations: fewer resamples than their 50,000; a difference between strata of different size is allowed for. With two or
three runs a bootstrap knows only these two or three: the interval is then too narrow, and a reader is told how many there
were.
"""

import numpy as np

from drl_cli.analysis.reward_statistics import interquartile_mean
from drl_cli.confidence import CONFIDENCE
from drl_cli.confidence import SEED as BOOTSTRAP_SEED

RESAMPLES = 5_000
CURVE_RESAMPLES = 1_000  # for each point of a curve


def describe(scores):
    """Summarise the scores [n] of runs that differ in their seed, n ≥ 1.

    Returns plain numbers: n, mean, sd (over runs, divided by n − 1), mean_low, mean_high, iqm, iqm_low, iqm_high, min,
    max; sd and intervals are None for a single run.
    """
    scores = np.asarray(scores, np.float64)
    several = len(scores) > 1
    mean_low, mean_high = stratified_interval([scores], _mean_of) if several else (None, None)
    iqm_low, iqm_high = stratified_interval([scores], iqm_of) if several else (None, None)
    return {
        "n": len(scores),
        "mean": float(scores.mean()),
        "sd": float(scores.std(ddof=1)) if several else None,
        "mean_low": mean_low,
        "mean_high": mean_high,
        "iqm": float(interquartile_mean(scores)),
        "iqm_low": iqm_low,
        "iqm_high": iqm_high,
        "min": float(scores.min()),
        "max": float(scores.max()),
    }


def stratified_interval(strata, statistic, resamples=RESAMPLES):
    """Return (low, high) of the 95 % percentile bootstrap of ``statistic`` over ``strata`` (a list of arrays [n_i]).

    Every resample draws n_i of each stratum with replacement. ``statistic`` takes a list of arrays [resamples, n_i] and
    returns [resamples].
    """
    rng = np.random.default_rng(BOOTSTRAP_SEED)
    drawn = []
    for stratum in strata:
        values = np.asarray(stratum, np.float64)
        drawn.append(values[rng.integers(0, len(values), (resamples, len(values)))])
    return percentiles(statistic(drawn))


def percentiles(values):
    """Return the (low, high) that hold 95 % of ``values`` between them."""
    low, high = np.percentile(values, [50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)])
    return float(low), float(high)


def _mean_of(strata):
    return np.concatenate(strata, axis=1).mean(axis=1)


def iqm_of(strata):
    """Interquartile mean of the runs of all strata together: [resamples]."""
    return interquartile_mean(np.concatenate(strata, axis=1), axis=1)


def improvement(pairs):
    """Return the probability of improvement of X over Y: a run of X scores above one of Y, a tie counts half.

    ``pairs``: for every environment (scores of X [n], scores of Y [m]); the mean over environments. Returns
    {"probability", "low", "high"}; no interval where one side has a single run on every environment.
    """
    value = float(np.mean([_wins(np.asarray(x, float)[None], np.asarray(y, float)[None])[0] for x, y in pairs]))
    if any(all(len(pair[side]) < 2 for pair in pairs) for side in (0, 1)):
        return {"probability": value, "low": None, "high": None}
    low, high = stratified_interval([side for pair in pairs for side in pair], _mean_wins)
    return {"probability": value, "low": low, "high": high}


def _mean_wins(strata):
    pairs = [_wins(strata[place], strata[place + 1]) for place in range(0, len(strata), 2)]
    return np.mean(pairs, axis=0)


def _wins(x, y):
    """Share of the pairs (x_i, y_j) with x_i > y_j, ties by half: x [R, n], y [R, m] → [R]."""
    x, y = x[:, :, None], y[:, None, :]
    return ((x > y) + 0.5 * (x == y)).mean(axis=(1, 2))


def mean_band(values, kind="ci"):
    """Return (mean, low, high), each [G], of curves ``values`` [n, G] without gaps.

    kind: "ci" the 95 % percentile bootstrap of the mean over runs, "sd" one standard deviation (n − 1) to each side,
    "range" from the lowest to the highest run. With a single run low and high are its own values.
    """
    mean = values.mean(axis=0)
    if len(values) < 2:
        return mean, mean, mean
    if kind == "range":
        return mean, values.min(axis=0), values.max(axis=0)
    if kind == "sd":
        sd = values.std(axis=0, ddof=1)
        return mean, mean - sd, mean + sd
    rng = np.random.default_rng(BOOTSTRAP_SEED)
    # How often each run is drawn, as weights [R, n]: one matrix product for all points of the curve.
    counts = rng.multinomial(len(values), np.full(len(values), 1 / len(values)), CURVE_RESAMPLES) / len(values)
    low, high = np.percentile(counts @ values, [50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)], axis=0)
    return mean, low, high
