"""What an exported policy is tried on: observations drawn from what a checkpoint knows of its environment. NumPy only.

No environment is made: it may need packages, or modules of somebody's own, that are not here. Vectors are drawn within their
bounds, around the filter's statistics where there is one, else from a wide normal; images are random bytes and plain ones.
"""

import numpy as np

from drl_cli.policies.filters import MEAN, VAR

WIDTH = 3.0  # standard deviations of a number without bounds and statistics
_WIDEST = 1e6  # of bounds that are believed: beyond, they stand for none


class Observations:
    """``draw(rows)`` → observations [rows, *stacked_shape] of the policy's dtype."""

    def __init__(self, policy, space, rng):
        """``policy``: NumpyPolicy; ``space``: the observation space as a manifest holds it; ``rng``: numpy Generator."""
        self._spec, self._rng = policy.spec, rng
        shape = self._spec.obs_shape
        low, high = (_bound(space.get(side), shape) for side in ("low", "high"))
        self._bounded = np.isfinite(low) & np.isfinite(high) & (high - low < _WIDEST)
        self._low, self._high = np.where(self._bounded, low, 0.0), np.where(self._bounded, high, 1.0)
        self._mean, self._deviation = np.zeros(shape), np.full(shape, WIDTH)
        if self._spec.filter:
            self._mean, self._deviation = policy.weights[MEAN], WIDTH * np.sqrt(policy.weights[VAR])

    def draw(self, rows):
        """Return ``rows`` observations, the first ones special: all zeros, and at their bounds."""
        frames = [self._frames(rows) for _ in range(self._spec.frames)]
        obs = np.concatenate(frames, axis=-1) if len(frames) > 1 else frames[0]
        if self._spec.mask:
            start, count = self._spec.mask
            obs[:, start : start + count] = self._rng.integers(0, 2, (rows, count))
            obs[:1, start : start + count] = 0.0  # where nothing is allowed everything is
        return obs

    def _frames(self, rows):
        shape = (rows, *self._spec.obs_shape)
        if self._spec.obs_dtype == "uint8":
            found = self._rng.integers(0, 256, shape, np.uint8)
            found[:2] = np.reshape([0, 255], (2, *[1] * (len(shape) - 1)))[:rows]
            return found
        normal = self._mean + self._deviation * self._rng.standard_normal(shape)
        found = np.where(
            self._bounded & (not self._spec.filter), self._rng.uniform(self._low, self._high, shape), normal
        )
        special = [
            np.zeros(shape[1:]),
            np.where(self._bounded, self._low, 0.0),
            np.where(self._bounded, self._high, 0.0),
        ]
        found[:3] = special[:rows]
        return found.astype(np.float32)


def _bound(values, shape):
    """Bounds as a manifest holds them (null for none, one number for all where all are equal) as float64 ``shape``."""
    filled = np.asarray(np.nan if values is None else values, object)
    return np.broadcast_to(np.where(filled == None, np.nan, filled).astype(float), shape)  # noqa: E711 - element by element
