"""Action distributions in NumPy: sampling and the greedy action, for acting.

Each has ``greedy(heads)`` and ``sample(heads, rng)``, which return one action per row, and all but Deterministic have
``logp(heads, action)``: those of ``policies.scored_distributions`` for what is learnt from, those here for what was
recorded (float64, from the action alone). Where observations hold a mask, ``heads`` has "allowed", bool [N, n], and no
other action is taken.
Sources: squashed Gaussian, Haarnoja et al. 2018, "Soft Actor-Critic Algorithms and Applications", appendix C; action
values with atoms, Bellemare et al. 2017 (arXiv 1707.06887) and Dabney et al. 2018 (arXiv 1710.10044); dueling streams, Wang
et al. 2016 (arXiv 1511.06581), eq. 9.
"""

import math

import numpy as np

from drl_cli.policies.scored_distributions import (
    LOG_STD_MAX,
    LOG_STD_MIN,
    Categorical,
    Gaussian,
    MultiBernoulli,
    MultiCategorical,
    drawn,
    fill,
    log_softmax,
)

__all__ = ["BY_NAME", "LOG_STD_MAX", "LOG_STD_MIN", "drawn", "softmax"]

_NEAREST = 1.0 - 2.0**-24  # to 1 that a float32 comes; tanh reaches it at 8.66, where it is rounded to 1 at the latest


class _Stretched:
    """From (-1, 1) to the policy's bounds."""

    def __init__(self, spec):
        low, high = spec.action.policy_bounds()
        self._half, self._middle = (high - low) / 2, (high + low) / 2

    def __call__(self, x):
        return np.tanh(x) * self._half + self._middle

    def undone(self, action):
        """Return (x, log of the slope at x) of ``action`` [N, A], float64; of one at a bound, those a hair inside."""
        unit = (np.asarray(action, np.float64) - self._middle) / self._half
        unit = np.minimum(np.maximum(unit, -_NEAREST), _NEAREST)
        return np.arctanh(unit), np.log1p(-unit * unit) + np.log(self._half.astype(np.float64))


class SquashedGaussian:
    """tanh of a diagonal Gaussian, rescaled from (-1, 1) to the policy's bounds; actions float32 [N, A]."""

    def __init__(self, spec):
        """``spec``: PolicySpec with an ActionSpec."""
        self._squashed = _Stretched(spec)

    def greedy(self, heads):
        """Return the squashed mean, float32 [N, A]."""
        return self._squashed(heads["mean"])

    def sample(self, heads, rng):
        """Return one draw per row, float32 [N, A]; ``rng`` is a ``numpy.random.Generator``."""
        std = np.exp(np.minimum(np.maximum(heads["log_std"], LOG_STD_MIN), LOG_STD_MAX))  # np.clip costs twice as much
        noise = rng.standard_normal(std.shape, dtype=np.float32)
        return self._squashed(heads["mean"] + std * noise)

    def logp(self, heads, action):
        """Return the log-density of ``action`` [N, A] in the policy's bounds, float64 [N] (appendix C, eq. 21).

        It is that of the number as it stands in ``action``: near the bounds float32 is coarse, and what the draw was
        before squashing can no longer be told exactly. Of the same action and heads it is always the same.
        """
        raw, log_slope = self._squashed.undone(action)
        log_std = np.minimum(np.maximum(heads["log_std"].astype(np.float64), LOG_STD_MIN), LOG_STD_MAX)
        distance = (raw - heads["mean"]) * np.exp(-log_std)
        return (-0.5 * np.square(distance) - log_std - 0.5 * math.log(2.0 * math.pi) - log_slope).sum(axis=-1)

    def displaced(self, heads, noise):
        """Return the squashed mean with ``noise`` [N, A] added before squashing, float32 [N, A]."""
        return self._squashed(heads["mean"] + noise)


class Deterministic:
    """tanh of the mean, rescaled to the policy's bounds; exploration adds its noise outside; actions float32 [N, A]."""

    def __init__(self, spec):
        """``spec``: PolicySpec with an ActionSpec."""
        self._squashed = _Stretched(spec)

    def greedy(self, heads):
        """Return the action, float32 [N, A]."""
        return self._squashed(heads["mean"])

    def sample(self, heads, rng):
        """Return the action: there is nothing to draw."""
        return self._squashed(heads["mean"])


class ActionValues:
    """Values of n actions; the greedy action has the largest; actions int32 [N]."""

    def __init__(self, spec):
        """``spec``: PolicySpec with a DiscreteSpec and a ValueSpec."""
        self._n, self._value = spec.action.n, spec.value
        self._support = spec.value.support() if spec.value.kind == "categorical" else None

    def atoms(self, heads):
        """Return what is known of every action's value, float32 [N, n, atoms]: dueling streams joined (eq. 9)."""
        atoms = self._value.atoms
        if "q" in heads:
            return heads["q"].reshape(-1, self._n, atoms)
        advantage = heads["advantage"].reshape(-1, self._n, atoms)
        return heads["value"].reshape(-1, 1, atoms) + advantage - advantage.mean(axis=1, keepdims=True)

    def values(self, heads):
        """Return the action values, float32 [N, n]: expectations over the atoms, ``FILL`` for what is not allowed."""
        atoms = self.atoms(heads)
        if self._support is not None:
            values = softmax(atoms) @ self._support
        else:
            values = atoms.mean(axis=-1) if self._value.kind == "quantile" else atoms[..., 0]
        return fill(values, heads)

    def greedy(self, heads):
        """Return the best action, int32 [N]."""
        return np.argmax(self.values(heads), axis=-1).astype(np.int32)

    def sample(self, heads, rng):
        """Return the best action: exploration is what departs from it."""
        return self.greedy(heads)

    def logp(self, heads, action, epsilon=0.0, temperature=None):
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


def softmax(x):
    """Return the softmax over the last axis, float32."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


BY_NAME = {
    "squashed_gaussian": SquashedGaussian,
    "deterministic": Deterministic,
    "categorical": Categorical,
    "q": ActionValues,
    "gaussian": Gaussian,
    "multi_categorical": MultiCategorical,
    "multi_bernoulli": MultiBernoulli,
}
