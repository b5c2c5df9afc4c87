"""Observations of a ring: single frames, stored once, dense or compressed, and read as stacks.

Used by ``experience.ring_buffer``. ``back`` holds how many rows earlier the frame before a row's own was written, 0 for
an episode's first frame, which thereby stands in for those that would come before it. Stacking is oldest first along
the last axis
(channels). With one frame a stack there is no ``back`` unless it is requested, and no arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from drl_cli.experience.columns import expect
from drl_cli.experience.compressed_rows import PackedRows

LOAD_ROWS = 1024  # rows that change from dense to compressed, or back, at once


class Frames:
    """``capacity`` rows of observations; row ``serial % capacity`` holds the frame with that serial number."""

    def __init__(
        self,
        capacity: int,
        shape: tuple[int, ...],
        dtype: np.dtype | str,
        count: int,
        packed: bool,
        backwards: bool,
    ) -> None:
        """``shape``, ``dtype`` of one frame; ``count`` frames a stack; ``packed``: LZ4-compressed.

        ``backwards``: with ``back`` whatever the count.
        """
        self.capacity, self.count = capacity, count
        self.obs = PackedRows(capacity, shape, dtype) if packed else np.empty((capacity, *shape), dtype)
        self.back: np.ndarray | None = np.zeros(capacity, np.int32) if count > 1 or backwards else None

    @property
    def stacked_shape(self) -> tuple[int, ...]:
        """Shape of a stack."""
        *shape, channels = self.obs.shape[1:]
        return (*shape, channels * self.count)

    def write(self, rows: np.ndarray, obs: np.ndarray, back: np.ndarray) -> None:
        """Write ``obs`` [M, …] to ``rows`` (int [M]) with their ``back`` (int [M])."""
        self.obs[rows] = obs
        if self.back is not None:
            self.back[rows] = back

    def first_serials(self, serials: np.ndarray) -> np.ndarray:
        """Return the serial numbers [M] of the oldest frames in the stacks of the rows with these numbers (int [M]).

        One that has been overwritten comes out below the ring's oldest serial number.
        """
        if self.back is None:
            return serials
        for _ in range(self.count - 1):
            serials = serials - self.back[serials % self.capacity]
        return serials

    def stacks(self, *ends: np.ndarray) -> list[np.ndarray]:
        """Return for each of ``ends`` (rows, int [M]) the stacks [M, …, C·count] whose newest frames are there."""
        source, indices = self.obs, np.stack([self._rows(newest) for newest in ends])
        if isinstance(source, PackedRows):
            # Most frames are in several stacks: each is decompressed once.
            distinct, places = np.unique(indices, return_inverse=True)
            source, indices = source[distinct], places.reshape(indices.shape)
        return [_stacked(source, index) for index in indices]

    def _rows(self, newest: np.ndarray) -> np.ndarray:
        """Return the rows [count, M] of the frames in the stacks that end in the rows ``newest``, oldest first."""
        if self.back is None:
            return newest[None]
        rows = [newest]
        for _ in range(self.count - 1):
            rows.append((rows[-1] - self.back[rows[-1]]) % self.capacity)
        return np.stack(rows[::-1])

    def nbytes(self, size: int) -> int:
        """Return the bytes of memory that the first ``size`` rows take."""
        obs = self.obs.nbytes(size) if isinstance(self.obs, PackedRows) else self.obs[:size].nbytes
        return obs + (0 if self.back is None else self.back[:size].nbytes)

    def state(self, size: int) -> dict[str, np.ndarray]:
        """Return {name: array} of the first ``size`` rows."""
        arrays = self.obs.state(size) if isinstance(self.obs, PackedRows) else {"obs": self.obs[:size]}
        return arrays if self.back is None else arrays | {"back": self.back[:size]}

    def load(self, arrays: Mapping[str, np.ndarray], size: int) -> None:
        """Restore ``size`` rows of ``state``, dense or compressed; ValueError, and nothing changed, when they do not fit."""
        shape, dtype = self.obs.shape[1:], self.obs.dtype
        if self.back is not None:
            expect("back", arrays, (size,), self.back.dtype)
            if size and (arrays["back"].min() < 0 or arrays["back"].max() > self.capacity):
                raise ValueError("a frame of the replay lies outside of it")
        if "packed_obs" in arrays:
            self._take(PackedRows.from_state(arrays, size, shape, dtype), size)
        else:
            expect("obs", arrays, (size, *shape), dtype)
            self._take(arrays["obs"], size)
        if self.back is not None:
            self.back[:size] = arrays["back"]

    def _take(self, obs: np.ndarray | PackedRows, size: int) -> None:
        if isinstance(obs, PackedRows) and isinstance(self.obs, PackedRows):
            self.obs.adopt(obs)
            return
        for begin in range(0, size, LOAD_ROWS):
            rows = np.arange(begin, min(size, begin + LOAD_ROWS))
            self.obs[rows] = obs[rows]


def _stacked(source: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Return the stacks [M, …, C·frames] of the rows ``index`` [frames, M] of ``source``."""
    if len(index) == 1:
        return source.take(index[0], axis=0)  # three times as fast as source[…] for short rows
    *shape, channels = source.shape[1:]
    stacks = np.empty((index.shape[1], *shape, channels * len(index)), source.dtype)
    for place, rows in enumerate(index):
        stacks[..., place * channels : (place + 1) * channels] = source.take(rows, axis=0)
    return stacks
