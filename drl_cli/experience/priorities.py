"""Prioritized sampling of a ring's windows.

Used by ``actors.replay_buffer``. Source: Schaul et al. 2016, Prioritized Experience Replay (arXiv:1511.05952), section 3.3,
proportional variant: row i is sampled with probability p_i^α / Σ p_k^α, where p_i = |TD error| + ε. Deviations: new rows
get the largest *raw* priority seen so far (1 at first), to which ε and α are applied as to any other. A window that
is not complete yet (see ``experience.ring_buffer``) is rejected and sampled again, so that complete windows are sampled in
proportion; the total mass includes the rejected rows, which are few.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from drl_cli.errors import Diverged
from drl_cli.experience.columns import expect
from drl_cli.experience.ring_buffer import MAX_DRAWS
from drl_cli.experience.sum_tree import SumTree

if TYPE_CHECKING:
    from drl_cli.experience.columns import Batch
    from drl_cli.experience.hindsight import Hindsight
    from drl_cli.experience.ring_buffer import Ring
    from drl_cli.experience.sequences import Sequences


class Priorities:
    """The priorities of a ring's rows; ``follow`` after everything that writes to the ring."""

    def __init__(self, ring: Ring | Sequences | Hindsight, alpha: float, eps: float) -> None:
        """``ring``: what is drawn from; ``alpha`` ≥ 0: 0 draws uniformly; ``eps`` > 0 keeps rows without error within reach."""
        self._ring, self._alpha, self._eps = ring, alpha, eps
        self._tree = SumTree(ring.capacity)
        self._followed = ring.written
        self.largest = 1.0  # raw priority seen so far

    @property
    def mass(self) -> float:
        """Σ p^α over the rows present."""
        return self._tree.total

    def masses(self, priority: Any) -> np.ndarray:
        """Return (p + ε)^α for ``priority`` (≥ 0, any shape), float64, and remember the largest.

        Raises Diverged when one is not finite, ValueError when one is negative.
        """
        priority = np.asarray(priority, np.float64)
        if not np.isfinite(priority).all():
            bad = int(np.count_nonzero(~np.isfinite(priority)))
            raise Diverged(
                f"{bad} of {priority.size} priorities for the replay are not finite: the TD errors diverged."
            )
        if priority.size:
            if priority.min() < 0:
                raise ValueError(f"priority {priority.min()} is negative; a priority is the size of a TD error")
            self.largest = max(self.largest, float(priority.max()))
        return (priority + self._eps) ** self._alpha

    def follow(self, first: int | None = None, masses: np.ndarray | None = None) -> None:
        """Give mass to the steps that the ring has stored since the last call, and none to the rows after ends.

        ``masses`` (float64 [T, N]) are those of the fragment whose first step has the serial number ``first``; without
        them the steps get that of the largest priority.
        """
        capacity, ring = self._ring.capacity, self._ring
        serials = np.arange(max(self._followed, ring.written - capacity), ring.written)
        rows = serials % capacity
        self._tree.set(rows, np.where(ring.may_begin(rows), self.masses(self.largest), 0.0))
        if masses is not None and first is not None:
            self._tree.set((first + np.arange(masses.size)) % capacity, masses.ravel())
        self._followed = ring.written

    def set(self, serial: np.ndarray, priority: Any) -> None:
        """Replace the priorities of the rows with these serial numbers (int64 [M], float [M]).

        Rows that have been overwritten since are left alone; of a row that stands twice the last one counts. Raises as
        ``masses`` does, and ValueError for rows that were never written.
        """
        serial, written, capacity = np.asarray(serial), self._ring.written, self._ring.capacity
        if serial.shape != np.shape(priority):
            raise ValueError(f"{np.shape(priority)} priorities for {serial.shape} rows")
        if serial.size and (serial.min() < 0 or serial.max() >= written):
            raise ValueError(f"priorities for rows {serial.min()} to {serial.max()}, of which {written} were written")
        present = serial >= written - capacity
        self._tree.set(serial[present] % capacity, self.masses(priority)[present])

    def draw(
        self, batches: int, size: int, n_step: int, gamma: float, rng: np.random.Generator
    ) -> tuple[Batch, np.ndarray, np.ndarray]:
        """Draw ``batches`` × ``size`` transitions, each batch stratified over the mass.

        Returns ({column: array [batches · size, …]}, serial int64 [batches · size], share float64: p^α / mass of each).
        """
        ring, tree = self._ring, self._tree
        if tree.total <= 0.0:
            raise ValueError(f"no {batches * size} complete windows of {n_step} steps in {len(ring)} rows")
        rows = tree.stratified(batches, size, rng).ravel()
        reward, discount, last, valid = ring.windows(rows, n_step, gamma)
        missing = np.flatnonzero(~valid)
        for _ in range(MAX_DRAWS):
            if not len(missing):
                break
            # Independent draws: those of a stratified batch come in order, and the last ones would be left over.
            others = tree.independent(len(missing) + len(missing) // 16 + 8, rng)
            *found, valid = ring.windows(others, n_step, gamma)
            keep = np.flatnonzero(valid)[: len(missing)]
            filled, missing = missing[: len(keep)], missing[len(keep) :]
            rows[filled] = others[keep]
            reward[filled], discount[filled], last[filled] = (values[keep] for values in found)
        if len(missing):
            raise ValueError(f"no {batches * size} complete windows of {n_step} steps in {len(ring)} rows")
        share = tree.masses[rows] / tree.total
        return ring.read(rows, reward, discount, last), ring.serials(rows), share

    def state(self) -> dict[str, np.ndarray]:
        """Return {"priority": the mass of each row present, float64}."""
        return {"priority": self._tree.masses[: len(self._ring)]}

    def facts(self) -> dict[str, float]:
        """Return what ``load`` needs beside the masses, as plain data."""
        return {"largest": self.largest, "alpha": self._alpha, "eps": self._eps}

    def load(self, arrays: Mapping[str, np.ndarray] | None, facts: Mapping[str, Any] | None) -> None:
        """Restore after the ring was restored; ValueError when it does not fit.

        ``facts`` None, or of another α or ε (masses are not comparable then): every step counts as new. ``arrays`` None:
        the ring is empty, and only the largest priority is remembered.
        """
        facts = facts or self.facts()
        largest = facts["largest"]
        if not isinstance(largest, float) or not 1.0 <= largest < np.inf:
            raise ValueError(f"largest priority {str(largest)[:40]}, which must be a number from 1 on")
        self.largest, size = largest, len(self._ring)
        self._followed = 0
        if arrays is None or "priority" not in arrays or (facts["alpha"], facts["eps"]) != (self._alpha, self._eps):
            self.follow()
            return
        masses = arrays["priority"]
        expect("priority", arrays, (size,), np.dtype(np.float64))
        if size and not (np.isfinite(masses).all() and masses.min() >= 0.0):
            raise ValueError("priorities of the replay that are negative or not finite")
        self._tree.fill(masses)
        self._followed = self._ring.written
