"""Action distributions in NumPy: sampling and the greedy action, for acting. ``tf1.distributions`` has their densities.

Source: squashed Gaussian, Haarnoja et al. 2018, "Soft Actor-Critic Algorithms and Applications", appendix C.
"""

import numpy as np

LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0  # the bounds that the SAC authors' code uses


class SquashedGaussian:
    """tanh of a diagonal Gaussian, rescaled from (-1, 1) to the policy's bounds."""

    def __init__(self, low, high):
        """``low``, ``high``: float32 [A], the bounds in which the policy acts."""
        self._half = (high - low) / 2
        self._middle = (high + low) / 2

    def greedy(self, heads):
        """Return the squashed mean, float32 [N, A]."""
        return np.tanh(heads["mean"]) * self._half + self._middle

    def sample(self, heads, rng):
        """Return one draw per row, float32 [N, A]; ``rng`` is a ``numpy.random.Generator``."""
        std = np.exp(np.minimum(np.maximum(heads["log_std"], LOG_STD_MIN), LOG_STD_MAX))  # np.clip costs twice as much
        noise = rng.standard_normal(std.shape, dtype=np.float32)
        return np.tanh(heads["mean"] + std * noise) * self._half + self._middle


BY_NAME = {"squashed_gaussian": SquashedGaussian}
