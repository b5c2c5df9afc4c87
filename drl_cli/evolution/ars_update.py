"""The update of ARS, in NumPy: returns to weights of directions, and a plain step along their sum.

Loaded by ``actors.evolution_learner``. Source: Mania et al. 2018 (arXiv 1803.07055), algorithm 2, line 7.
"""

import numpy as np

from drl_cli.evolution.directions import top_weights


class ARSUpdate:
    """One step per round; remembers nothing."""

    def __init__(self, config, size):
        """``size``: weights of the policy; not needed."""
        self._config = config

    def weigh(self, returns):
        """Return by how much each direction counts, float64 [K], for ``returns`` [K, 2]; None: they say nothing.

        More directions than ``num_rollouts`` do not occur; fewer than ``rollouts_used`` neither.
        """
        return top_weights(returns, self._config.rollouts_used)

    def stepped(self, theta, ascent):
        """Return ``theta`` (float32 [size]) behind a step along ``ascent``, the weighted sum of directions, float64 [size]."""
        return (theta + self._config.sgd_stepsize * ascent).astype(np.float32)

    def state(self):
        """Return {}."""
        return {}

    def load(self, arrays):
        """Continue from ``state``."""


Update = ARSUpdate  # by this name a learner finds the update in the module that the row names
