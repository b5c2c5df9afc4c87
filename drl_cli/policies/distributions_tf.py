"""Action distributions as graph tensors: draws with their log-probabilities, for learning.

Source: squashed Gaussian, Haarnoja et al. 2018, "Soft Actor-Critic Algorithms and Applications", appendix C, eq. 21; the
stable form log(1 − tanh²x) = 2(log 2 − x − softplus(−2x)) is an identity.
"""

import math

import numpy as np

from drl_cli.policies.distributions import LOG_STD_MAX, LOG_STD_MIN
from drl_cli.tf1.tensorflow import tf

EDGE = 1e-3
"""How near to a bound an action is believed to be, in halves of the range. The inverse of tanh is infinite at a bound, and 3.8
here: in float32 it would go to 9, and a few saturated actions would outweigh all others in what a Gaussian is fitted to."""


class SquashedGaussian:
    """tanh of a diagonal Gaussian, rescaled to the policy's bounds ``low``, ``high`` (float32 [A] each)."""

    def __init__(self, low, high):
        self._half = (high - low) / 2
        self._middle = (high + low) / 2
        self._log_half = float(np.sum(np.log(self._half)))  # the rescaling's part of the density

    def sample(self, heads, noise):
        """Reparametrised draw: returns (action [B, A], log-probability [B]) for ``noise`` [B, A] standard normal.

        Several draws a row: heads [B, 1, A] and noise [B, N, A] give [B, N, A] and [B, N].
        """
        log_std = tf.clip_by_value(heads["log_std"], LOG_STD_MIN, LOG_STD_MAX)  # [B, A]
        raw = heads["mean"] + tf.exp(log_std) * noise  # [B, A]
        log_gaussian = -0.5 * tf.square(noise) - log_std - 0.5 * math.log(2.0 * math.pi)  # [B, A]
        log_slope = 2.0 * (math.log(2.0) - raw - tf.nn.softplus(-2.0 * raw))  # [B, A]
        logp = tf.reduce_sum(log_gaussian - log_slope, axis=-1) - self._log_half  # [B]
        return tf.tanh(raw) * self._half + self._middle, logp

    def logp(self, heads, action):
        """Return the log-probability of ``action`` [B, A], [B]; of one nearer to a bound than ``EDGE`` that of one there."""
        unit = tf.clip_by_value((action - self._middle) / self._half, EDGE - 1.0, 1.0 - EDGE)  # [B, A]
        raw = tf.math.atanh(unit)  # [B, A]
        log_std = tf.clip_by_value(heads["log_std"], LOG_STD_MIN, LOG_STD_MAX)  # [B, A]
        distance = (raw - heads["mean"]) * tf.exp(-log_std)  # [B, A]
        log_gaussian = -0.5 * tf.square(distance) - log_std - 0.5 * math.log(2.0 * math.pi)  # [B, A]
        return tf.reduce_sum(log_gaussian - tf.math.log1p(-tf.square(unit)), axis=-1) - self._log_half  # [B]

    def spread(self, uniform):
        """Return (``uniform`` […, A] in (−1, 1) as actions all over the bounds […, A], their log-density, a float)."""
        log_density = -self._log_half - math.log(2.0) * len(self._half)
        return uniform * self._half + self._middle, log_density

    def greedy(self, heads):
        """Return the squashed mean [B, A]."""
        return tf.tanh(heads["mean"]) * self._half + self._middle


class Deterministic:
    """tanh of the mean, rescaled to the policy's bounds ``low``, ``high`` (float32 [A] each)."""

    def __init__(self, low, high):
        self._half = (high - low) / 2
        self._middle = (high + low) / 2

    def greedy(self, heads):
        """Return the action [B, A]."""
        return tf.tanh(heads["mean"]) * self._half + self._middle
