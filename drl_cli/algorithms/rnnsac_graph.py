"""RNNSAC: soft actor-critic with LSTMs from replayed sequences, one update as a graph.

Sources: SAC as in ``sac_graph``; stored states, burn-in and priorities of sequences, Kapturowski et al. 2019, "Recurrent
Experience Replay in Distributed Reinforcement Learning", section 2.3; an LSTM of its own for the actor and one for the critics,
Ni et al. 2022 (arXiv 2110.05038), section 4; keys and their meaning from RLlib's RNNSAC.

Deviations, beside those of ``max_entropy_update_graph``:
- The critics share one LSTM, over observations; the action joins after it, so that Q of another action than the one taken
  needs no second pass. Its gradient is that of the critics' losses alone.
- A sequence starts with the policy's stored state, and with the critics' memory at zero: ``burn_in`` brings both up to date.
- Losses are means over the learnt steps of all sequences of a batch, each with the weight of its sequence.
"""

from collections.abc import Mapping

import numpy as np

from drl_cli.algorithms import rnnsac
from drl_cli.algorithms.learner_graph import learner_graph
from drl_cli.algorithms.losses.policy_gradient import soft_policy_loss, temperature_loss
from drl_cli.algorithms.losses.value import looked_ahead, sequence_priority, squared, td_error, value_target
from drl_cli.algorithms.max_entropy_actor_graph import ACTION, NEXT_ACTION, Actor, reparametrized
from drl_cli.algorithms.max_entropy_critics_graph import WeightsAndTargets, first, with_copies
from drl_cli.algorithms.max_entropy_update_graph import RATES, MaxEntropyParts, target_entropy
from drl_cli.config.sections.replay import learnt_steps
from drl_cli.policies import net_builders
from drl_cli.policies.forward_tf import Tensors, TFNet, values_of
from drl_cli.policies.policy_spec import NetSpec, PolicySpec
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


class _Critics(WeightsAndTargets):
    """The critics' memory and the critics over it."""

    def __init__(
        self, config: rnnsac.RNNSACConfig, spec: PolicySpec, initial: Mapping[str, np.ndarray], scope: str
    ) -> None:
        self._config, self._nets = config, rnnsac.critic_specs(config, spec)
        super().__init__(config, self._nets, initial, scope)

    def memories(self, weights: Tensors, batch: Batch, steps: int, target: bool = False) -> Tensor:
        """Return what the LSTM says of the first ``steps`` steps after the burn-in, [B·steps, H]."""
        net, config = self._net(0, target), self._config
        whole = config.burn_in + steps
        obs, begins = batch["obs"][:, :whole], batch["begins"][:, :whole]  # [B, burn_in + steps, …]
        state = (tf.zeros([obs.shape[0], net.lstm]),) * 2
        found, _ = TFNet(net, weights).memories(obs, state, begins, config.burn_in, looped=bool(config.xla))
        return tf.reshape(found, [-1, net.lstm])  # [B·steps, H]

    def q(self, weights: Tensors, memories: Tensor, action: Tensor, target: bool = False) -> Tensor:
        """Return Q of each critic, [C, R], for ``memories`` [R, H] and ``action`` [R, A]."""
        net = self._net(1, target)
        return first(with_copies(net, TFNet(net, weights)(memories, action)["q"]))  # [C, R]

    def _net(self, index: int, target: bool) -> NetSpec:
        return net_builders.target_of(self._nets[index]) if target else self._nets[index]


