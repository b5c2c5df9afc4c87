"""The update of ES, in NumPy: returns to weights of directions, their sum to a step of Adam.

Loaded by ``actors.evolution_learner``. Sources: Salimans et al. 2017 (arXiv 1703.03864), algorithm 2, with its weight decay
and fitness shaping; Kingma & Ba 2015 (arXiv 1412.6980), algorithm 1; RLlib 1.0.1 (``agents/es``), whose gradient is not divided
by the noise's deviation either: Adam takes no notice of scale but beside ``l2_coeff``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from drl_cli.evolution.directions import rank_weights

if TYPE_CHECKING:
    from drl_cli.evolution.keys import ESConfig

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


class ESUpdate:
    """Adam's moments, and one step of it per round."""

    def __init__(self, config: ESConfig, size: int) -> None:
        """``size``: weights of the policy."""
        self._config = config
        self._m, self._v, self._count = np.zeros(size), np.zeros(size), 0

    def weigh(self, returns: np.ndarray) -> np.ndarray | None:
        """Return by how much each direction counts, float64 [K], for ``returns`` [K, 2]; None: they say nothing."""
        return rank_weights(returns)

    def stepped(self, theta: np.ndarray, ascent: np.ndarray, factor: float = 1.0) -> np.ndarray:
        """Return ``theta`` (float32 [size]) after a step along ``ascent``, the weighted sum of directions, float64 [size].

        ``factor``: of the step's size.
        """
        gradient = self._config.l2_coeff * theta - ascent  # of what is to fall
        self._count += 1
        self._m += (1 - BETA1) * (gradient - self._m)
        self._v += (1 - BETA2) * (np.square(gradient) - self._v)
        rate = self._config.stepsize * factor * np.sqrt(1 - BETA2**self._count) / (1 - BETA1**self._count)
        return (theta - rate * self._m / (np.sqrt(self._v) + EPSILON)).astype(np.float32)

    def state(self) -> dict[str, Any]:
        """Return {name: array}, copies."""
        return {"es_adam/m": self._m.copy(), "es_adam/v": self._v.copy(), "es_adam/count": np.int64(self._count)}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from ``state``."""
        self._m, self._v = arrays["es_adam/m"].copy(), arrays["es_adam/v"].copy()
        self._count = int(arrays["es_adam/count"])


Update = ESUpdate  # by this name a learner finds the update in the module that the row names
