"""Distributions whose actions are scored when they are taken, in NumPy: the twins of ``policies.scored_distributions_tf``.

Each has, over ``heads`` {name: float32 [N, size]}: ``greedy(heads)``, ``sample(heads, rng)``, ``logp(heads, action)`` [N],
``entropy(heads)`` [N] and ``kl(old, new)`` [N], KL(old ‖ new). Used by ``policies.distributions``.

Actions that ``heads["allowed"]`` (bool [N, n]) forbids get logits of ``FILL``: finite, so that 0·log 0 is 0 and no gradient
is lost, and so low that their probability is exactly 0 in float32. Where nothing is allowed everything is.
"""

import math

import numpy as np

LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0  # the bounds that the SAC authors' code uses
FILL = np.float32(-1e9)
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class Gaussian:
    """A diagonal Gaussian in the policy's bounds or beyond: clipping is ``to_env``'s; actions float32 [N, A]."""

    def __init__(self, spec):
        """``spec``: PolicySpec with an ActionSpec."""

    def greedy(self, heads):
        """Return the mean, float32 [N, A]."""
        return heads["mean"]

    def sample(self, heads, rng):
        """Return one draw per row, float32 [N, A]; ``rng`` is a ``numpy.random.Generator``."""
        noise = rng.standard_normal(heads["mean"].shape, dtype=np.float32)
        return heads["mean"] + np.exp(_bounded(heads["log_std"])) * noise

    def displaced(self, heads, noise):
        """Return the mean with ``noise`` [N, A] added, float32 [N, A]."""
        return heads["mean"] + noise

    def logp(self, heads, action):
        """Return the log-density of ``action`` float32 [N, A], float32 [N]."""
        log_std = _bounded(heads["log_std"])
        distance = (action - heads["mean"]) * np.exp(-log_std)
        return (-0.5 * np.square(distance) - log_std - np.float32(_HALF_LOG_2PI)).sum(axis=-1)

    def entropy(self, heads):
        """Return the differential entropy, float32 [N]."""
        return (_bounded(heads["log_std"]) + np.float32(_HALF_LOG_2PI + 0.5)).sum(axis=-1)

    def kl(self, old, new):
        """Return KL(old ‖ new), float32 [N]."""
        log_old, log_new = _bounded(old["log_std"]), _bounded(new["log_std"])
        distance = (old["mean"] - new["mean"]) * np.exp(-log_new)
        ratio = np.exp(2.0 * (log_old - log_new))
        return (log_new - log_old + 0.5 * (ratio + np.square(distance) - 1.0)).sum(axis=-1)


class Categorical:
    """A softmax over n actions; actions int32 [N]."""

    def __init__(self, spec):
        """``spec``: PolicySpec with a DiscreteSpec."""

    def greedy(self, heads):
        """Return the likeliest action, int32 [N]."""
        return np.argmax(fill(heads["logits"], heads), axis=-1).astype(np.int32)

    def sample(self, heads, rng):
        """Return one draw per row, int32 [N]."""
        return drawn(fill(heads["logits"], heads), rng)

    def logp(self, heads, action):
        """Return the log-probability of ``action`` int32 [N], float32 [N]."""
        return log_softmax(fill(heads["logits"], heads))[np.arange(len(action)), action]

    def entropy(self, heads):
        """Return the entropy, float32 [N]."""
        logp = log_softmax(fill(heads["logits"], heads))
        return -(np.exp(logp) * logp).sum(axis=-1)

    def kl(self, old, new):
        """Return KL(old ‖ new), float32 [N]."""
        one, other = (log_softmax(fill(heads["logits"], heads)) for heads in (old, new))
        return (np.exp(one) * (one - other)).sum(axis=-1)


