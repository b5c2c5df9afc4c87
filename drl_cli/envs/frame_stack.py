"""Frame stacks: the last few observations of a stream, one after the other, which is what a policy acts on.

Used by ``EnvBatch``, the tester and playback; the replay holds single frames and stacks them when it samples. A stack
joins frames along the last axis, oldest first: [H, W, C] becomes [H, W, C·frames]. Before an episode's first frame
stands that frame itself (Mnih et al. 2015 pad with zeros instead, as do OpenAI's baselines; RLlib repeats).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np


class FrameStack:
    """The stacks of ``rows`` streams; with ``frames`` 1 a stack is the newest observation."""

    def __init__(self, rows: int, shape: tuple[int, ...], dtype: np.dtype | str, frames: int = 1) -> None:
        """``shape``: of one observation; ``dtype``: of what is kept; ``frames``: how many stand in a stack."""
        self.shape, self._size, self._frames = tuple(shape), shape[-1], frames
        self._stack = np.zeros((rows, *shape[:-1], shape[-1] * frames), dtype)
        self._newest = self._stack[..., -self._size :]  # a view

    @property
    def dtype(self) -> np.dtype:
        """The dtype of frames and stacks."""
        return self._stack.dtype

    def seen(self, obs: Any) -> np.ndarray:
        """Return an environment's observation as an array of our shape and dtype. Raises ValueError for another shape."""
        obs = np.asarray(obs, self._stack.dtype)
        if obs.shape != self.shape:
            raise ValueError(f"an observation of shape {obs.shape} instead of {self.shape}")
        return obs

    def begin(self, row: int, frame: np.ndarray) -> None:
        """Begin an episode in stream ``row``: its first ``frame`` fills the stack."""
        self._stack[row] = np.tile(frame, self._frames)

    def push(self, row: int, frame: np.ndarray) -> None:
        """Put the next ``frame`` of the running episode of stream ``row`` after the others; the oldest leaves."""
        stack = self._stack[row]
        if self._frames > 1:
            # All memory one frame to the left: what it brings into a pixel's last place, from the pixel after it, is
            # overwritten below. Moving within each pixel instead takes twenty times as long.
            flat = stack.reshape(-1)
            flat[: -self._size] = flat[self._size :]
        stack[..., -self._size :] = frame

    def put(self, row: int, obs: Any) -> None:
        """``seen`` and ``push`` in one."""
        if type(obs) is not np.ndarray or obs.shape != self.shape:
            obs = self.seen(obs)
        if self._frames == 1:
            self._stack[row] = obs
        else:
            self.push(row, np.asarray(obs, self._stack.dtype))

    def not_finite(self) -> list[int]:
        """Return the streams whose newest frame holds a number that is not finite; the sum of squares settles most."""
        if self._stack.dtype == np.uint8:
            return []
        flat = self._newest.ravel()
        if math.isfinite(flat.dot(flat)):
            return []
        return np.flatnonzero(~np.isfinite(flat.reshape(len(self._stack), -1)).all(axis=1)).tolist()

    def load(self, stacks: np.ndarray) -> None:
        """Take over ``stacked``. Raises ValueError for another shape."""
        if stacks.shape != self._stack.shape:
            raise ValueError(f"stacks of shape {stacks.shape} instead of {self._stack.shape}")
        self._stack[...] = stacks

    def newest(self, rows: slice = slice(None)) -> np.ndarray:
        """Return a copy of the newest frames, [N, *shape], of all streams or of those in the slice ``rows``."""
        return self._newest[rows].copy()

    def stacked(self, rows: slice = slice(None)) -> np.ndarray:
        """Return a copy of the stacks, [N, H, W, C·frames], of all streams or of those in the slice ``rows``."""
        return self._stack[rows].copy()
