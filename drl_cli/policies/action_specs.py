"""What a policy's actions are, as plain data: a Box, one choice, several choices at once, several switches.

Used by ``policies.policy_spec`` (policies made of them), ``policies.policy_from_manifest`` (manifests) and all that
act. Each has ``kind`` (the space's name), ``shape`` and ``dtype`` of one action of the policy, ``size`` (numbers of
the widest head) and ``misfit``.
"""

from __future__ import annotations

import dataclasses
from typing import TypeAlias

import numpy as np

MAX_UNITS = 65_536  # a manifest from elsewhere must not make us allocate without bound
_MOST = float(np.finfo(np.float32).max)
_STARTS = 2**31  # what an int32 holds


@dataclasses.dataclass(frozen=True)
class ActionSpec:
    """Bounds of a Box action, each a tuple of A floats, and how a policy's action becomes the environment's.

    With ``normalize`` the policy acts in [-1, 1] and ``to_env`` rescales; otherwise it acts in the environment's
    units. ``clip`` cuts what goes to the environment at its bounds (exploration noise may leave them).
    """

    kind = "Box"
    low: tuple[float, ...]
    high: tuple[float, ...]
    normalize: bool = True
    clip: bool = True

    @property
    def size(self) -> int:
        """Number of action dimensions A."""
        return len(self.low)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one action, (A,)."""
        return (len(self.low),)

    @property
    def dtype(self) -> str:
        """Name of the actions' dtype."""
        return "float32"

    def policy_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (low, high), float32 [A] each: the bounds in which the policy acts."""
        if self.normalize:
            return -np.ones(self.size, np.float32), np.ones(self.size, np.float32)
        return np.asarray(self.low, np.float32), np.asarray(self.high, np.float32)

    def misfit(self) -> str | None:
        """Return in words why these bounds cannot be acted in, or None."""
        fits = len(self.high) == self.size >= 1
        if not fits or not all(-_MOST < low < high < _MOST for low, high in zip(self.low, self.high, strict=True)):
            return f"action bounds from {str(self.low)[:60]} to {str(self.high)[:60]}"
        return None


@dataclasses.dataclass(frozen=True)
class DiscreteSpec:
    """``n`` actions; the policy counts them from 0, the environment from ``start``."""

    kind = "Discrete"
    n: int
    start: int = 0

    @property
    def size(self) -> int:
        """Number of actions n."""
        return self.n

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one action: a scalar."""
        return ()

    @property
    def dtype(self) -> str:
        """Name of the actions' dtype."""
        return "int32"

    def misfit(self) -> str | None:
        """Return in words why there is nothing to choose from, or None."""
        fits = 1 <= self.n <= MAX_UNITS and abs(self.start) < _STARTS
        return None if fits else f"{self.n} actions from {self.start} on"


@dataclasses.dataclass(frozen=True)
class MultiDiscreteSpec:
    """Several choices at once: of ``nvec[i]`` actions the i-th, counted from 0, in the environment from ``start[i]``."""

    kind = "MultiDiscrete"
    nvec: tuple[int, ...]
    start: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of all choices' actions together, Σ nvec."""
        return sum(self.nvec)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one action, (k,)."""
        return (len(self.nvec),)

    @property
    def dtype(self) -> str:
        """Name of the actions' dtype."""
        return "int32"

    def misfit(self) -> str | None:
        """Return in words why there is nothing to choose from, or None."""
        fits = 1 <= len(self.nvec) <= MAX_UNITS and len(self.start) == len(self.nvec) and self.size <= MAX_UNITS
        fits = fits and min(self.nvec) >= 1 and all(abs(start) < _STARTS for start in self.start)
        return None if fits else f"choices among {str(self.nvec)[:60]} actions from {str(self.start)[:60]} on"


@dataclasses.dataclass(frozen=True)
class MultiBinarySpec:
    """``n`` switches, each 0 or 1."""

    kind = "MultiBinary"
    n: int

    @property
    def size(self) -> int:
        """Number of switches n."""
        return self.n

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one action, (n,)."""
        return (self.n,)

    @property
    def dtype(self) -> str:
        """Name of the actions' dtype."""
        return "int32"

    def misfit(self) -> str | None:
        """Return in words why there is nothing to switch, or None."""
        return None if 1 <= self.n <= MAX_UNITS else f"{self.n} switches"


Actions: TypeAlias = ActionSpec | DiscreteSpec | MultiDiscreteSpec | MultiBinarySpec
"""What describes the actions of a policy."""


def box(action: Actions) -> ActionSpec:
    """Return ``action``, of a policy over a Box. Raises TypeError for any other."""
    if not isinstance(action, ActionSpec):
        raise TypeError(f"{action.kind} actions where a Box is needed")
    return action


def discrete(action: Actions) -> DiscreteSpec:
    """Return ``action``, of a policy over Discrete actions. Raises TypeError for any other."""
    if not isinstance(action, DiscreteSpec):
        raise TypeError(f"{action.kind} actions where Discrete ones are needed")
    return action


def multi_discrete(action: Actions) -> MultiDiscreteSpec:
    """Return ``action``, of a policy over MultiDiscrete actions. Raises TypeError for any other."""
    if not isinstance(action, MultiDiscreteSpec):
        raise TypeError(f"{action.kind} actions where MultiDiscrete ones are needed")
    return action
