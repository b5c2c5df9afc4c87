"""Action distributions in NumPy: sampling and the greedy action, for acting.

Each has ``greedy(heads)`` and ``sample(heads, rng)``, which return one action per row; those of ``networks.scored`` have
log-probabilities too, those of the others are in ``tf1.distributions``. Where observations hold a mask, ``heads`` has
"allowed", bool [N, n], and no other action is taken. Sources: squashed Gaussian, Haarnoja et al. 2018, "Soft Actor-Critic
Algorithms and Applications", appendix C; action values with atoms, Bellemare et al. 2017 (arXiv 1707.06887) and Dabney et
al. 2018 (arXiv 1710.10044); dueling streams, Wang et al. 2016 (arXiv 1511.06581), eq. 9.
"""

import numpy as np

from drl_cli.networks.scored import (
    LOG_STD_MAX,
    LOG_STD_MIN,
    Categorical,
    Gaussian,
    MultiBernoulli,
    MultiCategorical,
    drawn,
    fill,
)

__all__ = ["BY_NAME", "LOG_STD_MAX", "LOG_STD_MIN", "drawn", "softmax"]


class _Stretched:
    """From (-1, 1) to the policy's bounds."""

    def __init__(self, spec):
        low, high = spec.action.policy_bounds()
        self._half, self._middle = (high - low) / 2, (high + low) / 2

    def __call__(self, x):
        return np.tanh(x) * self._half + self._middle


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
