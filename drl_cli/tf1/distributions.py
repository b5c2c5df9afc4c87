"""Action distributions as graph tensors: draws with their log-probabilities, for learning.

Source: squashed Gaussian, Haarnoja et al. 2018, "Soft Actor-Critic Algorithms and Applications", appendix C, eq. 21; the
stable form log(1 − tanh²x) = 2(log 2 − x − softplus(−2x)) is an identity.
"""

import math

import numpy as np

from drl_cli.networks.distributions import LOG_STD_MAX, LOG_STD_MIN
from drl_cli.tf1.tensorflow import tf


def stateless_normal(shape, seed, number, stream):
    """Draw float32 standard normals of ``shape`` that depend only on (seed, update number, stream).

    ``seed`` and ``stream`` are Python ints (a stream for every draw within an update), ``number`` an int64 scalar.
    Philox, because its draws agree inside and outside XLA and across versions (threefry fails outside).
    """
    key = tf.stack([tf.constant(seed * 64 + stream, tf.int64), number])  # [2]
    return tf.random.stateless_normal(shape, key, dtype=tf.float32, alg="philox")


class SquashedGaussian:
    """tanh of a diagonal Gaussian, rescaled to the policy's bounds ``low``, ``high`` (float32 [A] each)."""

    def __init__(self, low, high):
        self._half = (high - low) / 2
        self._middle = (high + low) / 2
        self._log_half = float(np.sum(np.log(self._half)))  # the rescaling's part of the density

    def sample(self, heads, noise):
        """Reparametrised draw: returns (action [B, A], log-probability [B]) for ``noise`` [B, A] standard normal."""
        log_std = tf.clip_by_value(heads["log_std"], LOG_STD_MIN, LOG_STD_MAX)  # [B, A]
        raw = heads["mean"] + tf.exp(log_std) * noise  # [B, A]
        log_gaussian = -0.5 * tf.square(noise) - log_std - 0.5 * math.log(2.0 * math.pi)  # [B, A]
        log_slope = 2.0 * (math.log(2.0) - raw - tf.nn.softplus(-2.0 * raw))  # [B, A]
        logp = tf.reduce_sum(log_gaussian - log_slope, axis=-1) - self._log_half  # [B]
        return tf.tanh(raw) * self._half + self._middle, logp

    def greedy(self, heads):
        """Return the squashed mean [B, A]."""
        return tf.tanh(heads["mean"]) * self._half + self._middle
