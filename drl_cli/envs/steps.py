"""What goes into a step of an environment and what comes out: conversions, checks, and the actions since the last seed.

Used by all that step environments. The actions of running episodes are kept so that these can be replayed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import gymnasium


def as_action(action: np.ndarray) -> Any:
    """Return what an environment takes: a Python int for a Discrete action, the array as it is for any other."""
    return int(action) if action.ndim == 0 else action


def as_actions(actions: np.ndarray) -> list:
    """Return a list of what each environment takes for ``actions`` [N, …]: copies, which it may write to."""
    return actions.tolist() if actions.ndim == 1 else list(actions.copy())


class Stepped(NamedTuple):
    """What one step of all environments brought."""

    rewards: list[float]  # N, 0 for those that broke or stood still
    ends: list[tuple[int, bool, bool, np.ndarray]]  # (index, terminated, truncated, real last observation)
    broken: list[int]  # indices of environments whose step broke the episode, see ``EnvBatch.step``


class ActionLogs:
    """The actions of N environments as bytes, which grow as a list does; 4 bytes a step and number.

    An environment that never ends and has no horizon adds to them for as long as the run lasts: four Box actions for 10 million
    steps are 160 MB. To append to bytes costs a tenth of an assignment to rows of an array that are chosen by index.
    """

    def __init__(self, count: int, space: gymnasium.Space) -> None:
        """``count``: N; ``space``: the environments' action space.

        float32 is kept of a Box, and of a Dict or Tuple (``envs.composite_actions``), int32 of all others.
        """
        self._is_box, self._dtype = type(space).__name__ in ("Box", "CompositeSpace"), space.dtype
        self._kept, self._shape = np.dtype(np.float32 if self._is_box else np.int32), tuple(space.shape or ())
        self._size = self._kept.itemsize * math.prod(self._shape)  # bytes of an action
        self._rows = [bytearray() for _ in range(count)]

    def append(self, actions: np.ndarray, which: int | None = None) -> None:
        """Keep a copy of ``actions`` [N, …]; with ``which`` (index) of the one [...] of that environment."""
        data, size = actions.astype(self._kept).tobytes(), self._size
        if which is not None:
            self._rows[which] += data
            return
        for index, row in enumerate(self._rows):
            row += data[index * size : (index + 1) * size]

    def drop(self, which: int) -> None:
        """Forget the last action of the environment ``which``."""
        del self._rows[which][-self._size :]

    def clear(self, which: int) -> None:
        """Forget everything of the environment ``which``."""
        self._rows[which].clear()

    def length(self, which: int) -> int:
        """Return how many actions of the environment ``which`` are kept."""
        return len(self._rows[which]) // self._size

    @property
    def lengths(self) -> np.ndarray:
        """How many actions of each environment are kept, int64 [N]."""
        return np.array([self.length(which) for which in range(len(self._rows))], np.int64)

    def taken(self, which: int) -> np.ndarray:
        """Return the actions of the environment ``which`` in order, [T, *action shape], a copy."""
        return np.frombuffer(bytes(self._rows[which]), self._kept).reshape(-1, *self._shape).copy()

    def as_given(self, actions: np.ndarray) -> np.ndarray:
        """Return the actions of ``taken`` as the environment got them: whole numbers have the dtype of its space."""
        return actions if self._is_box else actions.astype(self._dtype)

    def fits(self, actions: np.ndarray) -> bool:
        """Whether ``actions`` is what ``taken`` of such logs returns."""
        return actions.shape[1:] == self._shape and actions.dtype == self._kept


def as_number(reward: Any) -> float:
    """Return a reward as a float; an array of one element is one too (``float`` refuses it from NumPy 2.4 on)."""
    return float(reward) if isinstance(reward, float) else float(np.asarray(reward, np.float64).item())


def success_of(info: Mapping[str, Any]) -> bool | None:
    """Return whether an episode reached its goal by the ``info`` of its last step, None where it has no "is_success".

    The key is that of gymnasium-robotics and Stable-Baselines3; 0 and 1 of any type count too.
    """
    found = info.get("is_success")
    return None if found is None else bool(found)


def is_finite(obs: np.ndarray, reward: float) -> bool:
    """Whether every element of ``obs`` and ``reward`` is finite; the sum of squares settles nearly every case at once."""
    if obs.dtype == np.uint8:
        return math.isfinite(reward)
    flat = obs.ravel()
    return math.isfinite(flat.dot(flat) + reward) or (math.isfinite(reward) and bool(np.isfinite(obs).all()))


def not_finite_error(reward: float) -> FloatingPointError:
    """Return the error of a step whose observation or ``reward`` is not finite."""
    return FloatingPointError(f"observation or reward is not finite (reward {reward})")
