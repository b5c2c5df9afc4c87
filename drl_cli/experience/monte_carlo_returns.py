"""Monte-Carlo returns of a ring's steps, drawn uniformly: for algorithms that learn from whole returns, without bootstrapping.

Used by ``actors.replay_buffer`` in place of the ring that it holds; it has the same methods. A step can be drawn as soon
as the end of its episode is there. Its return Σ γ^i·r_i is summed over all k steps up to that end; its discount is γ^k, or 0
where the world ended, and its next observation the last one of the episode: a truncated return is bootstrapped there.

Sums are made once, by pointer doubling over links: the steps of unfinished episodes wait, all others have their sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from drl_cli.experience.ring_buffer import ENDED, MAX_DRAWS, NONE, STEP, TERMINATED

if TYPE_CHECKING:
    from drl_cli.experience.columns import Batch, Columns
    from drl_cli.experience.ring_buffer import Ring


class WholeReturns:
    """A Ring whose windows reach to the end of each episode."""

    def __init__(self, ring: Ring, gamma: float) -> None:
        """``ring``: Ring; ``gamma``: discount per step."""
        self._ring, self._gamma = ring, gamma
        self._sum = np.zeros(ring.capacity, np.float32)
        self._discount = np.zeros(ring.capacity, np.float32)
        self._last = np.zeros(ring.capacity, np.int32)  # row of the observation after the episode
        self._known = np.zeros(ring.capacity, bool)  # whether these hold for the row
        self._waiting = np.zeros(0, np.int64)  # serial numbers of the steps whose episode has not ended
        self._place = np.zeros(ring.capacity, np.int32)  # of a row among those that wait

    def __len__(self) -> int:
        """Rows present."""
        return len(self._ring)

    def add(self, worker: int, columns: Columns) -> int:
        """Append a fragment, as ``Ring.add``."""
        before = self._ring.written
        first = self._ring.add(worker, columns)
        self._forget(before)
        self._wait(first, columns["reward"].size)
        return first

    def cut(self, worker: int) -> None:
        """See ``Ring.cut``."""
        before = self._ring.written
        self._ring.cut(worker)
        self._forget(before)

    def workers(self) -> list[int]:
        """See ``Ring.workers``."""
        return self._ring.workers()

    def nbytes(self) -> int:
        """Return the bytes of memory that the rows present take."""
        mine = (self._sum, self._discount, self._last, self._known, self._place)
        return self._ring.nbytes() + sum(array[: len(self)].nbytes for array in mine)

    def reserved(self) -> int:
        """Return the bytes of memory that all rows take once they are written."""
        mine = (self._sum, self._discount, self._last, self._known, self._place)
        return self._ring.reserved() + sum(array.nbytes for array in mine)

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

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """See ``Ring.state``: sums are made again."""
        return self._ring.state()

    def load(self, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> None:
        """See ``Ring.load``."""
        self._ring.load(arrays, facts)
        self._known[:] = False
        written = self._ring.written
        self._waiting = np.zeros(0, np.int64)
        self._wait(written - len(self), len(self))

    def _forget(self, before: int) -> None:
        """Nothing is known of the rows that were written since the ring had written ``before``."""
        count = min(self._ring.written - before, self._ring.capacity)
        self._known[(self._ring.written - 1 - np.arange(count)) % self._ring.capacity] = False

    def _wait(self, first: int, count: int) -> None:
        self._waiting = np.concatenate([self._waiting, first + np.arange(count)])

    def _settle(self) -> None:
        """Sum up the waiting steps whose episode has ended by now; the others go on waiting."""
        ring, capacity = self._ring, self._ring.capacity
        serials = self._waiting[self._waiting >= ring.written - capacity]
        rows = serials % capacity
        steps = (ring.flags[rows] & STEP) > 0  # what is loaded holds end rows as well
        serials, rows = serials[steps], rows[steps]
        if not len(rows):
            self._waiting = serials
            return
        total, factor, last = self._summed(rows)
        done = last != NONE
        self._waiting, rows = serials[~done], rows[done]
        self._sum[rows], self._discount[rows], self._last[rows] = total[done], factor[done], last[done]
        self._known[rows] = True

    def _summed(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (sum [M], discount [M], row after the episode [M], NONE where it has not ended) for steps ``rows`` [M].

        Of an episode that goes on in ``rows`` all later steps are among them. Pointer doubling: ``jump`` [M] points from each
        step to the one where its sum so far stops, at first the next one; every round adds the sum that begins there, and
        so doubles the length of each sum. Place M stands for "nothing follows": its sum is 0, its factor 1.
        """
        ring, count = self._ring, len(rows)
        flags, link = ring.flags[rows], ring.link[rows]
        ended, terminated = (flags & ENDED) > 0, (flags & TERMINATED) > 0
        self._place[rows] = np.arange(count)
        jump = np.where(ended | (link == NONE), count, self._place[link])
        jump = np.append(jump, count)
        total = np.append(ring.reward[rows].astype(np.float64), 0.0)
        factor = np.append(np.where(ended & terminated, 0.0, self._gamma), 1.0)
        last = np.append(np.where(ended, link, NONE), NONE)
        while (jump < count).any():
            total = total + factor * total[jump]
            factor = factor * factor[jump]
            last = np.where(last == NONE, last[jump], last)
            jump = jump[jump]
        return total[:-1], factor[:-1], last[:-1]
