"""A policy's actions in other units: the environment's, those of recordings, those of a recurrent net; and uniform ones.

Used by ``policies.numpy_policy``. ``units_of`` returns what fits a description of ``policies.action_specs``: each has
``recorded``, ``as_acted`` (its inverse), ``to_env``, ``encoded``, ``random`` and ``volume``, over rows of actions [N, …].
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from drl_cli.policies.action_specs import (
    Actions,
    ActionSpec,
    CompositeSpec,
    DiscreteSpec,
    MultiBinarySpec,
    MultiDiscreteSpec,
    PartActions,
)


class BoxUnits:
    """Of a Box; actions float32 [N, A]. ``low``, ``high``: float32 [A], in which the policy acts."""

    def __init__(self, action: ActionSpec) -> None:
        self._rescales, self._clips = action.normalize, action.clip
        self.low, self.high = action.policy_bounds()
        self.env_low, self.env_high = np.asarray(action.low, np.float32), np.asarray(action.high, np.float32)
        self._half, self._middle = (self.env_high - self.env_low) / 2, (self.env_high + self.env_low) / 2
        # What the density of an action loses when it is rescaled, in nats.
        self.log_scale = float(np.log(self._half.astype(np.float64)).sum()) if self._rescales else 0.0

    def recorded(self, action: np.ndarray) -> np.ndarray:
        """Return ``action`` in the environment's units, not clipped."""
        return action * self._half + self._middle if self._rescales else action

    def as_acted(self, action: np.ndarray) -> np.ndarray:
        """Return a recorded ``action`` as the policy chose it, float32."""
        return ((action - self._middle) / self._half).astype(np.float32) if self._rescales else action

    def unscaled(self, action: np.ndarray) -> np.ndarray:
        """Return ``as_acted`` in the dtype of ``action`` and float32."""
        return (action - self._middle) / self._half if self._rescales else action

    def to_env(self, action: np.ndarray) -> np.ndarray:
        """Return what the environment takes, float32 [N, A]."""
        action = self.recorded(action)
        return np.minimum(np.maximum(action, self.env_low), self.env_high) if self._clips else action

    def encoded(self, action: np.ndarray) -> np.ndarray:
        """Return ``action`` as numbers within ±1 of its bounds, float32 [N, A]."""
        unit = (action - (self.high + self.low) / 2) / ((self.high - self.low) / 2)
        return np.minimum(np.maximum(unit, -1.0), 1.0)

    def random(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Return uniform actions, float32 [rows, A]."""
        return rng.uniform(self.low, self.high, (rows, len(self.low))).astype(np.float32)

    def volume(self, recorded: bool) -> float:
        """Return the log-volume of the bounds, of ``recorded`` actions or of the policy's."""
        low, high = (self.env_low, self.env_high) if recorded else (self.low, self.high)
        return np.log(high - low).sum()


class ChoiceUnits:
    """Of choices and switches; actions int32 [N, …], counted from 0. ``counts``: int [k], of the values of each."""

    log_scale = 0.0

    def __init__(self, action: DiscreteSpec | MultiDiscreteSpec | MultiBinarySpec) -> None:
        self._action = action
        if isinstance(action, DiscreteSpec):
            self.counts = np.asarray([action.n])
        else:
            self.counts = np.asarray(action.nvec if isinstance(action, MultiDiscreteSpec) else [2] * action.n)
        start = 0 if isinstance(action, MultiBinarySpec) else np.asarray(action.start, np.int64)
        self._start = start if np.any(start) else None

    def recorded(self, action: np.ndarray) -> np.ndarray:
        """Return ``action``: recordings count from 0, whatever the environment's ``start``."""
        return action

    def as_acted(self, action: np.ndarray) -> np.ndarray:
        """Return a recorded ``action``."""
        return action

    def to_env(self, action: np.ndarray) -> np.ndarray:
        """Return whole numbers from the environment's start on: int64, of switches int8, gymnasium's own."""
        if isinstance(self._action, MultiBinarySpec):
            return action.astype(np.int8)
        whole = action.astype(np.int64)
        return whole if self._start is None else whole + self._start

    def encoded(self, action: np.ndarray) -> np.ndarray:
        """Return choices one-hot, bool [N, size], switches as they are."""
        if isinstance(self._action, MultiBinarySpec):
            return action
        ends = np.cumsum(self.counts)
        columns = np.reshape(action, (len(action), -1)) + (ends - self.counts)
        return (columns[..., None] == np.arange(ends[-1])).any(axis=1)

    def random(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Return uniform actions, int32 [rows, …]."""
        if isinstance(self._action, DiscreteSpec):
            return rng.integers(0, self._action.n, rows, dtype=np.int32)
        return rng.integers(0, self.counts, (rows, len(self.counts)), dtype=np.int32)

    def volume(self, recorded: bool) -> float:
        """Return ln of how many actions there are."""
        del recorded
        return np.log(np.prod(self.counts, dtype=float))


class CompositeUnits:
    """Of a Dict or Tuple; actions float32 [N, A], of which the environment's wrapper makes its own structure."""

    def __init__(self, action: CompositeSpec) -> None:
        self._action = action
        self._parts = [_units_of_part(part) for part in action.parts]
        self.log_scale = sum(part.log_scale for part in self._parts)
        self._boxes = [
            (part, at) for part, at in zip(self._parts, action.slices(), strict=True) if isinstance(part, BoxUnits)
        ]

    def recorded(self, action: np.ndarray) -> np.ndarray:
        """Return ``action`` [N, A] with each Box in the environment's units, not clipped; choices count from 0."""
        action = action.copy()
        for part, at in self._boxes:
            action[..., at] = part.recorded(action[..., at])
        return action

    def as_acted(self, action: np.ndarray) -> np.ndarray:
        """Return a recorded ``action`` [N, A] as the policy chose it, float32."""
        action = action.astype(np.float32)
        for part, at in self._boxes:
            action[..., at] = part.as_acted(action[..., at])
        return action

    def to_env(self, action: np.ndarray) -> np.ndarray:
        """Return what the environment takes, as a vector, float32 [N, A]: choices count from 0."""
        action = action.copy()
        for part, at in self._boxes:
            action[..., at] = part.to_env(action[..., at])
        return action

    def encoded(self, action: np.ndarray) -> np.ndarray:
        """Return the encoded parts side by side, float32 [N, size]."""
        pairs = zip(self._parts, self._action.split(action), strict=True)
        return self._action.joined([part.encoded(own) for part, own in pairs])

    def random(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Return uniform actions, float32 [rows, A]."""
        return self._action.joined([part.random(rows, rng) for part in self._parts])

    def volume(self, recorded: bool) -> float:
        """Return the log-volume of each Box and ln of how many choices there are, together."""
        return sum(part.volume(recorded) for part in self._parts)


Units: TypeAlias = BoxUnits | ChoiceUnits | CompositeUnits


def units_of(action: Actions) -> Units:
    """Return the units of the actions that ``action`` describes."""
    return CompositeUnits(action) if isinstance(action, CompositeSpec) else _units_of_part(action)


def _units_of_part(action: PartActions) -> BoxUnits | ChoiceUnits:
    return BoxUnits(action) if isinstance(action, ActionSpec) else ChoiceUnits(action)
