"""MADDPG: one update as a graph. Each agent's critic sees all observations and actions, its policy what it observes itself.

Sources: Lowe et al. 2017 (arXiv 1706.02275), eq. 5 and 6, algorithm 1; Gumbel-softmax, Jang et al. 2017 (arXiv 1611.01144), in
its straight-through form; twin critics, Fujimoto et al. 2018 (arXiv 1802.09477), as Ackermann et al. 2019 (arXiv 1910.01465)
put them to several agents.

Deviations:
- Discrete actions in the replay and in targets are one-hot; the authors' environments take soft ones.
- One Adam for all policies and one for all critics; ``grad_clip`` bounds the norm of each as a whole, the authors' that of
  every variable.
- Gradients of an update are taken at the same weights (critics and policies), then applied; targets follow both.
- An agent that is gone has no reward, no value and no loss.
"""

import dataclasses
from collections.abc import Mapping

import numpy as np

from drl_cli.algorithms import maddpg
from drl_cli.algorithms.ddpg_graph import DeterministicWeights
from drl_cli.algorithms.learner_graph import action_bounds, counter, learner_graph
from drl_cli.algorithms.losses.value import squared
from drl_cli.algorithms.maddpg import MADDPGConfig
from drl_cli.policies import net_builders
from drl_cli.policies.forward_tf import Tensors, TFNet, values_of
from drl_cli.policies.policy_spec import NetSpec, PolicySpec
from drl_cli.policies.team_tf import TeamParts, acting_heads
from drl_cli.tf1.graph import Batch, Gradients, LearnerGraph, Parts, Rates, transition_columns
from drl_cli.tf1.optimizers import clipped
from drl_cli.tf1.stateless_random import stateless_uniform
from drl_cli.tf1.tensorflow import Tensor, tf

RATES = ("actor_lr", "critic_lr")
NEXT, NOW = 0, 1  # streams of random numbers within an update: of the target's actions, of the policy's


def build(
    config: MADDPGConfig, spec: PolicySpec, initial: Mapping[str, np.ndarray], seed: int, scope: str
) -> LearnerGraph:
    """Build the variables in the current graph and return the LearnerGraph.

    ``initial``: {name: array} of ``maddpg.initial_weights``; ``seed`` keys the draws; ``scope`` (ending in "/") goes before
    every variable's name.
    """
    update = _MADDPGUpdate(config, spec, initial, seed, scope)
    return learner_graph(transition_columns(config, spec), RATES, update, spec, scope)


