"""CrossQ for Box actions: SAC without target networks, with batch normalisation in critics and policy.

Source: Bhatt et al. 2024, "CrossQ: Batch Normalization in Deep Reinforcement Learning for Greater Sample Efficiency and
Simplicity" (arXiv 1902.05605), and its authors' code where the paper is silent: which pass is in which mode, when the running
statistics move.

- Critics see (s, a) and (s′, a′) in one pass in training mode, so that one set of statistics, of both, normalises them. No
  gradient flows through the values of the second half (it does through the statistics, as in the authors' code).
- a′ comes from the policy in evaluation mode; in the actor's loss the policy is in training mode, the critics in
  evaluation mode. The critics' running statistics move at every update, the policy's at each of its own updates.

Deviations, beside those of ``max_entropy_update_graph`` and ``max_entropy_actor_graph``:
- Batch normalisation, not *re*normalisation (Ioffe 2017), with which the authors' code corrects a batch's statistics towards
  the running ones, by a factor of at most 3 and an offset of at most 5, from its 100,000th update on. Before that it is
  what is here, and that many updates are more than the runs that this is for.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from drl_cli.algorithms import crossq
from drl_cli.algorithms.losses.value import soft_td_target, squared, td_error
from drl_cli.algorithms.max_entropy_actor_graph import ActionChoice, Actor, CurrentPolicy, reparametrized
from drl_cli.algorithms.max_entropy_critics_graph import CriticLosses, first, head_of, with_copies
from drl_cli.algorithms.max_entropy_update_graph import MaxEntropyUpdate
from drl_cli.policies.forward_tf import Tensors, TFNet, values_of, variables_of
from drl_cli.policies.policy_spec import NetSpec, PolicySpec
from drl_cli.tf1.graph import Batch, LearnerGraph
from drl_cli.tf1.polyak import polyak_update
from drl_cli.tf1.tensorflow import Tensor, Variable, tf


def build(
    config: crossq.CrossQConfig, spec: PolicySpec, initial: Mapping[str, np.ndarray], seed: int, scope: str
) -> LearnerGraph:
    """Build CrossQ's variables in the current graph and return its LearnerGraph.

    ``initial``: {name: array} of ``crossq.initial_weights``; ``seed`` keys the noise; ``scope`` (ending in "/") goes before
    every variable's name.
    """
    actor = Actor(config, spec, initial, scope, reparametrized(spec, seed))
    critics = BatchNormalizedCritics(config, crossq.critic_spec(config, spec), initial, scope)
    return MaxEntropyUpdate(config, spec, actor, critics, scope, config.bn_momentum, config.beta_1).graph()


class BatchNormalizedCritics:
    """Critics with batch normalisation over both states of a transition and without target networks, [C, B]."""

    def __init__(
        self, config: crossq.CrossQConfig, net: NetSpec, initial: Mapping[str, np.ndarray], scope: str
    ) -> None:
        """``net``: NetSpec with the inputs obs and action, the head "q" of size 1 and ``batch_norm``."""
        self._net, self._share = net, 1.0 - config.bn_momentum
        self._weights = variables_of(net.weight_shapes(), initial, scope)
        self.trained = {name: self._weights[name] for name in net.trainable()}
        self._running = [name for name in self._weights if name not in self.trained]

    def variables(self) -> list[Variable]:
        """See Critics."""
        return list(self._weights.values())

    def values(self) -> dict[str, Tensor]:
        """See Critics."""
        return values_of(self._weights)

    def losses(self, values: Tensors, batch: Batch, policy: CurrentPolicy, alpha: Tensor) -> CriticLosses:
        """See Critics: the squared TD error, both halves of it from one pass."""
        choice = policy.next_choice(batch)
        net = TFNet(self._net, values, training=True)
        obs = tf.concat([batch["obs"], batch["next_obs"]], axis=0)  # [2B, …]
        action = tf.concat([batch["action"], choice.action], axis=0)  # [2B, A]
        both = first(with_copies(self._net, net(obs, action)["q"]))  # [C, 2B]
        q, next_q = tf.split(both, 2, axis=-1)  # [C, B], [C, B]
        target = soft_td_target(batch["reward"], batch["discount"], next_q, choice.logp, alpha)  # [B]
        error = td_error(q, target)  # [C, B]
        return CriticLosses(squared(error), q, error, tuple(net.statistics[name] for name in self._running))

    def policy_value(self, values: Tensors, batch: Batch, policy: CurrentPolicy, choice: ActionChoice) -> Tensor:
        """See Critics: by the running statistics."""
        return first(head_of(self._net, values, "q", batch["obs"], choice.action))  # [C, B]

    def after_step(self, statistics: Sequence[Tensor], number: Tensor) -> None:
        """See Critics: the running statistics move towards the batch's."""
        polyak_update([self._weights[name] for name in self._running], statistics, self._share)