class _RNNSACUpdate(MaxEntropyParts):
    """SAC's update over the steps of sequences: R rows are the L learnt steps of the B sequences of a batch."""

    def __init__(
        self, config: rnnsac.RNNSACConfig, spec: PolicySpec, initial: Mapping[str, np.ndarray], seed: int, scope: str
    ) -> None:
        self._choose = reparametrized(spec, seed)
        self._keys, self._steps = config, learnt_steps(config)
        self._memory = _Critics(config, spec, initial, scope)
        super().__init__(config, spec, Actor(config, spec, initial, scope, self._choose), self._memory, scope)

    def gradients(self, batch: Batch, number: Tensor) -> Gradients:
        """See LearnerGraph: gradients of the three parts for ``batch`` (``experience.columns``) at update ``number``."""
        config, steps = self._keys, self._steps
        policy, critic = self._actor.values(), self._memory.values()
        log_alpha = self._actor.alpha["log_alpha"].read_value()
        alpha = tf.exp(log_alpha)
        mask = tf.reshape(batch["mask"], [-1])  # [R]
        count = tf.reduce_sum(mask)
        share = batch["mask"] / count  # [B, L]
        share = share * tf.expand_dims(batch["weight"], 1) if "weight" in batch else share
        share = tf.reshape(share, [-1])  # [R]
        heads = self._heads(policy, batch)  # [B, L + n, A] each
        # critics
        target = self._target(batch, heads, number, alpha if config.backup_entropy else tf.zeros([]))  # [B, L]
        memories = self._memory.memories(critic, batch, steps)  # [R, H]
        action = tf.reshape(batch["action"], [-1, self._spec.action.size])  # [R, A]
        q = self._memory.q(critic, memories, action)  # [C, R]
        error = td_error(q, tf.reshape(target, [-1])) * mask  # [C, R]
        loss = tf.reduce_sum(squared(error) * share)  # scalar
        gradients, norm = clipped(tf.gradients(loss, list(critic.values())), config.grad_clip)
        parts = {"critic": gradients, "critic_statistics": []}
        # policy and temperature
        memories = tf.stop_gradient(memories)

        def actor() -> tuple[dict[str, list[Tensor]], Tensors]:
            rows = {head: tf.reshape(y[:, :steps], [-1, y.shape[-1]]) for head, y in heads.items()}  # [R, A]
            choice = self._choose(rows, number, ACTION)  # [R, A], [R]
            value = self._memory.q(critic, memories, choice.action)  # [C, R]
            actor_loss = tf.reduce_sum(soft_policy_loss(choice.logp, value, alpha) * share)  # scalar
            entropy_loss = tf.reduce_sum(
                temperature_loss(log_alpha, choice.logp, target_entropy(self._config, self._spec)) * share
            )
            found, actor_norm = clipped(tf.gradients(actor_loss, list(policy.values())), config.grad_clip)
            of_alpha, _ = clipped(tf.gradients(entropy_loss, [log_alpha]), config.grad_clip)
            more = {
                "actor_loss": actor_loss,
                "alpha_loss": entropy_loss,
                "policy_entropy": -tf.reduce_sum(choice.logp * mask) / count,
                "grad_norm_actor": actor_norm,
            }
            return {"actor": found, "entropy": of_alpha, "actor_statistics": []}, more

        actor_parts, more = self._when_due(number, actor, policy)
        far = np.float32(np.inf)
        stats = {
            "critic_loss": loss,
            "mean_td_error": tf.reduce_sum(tf.reduce_mean(error, axis=0)) / count,
            "mean_q": tf.reduce_sum(tf.reduce_mean(q, axis=0) * mask) / count,
            "min_q": tf.reduce_min(tf.where(mask > 0, tf.reduce_min(q, axis=0), far * tf.ones_like(mask))),
            "max_q": tf.reduce_max(tf.where(mask > 0, tf.reduce_max(q, axis=0), -far * tf.ones_like(mask))),
            "grad_norm_critic": norm,
            "learnt_steps": count,
            "alpha_value": alpha,
            "target_entropy": tf.constant(target_entropy(self._config, self._spec), tf.float32),
            **more,
        }
        checked = stats["grad_norm_critic"] + stats["grad_norm_actor"] + stats["alpha_loss"] + loss
        each = tf.reshape(tf.reduce_mean(tf.abs(error), axis=0), [-1, steps])  # [B, L]
        priority = sequence_priority(each, batch["mask"], config.prioritized_replay_eta)  # [B]
        return Gradients(parts | actor_parts, stats, tf.math.is_finite(checked), {"priority": priority})

    def _heads(self, policy: Tensors, batch: Batch) -> Tensors:
        """Return the policy's heads after the burn-in, {head: [B, L + n, A]}; it begins with the stored states, if any."""
        net, rows = self._spec.nets[0], batch["obs"].shape[0]
        state = tuple(
            batch[f"state_{index}"] if f"state_{index}" in batch else tf.zeros([rows, *shape])
            for index, shape in enumerate(self._spec.state)
        )
        looped, skip = bool(self._keys.xla), self._keys.burn_in
        heads, _ = TFNet(net, policy).sequence(batch["obs"], state, batch["begins"], skip, looped)
        return heads

    def _target(self, batch: Batch, heads: Tensors, number: Tensor, alpha: Tensor) -> Tensor:
        """Return the target of each learnt step, [B, L]; its n-step return reaches to the step whose soft value follows it."""
        seen = heads["mean"].shape[1]  # L + n
        rows = {head: tf.reshape(y, [-1, y.shape[-1]]) for head, y in heads.items()}  # [B·(L + n), A]
        choice = self._choose(rows, number, NEXT_ACTION)
        target = values_of(self._memory.target)
        q = self._memory.q(
            target, self._memory.memories(target, batch, seen, True), choice.action, True
        )  # [C, B·(L + n)]
        value = tf.reshape(tf.reduce_min(q, axis=0) - alpha * choice.logp, [-1, seen])  # [B, L + n]
        return value_target(batch["reward"], batch["discount"], looked_ahead(value, batch["ahead"]))  # [B, L]
