"""What is known of a ring's steps once the end of their episode is there: the base of ``WholeReturns`` and ``Hindsight``.

Steps of unfinished episodes wait. Sums up to the end are made once, by pointer doubling over links, just before a draw.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from drl_cli.experience.ring_buffer import ENDED, NONE, STEP, TERMINATED
from drl_cli.experience.ring_view import RingView

if TYPE_CHECKING:
    from drl_cli.experience.columns import Columns
    from drl_cli.experience.ring_buffer import Ring


class EndedEpisodes(RingView):
    """A Ring, and what holds for those of its steps whose episode has ended."""

    def __init__(self, ring: Ring) -> None:
        """``ring``: Ring."""
        super().__init__(ring)
        self._known = np.zeros(ring.capacity, bool)  # whether the row is a step whose episode has ended
        self._waiting = np.zeros(0, np.int64)  # serial numbers of the steps whose episode has not ended
        self._place = np.zeros(ring.capacity, np.int32)  # of a row among those that wait

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

    def load(self, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> None:
        """See ``Ring.load``."""
        self._ring.load(arrays, facts)
        self._known[:] = False
        written = self._ring.written
        self._waiting = np.zeros(0, np.int64)
        self._wait(written - len(self), len(self))

    @abc.abstractmethod
    def _learn(self, rows: np.ndarray) -> np.ndarray:
        """Note what holds for those of the steps ``rows`` (int [M]) whose episode has ended; returns which, bool [M].

        Of an episode that goes on in ``rows`` all later steps are among them.
        """

    def _forget(self, before: int) -> None:
        """Nothing is known of the rows that were written since the ring had written ``before``."""
        count = min(self._ring.written - before, self._ring.capacity)
        self._known[(self._ring.written - 1 - np.arange(count)) % self._ring.capacity] = False

    def _wait(self, first: int, count: int) -> None:
        self._waiting = np.concatenate([self._waiting, first + np.arange(count)])

    def _settle(self) -> None:
        """Learn what there is to know of the waiting steps; those whose episode has not ended go on waiting."""
        ring = self._ring
        serials = self._waiting[self._waiting >= ring.written - ring.capacity]
        rows = serials % ring.capacity
        steps = (ring.flags[rows] & STEP) > 0  # what is loaded holds end rows as well
        serials, rows = serials[steps], rows[steps]
        done = self._learn(rows) if len(rows) else np.zeros(0, bool)
        self._waiting = serials[~done]
        self._known[rows[done]] = True

    def _summed(self, rows: np.ndarray, amount: np.ndarray, gamma: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (sum [M], discount [M], row after the episode [M], NONE where it has not ended) for steps ``rows`` [M].

        The sum is Σ γ^i·``amount`` (float64 [M]) up to the end; ``rows`` as of ``_learn``. Pointer doubling: ``jump`` [M]
        points from each step to the one where its sum so far stops, at first the next one; every round adds the sum that begins
        there, and so doubles the length of each sum. Place M stands for "nothing follows": its sum is 0, its factor 1.
        """
        ring, count = self._ring, len(rows)
        flags, link = ring.flags[rows], ring.link[rows]
        ended, terminated = (flags & ENDED) > 0, (flags & TERMINATED) > 0
        self._place[rows] = np.arange(count)
        jump = np.where(ended | (link == NONE), count, self._place[link])
        jump = np.append(jump, count)
        total = np.append(amount, 0.0)
        factor = np.append(np.where(ended & terminated, 0.0, gamma), 1.0)
        last = np.append(np.where(ended, link, NONE), NONE)
        while (jump < count).any():
            total = total + factor * total[jump]
            factor = factor * factor[jump]
            last = np.where(last == NONE, last[jump], last)
            jump = jump[jump]
        return total[:-1], factor[:-1], last[:-1]
