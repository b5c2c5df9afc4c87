"""The update of ARS, in NumPy: returns to weights of directions, and a plain step along their sum.

Loaded by ``actors.evolution_learner``. Source: Mania et al. 2018 (arXiv 1803.07055), algorithm 2, line 7.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from drl_cli.evolution.directions import top_weights

if TYPE_CHECKING:
    from drl_cli.evolution.keys import ARSConfig


class ARSUpdate:
    """One step per round; remembers nothing."""

    def __init__(self, config: ARSConfig, size: int) -> None:
        """``size``: weights of the policy; not needed."""
        self._config = config

    def weigh(self, returns: np.ndarray) -> np.ndarray | None:
        """Return by how much each direction counts, float64 [K], for ``returns`` [K, 2]; None: they say nothing.

        More directions than ``num_rollouts`` do not occur; fewer than ``rollouts_used`` neither.
        """
        return top_weights(returns, self._config.rollouts_used)

    def stepped(self, theta: np.ndarray, ascent: np.ndarray, factor: float = 1.0) -> np.ndarray:
        """Return ``theta`` (float32 [size]) after a step along ``ascent``, the weighted sum of directions, float64 [size].

        ``factor``: of the step's size.
        """
        return (theta + self._config.sgd_stepsize * factor * ascent).astype(np.float32)

    def state(self) -> dict[str, np.ndarray]:
        """Return {}."""
        return {}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from ``state``."""


Update = ARSUpdate  # by this name a learner finds the update in the module that the row names
