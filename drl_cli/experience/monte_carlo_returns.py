"""Monte-Carlo returns of a ring's steps, drawn uniformly: for algorithms that learn from whole returns, without bootstrapping.

Used by ``actors.replay_buffer`` in place of the ring that it holds; it has the same methods. A step can be drawn as soon
as the end of its episode is there. Its return Σ γ^i·r_i is summed over all k steps up to that end; its discount is γ^k, or 0
where the world ended, and its next observation the last one of the episode: a truncated return is bootstrapped there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from drl_cli.experience.ended_episodes import EndedEpisodes
from drl_cli.experience.ring_buffer import MAX_DRAWS, NONE

if TYPE_CHECKING:
    from drl_cli.experience.columns import Batch
    from drl_cli.experience.ring_buffer import Ring


class WholeReturns(EndedEpisodes):
    """A Ring whose windows reach to the end of each episode."""

    def __init__(self, ring: Ring, gamma: float) -> None:
        """``ring``: Ring; ``gamma``: discount per step."""
        super().__init__(ring)
        self._gamma = gamma
        self._sum = np.zeros(ring.capacity, np.float32)
        self._discount = np.zeros(ring.capacity, np.float32)
        self._last = np.zeros(ring.capacity, np.int32)  # row of the observation after the episode

    def draw(self, count: int, n_step: int | None, gamma: float | None, rng: np.random.Generator) -> Batch:
        """Return ``count`` steps drawn uniformly from all whose episode has ended, as {column: array [count, …]}.

        ``n_step`` and ``gamma`` are those of other rings; sums are made with the discount that this one was made with.
        ValueError when there is nothing to draw.
        """
        del n_step, gamma
        self._settle()
        chosen, found = [], 0
        for _ in range(MAX_DRAWS):
            rows = rng.integers(0, len(self), size=count - found + count // 16 + 8)
            rows = rows[self._known[rows]][: count - found]
            chosen.append(rows)
            found += len(rows)
            if found == count:
                break
        else:
            raise ValueError(f"no {count} steps of ended episodes in {len(self)} rows")
        rows = np.concatenate(chosen)
        return self._ring.read(rows, self._sum[rows], self._discount[rows], self._last[rows])

    def _learn(self, rows: np.ndarray) -> np.ndarray:
        total, factor, last = self._summed(rows, self._ring.reward[rows].astype(np.float64), self._gamma)
        done = last != NONE
        rows = rows[done]
        self._sum[rows], self._discount[rows], self._last[rows] = total[done], factor[done], last[done]
        return done

    def _arrays(self) -> tuple[np.ndarray, ...]:
        return self._sum, self._discount, self._last, self._known, self._place
