"""What evolution strategies make of returns, and what passes between their worker, loop and learner. NumPy only.

Sources: Salimans et al. 2017 (arXiv 1703.03864), section 2.1 (fitness shaping by rank, mirrored sampling); Mania et al. 2018
(arXiv 1803.07055), algorithm 2 (deviation of the used returns, top directions). Equal returns get the mean of their ranks,
as in the usual rank statistics; RLlib and OpenAI's code give them different ranks in the order of arrival, and so make a
step of nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from drl_cli.experience.columns import Meta


class Block(NamedTuple):
    """Work for one worker: directions ``first`` … ``first + count - 1`` of a round; rounds are counted by updates."""

    round: int
    first: int
    count: int  # type: ignore[assignment]  # a tuple has a method of that name, which nothing calls here


class Evaluated(NamedTuple):
    """A ``experience.columns.Token`` of perturbed episodes; the first eight fields are as there."""

    meta: Meta
    steps: int
    episodes: tuple[tuple[float, int], ...]  # (return, length) of each episode that ended, raw rewards
    bad_transitions: int
    notes: tuple[str, ...]
    seconds: dict[str, float]
    exploration: dict[str, float]
    seen: dict[str, Any] | None
    block: Block
    whole: bool  # whether all of the block's episodes have ended, else the next call goes on with them
    unperturbed: tuple[float, ...]  # returns of those that were played with the weights as they are
    reading: None = None  # as in a Token: nothing of it was read from files
    told: tuple[Any, ...] = ()  # as in a Token


def centered_ranks(values: np.ndarray) -> np.ndarray:
    """Return the ranks of ``values`` (any shape, finite), evenly from -0.5 to 0.5, float64; equal ones get their mean."""
    flat = values.ravel()
    if flat.size < 2:
        return np.zeros(values.shape)
    _, inverse, counts = np.unique(flat, return_inverse=True, return_counts=True)
    last = np.cumsum(counts) - 1
    ranks = (last - (counts - 1) / 2)[inverse.reshape(values.shape)]
    return ranks / (flat.size - 1) - 0.5


def rank_weights(returns: np.ndarray) -> np.ndarray | None:
    """Return by how much each direction counts for ES, float64 [K], for ``returns`` [K, 2] of θ + σε and θ − σε.

    None where all returns are equal: they say nothing.
    """
    ranks = centered_ranks(returns)
    return (ranks[:, 0] - ranks[:, 1]) / returns.size if ranks.any() else None


def top_weights(returns: np.ndarray, used: int) -> np.ndarray | None:
    """Return by how much each direction counts for ARS, float64 [K], for ``returns`` [K, 2]; 0 for all but ``used``.

    Those with the best return on either side are used, of equal ones the first; they count by (R⁺ − R⁻) / (used·σ_R), σ_R the
    deviation of their returns (algorithm 2, line 7). None where that is zero.
    """
    best = np.sort(np.argsort(-returns.max(axis=1), kind="stable")[:used])
    chosen = returns[best]
    deviation = chosen.std()
    # What is left of equal returns after the rounding of their mean is no deviation.
    if deviation <= 8 * np.finfo(np.float64).eps * np.abs(chosen).max():
        return None
    weights = np.zeros(len(returns))
    weights[best] = (chosen[:, 0] - chosen[:, 1]) / (len(best) * deviation)
    return weights
