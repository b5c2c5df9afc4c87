"""Distributions over actions of a Dict or Tuple in NumPy, and the one that fits a policy. Used by ``policies.numpy_policy``.

Their TensorFlow forms are in ``policies.distributions_tf``; what a distribution has is said in ``policies.distributions``.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from drl_cli.policies import distributions
from drl_cli.policies.action_specs import composite
from drl_cli.policies.distributions import Categorical, Gaussian, MultiBernoulli, MultiCategorical, SquashedGaussian

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


class Hybrid:
    """A squashed Gaussian over all Box parts, and a softmax over the joint choices of all Discrete parts; float32 [N, A].

    The two are independent given the observation. Source: Delalleau et al. 2019, "Discrete and Continuous Action Representation
    for Practical RL in Video Games" (arXiv 1912.11077), section 4.
    """

    def __init__(self, spec: PolicySpec) -> None:
        """``spec``: PolicySpec with a CompositeSpec of Box and Discrete parts."""
        self._action = composite(spec.action)
        box = self._action.box_part()
        self._box = SquashedGaussian(dataclasses.replace(spec, action=box)) if box else None
        self._numbers, self._chosen = (self._action.columns(kind) for kind in ("Box", "Discrete"))

    def greedy(self, heads: Heads) -> np.ndarray:
        """Return the squashed mean and the likeliest joint choice, float32 [N, A]."""
        joint = np.argmax(heads["logits"], axis=-1) if self._chosen else None
        return self._whole(self._box.greedy(heads) if self._box else None, joint)

    def sample(self, heads: Heads, rng: np.random.Generator) -> np.ndarray:
        """Return one draw per row, float32 [N, A]."""
        joint = distributions.drawn(heads["logits"], rng) if self._chosen else None
        return self._whole(self._box.sample(heads, rng) if self._box else None, joint)

    def logp(self, heads: Heads, action: np.ndarray) -> np.ndarray:
        """Return the log-density of the Box parts of ``action`` [N, A] plus the log-probability of its choices, float64 [N]."""
        found = self._box.logp(heads, action[:, self._numbers]) if self._box else np.zeros(len(action))
        if self._chosen:
            choices = np.rint(action[:, self._chosen]).astype(np.int64)
            joint = np.ravel_multi_index(tuple(choices.T), self._action.choices())
            found = found + distributions.log_softmax(heads["logits"])[np.arange(len(action)), joint]
        return found

    def _whole(self, box: np.ndarray | None, joint: np.ndarray | None) -> np.ndarray:
        """Return the actions [N, A] with these numbers [N, …] and joint choices [N]."""
        rows = len(box) if box is not None else len(joint) if joint is not None else 0
        action = np.empty((rows, *self._action.shape), np.float32)
        if box is not None:
            action[:, self._numbers] = box
        if joint is not None:
            action[:, self._chosen] = np.stack(np.unravel_index(joint, self._action.choices()), axis=-1)
        return action


def distribution_of(spec: PolicySpec) -> Any:
    """Return the distribution of the PolicySpec ``spec``, over its acting net's heads."""
    if spec.distribution == "composite":
        return Composite(spec)
    if spec.distribution == "hybrid":
        return Hybrid(spec)
    return distributions.BY_NAME[spec.distribution](spec)
