"""Distributions over actions of a Dict or Tuple in NumPy, and the one that fits a policy. Used by ``policies.numpy_policy``.

Their TensorFlow forms are in ``policies.distributions_tf``; what a distribution has is said in ``policies.distributions``.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from drl_cli.policies import distributions
from drl_cli.policies.action_specs import composite
from drl_cli.policies.distributions import Categorical, Gaussian, MultiBernoulli, MultiCategorical

if TYPE_CHECKING:
    from drl_cli.policies.nets import Heads
    from drl_cli.policies.policy_spec import PolicySpec


class Composite:
    """Parts drawn independently, each from its own distribution; actions float32 [N, A] (``action_specs.CompositeSpec``)."""

    def __init__(self, spec: PolicySpec) -> None:
        """``spec``: PolicySpec with a CompositeSpec."""
        self._action = composite(spec.action)
        self._parts = [_OF_PART[part.kind](dataclasses.replace(spec, action=part)) for part in self._action.parts]

    def greedy(self, heads: Heads) -> np.ndarray:
        """Return the greedy action of every part, float32 [N, A]."""
        return self._action.joined([part.greedy(own) for part, own in self._each(heads)])

    def sample(self, heads: Heads, rng: np.random.Generator) -> np.ndarray:
        """Return one draw per row and part, float32 [N, A]."""
        return self._action.joined([part.sample(own, rng) for part, own in self._each(heads)])

    def logp(self, heads: Heads, action: np.ndarray) -> np.ndarray:
        """Return the log-probability of ``action`` [N, A], the sum over its parts, float32 [N]."""
        found = [
            part.logp(own, chosen)
            for (part, own), chosen in zip(self._each(heads), self._action.split(action), strict=True)
        ]
        return np.stack(found).sum(axis=0, dtype=np.float32)

    def entropy(self, heads: Heads) -> np.ndarray:
        """Return the entropy, the sum over the parts, float32 [N]: they are independent."""
        return np.stack([part.entropy(own) for part, own in self._each(heads)]).sum(axis=0, dtype=np.float32)

    def kl(self, old: Heads, new: Heads) -> np.ndarray:
        """Return KL(old ‖ new), the sum over the parts, float32 [N]."""
        pairs = zip(self._each(old), self._each(new), strict=True)
        return np.stack([part.kl(before, after) for (part, before), (_, after) in pairs]).sum(axis=0, dtype=np.float32)

    def _each(self, heads: Heads) -> list[tuple[_Part, Heads]]:
        return [(part, self._action.heads_of(index, heads)) for index, part in enumerate(self._parts)]


_Part: TypeAlias = Gaussian | Categorical | MultiCategorical | MultiBernoulli
_OF_PART: dict[str, type[_Part]] = {
    "Box": Gaussian,
    "Discrete": Categorical,
    "MultiDiscrete": MultiCategorical,
    "MultiBinary": MultiBernoulli,
}
"""Kind of a part of composite actions → what draws it."""


def distribution_of(spec: PolicySpec) -> Any:
    """Return the distribution of the PolicySpec ``spec``, over its acting net's heads."""
    if spec.distribution == "composite":
        return Composite(spec)
    return distributions.BY_NAME[spec.distribution](spec)
