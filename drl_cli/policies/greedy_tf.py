"""What a policy does when it does not explore, as graph tensors: ``policies.numpy_policy.NumpyPolicy`` for exports.

Observations as the environment (after its preprocessing) gives them go in, actions in the environment's units come out:
filter, mask, nets, memory, distribution, scaling and clipping are all in it. Used by ``export``, whose tests hold it together
with NumPy's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from drl_cli.policies import custom_distributions_tf, distributions_tf, filters_tf
from drl_cli.policies.action_specs import ActionSpec, DiscreteSpec, MultiBinarySpec, box, multi_discrete, without_parts
from drl_cli.policies.distributions_tf import TFActionValues, allowed, masked
from drl_cli.policies.forward_tf import TFNet
from drl_cli.policies.team_tf import acting_heads, acting_step, side_by_side
from drl_cli.tf1.tensorflow import Tensor, tf

if TYPE_CHECKING:
    from drl_cli.policies.forward_tf import Tensors
    from drl_cli.policies.nets import Weights
    from drl_cli.policies.policy_spec import PolicySpec


class Greedy:
    """``Greedy(spec, weights)(obs, state, reward) → action, next state``, in the current graph."""

    def __init__(self, spec: PolicySpec, weights: Weights) -> None:
        """``spec``: PolicySpec; ``weights``: {name: float32 array}, of which the acting net and the filter are taken."""
        self._spec = spec
        names = [*spec.nets[0].weight_shapes(), *(name for name in weights if name.startswith("filter/"))]
        self._weights = {name: tf.constant(weights[name], name=name) for name in names}
        self._net = TFNet(spec.nets[0], self._weights)

    def __call__(
        self, obs: Tensor, state: Sequence[Tensor] = (), reward: Tensor | None = None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return (action, next state) for ``obs`` [B, *stacked_shape] and what ``spec.state`` lists, [B, …] each.

        ``reward`` float32 [B]: what came of the last action, where the spec has ``previous``. Actions are float32 [B, A], or
        whole numbers as ``NumpyPolicy.to_env`` returns them: int64 [B, …], int8 [B, n] of switches.
        """
        given = filters_tf.normalised(obs, self._weights)  # [B, *stacked_shape]
        if not self._spec.nets[0].image:
            given = tf.reshape(given, [-1, math.prod(self._spec.stacked_shape)])  # [B, I]
        if self._spec.team:
            team, net = self._spec.team, self._spec.nets[0]
            if state:
                heads, after = acting_step(team, net, self._weights, given, state)
            else:
                heads, after = acting_heads(team, net, self._weights, given), ()
            return self._to_env(self._chosen(side_by_side(team, heads), obs)), after
        if not self._spec.previous:
            heads, state = self._net.step([given], state) if state else (self._net(given), ())
            return self._to_env(self._chosen(heads, obs)), tuple(state)
        if reward is None:
            raise ValueError("a policy that sees its previous reward was given none")
        *cells, before = state
        before = tf.concat([before[:, :-1], reward[:, None]], axis=-1)  # [B, size + 1]
        heads, cells = self._net.step([given, before], tuple(cells))
        action = self._chosen(heads, obs)
        return self._to_env(action), (*cells, self._noted(action))

    def _chosen(self, heads: Tensors, obs: Tensor) -> Tensor:
        """The greedy action as the policy counts it: float32 [B, A] in its bounds, or int32 [B] or [B, k]."""
        spec = self._spec
        if spec.distribution in ("squashed_gaussian", "deterministic"):
            kinds = {
                "squashed_gaussian": distributions_tf.TFSquashedGaussian,
                "deterministic": distributions_tf.TFDeterministic,
            }
            return kinds[spec.distribution](*box(spec.action).policy_bounds()).greedy(heads)  # [B, A]
        if spec.custom:
            return custom_distributions_tf.greedy_action(spec, heads)  # [B, …]
        if spec.distribution == "gaussian":
            return heads["mean"]  # [B, A]
        if spec.distribution == "q":
            values = TFActionValues(spec)
            return values.greedy(values.atoms(heads), obs)  # [B]
        logits = heads["q" if spec.distribution == "joint_q" else "logits"]  # [B, size]
        if spec.distribution == "multi_bernoulli":
            return tf.cast(logits > 0.0, tf.int32)  # [B, n]
        if spec.distribution in ("multi_categorical", "joint_q"):
            each = tf.split(logits, multi_discrete(spec.action).nvec, axis=-1)  # [B, n] each
            return tf.stack([tf.argmax(part, axis=-1, output_type=tf.int32) for part in each], axis=1)  # [B, k]
        logits = masked(logits, allowed(spec.mask, obs)) if spec.mask else logits  # [B, n]
        return tf.argmax(logits, axis=-1, output_type=tf.int32)  # [B]

    def _noted(self, action: Tensor) -> Tensor:
        """What the next step sees of ``action``: as numbers, and a reward of 0 to be filled in, [B, size + 1]."""
        described = without_parts(self._spec.action)
        if isinstance(described, ActionSpec):
            low, high = described.policy_bounds()
            encoded = tf.clip_by_value((action - (high + low) / 2) / ((high - low) / 2), -1.0, 1.0)  # [B, A]
        elif isinstance(described, MultiBinarySpec):
            encoded = tf.cast(action, tf.float32)  # [B, n]
        elif isinstance(described, DiscreteSpec):
            encoded = tf.one_hot(action, described.n)  # [B, n]
        else:
            parts = tf.unstack(action, len(described.nvec), axis=1)  # [B] each
            each = [tf.one_hot(part, n) for part, n in zip(parts, described.nvec, strict=True)]
            encoded = tf.concat(each, axis=-1)  # [B, Σ n]
        return tf.concat([encoded, tf.zeros_like(encoded[:, :1])], axis=-1)  # [B, size + 1]

    def _to_env(self, action: Tensor) -> Tensor:
        given = without_parts(self._spec.action)
        if isinstance(given, MultiBinarySpec):
            return tf.cast(action, tf.int8)  # [B, n]
        if not isinstance(given, ActionSpec):
            return tf.cast(action, tf.int64) + np.asarray(given.start, np.int64)  # [B] or [B, k]
        low, high = np.asarray(given.low, np.float32), np.asarray(given.high, np.float32)
        if given.normalize:
            action = action * ((high - low) / 2) + (high + low) / 2  # [B, A]
        return tf.clip_by_value(action, low, high) if given.clip else action  # [B, A]