class MultiCategorical:
    """Independent softmaxes, ``nvec[i]`` actions wide; their logits stand side by side; actions int32 [N, k]."""

    def __init__(self, spec):
        """``spec``: PolicySpec with a MultiDiscreteSpec."""
        nvec = np.asarray(spec.action.nvec)
        ends, widest = np.cumsum(nvec), np.arange(nvec.max())
        # The column of each choice's actions, and behind the last one a column of FILL for narrower choices.
        self._columns = np.where(widest < nvec[:, None], (ends - nvec)[:, None] + widest, ends[-1])  # [k, widest]

    def _logits(self, heads):
        """One row for each choice, float32 [N, k, widest]."""
        logits = heads["logits"]
        return np.concatenate([logits, np.full((len(logits), 1), FILL)], axis=-1)[:, self._columns]

    def greedy(self, heads):
        """Return the likeliest actions, int32 [N, k]."""
        return np.argmax(self._logits(heads), axis=-1).astype(np.int32)

    def sample(self, heads, rng):
        """Return one draw per row and choice, int32 [N, k]."""
        return drawn(self._logits(heads), rng)

    def logp(self, heads, action):
        """Return the log-probability of ``action`` int32 [N, k], the sum over its choices, float32 [N]."""
        logp = log_softmax(self._logits(heads))
        return np.take_along_axis(logp, action[..., None].astype(np.int64), axis=-1)[..., 0].sum(axis=-1)

    def entropy(self, heads):
        """Return the entropy, the sum over the choices, float32 [N]."""
        logp = log_softmax(self._logits(heads))
        return -(np.exp(logp) * logp).sum(axis=(-2, -1))

    def kl(self, old, new):
        """Return KL(old ‖ new), the sum over the choices, float32 [N]."""
        one, other = log_softmax(self._logits(old)), log_softmax(self._logits(new))
        return (np.exp(one) * (one - other)).sum(axis=(-2, -1))


class MultiBernoulli:
    """Independent switches, on with the probability σ(logit); actions int32 [N, n]."""

    def __init__(self, spec):
        """``spec``: PolicySpec with a MultiBinarySpec."""

    def greedy(self, heads):
        """Return for each switch what is likelier (off at ½), int32 [N, n]."""
        return (heads["logits"] > 0.0).astype(np.int32)

    def sample(self, heads, rng):
        """Return one draw per row and switch, int32 [N, n]."""
        logits = heads["logits"]
        return (rng.logistic(size=logits.shape) < logits).astype(np.int32)

    def logp(self, heads, action):
        """Return the log-probability of ``action`` int32 [N, n], the sum over its switches, float32 [N]."""
        return -_softplus(np.where(action > 0, -heads["logits"], heads["logits"])).sum(axis=-1)

    def entropy(self, heads):
        """Return the entropy, the sum over the switches, float32 [N]."""
        logits = heads["logits"]
        return (_softplus(logits) - logits * _sigmoid(logits)).sum(axis=-1)

    def kl(self, old, new):
        """Return KL(old ‖ new), the sum over the switches, float32 [N]."""
        one, other = old["logits"], new["logits"]
        return (_sigmoid(one) * (one - other) - _softplus(one) + _softplus(other)).sum(axis=-1)


def fill(values, heads):
    """Return ``values`` float32 [N, n] with ``FILL`` where ``heads`` has "allowed" and it says no."""
    if "allowed" not in heads:
        return values
    allowed = heads["allowed"]
    return np.where(allowed | ~allowed.any(axis=-1, keepdims=True), values, FILL)


def drawn(logits, rng):
    """Return one draw per row from the softmax of ``logits`` […, n], int32 […] (the Gumbel-max trick)."""
    return np.argmax(logits + rng.gumbel(size=logits.shape), axis=-1).astype(np.int32)


def log_softmax(logits):
    """Return the logarithm of the softmax over the last axis, of the shape and dtype of ``logits``."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def _bounded(log_std):
    return np.minimum(
        np.maximum(log_std, np.float32(LOG_STD_MIN)), np.float32(LOG_STD_MAX)
    )  # np.clip costs twice as much


def _softplus(x):
    return np.logaddexp(np.float32(0.0), x)


def _sigmoid(x):
    return 0.5 * (1.0 + np.tanh(0.5 * x))
