"""Running count, mean and sum of squared deviations of what workers see, and how those of several workers add up.

Workers note the *difference* that a fragment makes, the moments of its rows alone; the owner of the whole merges them, in any
order. Used by ``actors.running_filters``.

Source: Chan, Golub & LeVeque 1979, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances" (in The
American Statistician 1983), eq. 2.1. All in float64: a sum of squares in float32 loses the variance beside a large mean.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Moments(NamedTuple):
    """Of ``count`` rows: their ``mean``, and ``m2``, the sum of their squared deviations from it."""

    count: float  # type: ignore[assignment]  # a tuple has a method of that name, which nothing calls here
    mean: np.ndarray  # float64, of the shape of a row
    m2: np.ndarray  # float64, of the shape of a row

    def variance(self) -> np.ndarray:
        """Return the variance over all rows (divided by the count), float64; zeros where there are none."""
        return self.m2 / self.count if self.count else np.zeros_like(self.m2)


def nothing(shape: tuple[int, ...]) -> Moments:
    """Return the Moments of no rows of ``shape``."""
    return Moments(0.0, np.zeros(shape), np.zeros(shape))


def moments(rows: np.ndarray) -> Moments:
    """Return the Moments of ``rows`` [M, …], in two passes."""
    if not len(rows):
        return nothing(rows.shape[1:])
    rows = rows.astype(np.float64)
    mean = rows.mean(axis=0)
    rows -= mean
    return Moments(float(len(rows)), mean, np.einsum("i...,i...->...", rows, rows))


def merged(one: Moments, other: Moments) -> Moments:
    """Return the Moments of the rows of both."""
    if not other.count or not one.count:
        return one if not other.count else other
    count = one.count + other.count
    delta = other.mean - one.mean
    mean = one.mean + delta * (other.count / count)
    return Moments(count, mean, one.m2 + other.m2 + np.square(delta) * (one.count * other.count / count))


def discounted(
    reward: np.ndarray, ends: np.ndarray, running: np.ndarray, gamma: float, length: np.ndarray | None = None
) -> np.ndarray:
    """Return the discounted sums of past rewards, float64 [T, N]: R_t = γ·R_{t−1} + r_t, from 0 where an episode begins.

    ``reward``, ``ends`` (bool: an episode ends with this step) [T, N]; ``running`` [N] float64 is what came before and is
    changed in place to what goes on. ``length`` [N]: real steps of each column, None for all T; sums after them stand still.
    """
    sums = np.empty(reward.shape)
    for step in range(len(reward)):
        following = running * gamma + reward[step]
        running[...] = following if length is None else np.where(step < length, following, running)
        sums[step] = running
        running[ends[step]] = 0.0
    return sums
