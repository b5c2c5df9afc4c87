"""What a policy would earn, estimated from episodes that another one played: importance sampling, plain and weighted.

Used by ``actors.estimator`` (while learning) and ``analysis.checkpoint_estimates`` (``drl evaluate --data``). With the
ratio up to step t of an episode of T steps, ρ_t = Π_{i≤t} π(a_i|s_i) / b(a_i|s_i), over n episodes:

    is,  per episode   mean of ρ_T·G                        Precup, Sutton and Singh 2000, section 2
    is,  per step      mean of Σ_t γ^t·ρ_t·r_t              the same, section 3
    wis, per episode   Σ ρ_T·G / Σ ρ_T                      the same, section 2
    wis, per step      Σ_t γ^t·(Σ ρ_t·r_t / Σ ρ_t)          Thomas 2015, "Safe Reinforcement Learning", section 3.7 (CWPDIS)

where the sums without an index are over the episodes and G = Σ_t γ^t·r_t. Plain estimates are unbiased and may vary without
bound; weighted ones stay among what was recorded, and are biased towards it. Intervals are percentile bootstraps over episodes,
too narrow where few episodes carry the weight: on the small MDP of the tests those of 95 % held the true value in 94 % of
cases with an effective sample size of 290, in 89 % with 80, in 74 % with 24 (wis, per step).

Deviations from RLlib's estimators (1.0.1): an ended episode keeps its last ratio in the later steps' normalisers (there it
drops out of them, which favours long episodes); estimates are of all episodes together (there every batch is one, and
they are averaged); all of it in logarithms, so that no product of ratios overflows or vanishes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from drl_cli import confidence

RESAMPLES = 2_000  # a fifth of what rewards get: each is a weighted mean of every step
LEAST_RESAMPLES, MOST_WORK = 200, 2e10  # fewer for very much data: resamples · episodes · steps
BLOCK = 2_000_000  # numbers of one block [episodes, steps]
LEAST_EFFECTIVE = 30  # effective sample size below which intervals are much too narrow, see above
_LOST = 1e-290  # a sum of weights below it has lost its precision


class RecordedEpisode(NamedTuple):
    """A whole episode: rewards, and how likely each action was to the policy that took it, and to the one in question."""

    reward: np.ndarray  # [T]
    logp_behaviour: np.ndarray  # [T], finite
    logp_target: np.ndarray  # [T], -inf where it would never have been taken


def estimate(episodes: Sequence[RecordedEpisode], gamma: float) -> dict[str, Any]:
    """Return what the target policy would earn, discounted with ``gamma``, from a list of Episode, plain data.

    episodes, steps: how much there was. effective_sample_size: (Σ ρ_T)² / Σ ρ_T², as many episodes of the target's own would
    say as much; below ``LEAST_EFFECTIVE`` the intervals are not to be trusted. behaviour: {mean, low, high} of the
    discounted returns as they were recorded. is, wis: {per_step, per_episode} of {mean, low, high} each.
    low and high are the 95 % interval, None of a single episode. A mean is None where there is no such number: of wis
    where no recorded episode could have been the target's (at some step), of is beyond what a float64 holds.

    Raises ValueError for no episodes, empty ones, and a logp_behaviour that is not finite.
    """
    recorded = _Recorded(episodes, gamma)
    every = np.ones((1, len(episodes)))
    found = {name: value[0] for name, value in recorded.statistics(every).items()}
    drawn = {name: [] for name in found}
    number = int(min(RESAMPLES, max(LEAST_RESAMPLES, MOST_WORK / (len(episodes) * recorded.longest))))
    for rows in confidence.resamples(len(episodes), number) if len(episodes) > 1 else ():
        for name, values in recorded.statistics(_counts(rows)).items():
            drawn[name].append(values)
    reported = {name: _interval(value, drawn[name], recorded.scale(name)) for name, value in found.items()}
    return {
        "episodes": len(episodes),
        "steps": recorded.steps,
        "effective_sample_size": recorded.effective_sample_size(),
        "behaviour": reported["behaviour"],
        "is": {"per_step": reported["is_step"], "per_episode": reported["is_episode"]},
        "wis": {"per_step": reported["wis_step"], "per_episode": reported["wis_episode"]},
    }


class _Recorded:
    """Episodes laid end to end, with the logarithms of their ratios."""

    def __init__(self, episodes: Sequence[RecordedEpisode], gamma: float) -> None:
        if not episodes or not all(len(episode.reward) for episode in episodes):
            raise ValueError("there are no episodes, or only empty ones, to estimate from")
        self._lengths = np.array([len(episode.reward) for episode in episodes])
        self._starts = np.cumsum(self._lengths) - self._lengths
        self.steps, self.longest, self._gamma = int(self._lengths.sum()), int(self._lengths.max()), float(gamma)
        logs = []
        for _, behaviour, target in episodes:
            behaviour, target = np.asarray(behaviour, np.float64), np.asarray(target, np.float64)
            if not np.isfinite(behaviour).all() or not (target < np.inf).all():
                raise ValueError("log-probabilities that are not numbers")
            logs.append(np.cumsum(target - behaviour))
        self._log_ratio = np.concatenate(logs)  # [M] log ρ_t
        time = np.arange(self.steps) - np.repeat(self._starts, self._lengths)
        rewards = np.concatenate([np.asarray(episode.reward, np.float64) for episode in episodes])
        self._discounted = rewards * self._gamma**time  # [M] γ^t·r_t
        self._last = self._log_ratio[self._starts + self._lengths - 1]  # [n] log ρ_T
        self._returns = np.add.reduceat(self._discounted, self._starts)  # [n] G
        self._by_step, step_scale = _scaled(self._log_ratio, self._discounted)
        self._by_step = np.add.reduceat(self._by_step, self._starts)  # [n] Σ_t γ^t·ρ_t·r_t / e^scale
        self._by_episode, episode_scale = _scaled(self._last, self._returns)
        self._scales = {"is_step": step_scale, "is_episode": episode_scale}

    def scale(self, name: str) -> float:
        """Return the logarithm of what a statistic is to be multiplied by."""
        return self._scales.get(name, 0.0)

    def effective_sample_size(self) -> float:
        """Return (Σ ρ_T)² / Σ ρ_T²; 0 where no episode could have been the target's."""
        largest = self._last.max()
        if largest == -np.inf:
            return 0.0
        weights = np.exp(self._last - largest)
        return float(weights.sum() ** 2 / np.square(weights).sum())

    def statistics(self, counts: np.ndarray) -> dict[str, np.ndarray]:
        """Return {name: [R]} of R samples, ``counts`` float64 [R, n]: how often each has each episode."""
        total = counts.sum(axis=1)
        by_step, block = np.zeros(len(counts)), max(1, BLOCK // len(self._lengths))
        for first in range(0, self.longest, block):
            time = np.arange(first, min(first + block, self.longest))
            # An ended episode keeps its last ratio.
            at = self._starts[:, None] + np.minimum(time, self._lengths[:, None] - 1)
            reward = np.where(time < self._lengths[:, None], self._discounted[at], 0.0)
            by_step += _weighted_means(counts, self._log_ratio[at], reward).sum(axis=1)
        return {
            "behaviour": counts @ self._returns / total,
            "is_step": counts @ self._by_step / total,
            "is_episode": counts @ self._by_episode / total,
            "wis_step": by_step,
            "wis_episode": _weighted_means(counts, self._last[:, None], self._returns[:, None])[:, 0],
        }


def _scaled(log_weight: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, float]:
    """Return (e^log_weight · ``values`` / e^scale, scale): the largest of them is ±1, none overflows."""
    with np.errstate(divide="ignore"):
        logs = log_weight + np.log(np.abs(values))
    scale = logs.max()
    if not np.isfinite(scale):
        return np.zeros_like(values), 0.0
    return np.sign(values) * np.exp(logs - scale), float(scale)


def _weighted_means(counts: np.ndarray, log_weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return Σ w·value / Σ w by sample and column, [R, C], NaN where all w are 0; ``counts`` [R, n], the others [n, C]."""
    largest = log_weights.max(axis=0)
    weights = np.exp(log_weights - np.where(np.isfinite(largest), largest, 0.0))
    above, below = counts @ (weights * values), counts @ weights
    for row in np.flatnonzero(((below < _LOST) & np.isfinite(largest)).any(axis=1)):
        # All that this sample has was lost beside a much larger weight that it has not.
        mine = counts[row] > 0.0
        logs, many = log_weights[mine], counts[row, mine]
        own = logs.max(axis=0)
        weights = np.exp(logs - np.where(np.isfinite(own), own, 0.0))
        above[row], below[row] = many @ (weights * values[mine]), many @ weights
    with np.errstate(invalid="ignore"):
        return above / below


def _counts(rows: np.ndarray) -> np.ndarray:
    """How often each of n episodes is in each sample: ``rows`` int [R, n] → float64 [R, n]."""
    number, size = rows.shape
    flat = (rows + np.arange(number)[:, None] * size).ravel()
    return np.bincount(flat, minlength=number * size).reshape(number, size).astype(np.float64)


def _interval(value: Any, drawn: list[np.ndarray], scale: float) -> dict[str, float | None]:
    """Return {mean, low, high} of a statistic and its resamples, which are to be multiplied by e^scale."""
    resampled = np.concatenate(drawn) if drawn else np.empty(0)
    # Samples without a single episode that could have been the target's have no mean.
    resampled = resampled[np.isfinite(resampled)]
    low, high = confidence.interval(resampled) if len(resampled) else (np.nan, np.nan)
    return {name: _number(each, scale) for name, each in (("mean", value), ("low", low), ("high", high))}


def _number(value: float, scale: float) -> float | None:
    """Return ``value``·e^scale, or None where that is no number of a float64."""
    if value == 0.0:
        return 0.0
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        found = float(np.sign(value) * np.exp(np.log(np.abs(value)) + scale)) if scale else float(value)
    return found + 0.0 if np.isfinite(found) else None  # no negative zero
