"""The percentile bootstrap: a confidence interval of a statistic of some episodes, from resamples of them.

Used by ``experience.off_policy_estimates`` and ``analysis.reward_statistics``. The generator's seed is fixed, so that
the same episodes always give the same interval. Source: Efron 1979, "Bootstrap Methods: Another Look at the Jackknife".
"""

from collections.abc import Iterator

import numpy as np

RESAMPLES = 10_000
CONFIDENCE = 0.95
SEED = 0
MAX_DRAWN = 2_000_000  # values drawn at once: 16 MB, however many episodes there are


def resamples(count: int, number: int = RESAMPLES) -> Iterator[np.ndarray]:
    """Yield int [R, count] with the rows of R samples, drawn with replacement from ``count``, ``number`` in all."""
    rng, block = np.random.default_rng(SEED), max(1, MAX_DRAWN // count)
    for first in range(0, number, block):
        yield rng.integers(0, count, (min(block, number - first), count))


def interval(statistics: np.ndarray) -> tuple[float, float]:
    """Return (low, high) that hold 95 % of ``statistics`` [R] of resamples, in their middle."""
    low, high = np.percentile(statistics, [50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)])
    return float(low), float(high)
