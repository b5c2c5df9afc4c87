"""What a policy's actions are, as plain data: a Box, one choice, several choices at once, several switches, or all of these.

Used by ``policies.policy_spec`` (policies made of them), ``policies.policy_from_manifest`` (manifests) and all that
act. Each has ``kind`` (the space's name), ``shape`` and ``dtype`` of one action of the policy, ``size`` (numbers of
the widest head) and ``misfit``.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypeVar

import numpy as np

MAX_UNITS = 65_536  # a manifest from elsewhere must not make us allocate without bound
_MOST = float(np.finfo(np.float32).max)
MAX_PARTS = 256
LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0  # of Gaussians: the bounds that the SAC authors' code uses
_STARTS = 2**31  # what an int32 holds
_T = TypeVar("_T")


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


PartActions: TypeAlias = ActionSpec | DiscreteSpec | MultiDiscreteSpec | MultiBinarySpec
"""What describes the actions of a policy that have no parts, or those of one part."""


@dataclasses.dataclass(frozen=True)
class CompositeSpec:
    """Actions with ``parts``, those of a Dict or Tuple space in order; an action is the parts' numbers side by side.

    Choices and switches are whole numbers among them, a Box is as its own ActionSpec says. A policy that draws each part from a
    distribution of its own has the ``heads`` of all of them, numbered.
    """

    kind = "Composite"
    parts: tuple[PartActions, ...]

    @property
    def size(self) -> int:
        """Numbers of all parts together, each choice one-hot."""
        return sum(part.size for part in self.parts)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one action, (A,)."""
        return (sum(math.prod(part.shape) for part in self.parts),)

    @property
    def dtype(self) -> str:
        """Name of the actions' dtype."""
        return "float32"

    def slices(self) -> list[slice]:
        """Return where in an action each part is."""
        ends = np.cumsum([math.prod(part.shape) for part in self.parts]).tolist()
        return [slice(begin, end) for begin, end in zip([0, *ends], ends, strict=False)]

    def split(self, action: np.ndarray) -> list[np.ndarray]:
        """Return the parts of ``action`` […, A], each […, *its shape] and of its dtype."""
        return [
            action[..., at].reshape(*action.shape[:-1], *part.shape).astype(part.dtype)
            for part, at in zip(self.parts, self.slices(), strict=True)
        ]

    def joined(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Return the actions, float32 [N, A], with these ``parts``, each [N, *its shape]."""
        return np.concatenate([part.reshape(len(part), -1).astype(np.float32) for part in parts], axis=-1)

    def box_part(self) -> ActionSpec | None:
        """Return the Boxes side by side as one, None where there is none."""
        boxes = [part for part in self.parts if isinstance(part, ActionSpec)]
        if not boxes:
            return None
        low, high = (tuple(bound for box in boxes for bound in getattr(box, side)) for side in ("low", "high"))
        return ActionSpec(low, high, boxes[0].normalize, boxes[0].clip)

    def choices(self) -> tuple[int, ...]:
        """Return how many actions each Discrete part has, () where there is none."""
        return tuple(part.n for part in self.parts if isinstance(part, DiscreteSpec))

    def joint_choices(self) -> int:
        """Return how many ways there are to choose in all Discrete parts at once, 1 without any."""
        return math.prod(self.choices())

    def columns(self, kind: str) -> list[int]:
        """Return which numbers of an action are those of the parts of ``kind``, in order."""
        pairs = zip(self.parts, self.slices(), strict=True)
        return [column for part, at in pairs if part.kind == kind for column in range(at.start, at.stop)]

    def joint_heads(self) -> tuple[tuple[str, int], ...]:
        """Return (name, size) of the heads of a policy with a Gaussian over all Boxes and logits of the joint choices."""
        box, count = self.box_part(), self.joint_choices()
        gaussian = (("mean", box.size), ("log_std", box.size)) if box else ()
        return (*gaussian, ("logits", count)) if self.choices() else gaussian

    def heads(self) -> tuple[tuple[str, int], ...]:
        """Return (name, size) of the heads of all parts: "mean_i" and "log_std_i" of a Box, "logits_i" of any other."""
        found: list[tuple[str, int]] = []
        for index, part in enumerate(self.parts):
            names = ("mean", "log_std") if part.kind == "Box" else ("logits",)
            found += [(f"{name}_{index}", part.size) for name in names]
        return tuple(found)

    def heads_of(self, index: int, heads: Mapping[str, _T]) -> dict[str, _T]:
        """Return the heads of one part among those of all, under their names without the number."""
        names = ("mean", "log_std") if self.parts[index].kind == "Box" else ("logits",)
        return {name: heads[f"{name}_{index}"] for name in names}

    def misfit(self) -> str | None:
        """Return in words why there is nothing to do, or None."""
        if not 1 <= len(self.parts) <= MAX_PARTS:
            return f"actions with {len(self.parts)} parts, of 1 to {MAX_PARTS}"
        problem = next(filter(None, (part.misfit() for part in self.parts)), None)
        return problem or (f"actions of {self.size} numbers, of {MAX_UNITS} at most" if self.size > MAX_UNITS else None)


Actions: TypeAlias = PartActions | CompositeSpec
"""What describes the actions of a policy."""


def box(action: Actions) -> ActionSpec:
    """Return ``action``, of a policy over a Box. Raises TypeError for any other."""
    if not isinstance(action, ActionSpec):
        raise TypeError(f"{action.kind} actions where a Box is needed")
    return action


def without_parts(action: Actions) -> PartActions:
    """Return ``action``, of a policy over anything but a Dict or Tuple. Raises TypeError for these."""
    if isinstance(action, CompositeSpec):
        raise TypeError("actions of a Dict or Tuple where those without parts are needed")
    return action


def composite(action: Actions) -> CompositeSpec:
    """Return ``action``, of a policy over a Dict or Tuple. Raises TypeError for any other."""
    if not isinstance(action, CompositeSpec):
        raise TypeError(f"{action.kind} actions where those of a Dict or Tuple are needed")
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
