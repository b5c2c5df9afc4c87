"""A ring that is read in another way: the base of ``EndedEpisodes`` and ``Sequences``, which pass on what they do not change.

``actors.replay_buffer`` holds one in place of the ring; it has the same methods.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from drl_cli.experience.ring_buffer import Ring


class RingView(abc.ABC):
    """A Ring, and arrays with a row for each of its rows."""

    def __init__(self, ring: Ring) -> None:
        """``ring``: Ring."""
        self._ring = ring

    @abc.abstractmethod
    def _arrays(self) -> Iterable[np.ndarray]:
        """What is kept beside the ring, [capacity, …] each."""

    def __len__(self) -> int:
        """Rows present."""
        return len(self._ring)

    @property
    def capacity(self) -> int:
        """Rows that fit."""
        return self._ring.capacity

    @property
    def written(self) -> int:
        """Rows ever written."""
        return self._ring.written

    def cut(self, worker: int) -> None:
        """See ``Ring.cut``."""
        self._ring.cut(worker)

    def workers(self) -> list[int]:
        """See ``Ring.workers``."""
        return self._ring.workers()

    def serials(self, rows: np.ndarray) -> np.ndarray:
        """See ``Ring.serials``."""
        return self._ring.serials(rows)

    def may_begin(self, rows: np.ndarray) -> np.ndarray:
        """See ``Ring.may_begin``."""
        return self._ring.may_begin(rows)

    def nbytes(self) -> int:
        """Return the bytes of memory that the rows present take."""
        return self._ring.nbytes() + sum(array.nbytes * len(self) // self.capacity for array in self._arrays())

    def reserved(self) -> int:
        """Return the bytes of memory that all rows take once they are written."""
        return self._ring.reserved() + sum(array.nbytes for array in self._arrays())

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """See ``Ring.state``."""
        return self._ring.state()
