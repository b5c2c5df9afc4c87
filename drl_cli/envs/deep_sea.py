"""Deep sea: a grid in which one of 2^N sequences of actions brings a reward, and every step towards it costs a little.

Registered by ``envs.bundled_envs``. Source: Osband et al. 2019, "Deep Exploration via Randomized Value Functions" (JMLR 20),
and bsuite (arXiv 1908.03568). The diver begins at the top left and sinks by one row a step, to the right or to the left. Which
action is which differs from cell to cell, and is the same in all episodes.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from drl_cli.errors import EnvError

COST, TREASURE = 0.01, 1.0  # of all steps to the right together; at the bottom right


class DeepSea(gymnasium.Env):
    """The grid; the observation is 1 at the diver's cell and 0 elsewhere, float32 [size · size]. At most 0.99 is reached."""

    def __init__(self, size: int = 20, mapping_seed: int = 0) -> None:
        """``size``: rows and columns, 2 to 100; ``mapping_seed``: decides which action goes to the right in each cell."""
        if not isinstance(size, int) or not 2 <= size <= 100:
            raise EnvError(f"env_config.size: {str(size)[:60]} is no whole number from 2 to 100.")
        self.action_space = gymnasium.spaces.Discrete(2)
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (size * size,), np.float32)
        self._right = np.random.default_rng(mapping_seed).integers(0, 2, (size, size))
        self._size, self._row, self._column = size, 0, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin at the top left."""
        super().reset(seed=seed, options=options)
        self._row, self._column = 0, 0
        return self._obs(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Sink by one row."""
        goes_right, reward = action == self.right_action(self._row, self._column), 0.0
        if goes_right:
            reward -= COST / self._size
        found = bool(goes_right and self._column == self._size - 1)
        self._column = min(self._column + 1, self._size - 1) if goes_right else max(self._column - 1, 0)
        self._row += 1
        ended = self._row == self._size
        info = {"is_success": found} if ended else {}
        return self._obs(), reward + TREASURE * found, ended, False, info

    def right_action(self, row: int, column: int) -> int:
        """Return the action, 0 or 1, that goes to the right in a cell."""
        return int(self._right[row, column])

    def _obs(self) -> np.ndarray:
        obs = np.zeros((self._size, self._size), np.float32)
        if self._row < self._size:
            obs[self._row, self._column] = 1.0
        return obs.ravel()
