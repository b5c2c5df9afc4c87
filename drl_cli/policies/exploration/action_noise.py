"""Noise on the greedy actions of a Box: independent Gaussians, or Ornstein–Uhlenbeck processes.

Sources: RLlib's GaussianNoise and OrnsteinUhlenbeckNoise (1.0.1); Lillicrap et al. 2016 (arXiv 1509.02971), section 7.
Deviations:
- ``stddev`` is a share of half the action range, per dimension; RLlib's is in the environment's units.
- Every environment has a process of its own that begins at 0 with every episode, as in Lillicrap's algorithm 1. RLlib's
  runs on through episodes, one for all environments of a worker. (With θ = 0.15 it is as if it never stopped after 15 steps.)
- Bounds of an action are finite here, so that RLlib's range of 1 for infinite ones has no place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from drl_cli.policies.action_specs import ActionSpec
    from drl_cli.policies.exploration.interface import Acted, At, Level
    from drl_cli.policies.nets import State
    from drl_cli.policies.numpy_policy import NumpyPolicy


class GaussianNoise:
    """Adds N(0, (scale·stddev·half range)²) and clips to the bounds."""

    def __init__(self, action: ActionSpec, scale: Level, stddev: float) -> None:
        """``action``: ActionSpec; ``scale``: a level, see ``interface``."""
        self._low, self._high = action.policy_bounds()
        self._spread, self._scale, self._stddev = (self._high - self._low) / 2 * stddev, scale, stddev
        self.memory = {}

    def act(self, policy: NumpyPolicy, obs: np.ndarray, state: State, rng: np.random.Generator, at: At) -> Acted:
        """See ``interface.Exploration``."""
        action, state, columns = policy.act(obs, state, rng, False)
        noise = rng.standard_normal(action.shape, dtype=np.float32) * self._spread
        return clipped(action + noise * column(self._scale(*at)), self._low, self._high), state, columns

    def logp(self, policy: NumpyPolicy, obs: np.ndarray, state: State, action: np.ndarray, at: At) -> np.ndarray | None:
        """See ``interface.Exploration``: there is none, what is clipped has no density."""

    def ended(self, index: int) -> None:
        """See ``interface.Exploration``; nothing is remembered."""

    def describe(self, t: int) -> dict[str, float]:
        """Return the standard deviation as a share of half the range, the mean over the worker's environments."""
        return {"stddev": float(np.mean(self._scale(t, slice(None)))) * self._stddev}


class OrnsteinUhlenbeckNoise:
    """Adds base·scale·range·x, where x ← x − θx + σN(0, 1) at every step, and clips to the bounds."""

    def __init__(self, action: ActionSpec, count: int, scale: Level, settings: Mapping[str, Any]) -> None:
        """``action``: ActionSpec; ``count``: environments; ``scale``: a level; ``settings``: those of the type."""
        self._low, self._high = action.policy_bounds()
        self._theta, self._sigma = np.float32(settings["ou_theta"]), np.float32(settings["ou_sigma"])
        self._factor, self._scale = (self._high - self._low) * settings["ou_base_scale"], scale
        self.memory = {"process": np.zeros((count, action.size), np.float32)}

    def act(self, policy: NumpyPolicy, obs: np.ndarray, state: State, rng: np.random.Generator, at: At) -> Acted:
        """See ``interface.Exploration``."""
        action, state, columns = policy.act(obs, state, rng, False)
        x = self.memory["process"][at[1]]  # a view
        x += self._sigma * rng.standard_normal(x.shape, dtype=np.float32) - self._theta * x
        return clipped(action + x * self._factor * column(self._scale(*at)), self._low, self._high), state, columns

    def logp(self, policy: NumpyPolicy, obs: np.ndarray, state: State, action: np.ndarray, at: At) -> np.ndarray | None:
        """See ``interface.Exploration``: there is none, the noise goes on from step to step."""

    def ended(self, index: int) -> None:
        """Begin the process of environment ``index`` anew."""
        self.memory["process"][index] = 0.0

    def describe(self, t: int) -> dict[str, float]:
        """Return the scale, the mean over the worker's environments."""
        return {"scale": float(np.mean(self._scale(t, slice(None))))}


def column(level: Any) -> Any:
    """Return a level as a float32 number, or as a column [n, 1] where every row has its own."""
    return np.float32(level) if isinstance(level, float) else level.astype(np.float32)[:, None]


def clipped(action: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return ``action`` [N, A] within ``low`` and ``high`` [A] (np.clip costs twice as much)."""
    return np.minimum(np.maximum(action, low), high)
