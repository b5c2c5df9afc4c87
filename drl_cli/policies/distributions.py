"""Action distributions in NumPy, for acting. ``policies.distributions_tf`` has the same ones as graph tensors, for learning.

Over ``heads`` {name: float32 [N, size]} every distribution has ``greedy(heads)`` and ``sample(heads, rng)``, which return one
action per row, and all but Deterministic have ``logp(heads, action)`` [N]. Those of on-policy algorithms (Gaussian,
Categorical, MultiCategorical, MultiBernoulli) also have ``entropy(heads)`` [N] and ``kl(old, new)`` [N], KL(old ‖ new).
``tests/policies/test_parity.py`` compares the two forms. Actions with several parts: ``policies.composite_distributions``.

Where observations hold an action mask, ``heads["allowed"]`` (bool [N, n]) says which actions are allowed. The logits of all
others are ``FILL``: finite, so that 0·log 0 is 0 and no gradient is lost, and so low that their probability is exactly 0 in
float32. Where a mask allows nothing, everything is allowed.

Sources: squashed Gaussian, Haarnoja et al. 2018, "Soft Actor-Critic Algorithms and Applications", appendix C; action
values with atoms, Bellemare et al. 2017 (arXiv 1707.06887) and Dabney et al. 2018 (arXiv 1710.10044); dueling streams, Wang
et al. 2016 (arXiv 1511.06581), eq. 9.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from drl_cli.policies import custom_distributions
from drl_cli.policies.action_specs import LOG_STD_MAX, LOG_STD_MIN, box, discrete, multi_discrete

if TYPE_CHECKING:
    from drl_cli.policies.nets import Heads
    from drl_cli.policies.policy_spec import PolicySpec

FILL = np.float32(-1e9)
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


_NEAREST = 1.0 - 2.0**-24  # to 1 that a float32 comes; tanh reaches it at 8.66, where it is rounded to 1 at the latest


class Gaussian:
    """A diagonal Gaussian in the policy's bounds or beyond: clipping is ``to_env``'s; actions float32 [N, A]."""

    def __init__(self, spec: PolicySpec) -> None:
        """``spec``: PolicySpec with an ActionSpec."""
        self._log_std_min = np.float32(spec.log_std_min)

    def _bounded(self, log_std: np.ndarray) -> np.ndarray:
        # np.clip costs twice as much.
        return np.minimum(np.maximum(log_std, self._log_std_min), np.float32(LOG_STD_MAX))

    def greedy(self, heads: Heads) -> np.ndarray:
        """Return the mean, float32 [N, A]."""
        return heads["mean"]

    def sample(self, heads: Heads, rng: np.random.Generator) -> np.ndarray:
        """Return one draw per row, float32 [N, A]; ``rng`` is a ``numpy.random.Generator``."""
        noise = rng.standard_normal(heads["mean"].shape, dtype=np.float32)
        return heads["mean"] + np.exp(self._bounded(heads["log_std"])) * noise

    def displaced(self, heads: Heads, noise: np.ndarray) -> np.ndarray:
        """Return the mean with ``noise`` [N, A] added, float32 [N, A]."""
        return heads["mean"] + noise

    def logp(self, heads: Heads, action: np.ndarray) -> np.ndarray:
        """Return the log-density of ``action`` float32 [N, A], float32 [N]."""
        log_std = self._bounded(heads["log_std"])
        distance = (action - heads["mean"]) * np.exp(-log_std)
        return (-0.5 * np.square(distance) - log_std - np.float32(_HALF_LOG_2PI)).sum(axis=-1)

    def entropy(self, heads: Heads) -> np.ndarray:
        """Return the differential entropy, float32 [N]."""
        return (self._bounded(heads["log_std"]) + np.float32(_HALF_LOG_2PI + 0.5)).sum(axis=-1)

    def kl(self, old: Heads, new: Heads) -> np.ndarray:
        """Return KL(old ‖ new), float32 [N]."""
        log_old, log_new = self._bounded(old["log_std"]), self._bounded(new["log_std"])
        distance = (old["mean"] - new["mean"]) * np.exp(-log_new)
        ratio = np.exp(2.0 * (log_old - log_new))
        return (log_new - log_old + 0.5 * (ratio + np.square(distance) - 1.0)).sum(axis=-1)


class Categorical:
    """A softmax over n actions; actions int32 [N]."""

    def __init__(self, spec: PolicySpec) -> None:
        """``spec``: PolicySpec with a DiscreteSpec."""

    def greedy(self, heads: Heads) -> np.ndarray:
        """Return the likeliest action, int32 [N]."""
        return np.argmax(fill(heads["logits"], heads), axis=-1).astype(np.int32)

    def sample(self, heads: Heads, rng: np.random.Generator) -> np.ndarray:
        """Return one draw per row, int32 [N]."""
        return drawn(fill(heads["logits"], heads), rng)

    def logp(self, heads: Heads, action: np.ndarray) -> np.ndarray:
        """Return the log-probability of ``action`` int32 [N], float32 [N]."""
        shifted, log_sum = _log_softmax_parts(fill(heads["logits"], heads))
        return shifted[np.arange(len(action)), action] - log_sum[:, 0]

    def entropy(self, heads: Heads) -> np.ndarray:
        """Return the entropy, float32 [N]."""
        logp = log_softmax(fill(heads["logits"], heads))
        return -(np.exp(logp) * logp).sum(axis=-1)

    def kl(self, old: Heads, new: Heads) -> np.ndarray:
        """Return KL(old ‖ new), float32 [N]."""
        one, other = (log_softmax(fill(heads["logits"], heads)) for heads in (old, new))
        return (np.exp(one) * (one - other)).sum(axis=-1)


class MultiCategorical:
    """Independent softmaxes, ``nvec[i]`` actions wide; their logits stand side by side; actions int32 [N, k]."""

    def __init__(self, spec: PolicySpec) -> None:
        """``spec``: PolicySpec with a MultiDiscreteSpec."""
        nvec = np.asarray(multi_discrete(spec.action).nvec)
        ends, widest = np.cumsum(nvec), np.arange(nvec.max())
        # The column of each choice's actions, and after the last one a column of FILL for narrower choices.
        self._columns = np.where(widest < nvec[:, None], (ends - nvec)[:, None] + widest, ends[-1])  # [k, widest]

    def _logits(self, heads: Heads) -> np.ndarray:
        """One row for each choice, float32 [N, k, widest]."""
        logits = heads["logits"]
        return np.concatenate([logits, np.full((len(logits), 1), FILL)], axis=-1)[:, self._columns]

    def greedy(self, heads: Heads) -> np.ndarray:
        """Return the likeliest actions, int32 [N, k]."""
        return np.argmax(self._logits(heads), axis=-1).astype(np.int32)

    def sample(self, heads: Heads, rng: np.random.Generator) -> np.ndarray:
        """Return one draw per row and choice, int32 [N, k]."""
        return drawn(self._logits(heads), rng)

    def logp(self, heads: Heads, action: np.ndarray) -> np.ndarray:
        """Return the log-probability of ``action`` int32 [N, k], the sum over its choices, float32 [N]."""
        logp = log_softmax(self._logits(heads))
        return np.take_along_axis(logp, action[..., None].astype(np.int64), axis=-1)[..., 0].sum(axis=-1)

    def entropy(self, heads: Heads) -> np.ndarray:
        """Return the entropy, the sum over the choices, float32 [N]."""
        logp = log_softmax(self._logits(heads))
        return -(np.exp(logp) * logp).sum(axis=(-2, -1))

    def kl(self, old: Heads, new: Heads) -> np.ndarray:
        """Return KL(old ‖ new), the sum over the choices, float32 [N]."""
        one, other = log_softmax(self._logits(old)), log_softmax(self._logits(new))
        return (np.exp(one) * (one - other)).sum(axis=(-2, -1))


class MultiBernoulli:
    """Independent switches, on with the probability σ(logit); actions int32 [N, n]."""

    def __init__(self, spec: PolicySpec) -> None:
        """``spec``: PolicySpec with a MultiBinarySpec."""

    def greedy(self, heads: Heads) -> np.ndarray:
        """Return for each switch what is likelier (off at ½), int32 [N, n]."""
        return (heads["logits"] > 0.0).astype(np.int32)

    def sample(self, heads: Heads, rng: np.random.Generator) -> np.ndarray:
        """Return one draw per row and switch, int32 [N, n]."""
        logits = heads["logits"]
        return (rng.logistic(size=logits.shape) < logits).astype(np.int32)

    def logp(self, heads: Heads, action: np.ndarray) -> np.ndarray:
        """Return the log-probability of ``action`` int32 [N, n], the sum over its switches, float32 [N]."""
        return -_softplus(np.where(action > 0, -heads["logits"], heads["logits"])).sum(axis=-1)

    def entropy(self, heads: Heads) -> np.ndarray:
        """Return the entropy, the sum over the switches, float32 [N]."""
        logits = heads["logits"]
        return (_softplus(logits) - logits * _sigmoid(logits)).sum(axis=-1)

    def kl(self, old: Heads, new: Heads) -> np.ndarray:
        """Return KL(old ‖ new), the sum over the switches, float32 [N]."""
        one, other = old["logits"], new["logits"]
        return (_sigmoid(one) * (one - other) - _softplus(one) + _softplus(other)).sum(axis=-1)


def fill(values: np.ndarray, heads: Heads) -> np.ndarray:
    """Return ``values`` float32 [N, n] with ``FILL`` where ``heads`` has "allowed" and it says no."""
    if "allowed" not in heads:
        return values
    allowed = heads["allowed"]
    return np.where(allowed | ~allowed.any(axis=-1, keepdims=True), values, FILL)


def drawn(logits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return one draw per row from the softmax of ``logits`` […, n], int32 […] (the Gumbel-max trick)."""
    return (logits + rng.gumbel(size=logits.shape)).argmax(axis=-1).astype(np.int32)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Return the logarithm of the softmax over the last axis, of the shape and dtype of ``logits``."""
    shifted, log_sum = _log_softmax_parts(logits)
    return shifted - log_sum


def _log_softmax_parts(logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (x […, n], y […, 1]) with ``log_softmax(logits)`` = x - y."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted, np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(np.float32(0.0), x)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1.0 + np.tanh(0.5 * x))


class _Stretched:
    """From (-1, 1) to the policy's bounds."""

    def __init__(self, spec: PolicySpec) -> None:
        low, high = box(spec.action).policy_bounds()
        # [1, A]: with the one row of a single environment NumPy's fast path for equal shapes.
        self._half, self._middle = (high - low)[None] / 2, (high + low)[None] / 2

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return np.tanh(x) * self._half + self._middle

    def undone(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (x, log of the slope at x) of ``action`` [N, A], float64; of one at a bound, those a hair inside."""
        unit = (np.asarray(action, np.float64) - self._middle) / self._half
        unit = np.minimum(np.maximum(unit, -_NEAREST), _NEAREST)
        return np.arctanh(unit), np.log1p(-unit * unit) + np.log(self._half.astype(np.float64))


class SquashedGaussian:
    """tanh of a diagonal Gaussian, rescaled from (-1, 1) to the policy's bounds; actions float32 [N, A]."""

    def __init__(self, spec: PolicySpec) -> None:
        """``spec``: PolicySpec with an ActionSpec."""
        self._squashed = _Stretched(spec)

    def greedy(self, heads: Heads) -> np.ndarray:
        """Return the squashed mean, float32 [N, A]."""
        return self._squashed(heads["mean"])

    def sample(self, heads: Heads, rng: np.random.Generator) -> np.ndarray:
        """Return one draw per row, float32 [N, A]; ``rng`` is a ``numpy.random.Generator``."""
        std = np.exp(np.minimum(np.maximum(heads["log_std"], LOG_STD_MIN), LOG_STD_MAX))  # np.clip costs twice as much
        noise = rng.standard_normal(std.shape, dtype=np.float32)
        return self._squashed(heads["mean"] + std * noise)

    def logp(self, heads: Heads, action: np.ndarray) -> np.ndarray:
        """Return the log-density of ``action`` [N, A] in the policy's bounds, float64 [N] (appendix C, eq. 21).

        It is that of the number as it stands in ``action``: near the bounds float32 is coarse, and what the draw was
        before squashing can no longer be computed exactly. Of the same action and heads it is always the same.
        """
        raw, log_slope = self._squashed.undone(action)
        log_std = np.minimum(np.maximum(heads["log_std"].astype(np.float64), LOG_STD_MIN), LOG_STD_MAX)
        distance = (raw - heads["mean"]) * np.exp(-log_std)
        return (-0.5 * np.square(distance) - log_std - 0.5 * math.log(2.0 * math.pi) - log_slope).sum(axis=-1)

    def displaced(self, heads: Heads, noise: np.ndarray) -> np.ndarray:
        """Return the squashed mean with ``noise`` [N, A] added before squashing, float32 [N, A]."""
        return self._squashed(heads["mean"] + noise)


class Deterministic:
    """tanh of the mean, rescaled to the policy's bounds; exploration adds its noise outside; actions float32 [N, A]."""

    def __init__(self, spec: PolicySpec) -> None:
        """``spec``: PolicySpec with an ActionSpec."""
        self._squashed = _Stretched(spec)

    def greedy(self, heads: Heads) -> np.ndarray:
        """Return the action, float32 [N, A]."""
        return self._squashed(heads["mean"])

    def sample(self, heads: Heads, rng: np.random.Generator) -> np.ndarray:
        """Return the action: there is nothing to draw."""
        return self._squashed(heads["mean"])


class ActionValues:
    """Values of n actions; the greedy action has the largest; actions int32 [N]."""

    def __init__(self, spec: PolicySpec) -> None:
        """``spec``: PolicySpec with a DiscreteSpec and a ValueSpec."""
        self._n, self._value = discrete(spec.action).n, spec.value_spec
        self._support = self._value.support() if self._value.kind == "categorical" else None

    def atoms(self, heads: Heads) -> np.ndarray:
        """Return what is known of every action's value, float32 [N, n, atoms]: dueling streams joined (eq. 9)."""
        atoms = self._value.atoms
        if "q" in heads:
            return heads["q"].reshape(-1, self._n, atoms)
        advantage = heads["advantage"].reshape(-1, self._n, atoms)
        return heads["value"].reshape(-1, 1, atoms) + advantage - advantage.mean(axis=1, keepdims=True)

    def values(self, heads: Heads) -> np.ndarray:
        """Return the action values, float32 [N, n]: expectations over the atoms, ``FILL`` for what is not allowed."""
        atoms = self.atoms(heads)
        if self._support is not None:
            values = softmax(atoms) @ self._support
        else:
            values = atoms.mean(axis=-1) if self._value.kind == "quantile" else atoms[..., 0]
        return fill(values, heads)

    def greedy(self, heads: Heads) -> np.ndarray:
        """Return the best action, int32 [N]."""
        return np.argmax(self.values(heads), axis=-1).astype(np.int32)

    def sample(self, heads: Heads, rng: np.random.Generator) -> np.ndarray:
        """Return the best action: exploration is what departs from it."""
        return self.greedy(heads)

    def logp(
        self, heads: Heads, action: np.ndarray, epsilon: float | np.ndarray = 0.0, temperature: float | None = None
    ) -> np.ndarray:
        """Return the log-probability of ``action`` int32 [N], float64 [N]; -inf for what is never taken.

        With the share ``epsilon`` (a number or [N]) any allowed action is drawn, the best one too; else the best action
        is taken or, with a ``temperature``, one in proportion to exp(Q / temperature) is drawn.
        """
        rows, values = np.arange(len(action)), self.values(heads).astype(np.float64)
        allowed = fill(np.zeros(values.shape, np.float32), heads) == 0.0
        with np.errstate(divide="ignore"):
            if temperature is None:
                chosen = np.log(np.argmax(values, axis=-1) == action)
            else:
                chosen = log_softmax(values / temperature)[rows, action]
            uniform = np.log(epsilon * allowed[rows, action] / allowed.sum(axis=-1))
            return np.logaddexp(uniform, np.log1p(-np.asarray(epsilon, np.float64)) + chosen)


class JointValues:
    """Values of each agent's actions, side by side; greedy is the best of each agent's, actions int32 [N, A]."""

    def __init__(self, spec: PolicySpec) -> None:
        """``spec``: PolicySpec with a MultiDiscreteSpec and a team."""
        self._choices = MultiCategorical(spec)

    def greedy(self, heads: Heads) -> np.ndarray:
        """Return each agent's best action, int32 [N, A]."""
        return self._choices.greedy({"logits": heads["q"]})

    def sample(self, heads: Heads, rng: np.random.Generator) -> np.ndarray:
        """Return the best actions: exploration is what departs from them."""
        return self.greedy(heads)


def softmax(x: np.ndarray) -> np.ndarray:
    """Return the softmax over the last axis, float32."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


BY_NAME = {
    "squashed_gaussian": SquashedGaussian,
    "deterministic": Deterministic,
    "categorical": Categorical,
    "q": ActionValues,
    "joint_q": JointValues,
    "gaussian": Gaussian,
    "multi_categorical": MultiCategorical,
    "multi_bernoulli": MultiBernoulli,
    "custom": custom_distributions.of,
}
