"""Truncated quantile critics for Box actions: SAC whose critics predict quantiles of the return.

The quantiles of all target critics are pooled, and of the pool the largest are left out of the target: a finer remedy
against overestimation than the lowest of two critics. The actor climbs the mean of all quantiles.

Source: Kuznetsov et al. 2020, "Controlling Overestimation Bias with Truncated Mixture of Continuous Distributional Quantile
Critics" (arXiv 2005.04269).

Deviations, beside those of ``soft_update`` and ``soft_actor``:
- Nothing is sorted, see ``algorithms.losses.quantile``.
- A row's error, and with it its priority, is the mean of its target quantiles minus a critic's mean: the mean |δ| over
  all pairs of quantiles would draw states for the noise in their returns, which no update takes away.
"""

from drl_cli.algorithms import tqc_nets
from drl_cli.algorithms.losses.quantile import kept_shares, shared_quantile_huber, soft_target_quantiles
from drl_cli.algorithms.losses.value import td_error
from drl_cli.algorithms.max_entropy_actor_graph import Actor, drawn
from drl_cli.algorithms.max_entropy_critics_graph import Judgement, Targets, head_of
from drl_cli.algorithms.max_entropy_update_graph import SoftUpdate
from drl_cli.policies.forward_tf import values_of, variables_of
from drl_cli.tf1.tensorflow import tf


def build(config, spec, initial, seed, scope):
    """Build TQC's variables in the current graph and return its LearnerGraph.

    ``config``: TQCConfig; ``spec``: PolicySpec; ``initial``: {name: array} of ``tqc_nets.initial_weights``; ``seed`` keys the
    noise; ``scope`` (ending in "/") goes before every variable's name.
    """
    actor = Actor(config, spec, initial, scope, drawn(spec, seed))
    critics = Truncated(config, tqc_nets.critic_spec(config, spec), initial, scope)
    return SoftUpdate(config, spec, actor, critics, scope).graph()


class Truncated:
    """Critics of M quantiles each, [C, B, M]; ``soft_critics`` says what each method does."""

    def __init__(self, config, net, initial, scope):
        """``net``: NetSpec with the inputs obs and action and the head "quantiles"."""
        self._net = net
        self._dropped = config.top_quantiles_to_drop_per_net * config.num_critics
        self.trained = variables_of(net.weight_shapes(), initial, scope)
        self._targets = Targets(config, net, self.trained, initial, scope)

    def variables(self):
        """See ``soft_critics``."""
        return [*self.trained.values(), *self._targets.weights.values()]

    def values(self):
        """See ``soft_critics``."""
        return values_of(self.trained)

    def judge(self, values, batch, acting, alpha):
        """See ``soft_critics``: the quantile Huber loss of each critic against the truncated pool."""
        following = acting.following(batch)
        target_net, target_weights = self._targets.net, self._targets.weights
        following_quantiles = head_of(target_net, target_weights, "quantiles", batch["next_obs"], following.action)
        pooled = tf.concat(tf.unstack(following_quantiles), axis=-1)  # [B, C·M]
        shares = kept_shares(pooled, self._dropped)  # [B, C·M]
        target = soft_target_quantiles(batch["reward"], batch["discount"], pooled, following.logp, alpha)  # [B, C·M]
        quantiles = head_of(self._net, values, "quantiles", batch["obs"], batch["action"])  # [C, B, M]
        q = tf.reduce_mean(quantiles, axis=-1)  # [C, B]
        kept = tf.reduce_sum(target * shares, axis=-1) / float(pooled.shape[-1] - self._dropped)  # [B]
        return Judgement(shared_quantile_huber(quantiles, target, shares), q, td_error(q, kept))

    def worth(self, values, batch, acting, choice):
        """See ``soft_critics``: one opinion, the mean over all critics and quantiles."""
        quantiles = head_of(self._net, values, "quantiles", batch["obs"], choice.action)  # [C, B, M]
        return tf.reduce_mean(quantiles, axis=[0, 2])[None]  # [1, B]

    def settle(self, statistics, number):
        """See ``soft_critics``: the targets follow."""
        self._targets.settle(number)
