"""The filters of a policy in the graph: their variables, observations and rewards on a common scale when they are learnt from.

The TensorFlow form of ``policies.filters``, which has the sources; ``tests/policies/test_filters_tf.py`` compares them. Used by
``tf1.graph`` (algorithms with a replay, which holds raw observations and rewards) and by ``policies.actor_critic_tf``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from drl_cli.policies import filters
from drl_cli.policies.filters import CLIP, EPSILON, MEAN, RETURN_VAR, STREAMS, VAR
from drl_cli.tf1.tensorflow import Tensor, Variable, tf

if TYPE_CHECKING:
    from drl_cli.policies.forward_tf import Tensors
    from drl_cli.policies.policy_spec import PolicySpec


def variables(spec: PolicySpec, scope: str) -> dict[str, Variable]:
    """Create the variables of the filters of ``spec`` (PolicySpec) in the current graph; {name without ``scope``: variable}.

    float32: those of ``policies.filters.weight_shapes``, which travel. float64, for who merges: ``filter/count``,
    ``filter/exact_mean``, ``filter/m2`` of observations, and ``filter/return_…`` of discounted returns. {} without filters.
    """
    first = filters.first_weights(spec)
    for prefix in STREAMS.values():
        if prefix + "var" in first:
            zeros = np.zeros(first[prefix + "var"].shape)
            first |= {prefix + "count": np.zeros(()), prefix + "exact_mean": zeros, prefix + "m2": zeros}
    return {
        name: tf.Variable(value, name=scope + name, dtype=value.dtype, use_resource=True, trainable=False)
        for name, value in first.items()
    }


def normalised(obs: Tensor, values: Tensors) -> Tensor:
    """Return ``obs`` [..., *obs_shape] as nets see it, which is as it is without a filter in ``values``.

    ``values``: {name without scope: tensor or variable}.
    """
    if MEAN not in values:
        return obs
    deviation = tf.sqrt(_read(values[VAR])) + EPSILON  # [*obs_shape]
    return tf.clip_by_value((obs - _read(values[MEAN])) / deviation, -CLIP, CLIP)  # [..., *obs_shape]


def rescaled(reward: Tensor, values: Tensors) -> Tensor:
    """Return ``reward`` […] as it is learnt from: in deviations of the discounted return, where that is known."""
    if RETURN_VAR not in values:
        return reward
    var = _read(values[RETURN_VAR])  # scalar
    return reward / tf.where(var > 0.0, tf.sqrt(var) + EPSILON, tf.ones([]))  # […]


def filtered(batch: Tensors, values: Tensors) -> Tensors:
    """Return a batch of transitions or sequences with its observations ``normalised`` and its rewards ``rescaled``."""
    seen = {name: normalised(batch[name], values) for name in ("obs", "next_obs") if name in batch}
    rewards = {name: rescaled(batch[name], values) for name in ("reward",) if name in batch}
    return batch | seen | rewards


def _read(value: Tensor) -> Tensor:
    return value.read_value() if hasattr(value, "read_value") else value