class _MADDPGUpdate:
    """The variables and the two halves of an update over them."""

    def __init__(
        self, config: MADDPGConfig, spec: PolicySpec, initial: Mapping[str, np.ndarray], seed: int, scope: str
    ) -> None:
        if spec.team is None:
            raise TypeError("a policy of a team is needed")
        self._config, self._team, self._seed = config, spec.team, seed
        self._bounds = action_bounds(spec) if spec.action.kind == "Box" else None
        self._policy_net, self._critic_net = spec.nets[0], maddpg.critic_spec(config, spec)
        self._weights = DeterministicWeights(
            config, (self._policy_net, self._critic_net), initial, scope, net_builders.updates_per_target_update(config)
        )
        self.number = counter(scope)
        self.variables = self._weights.all
        n = self._team.widest
        self._has = np.float32(np.arange(n) < np.asarray(self._team.actions)[:, None])  # [A, n]

    def gradients(self, batch: Batch, number: Tensor) -> Gradients:
        """See LearnerGraph: gradients of critics and policies for ``batch`` at update ``number``."""
        policy, critic = values_of(self._weights.policy), values_of(self._weights.critic)
        weight = batch["weight"] if self._config.prioritized_replay else 1.0  # [B]
        now, later = TeamParts(self._team, batch["obs"]), TeamParts(self._team, batch["next_obs"])
        taken = self._encoded(batch["action"])  # [B, A, n]
        # critics: the sum over agents and twins of the weighted mean over the batch
        target = self._targets(batch, later, number)  # [A, B]
        q = self._q(critic, now, taken)  # [C, A, B]
        there = tf.transpose(now.alive)  # [A, B]
        error = (target - q) * there  # [C, A, B]
        critic_loss = tf.reduce_sum(tf.reduce_mean(weight * squared(error), axis=-1))  # scalar
        critic_parts, critic_norm = clipped(tf.gradients(critic_loss, list(critic.values())), self._config.grad_clip)
        # policies: each agent's action of now among those that the others took
        action, regular = self._acted(policy, batch["obs"], (number, NOW))  # [B, A, n], [B, A]
        own_q = self._own_q(critic, now, taken, action)  # [A, B]
        rows = tf.reduce_sum((self._config.action_reg * tf.transpose(regular) - own_q) * there, axis=0)  # [B]
        actor_loss = tf.reduce_mean(weight * rows)  # scalar
        actor_parts, actor_norm = clipped(tf.gradients(actor_loss, list(policy.values())), self._config.grad_clip)
        stats = {
            "critic_loss": critic_loss,
            "mean_td_error": tf.reduce_mean(error),
            "mean_q": tf.reduce_mean(q),
            "min_q": tf.reduce_min(q),
            "max_q": tf.reduce_max(q),
            "grad_norm_critic": critic_norm,
            "actor_loss": actor_loss,
            "grad_norm_actor": actor_norm,
        }
        finite = tf.math.is_finite(critic_norm + actor_norm + critic_loss)
        priority = tf.stop_gradient(tf.reduce_mean(tf.abs(error), axis=[0, 1]))  # [B]
        return Gradients({"critic": critic_parts, "actor": actor_parts}, stats, finite, {"priority": priority})

    def apply(self, parts: Parts, rates: Rates, number: Tensor) -> None:
        """See LearnerGraph: change the weights with ``parts``, then move the targets and the average."""
        self._weights.adam["critic"].apply(parts["critic"], rates["critic_lr"])
        self._weights.adam["actor"].apply(parts["actor"], rates["actor_lr"])
        self._weights.follow(number)

    def _targets(self, batch: Batch, later: TeamParts, number: Tensor) -> Tensor:
        """Each agent's r + d·min Q′ of what the target policies do next, [A, B], without gradient."""
        online, target = self._weights.policy | self._weights.critic, self._weights.target
        target_of = {name: target[net_builders.target_name(name)] for name in online}
        action, _ = self._acted(target_of, batch["next_obs"], (number, NEXT))  # [B, A, n]
        next_q = tf.reduce_min(self._q(target_of, later, action), axis=0)  # [A, B]
        goes_on = batch["discount"] * tf.transpose(later.alive)  # [A, B]
        return tf.stop_gradient(tf.transpose(later.rewards) + goes_on * next_q)  # [A, B]

    def _acted(self, weights: Tensors, obs: Tensor, draw: tuple[Tensor, int]) -> tuple[Tensor, Tensor]:
        """What the policies do at ``obs`` [B, D], [B, A, n], and the mean square of what they say, [B, A].

        Discrete actions are drawn: one-hot, with the gradient of the softmax. ``draw``: (update number, stream).
        """
        heads = acting_heads(self._team, self._policy_net, weights, obs)
        if self._bounds is not None:
            low, high = (np.reshape(bound, self._has.shape) for bound in self._bounds)  # [A, n]
            mean = heads["mean"]  # [B, A, n]
            action = tf.tanh(mean) * ((high - low) / 2) + (high + low) / 2  # [B, A, n]
            return action * self._has, tf.reduce_mean(tf.square(mean) * self._has, axis=-1)
        logits = heads["logits"]  # [B, A, n]
        uniform = (stateless_uniform(logits.shape, self._seed, *draw) + 1.0) / 2.0  # [B, A, n]
        noisy = logits - tf.math.log(-tf.math.log(uniform))  # [B, A, n]
        soft = tf.nn.softmax(noisy / self._config.gumbel_temperature)  # [B, A, n]
        hard = tf.one_hot(tf.argmax(noisy, axis=-1), self._team.widest)  # [B, A, n]
        allowed = tf.cast(TeamParts(self._team, obs).allowed, tf.float32)  # [B, A, n]: others are filled, not said
        return tf.stop_gradient(hard - soft) + soft, tf.reduce_mean(tf.square(logits * allowed), axis=-1)

    def _encoded(self, action: Tensor) -> Tensor:
        """Actions of a batch as numbers, [B, A, n]: one-hot, or those of each agent's own dimensions."""
        if self._bounds is None:
            return tf.one_hot(action, self._team.widest)  # [B, A, n]
        return tf.reshape(action, [-1, *self._has.shape]) * self._has  # [B, A, n]

    def _q(self, weights: Tensors, parts: TeamParts, action: Tensor) -> Tensor:
        """The critics' values of the joint ``action`` [B, A, n], [C, A, B]."""
        return self._valued(self._critic_net, weights, *self._given(parts, action))

    def _own_q(self, weights: Tensors, parts: TeamParts, taken: Tensor, action: Tensor) -> Tensor:
        """The first critic's value of each agent's ``action`` [B, A, n] among what the others took, [A, B]."""
        agents = self._team.count
        net = dataclasses.replace(self._critic_net, copies=agents)
        names = net.weight_shapes()
        if self._critic_net.copies > agents:
            weights = {name: weights[name][:agents] if agents > 1 else weights[name][0] for name in names}
        own = np.eye(agents, dtype=np.float32)[:, None, :, None]  # [A, 1, A, 1]
        joint = own * action + (1.0 - own) * taken  # [A, B, A, n]
        seen, _ = self._given(parts, taken)  # [B, A·O]
        joint = tf.reshape(joint, [agents, -1, agents * self._team.widest])  # [A, B, A·n]
        seen = tf.repeat(seen[None], agents, axis=0)  # [A, B, A·O]
        return self._valued(net, weights, *((seen, joint) if agents > 1 else (seen[0], joint[0])))[0]

    def _valued(self, net: NetSpec, weights: Tensors, seen: Tensor, action: Tensor) -> Tensor:
        rows = seen.shape[-2]
        return tf.reshape(TFNet(net, weights)(seen, action)["q"][..., 0], [-1, self._team.count, rows])  # [C, A, B]

    def _given(self, parts: TeamParts, action: Tensor) -> tuple[Tensor, Tensor]:
        """What all observe and do, [B, A·O] and [B, A·n]."""
        agents, (count, _, n) = self._team.count, action.shape
        return tf.reshape(parts.each, [count, agents * self._team.obs]), tf.reshape(action, [count, agents * n])
