"""RNNTD3: TD3 with LSTMs from replayed sequences, one update as a graph.

Sources: TD3 as in ``ddpg_graph``; sequences, stored states and burn-in as in ``sequences_graph``. Deviations: those of both;
the gradient of the critics' LSTM is that of the critics' losses alone; the target policy starts a sequence with the state that
was stored for the policy.
"""

from collections.abc import Mapping

import numpy as np

from drl_cli.algorithms import rnntd3
from drl_cli.algorithms.ddpg_graph import RATES, DeterministicUpdate, Losses
from drl_cli.algorithms.learner_graph import learner_graph
from drl_cli.algorithms.losses.value import looked_ahead, td_error, value_target
from drl_cli.algorithms.sequences_graph import LearntSteps, RecurrentCritics, policy_heads
from drl_cli.config.sections.replay import learnt_steps
from drl_cli.policies import net_builders
from drl_cli.policies.forward_tf import Tensors
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.tf1.graph import Batch, LearnerGraph, sequence_columns
from drl_cli.tf1.tensorflow import Tensor, tf


def build(
    config: rnntd3.RNNTD3Config, spec: PolicySpec, initial: Mapping[str, np.ndarray], seed: int, scope: str
) -> LearnerGraph:
    """Build RNNTD3's variables in the current graph and return its LearnerGraph.

    ``spec``: PolicySpec with a state; ``initial``: {name: array} of ``rnntd3.initial_weights``; ``seed`` keys the noise;
    ``scope`` (ending in "/") goes before every variable's name.
    """
    update = _RNNTD3Update(config, spec, initial, seed, scope)
    return learner_graph(sequence_columns(config, spec), RATES, update, spec, scope)


class _RNNTD3Update(DeterministicUpdate):
    """TD3's update over the learnt steps of sequences."""

    def __init__(
        self, config: rnntd3.RNNTD3Config, spec: PolicySpec, initial: Mapping[str, np.ndarray], seed: int, scope: str
    ) -> None:
        self._keys, self._steps = config, learnt_steps(config)
        nets = rnntd3.critic_specs(config, spec)
        self._online = RecurrentCritics(config, *nets)
        self._target = RecurrentCritics(config, *map(net_builders.target_of, nets))
        super().__init__(config, spec, nets, initial, seed, scope)

    def _losses(self, batch: Batch, number: Tensor, critic: Tensors) -> Losses:
        learnt = LearntSteps(batch)
        memories = self._online.memories(critic, batch, self._steps)  # [R, H]
        q = self._online.q(critic, memories, tf.reshape(batch["action"], [-1, self._spec.action.size]))  # [C, R]
        target = tf.reshape(self._targets(batch, number), [-1])  # [R]
        error = td_error(q, target) * learnt.mask  # [C, R]
        loss = tf.reduce_sum(self._row_losses(error) * learnt.share)  # scalar
        remembered = tf.stop_gradient(memories)

        def of_policy(policy: Tensors) -> Tensor:
            heads = policy_heads(self._keys, self._spec, self._policy_net, policy, batch)  # [B, L + n, A]
            first = self._online.q(critic, remembered, self._distribution.greedy(_rows(heads, self._steps)))[0]  # [R]
            return tf.reduce_sum(-first * learnt.share)  # scalar

        priority = learnt.priority(error, self._keys.prioritized_replay_eta)  # [B]
        return Losses(loss, learnt.statistics(q, error), priority, of_policy)

    def _targets(self, batch: Batch, number: Tensor) -> Tensor:
        """Return the target of each learnt step, [B, L]; its n-step return reaches to the step whose value follows it."""
        target = self._weights.target
        heads = policy_heads(self._keys, self._spec, self._target_policy_net, target, batch)  # [B, L + n, A]
        action = self._next_action(_rows(heads, heads["mean"].shape[1]), number)  # [B·(L + n), A]
        memories = self._target.memories(target, batch, heads["mean"].shape[1])  # [B·(L + n), H]
        value = tf.reduce_min(self._target.q(target, memories, action), axis=0)  # [B·(L + n)]
        value = tf.reshape(value, heads["mean"].shape[:2])  # [B, L + n]
        return value_target(batch["reward"], batch["discount"], looked_ahead(value, batch["ahead"]))  # [B, L]


def _rows(heads: Tensors, steps: int) -> Tensors:
    """Return the ``heads`` [B, T, A] of the first ``steps`` steps as rows, [B·steps, A]."""
    return {head: tf.reshape(y[:, :steps], [-1, y.shape[-1]]) for head, y in heads.items()}
