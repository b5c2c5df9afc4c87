"""Action distributions as graph tensors, for learning. ``policies.distributions`` has the same ones in NumPy, for acting.

Over ``heads`` {name: [B, size]}: the squashed Gaussian draws with a log-probability (the reparametrisation of SAC); those of
on-policy algorithms have ``logp(heads, action)`` [B], ``entropy(heads)`` [B] and ``kl(old, new)`` [B], KL(old ‖ new);
action values come with their atoms. What a mask does not allow is filled before (``allowed``, ``masked``).

The bounds of log_std cut its gradient beyond them. Actions are picked by sums over one-hot rows instead of gathers, whose
gradients are scatters, which XLA runs row by row.

Sources: squashed Gaussian, Haarnoja et al. 2018, "Soft Actor-Critic Algorithms and Applications", appendix C, eq. 21, where the
stable form log(1 − tanh²x) = 2(log 2 − x − softplus(−2x)) is an identity; dueling streams, Wang et al. 2016
(arXiv 1511.06581), eq. 9, here for every atom; atoms as in NumPy.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from drl_cli.policies import custom_distributions_tf
from drl_cli.policies.action_specs import LOG_STD_MAX, LOG_STD_MIN, DiscreteSpec, composite, discrete, multi_discrete
from drl_cli.policies.distributions import FILL
from drl_cli.tf1.tensorflow import Tensor, tf

if TYPE_CHECKING:
    from drl_cli.policies.forward_tf import Tensors
    from drl_cli.policies.policy_spec import PolicySpec

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


EDGE = 1e-3
"""How near to a bound an action is taken to be at most, in halves of the range. The inverse of tanh is infinite at a bound,
and 3.8
here: in float32 it would go to 9, and a few saturated actions would outweigh all others in what a Gaussian is fitted to."""


class TFGaussian:
    """A diagonal Gaussian; actions float32 [B, A]."""

    def __init__(self, spec: PolicySpec) -> None:
        """``spec``: PolicySpec with an ActionSpec."""
        self._log_std_min = spec.log_std_min

    def _bounded(self, heads: Tensors) -> Tensor:
        return tf.clip_by_value(heads["log_std"], self._log_std_min, LOG_STD_MAX)  # [B, A]

    def logp(self, heads: Tensors, action: Tensor) -> Tensor:
        """Return the log-density of ``action``, [B]."""
        log_std = self._bounded(heads)  # [B, A]
        distance = (action - heads["mean"]) * tf.exp(-log_std)  # [B, A]
        return tf.reduce_sum(-0.5 * tf.square(distance) - log_std - _HALF_LOG_2PI, axis=-1)  # [B]

    def entropy(self, heads: Tensors) -> Tensor:
        """Return the differential entropy, [B]."""
        return tf.reduce_sum(self._bounded(heads) + (_HALF_LOG_2PI + 0.5), axis=-1)  # [B]

    def kl(self, old: Tensors, new: Tensors) -> Tensor:
        """Return KL(old ‖ new), [B]."""
        log_old, log_new = self._bounded(old), self._bounded(new)  # [B, A]
        distance = (old["mean"] - new["mean"]) * tf.exp(-log_new)  # [B, A]
        ratio = tf.exp(2.0 * (log_old - log_new))  # [B, A]
        return tf.reduce_sum(log_new - log_old + 0.5 * (ratio + tf.square(distance) - 1.0), axis=-1)  # [B]


class TFMultiCategorical:
    """Independent softmaxes, ``nvec[i]`` actions wide, or one; actions int32 [B, k], or [B]."""

    def __init__(self, spec: PolicySpec) -> None:
        """``spec``: PolicySpec with a MultiDiscreteSpec or a DiscreteSpec."""
        action = spec.action
        self._nvec = (action.n,) if isinstance(action, DiscreteSpec) else multi_discrete(action).nvec

    def _logp(self, heads: Tensors) -> Tensor:
        """Log-probabilities, one row for each choice, [B, k, widest]; narrower choices have 0 chance after their end."""
        widest = max(self._nvec)
        each = tf.split(heads["logits"], self._nvec, axis=-1)  # [B, n] each
        padded = [
            tf.pad(logits, [[0, 0], [0, widest - n]], constant_values=float(FILL))
            for logits, n in zip(each, self._nvec, strict=True)
        ]
        return tf.nn.log_softmax(tf.stack(padded, axis=1))  # [B, k, widest]

    def logp(self, heads: Tensors, action: Tensor) -> Tensor:
        """Return the log-probability of ``action``, the sum over its choices, [B]."""
        taken = tf.one_hot(tf.reshape(action, [-1, len(self._nvec)]), max(self._nvec))  # [B, k, widest]
        return tf.reduce_sum(self._logp(heads) * taken, axis=[1, 2])  # [B]

    def entropy(self, heads: Tensors) -> Tensor:
        """Return the entropy, the sum over the choices, [B]."""
        logp = self._logp(heads)  # [B, k, widest]
        return -tf.reduce_sum(tf.exp(logp) * logp, axis=[1, 2])  # [B]

    def kl(self, old: Tensors, new: Tensors) -> Tensor:
        """Return KL(old ‖ new), the sum over the choices, [B]."""
        one, other = self._logp(old), self._logp(new)  # [B, k, widest]
        return tf.reduce_sum(tf.exp(one) * (one - other), axis=[1, 2])  # [B]


class TFMultiBernoulli:
    """Independent switches, on with the probability σ(logit); actions int32 [B, n]."""

    def __init__(self, spec: PolicySpec) -> None:
        """``spec``: PolicySpec with a MultiBinarySpec."""

    def logp(self, heads: Tensors, action: Tensor) -> Tensor:
        """Return the log-probability of ``action``, the sum over its switches, [B]."""
        sign = 1.0 - 2.0 * tf.cast(action, tf.float32)  # [B, n]
        return -tf.reduce_sum(tf.nn.softplus(sign * heads["logits"]), axis=-1)  # [B]

    def entropy(self, heads: Tensors) -> Tensor:
        """Return the entropy, the sum over the switches, [B]."""
        logits = heads["logits"]  # [B, n]
        return tf.reduce_sum(tf.nn.softplus(logits) - logits * tf.sigmoid(logits), axis=-1)  # [B]

    def kl(self, old: Tensors, new: Tensors) -> Tensor:
        """Return KL(old ‖ new), the sum over the switches, [B]."""
        one, other = old["logits"], new["logits"]  # [B, n]
        each = tf.sigmoid(one) * (one - other) - tf.nn.softplus(one) + tf.nn.softplus(other)  # [B, n]
        return tf.reduce_sum(each, axis=-1)  # [B]


class TFComposite:
    """Independent parts, each with its own distribution; actions float32 [B, A] (``action_specs.CompositeSpec``)."""

    def __init__(self, spec: PolicySpec) -> None:
        """``spec``: PolicySpec with a CompositeSpec."""
        self._action = composite(spec.action)
        self._parts = [_OF_PART[part.kind](dataclasses.replace(spec, action=part)) for part in self._action.parts]

    def logp(self, heads: Tensors, action: Tensor) -> Tensor:
        """Return the log-probability of ``action`` [B, A], the sum over its parts, [B]."""
        found = []
        for index, (part, at) in enumerate(zip(self._parts, self._action.slices(), strict=True)):
            own = self._action.parts[index]
            chosen = tf.reshape(action[:, at], [-1, *own.shape])  # [B, …]
            chosen = chosen if own.kind == "Box" else tf.cast(tf.round(chosen), tf.int32)  # [B, …]
            found.append(part.logp(self._action.heads_of(index, heads), chosen))
        return tf.add_n(found)  # [B]

    def entropy(self, heads: Tensors) -> Tensor:
        """Return the entropy, the sum over the parts, [B]."""
        own = self._action.heads_of
        return tf.add_n([part.entropy(own(index, heads)) for index, part in enumerate(self._parts)])  # [B]

    def kl(self, old: Tensors, new: Tensors) -> Tensor:
        """Return KL(old ‖ new), the sum over the parts, [B]."""
        own = self._action.heads_of
        return tf.add_n([part.kl(own(index, old), own(index, new)) for index, part in enumerate(self._parts)])  # [B]


_OF_PART: dict[str, type[TFGaussian | TFMultiCategorical | TFMultiBernoulli]] = {
    "Box": TFGaussian,
    "Discrete": TFMultiCategorical,
    "MultiDiscrete": TFMultiCategorical,
    "MultiBinary": TFMultiBernoulli,
}
BY_NAME = {
    "gaussian": TFGaussian,
    "categorical": TFMultiCategorical,
    "multi_categorical": TFMultiCategorical,
    "multi_bernoulli": TFMultiBernoulli,
    "composite": TFComposite,
    "custom": custom_distributions_tf.TFCustomDistribution,
}


def allowed(mask: Sequence[int], obs: Tensor) -> Tensor:
    """Return what the slice ``mask`` (start, n) of ``obs`` […, size] allows, bool […, n]; everything where it is nothing."""
    start, count = mask
    yes = obs[..., start : start + count] > 0.5  # […, n]
    return tf.logical_or(yes, tf.logical_not(tf.reduce_any(yes, axis=-1, keepdims=True)))  # […, n]


def masked(values: Tensor, yes: Tensor) -> Tensor:
    """Return ``values`` […, n] with ``FILL`` where ``yes`` (bool […, n]) is false: no gradient flows there."""
    return tf.where(yes, values, tf.fill(tf.shape(values), float(FILL)))  # […, n]


class TFSquashedGaussian:
    """tanh of a diagonal Gaussian, rescaled to the policy's bounds ``low``, ``high`` (float32 [A] each)."""

    def __init__(self, low: np.ndarray, high: np.ndarray) -> None:
        self._half = (high - low) / 2
        self._middle = (high + low) / 2
        self._log_half = float(np.sum(np.log(self._half)))  # the rescaling's part of the density

    def sample(self, heads: Tensors, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Reparametrised draw: returns (action [B, A], log-probability [B]) for ``noise`` [B, A] standard normal.

        Several draws a row: heads [B, 1, A] and noise [B, N, A] give [B, N, A] and [B, N].
        """
        log_std = tf.clip_by_value(heads["log_std"], LOG_STD_MIN, LOG_STD_MAX)  # [B, A]
        raw = heads["mean"] + tf.exp(log_std) * noise  # [B, A]
        log_gaussian = -0.5 * tf.square(noise) - log_std - 0.5 * math.log(2.0 * math.pi)  # [B, A]
        log_slope = 2.0 * (math.log(2.0) - raw - tf.nn.softplus(-2.0 * raw))  # [B, A]
        logp = tf.reduce_sum(log_gaussian - log_slope, axis=-1) - self._log_half  # [B]
        return tf.tanh(raw) * self._half + self._middle, logp

    def logp(self, heads: Tensors, action: Tensor) -> Tensor:
        """Return the log-probability of ``action`` [B, A], [B]; of one nearer to a bound than ``EDGE`` that of one there."""
        unit = tf.clip_by_value((action - self._middle) / self._half, EDGE - 1.0, 1.0 - EDGE)  # [B, A]
        raw = tf.math.atanh(unit)  # [B, A]
        log_std = tf.clip_by_value(heads["log_std"], LOG_STD_MIN, LOG_STD_MAX)  # [B, A]
        distance = (raw - heads["mean"]) * tf.exp(-log_std)  # [B, A]
        log_gaussian = -0.5 * tf.square(distance) - log_std - 0.5 * math.log(2.0 * math.pi)  # [B, A]
        return tf.reduce_sum(log_gaussian - tf.math.log1p(-tf.square(unit)), axis=-1) - self._log_half  # [B]

    def spread(self, uniform: Tensor) -> tuple[Tensor, float]:
        """Return (``uniform`` […, A] in (−1, 1) as actions all over the bounds […, A], their log-density, a float)."""
        log_density = -self._log_half - math.log(2.0) * len(self._half)
        return uniform * self._half + self._middle, log_density

    def greedy(self, heads: Tensors) -> Tensor:
        """Return the squashed mean [B, A]."""
        return tf.tanh(heads["mean"]) * self._half + self._middle


class TFDeterministic:
    """tanh of the mean, rescaled to the policy's bounds ``low``, ``high`` (float32 [A] each)."""

    def __init__(self, low: np.ndarray, high: np.ndarray) -> None:
        self._half = (high - low) / 2
        self._middle = (high + low) / 2

    def greedy(self, heads: Tensors) -> Tensor:
        """Return the action [B, A]."""
        return tf.tanh(heads["mean"]) * self._half + self._middle


class TFActionValues:
    """What the heads of a "q" distribution say of n actions, each with ``atoms`` numbers."""

    def __init__(self, spec: PolicySpec) -> None:
        """``spec``: PolicySpec with a DiscreteSpec and a ValueSpec."""
        self._n, self._value, self._mask = discrete(spec.action).n, spec.value_spec, spec.mask

    def atoms(self, heads: Tensors) -> Tensor:
        """Return [B, n, atoms] from {head: [B, size]}: dueling streams joined."""
        size = self._value.atoms
        if "q" in heads:
            return tf.reshape(heads["q"], [-1, self._n, size])  # [B, n, atoms]
        advantage = tf.reshape(heads["advantage"], [-1, self._n, size])  # [B, n, atoms]
        centred = advantage - tf.reduce_mean(advantage, axis=1, keepdims=True)  # [B, n, atoms]
        return tf.expand_dims(heads["value"], 1) + centred  # [B, n, atoms]

    def expected(self, atoms: Tensor) -> Tensor:
        """Return the values, […], of ``atoms`` […, atoms]: a number, an expectation, or the mean of the quantiles."""
        if self._value.kind == "categorical":
            return tf.reduce_sum(tf.nn.softmax(atoms) * self._value.support(), axis=-1)  # […]
        return tf.reduce_mean(atoms, axis=-1)  # […]

    def greedy(self, atoms: Tensor, obs: Tensor) -> Tensor:
        """Return the best actions, int32 [B], for ``atoms`` [B, n, atoms] at ``obs`` [B, …]."""
        return self.best(self.expected(atoms), obs)  # [B]

    def best(self, values: Tensor, obs: Tensor) -> Tensor:
        """Return the best actions, int32 […], for ``values`` […, n] at ``obs`` […, *stacked_shape]."""
        values = masked(values, allowed(self._mask, obs)) if self._mask else values  # […, n]
        return tf.argmax(values, axis=-1, output_type=tf.int32)  # […]

    def chosen(self, atoms: Tensor, action: Tensor) -> Tensor:
        """Return the atoms of one action a row, [B, atoms]; ``atoms`` [B, n, atoms], ``action`` int32 [B]."""
        # A sum over a few actions, because the gradient of a gather is a scatter, which XLA runs row by row.
        mask = tf.expand_dims(tf.one_hot(action, self._n), 2)  # [B, n, 1]
        return tf.reduce_sum(atoms * mask, axis=1)  # [B, atoms]
