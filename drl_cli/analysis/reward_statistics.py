"""What a list of episode rewards says about a policy, and how sure it is.

Used by ``drl evaluate`` and ``drl rollout``. The interval is a percentile bootstrap of the interquartile mean
(``confidence``): the same rewards always give the same interval.

NumPy instead of ``scipy.stats``: ``scipy.stats.trim_mean`` and ``bootstrap(method="percentile")`` give the same numbers
(tested), but importing scipy.stats took 0.7 s where NumPy takes 0.1, on 2 cores.
Source: Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the Statistical Precipice" (IQM).
Deviation: the interval is over the episodes of one policy, not over training runs.
"""

import numpy as np

from drl_cli import confidence


def interquartile_mean(values, axis=-1):
    """Mean of the middle half: a quarter of the values, rounded down, is cut off at each end."""
    values = np.sort(np.asarray(values, np.float64), axis=axis)
    cut = values.shape[axis] // 4
    middle = np.take(values, range(cut, values.shape[axis] - cut), axis=axis)
    return middle.mean(axis=axis)


def bootstrap_interval(values):
    """Return (low, high) of the 95 % percentile bootstrap of the interquartile mean of ``values`` [n]."""
    values = np.asarray(values, np.float64)
    means = [interquartile_mean(values[rows]) for rows in confidence.resamples(len(values))]
    return confidence.interval(np.concatenate(means))


def describe(rewards, lengths):
    """Summarise episodes.

    rewards [n], lengths [n], n ≥ 1. Returns a dict of plain numbers: episodes, mean, sd (over episodes, divided by n as
    peers do), median, iqm, iqm_low, iqm_high (95 % bootstrap; None with fewer than two episodes), min, max,
    length_mean, length_min, length_max.
    """
    rewards, lengths = np.asarray(rewards, np.float64), np.asarray(lengths)
    low, high = bootstrap_interval(rewards) if len(rewards) > 1 else (None, None)
    return {
        "episodes": len(rewards),
        "mean": float(rewards.mean()),
        "sd": float(rewards.std()),
        "median": float(np.median(rewards)),
        "iqm": float(interquartile_mean(rewards)),
        "iqm_low": low,
        "iqm_high": high,
        "min": float(rewards.min()),
        "max": float(rewards.max()),
        "length_mean": float(lengths.mean()),
        "length_min": int(lengths.min()),
        "length_max": int(lengths.max()),
    }
