"""RNNSAC: soft actor-critic with LSTMs from replayed sequences, one update as a graph.

Sources: SAC as in ``sac_graph``; sequences, stored states and burn-in as in ``sequences_graph``; keys and their meaning from
RLlib's RNNSAC. Deviations: those of ``sequences_graph`` and ``max_entropy_update_graph``; the gradient of the critics' LSTM is
that of the critics' losses alone.
"""

from collections.abc import Mapping

import numpy as np

from drl_cli.algorithms import rnnsac
from drl_cli.algorithms.learner_graph import learner_graph
from drl_cli.algorithms.losses.policy_gradient import soft_policy_loss, temperature_loss
from drl_cli.algorithms.losses.value import looked_ahead, squared, td_error, value_target
from drl_cli.algorithms.max_entropy_actor_graph import ACTION, NEXT_ACTION, Actor, reparametrized
from drl_cli.algorithms.max_entropy_critics_graph import WeightsAndTargets
from drl_cli.algorithms.max_entropy_update_graph import RATES, MaxEntropyParts, target_entropy
from drl_cli.algorithms.sequences_graph import LearntSteps, RecurrentCritics, policy_heads
from drl_cli.config.sections.replay import learnt_steps
from drl_cli.policies import net_builders
from drl_cli.policies.forward_tf import Tensors, values_of
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.tf1.graph import Batch, Gradients, LearnerGraph, sequence_columns
from drl_cli.tf1.optimizers import clipped
from drl_cli.tf1.tensorflow import Tensor, tf


def build(
    config: rnnsac.RNNSACConfig, spec: PolicySpec, initial: Mapping[str, np.ndarray], seed: int, scope: str
) -> LearnerGraph:
    """Build RNNSAC's variables in the current graph and return its LearnerGraph.

    ``spec``: PolicySpec with a state; ``initial``: {name: array} of ``rnnsac.initial_weights``; ``seed`` keys the noise;
    ``scope`` (ending in "/") goes before every variable's name.
    """
    update = _RNNSACUpdate(config, spec, initial, seed, scope)
    return learner_graph(sequence_columns(config, spec), RATES, update, spec, scope)


class _RNNSACUpdate(MaxEntropyParts):
    """SAC's update over the learnt steps of sequences."""

    def __init__(
        self, config: rnnsac.RNNSACConfig, spec: PolicySpec, initial: Mapping[str, np.ndarray], seed: int, scope: str
    ) -> None:
        self._choose = reparametrized(spec, seed)
        self._keys, self._steps = config, learnt_steps(config)
        nets = rnnsac.critic_specs(config, spec)
        self._online = RecurrentCritics(config, *nets)
        self._target_critics = RecurrentCritics(config, *map(net_builders.target_of, nets))
        self._weights = WeightsAndTargets(config, nets, initial, scope)
        super().__init__(config, spec, Actor(config, spec, initial, scope, self._choose), self._weights, scope)

    def gradients(self, batch: Batch, number: Tensor) -> Gradients:
        """See LearnerGraph: gradients of the three parts for ``batch`` (``experience.columns``) at update ``number``."""
        config, steps, learnt = self._keys, self._steps, LearntSteps(batch)
        policy, critic = self._actor.values(), self._weights.values()
        log_alpha = self._actor.alpha["log_alpha"].read_value()
        alpha = tf.exp(log_alpha)
        heads = policy_heads(config, self._spec, self._spec.nets[0], policy, batch)  # [B, L + n, A] each
        # critics
        target = self._target(batch, heads, number, alpha if config.backup_entropy else tf.zeros([]))  # [B, L]
        memories = self._online.memories(critic, batch, steps)  # [R, H]
        action = tf.reshape(batch["action"], [-1, self._spec.action.size])  # [R, A]
        q = self._online.q(critic, memories, action)  # [C, R]
        error = td_error(q, tf.reshape(target, [-1])) * learnt.mask  # [C, R]
        loss = tf.reduce_sum(squared(error) * learnt.share)  # scalar
        gradients, norm = clipped(tf.gradients(loss, list(critic.values())), config.grad_clip)
        parts = {"critic": gradients, "critic_statistics": []}
        # policy and temperature
        memories = tf.stop_gradient(memories)

        def actor() -> tuple[dict[str, list[Tensor]], Tensors]:
            rows = {head: tf.reshape(y[:, :steps], [-1, y.shape[-1]]) for head, y in heads.items()}  # [R, A]
            choice = self._choose(rows, number, ACTION)  # [R, A], [R]
            value = self._online.q(critic, memories, choice.action)  # [C, R]
            actor_loss = tf.reduce_sum(soft_policy_loss(choice.logp, value, alpha) * learnt.share)  # scalar
            entropy_loss = tf.reduce_sum(
                temperature_loss(log_alpha, choice.logp, target_entropy(self._config, self._spec)) * learnt.share
            )
            found, actor_norm = clipped(tf.gradients(actor_loss, list(policy.values())), config.grad_clip)
            of_alpha, _ = clipped(tf.gradients(entropy_loss, [log_alpha]), config.grad_clip)
            more = {
                "actor_loss": actor_loss,
                "alpha_loss": entropy_loss,
                "policy_entropy": -tf.reduce_sum(choice.logp * learnt.mask) / learnt.count,
                "grad_norm_actor": actor_norm,
            }
            return {"actor": found, "entropy": of_alpha, "actor_statistics": []}, more

        actor_parts, more = self._when_due(number, actor, policy)
        stats = {
            "critic_loss": loss,
            **learnt.statistics(q, error),
            "grad_norm_critic": norm,
            "alpha_value": alpha,
            "target_entropy": tf.constant(target_entropy(self._config, self._spec), tf.float32),
            **more,
        }
        checked = stats["grad_norm_critic"] + stats["grad_norm_actor"] + stats["alpha_loss"] + loss
        priority = learnt.priority(error, config.prioritized_replay_eta)  # [B]
        return Gradients(parts | actor_parts, stats, tf.math.is_finite(checked), {"priority": priority})

    def _target(self, batch: Batch, heads: Tensors, number: Tensor, alpha: Tensor) -> Tensor:
        """Return the target of each learnt step, [B, L]; its n-step return reaches to the step whose soft value follows it."""
        seen, critics = heads["mean"].shape[1], self._target_critics  # L + n steps
        rows = {head: tf.reshape(y, [-1, y.shape[-1]]) for head, y in heads.items()}  # [B·(L + n), A]
        choice = self._choose(rows, number, NEXT_ACTION)
        target = values_of(self._weights.target)
        q = critics.q(target, critics.memories(target, batch, seen), choice.action)  # [C, B·(L + n)]
        value = tf.reshape(tf.reduce_min(q, axis=0) - alpha * choice.logp, [-1, seen])  # [B, L + n]
        return value_target(batch["reward"], batch["discount"], looked_ahead(value, batch["ahead"]))  # [B, L]
