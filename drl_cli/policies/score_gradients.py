"""Log-probability and entropy of what a policy drew, and how both change with its heads, in NumPy.

Used by ``algorithms.a3c_gradients``, after ``policies.backward``. N rows; the heads are those of
``policies.distributions``, whose log-probabilities and entropies these are; here they come with their slopes,
computed once. Each class maps (heads,
action) to a Scored, whose ``gradients(of_logp, of_entropy)`` returns {head: float32 [N, size]}: the gradient of
Σ of_logp·logp + of_entropy·H over the rows. Logits that a mask has filled get none.

Source: Williams 1992, "Simple statistical gradient-following algorithms for connectionist reinforcement learning", eq. 8 to
10 ("characteristic eligibility"); the entropies' by hand.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from drl_cli.policies.action_specs import LOG_STD_MAX, composite, multi_discrete
from drl_cli.policies.distributions import fill

if TYPE_CHECKING:
    from drl_cli.policies.nets import Heads
    from drl_cli.policies.policy_spec import PolicySpec

_HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)


class Scored(NamedTuple):
    """What is known of N actions."""

    logp: np.ndarray  # [N]
    entropy: np.ndarray  # [N], of the distribution that they were drawn from
    gradients: Callable  # (of_logp [N], of_entropy [N]) -> {head: [N, size]}


class CategoricalScore:
    """A softmax over n actions, of which ``heads["allowed"]`` may forbid some; actions int32 [N]."""

    def __init__(self, spec: PolicySpec) -> None:
        """``spec``: PolicySpec with a DiscreteSpec."""

    def __call__(self, heads: Heads, action: np.ndarray) -> Scored:
        """See the module."""
        # What is filled has probability 0, so that its slope is 0 too.
        logp, entropy, back = _choice(fill(heads["logits"], heads), action)
        return Scored(logp, entropy, lambda of_logp, of_entropy: {"logits": back(of_logp, of_entropy)})


class MultiCategoricalScore:
    """Several independent softmaxes, their logits side by side; actions int32 [N, k]."""

    def __init__(self, spec: PolicySpec) -> None:
        """``spec``: PolicySpec with a MultiDiscreteSpec."""
        self._borders = np.cumsum(multi_discrete(spec.action).nvec)[:-1]

    def __call__(self, heads: Heads, action: np.ndarray) -> Scored:
        """See the module."""
        parts = np.split(heads["logits"], self._borders, axis=-1)
        choices = [_choice(logits, action[:, index]) for index, logits in enumerate(parts)]

        def gradients(of_logp: np.ndarray, of_entropy: np.ndarray) -> Heads:
            return {"logits": np.concatenate([back(of_logp, of_entropy) for _, _, back in choices], axis=-1)}

        return Scored(
            _total([logp for logp, _, _ in choices]), _total([entropy for _, entropy, _ in choices]), gradients
        )


class MultiBernoulliScore:
    """n independent switches; actions int32 [N, n], 1 with the probability σ(logit)."""

    def __init__(self, spec: PolicySpec) -> None:
        """``spec``: PolicySpec with a MultiBinarySpec."""

    def __call__(self, heads: Heads, action: np.ndarray) -> Scored:
        """See the module."""
        logits = heads["logits"]
        action = action.astype(logits.dtype)  # with int32 NumPy would go on in float64
        on = 0.5 * np.tanh(0.5 * logits) + 0.5
        softplus = np.maximum(logits, 0.0) + np.log1p(np.exp(-np.abs(logits)))  # -log(1 - σ)

        def gradients(of_logp: np.ndarray, of_entropy: np.ndarray) -> Heads:
            # dH/dl = -l·σ·(1 - σ): switches nearer to a coin are less sure.
            slope = -logits * on * (1.0 - on)
            return {"logits": of_logp[:, None] * (action - on) + of_entropy[:, None] * slope}

        return Scored((action * logits - softplus).sum(axis=-1), (softplus - on * logits).sum(axis=-1), gradients)


class GaussianScore:
    """A diagonal Gaussian whose log standard deviations are bounded; actions float32 [N, A] as they were drawn."""

    def __init__(self, spec: PolicySpec) -> None:
        """``spec``: PolicySpec with an ActionSpec."""
        self._log_std_min = np.float32(spec.log_std_min)

    def __call__(self, heads: Heads, action: np.ndarray) -> Scored:
        """See the module."""
        mean, raw = heads["mean"], heads["log_std"]
        log_std = np.minimum(np.maximum(raw, self._log_std_min), LOG_STD_MAX)
        inside = (raw >= self._log_std_min) & (raw <= LOG_STD_MAX)
        inverse = np.exp(-log_std)
        unit = (action - mean) * inverse
        logp = -(0.5 * np.square(unit) + log_std + np.float32(_HALF_LOG_2_PI)).sum(axis=-1)
        entropy = (log_std + np.float32(_HALF_LOG_2_PI + 0.5)).sum(axis=-1)

        def gradients(of_logp: np.ndarray, of_entropy: np.ndarray) -> Heads:
            of_logp, of_entropy = of_logp[:, None], of_entropy[:, None]
            return {
                "mean": of_logp * unit * inverse,
                "log_std": (of_logp * (np.square(unit) - 1.0) + of_entropy) * inside,
            }

        return Scored(logp, entropy, gradients)


class CompositeScore:
    """Independent parts; actions float32 [N, A] (``action_specs.CompositeSpec``)."""

    def __init__(self, spec: PolicySpec) -> None:
        """``spec``: PolicySpec with a CompositeSpec."""
        self._action = composite(spec.action)
        self._parts = [_OF_PART[part.kind](dataclasses.replace(spec, action=part)) for part in self._action.parts]

    def __call__(self, heads: Heads, action: np.ndarray) -> Scored:
        """See the module."""
        chosen = self._action.split(action)
        scored = [part(self._action.heads_of(i, heads), chosen[i]) for i, part in enumerate(self._parts)]

        def gradients(of_logp: np.ndarray, of_entropy: np.ndarray) -> Heads:
            return {
                f"{head}_{index}": slope
                for index, part in enumerate(scored)
                for head, slope in part.gradients(of_logp, of_entropy).items()
            }

        return Scored(_total([part.logp for part in scored]), _total([part.entropy for part in scored]), gradients)


def _total(parts: list[np.ndarray]) -> np.ndarray:
    """Return the sum of ``parts``, one after the other."""
    total = 0 + parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _choice(
    logits: np.ndarray, action: np.ndarray
) -> tuple[np.ndarray, np.ndarray, Callable[[np.ndarray, np.ndarray], np.ndarray]]:
    """Return (logp [N], entropy [N], back) of choices from a softmax; back: (of_logp, of_entropy) → [N, n]."""
    rows = np.arange(len(logits))
    shifted = logits - logits.max(axis=-1, keepdims=True)
    p = np.exp(shifted)
    total = p.sum(axis=-1, keepdims=True)
    log_p = shifted - np.log(total)
    p /= total
    # A filled logit has p = 0 and a large but finite log p: 0·log 0 is 0 here.
    entropy = -(p * log_p).sum(axis=-1)

    def back(of_logp: np.ndarray, of_entropy: np.ndarray) -> np.ndarray:
        found = p * (-of_logp[:, None] - of_entropy[:, None] * (log_p + entropy[:, None]))
        found[rows, action] += of_logp
        return found

    return log_p[rows, action], entropy, back


_OF_PART: dict[str, type[GaussianScore | CategoricalScore | MultiCategoricalScore | MultiBernoulliScore]] = {
    "Box": GaussianScore,
    "Discrete": CategoricalScore,
    "MultiDiscrete": MultiCategoricalScore,
    "MultiBinary": MultiBernoulliScore,
}
BY_NAME = {
    "categorical": CategoricalScore,
    "multi_categorical": MultiCategoricalScore,
    "multi_bernoulli": MultiBernoulliScore,
    "gaussian": GaussianScore,
    "composite": CompositeScore,
}
