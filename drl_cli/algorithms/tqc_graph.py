"""Truncated quantile critics for Box actions: SAC whose critics predict quantiles of the return.

The quantiles of all target critics are pooled, and of the pool the largest are left out of the target: a finer remedy
against overestimation than the lower of two critics. The actor maximises the mean of all quantiles.

Source: Kuznetsov et al. 2020, "Controlling Overestimation Bias with Truncated Mixture of Continuous Distributional Quantile
Critics" (arXiv 2005.04269).

Deviations, beside those of ``max_entropy_update_graph`` and ``max_entropy_actor_graph``:
- Nothing is sorted, see ``algorithms.losses.quantile``.
- A row's error, and with it its priority, is the mean of its target quantiles minus a critic's mean: the mean |δ| over
  all pairs of quantiles would draw states for the noise in their returns, which no update takes away.
"""

from collections.abc import Mapping

import numpy as np

from drl_cli.algorithms import tqc
from drl_cli.algorithms.losses.quantile import kept_shares, shared_quantile_huber, soft_target_quantiles
from drl_cli.algorithms.losses.value import td_error
from drl_cli.algorithms.max_entropy_actor_graph import ActionChoice, Actor, CurrentPolicy, reparametrized
from drl_cli.algorithms.max_entropy_critics_graph import CriticLosses, OnlineAndTarget, head_of
from drl_cli.algorithms.max_entropy_update_graph import MaxEntropyUpdate
from drl_cli.policies.forward_tf import Tensors
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.tf1.graph import Batch, LearnerGraph
from drl_cli.tf1.tensorflow import Tensor, tf


def build(
    config: tqc.TQCConfig, spec: PolicySpec, initial: Mapping[str, np.ndarray], seed: int, scope: str
) -> LearnerGraph:
    """Build TQC's variables in the current graph and return its LearnerGraph.

    ``initial``: {name: array} of ``tqc.initial_weights``; ``seed`` keys the noise; ``scope`` (ending in "/") goes before every
    variable's name.
    """
    actor = Actor(config, spec, initial, scope, reparametrized(spec, seed))
    nets = OnlineAndTarget(config, tqc.critic_spec(config, spec), initial, scope)
    critics = TruncatedQuantileCritics(nets, config.top_quantiles_to_drop_per_net * config.num_critics)
    return MaxEntropyUpdate(config, spec, actor, critics, scope).graph()


class TruncatedQuantileCritics:
    """Critics of M quantiles each, [C, B, M], of which the target leaves the highest out."""

    def __init__(self, nets: OnlineAndTarget, dropped: int) -> None:
        """``nets``: of a NetSpec with the inputs obs and action and the head "quantiles"; ``dropped`` of all quantiles."""
        self._nets, self.trained, self._dropped = nets, nets.trained, dropped
        self.variables, self.values, self.after_step = nets.variables, nets.values, nets.after_step

    def losses(self, values: Tensors, batch: Batch, policy: CurrentPolicy, alpha: Tensor) -> CriticLosses:
        """See Critics: the quantile Huber loss of each critic against the truncated pool."""
        choice = policy.next_choice(batch)
        nets = self._nets
        next_quantiles = head_of(nets.target_net, nets.target, "quantiles", batch["next_obs"], choice.action)
        pooled = tf.concat(tf.unstack(next_quantiles), axis=-1)  # [B, C·M]
        shares = kept_shares(pooled, self._dropped)  # [B, C·M]
        target = soft_target_quantiles(batch["reward"], batch["discount"], pooled, choice.logp, alpha)  # [B, C·M]
        quantiles = head_of(nets.net, values, "quantiles", batch["obs"], batch["action"])  # [C, B, M]
        q = tf.reduce_mean(quantiles, axis=-1)  # [C, B]
        kept = tf.reduce_sum(target * shares, axis=-1) / float(pooled.shape[-1] - self._dropped)  # [B]
        return CriticLosses(shared_quantile_huber(quantiles, target, shares), q, td_error(q, kept))

    def policy_value(self, values: Tensors, batch: Batch, policy: CurrentPolicy, choice: ActionChoice) -> Tensor:
        """See Critics: one value, the mean over all critics and quantiles."""
        quantiles = head_of(self._nets.net, values, "quantiles", batch["obs"], choice.action)  # [C, B, M]
        return tf.reduce_mean(quantiles, axis=[0, 2])[None]  # [1, B]
