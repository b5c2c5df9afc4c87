"""Distributions whose actions are scored when they are taken, as graph tensors: the twins of ``policies.scored_distributions``.

Each has, over ``heads`` {name: [B, size]}: ``logp(heads, action)`` [B], ``entropy(heads)`` [B] and ``kl(old, new)`` [B],
KL(old ‖ new). Used by ``policies.actor_critic_tf``; what is not allowed has been filled before (``masked``).

The bounds of log_std cut its gradient beyond them. Sums over one-hot rows instead of gathers, whose gradients are scatters,
which XLA runs row by row.
"""

import math

from drl_cli.policies.scored_distributions import FILL, LOG_STD_MAX, LOG_STD_MIN
from drl_cli.tf1.tensorflow import tf

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class Gaussian:
    """A diagonal Gaussian; actions float32 [B, A]."""

    def __init__(self, spec):
        """``spec``: PolicySpec with an ActionSpec."""

    def logp(self, heads, action):
        """Return the log-density of ``action``, [B]."""
        log_std = _bounded(heads)  # [B, A]
        distance = (action - heads["mean"]) * tf.exp(-log_std)  # [B, A]
        return tf.reduce_sum(-0.5 * tf.square(distance) - log_std - _HALF_LOG_2PI, axis=-1)  # [B]

    def entropy(self, heads):
        """Return the differential entropy, [B]."""
        return tf.reduce_sum(_bounded(heads) + (_HALF_LOG_2PI + 0.5), axis=-1)  # [B]

    def kl(self, old, new):
        """Return KL(old ‖ new), [B]."""
        log_old, log_new = _bounded(old), _bounded(new)  # [B, A]
        distance = (old["mean"] - new["mean"]) * tf.exp(-log_new)  # [B, A]
        ratio = tf.exp(2.0 * (log_old - log_new))  # [B, A]
        return tf.reduce_sum(log_new - log_old + 0.5 * (ratio + tf.square(distance) - 1.0), axis=-1)  # [B]


class MultiCategorical:
    """Independent softmaxes, ``nvec[i]`` actions wide, or one; actions int32 [B, k], or [B]."""

    def __init__(self, spec):
        """``spec``: PolicySpec with a MultiDiscreteSpec or a DiscreteSpec."""
        self._nvec = (spec.action.n,) if spec.action.kind == "Discrete" else spec.action.nvec

    def _logp(self, heads):
        """Log-probabilities, one row for each choice, [B, k, widest]; narrower choices have 0 chance behind their end."""
        widest = max(self._nvec)
        each = tf.split(heads["logits"], self._nvec, axis=-1)  # [B, n] each
        padded = [
            tf.pad(logits, [[0, 0], [0, widest - n]], constant_values=float(FILL))
            for logits, n in zip(each, self._nvec, strict=True)
        ]
        return tf.nn.log_softmax(tf.stack(padded, axis=1))  # [B, k, widest]

    def logp(self, heads, action):
        """Return the log-probability of ``action``, the sum over its choices, [B]."""
        taken = tf.one_hot(tf.reshape(action, [-1, len(self._nvec)]), max(self._nvec))  # [B, k, widest]
        return tf.reduce_sum(self._logp(heads) * taken, axis=[1, 2])  # [B]

    def entropy(self, heads):
        """Return the entropy, the sum over the choices, [B]."""
        logp = self._logp(heads)  # [B, k, widest]
        return -tf.reduce_sum(tf.exp(logp) * logp, axis=[1, 2])  # [B]

    def kl(self, old, new):
        """Return KL(old ‖ new), the sum over the choices, [B]."""
        one, other = self._logp(old), self._logp(new)  # [B, k, widest]
        return tf.reduce_sum(tf.exp(one) * (one - other), axis=[1, 2])  # [B]


class MultiBernoulli:
    """Independent switches, on with the probability σ(logit); actions int32 [B, n]."""

    def __init__(self, spec):
        """``spec``: PolicySpec with a MultiBinarySpec."""

    def logp(self, heads, action):
        """Return the log-probability of ``action``, the sum over its switches, [B]."""
        sign = 1.0 - 2.0 * tf.cast(action, tf.float32)  # [B, n]
        return -tf.reduce_sum(tf.nn.softplus(sign * heads["logits"]), axis=-1)  # [B]

    def entropy(self, heads):
        """Return the entropy, the sum over the switches, [B]."""
        logits = heads["logits"]  # [B, n]
        return tf.reduce_sum(tf.nn.softplus(logits) - logits * tf.sigmoid(logits), axis=-1)  # [B]

    def kl(self, old, new):
        """Return KL(old ‖ new), the sum over the switches, [B]."""
        one, other = old["logits"], new["logits"]  # [B, n]
        each = tf.sigmoid(one) * (one - other) - tf.nn.softplus(one) + tf.nn.softplus(other)  # [B, n]
        return tf.reduce_sum(each, axis=-1)  # [B]


BY_NAME = {
    "gaussian": Gaussian,
    "categorical": MultiCategorical,
    "multi_categorical": MultiCategorical,
    "multi_bernoulli": MultiBernoulli,
}


def allowed(mask, obs):
    """Return what the slice ``mask`` (start, n) of ``obs`` […, size] allows, bool […, n]; everything where it is nothing."""
    start, count = mask
    yes = obs[..., start : start + count] > 0.5  # […, n]
    return tf.logical_or(yes, tf.logical_not(tf.reduce_any(yes, axis=-1, keepdims=True)))  # […, n]


def masked(values, yes):
    """Return ``values`` […, n] with ``FILL`` where ``yes`` (bool […, n]) is false: no gradient flows there."""
    return tf.where(yes, values, tf.fill(tf.shape(values), float(FILL)))  # […, n]


def _bounded(heads):
    return tf.clip_by_value(heads["log_std"], LOG_STD_MIN, LOG_STD_MAX)  # [B, A]
