"""Actions on their way to an environment, and those of a running episode, kept so that it can be replayed."""

import numpy as np

FIRST_ROWS = 64


def as_action(action):
    """Return what an environment takes: a Python int for a Discrete action, the array as it is for all others."""
    return int(action) if action.ndim == 0 else action


class ActionLog:
    """A growing array of actions. It holds 4 bytes for each number of an action.

    The room doubles when it is full and is kept for the next episode. An environment that never ends and has no horizon
    fills it for as long as the run lasts: four Box actions for 10 million steps are 160 MB (256 MiB of room).
    """

    def __init__(self, space):
        """``space``: the environment's action space: float32 is kept of a Box, int32 of all others."""
        self._is_box = type(space).__name__ == "Box"
        self._dtype = space.dtype
        self._rows = np.empty((FIRST_ROWS, *space.shape), np.float32 if self._is_box else np.int32)
        self._count = 0

    def __len__(self):
        return self._count

    def append(self, action):
        """Keep a copy of ``action``."""
        if self._count == len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
        self._rows[self._count] = action
        self._count += 1

    def clear(self):
        """Forget everything."""
        self._count = 0

    def taken(self):
        """Return the actions in order, [T, *action shape], a copy."""
        return self._rows[: self._count].copy()

    def as_given(self, actions):
        """Return the actions of ``taken`` as the environment got them: whole numbers have the dtype of its space."""
        return actions if self._is_box else actions.astype(self._dtype)

    def fits(self, actions):
        """Whether ``actions`` is what ``taken`` of such a log returns."""
        return actions.shape[1:] == self._rows.shape[1:] and actions.dtype == self._rows.dtype
