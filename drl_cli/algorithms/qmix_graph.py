"""Q-learning of a team, QMIX and VDN: one update as a graph.

Each agent's net values its own actions from what it observes; the mixing network makes one value of them, which is learnt as
DQN learns its own. What each agent does best is then best for the team, so that agents act by themselves.

Sources: Sunehag et al. 2018 (VDN, arXiv 1706.05296); Rashid et al. 2018 (QMIX, arXiv 1803.11485), eq. 5 and 6; double
Q-learning, van Hasselt et al. 2016 (arXiv 1509.06461), for each agent, as in the authors' code (PyMARL).

Deviations:
- Adam instead of RMSProp (as RLlib's ``optim_alpha``, ``optim_eps``); transitions instead of episodes, or, with an LSTM, R2D2's
  sequences with stored states and priorities (Kapturowski et al. 2019).
- Agents that are not there count as a value of 0; PyMARL's go on with an action that does nothing.
- Half the square of the error; PyMARL takes the whole.
"""

from collections.abc import Mapping

import numpy as np

from drl_cli.algorithms import qmix
from drl_cli.algorithms.learner_graph import counter, learner_graph
from drl_cli.algorithms.losses import mixers
from drl_cli.algorithms.losses.value import looked_ahead, sequence_priority, squared, value_target
from drl_cli.algorithms.qmix import QMIXConfig
from drl_cli.policies import net_builders
from drl_cli.policies.forward_tf import Tensors, TFNet, values_of, variables_of
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.policies.team_tf import TeamParts, by_agent, sequences_by_agent
from drl_cli.tf1.graph import Batch, Gradients, LearnerGraph, Parts, Rates, sequence_columns, transition_columns
from drl_cli.tf1.optimizers import Adam, clipped
from drl_cli.tf1.polyak import every, move_average, polyak_update
from drl_cli.tf1.tensorflow import Tensor, Variable, tf

RATES = ("lr",)


def build(
    config: QMIXConfig, spec: PolicySpec, initial: Mapping[str, np.ndarray], seed: int, scope: str
) -> LearnerGraph:
    """Build the variables in the current graph and return the LearnerGraph.

    ``initial``: {name: array} of ``qmix.initial_weights``; ``scope`` (ending in "/") goes before every variable's name.
    Nothing is drawn at random: ``seed`` has no use.
    """
    del seed
    columns = sequence_columns(config, spec) if spec.state else transition_columns(config, spec)
    return learner_graph(columns, RATES, _QMIXUpdate(config, spec, initial, scope), spec, scope)


class _QMIXUpdate:
    """The variables and the two halves of an update over them."""

    def __init__(self, config: QMIXConfig, spec: PolicySpec, initial: Mapping[str, np.ndarray], scope: str) -> None:
        if spec.team is None:
            raise TypeError("a policy of a team is needed")
        self._config, self._team, self._state_shapes = config, spec.team, spec.state
        self._net, self._mixer = spec.nets[0], qmix.mixer_spec(config, spec)
        agents = self._net.weight_shapes()
        shapes = agents | (self._mixer.weight_shapes() if self._mixer else {})
        acting = variables_of(agents, initial, scope)
        self._acting = {name: acting[name] for name in agents}
        mixer = variables_of({name: shape for name, shape in shapes.items() if name not in agents}, initial, scope)
        learnt = variables_of(agents, initial, scope + "learnt_") if config.policy_average else acting
        self._online = learnt | mixer
        targets = {net_builders.target_name(name): shape for name, shape in shapes.items()}
        self._target = variables_of(targets, initial, scope, trainable=False)
        self.number = counter(scope)
        self._adam = Adam(scope + "q", self._online, epsilon=config.adam_epsilon)
        self._target_every = net_builders.updates_per_target_update(config)

    def variables(self) -> list[Variable]:
        """Return all variables but the counter."""
        groups = [self._online, self._target, self._adam.variables]
        if self._config.policy_average:
            groups.append(self._acting)
        return [variable for group in groups for variable in group.values()]

    def gradients(self, batch: Batch, number: Tensor) -> Gradients:
        """See LearnerGraph: gradients of all nets for ``batch`` at update ``number``."""
        del number
        online = values_of(self._online)
        target_of = {name: self._target[net_builders.target_name(name)] for name in online}
        learnt = self._of_sequences if self._net.lstm else self._of_transitions
        total, target, mask = learnt(online, target_of, batch)  # [B, L] each
        # loss: the mean over the learnt steps, each with the weight of its row
        error = (target - total) * mask  # [B, L]
        rows = squared(error)  # [B, L]
        weighted = rows * tf.expand_dims(batch["weight"], 1) if "weight" in batch else rows  # [B, L]
        count = tf.reduce_sum(mask)  # scalar
        loss = tf.reduce_sum(weighted) / count  # scalar
        gradients, norm = clipped(tf.gradients(loss, list(online.values())), self._config.grad_clip)
        stats = {
            "loss": loss,
            "mean_td_error": tf.reduce_sum(error) / count,
            "mean_q": tf.reduce_sum(total * mask) / count,
            "min_q": tf.reduce_min(tf.where(mask > 0, total, tf.fill(total.shape, np.float32(np.inf)))),
            "max_q": tf.reduce_max(tf.where(mask > 0, total, tf.fill(total.shape, np.float32(-np.inf)))),
            "grad_norm": norm,
        }
        priority = sequence_priority(error, mask, self._config.prioritized_replay_eta)  # [B]
        return Gradients({"q": gradients}, stats, tf.math.is_finite(loss + norm), {"priority": priority})

    def _of_transitions(self, online: Tensors, target_of: Tensors, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Return (values, their targets, ones), [B, 1] each, of a batch of transitions."""
        following = TeamParts(self._team, batch["next_obs"])
        next_values = by_agent(self._net, target_of, following.each)["q"]  # [B, A, n]
        choosing = by_agent(self._net, online, following.each)["q"] if self._config.double_q else next_values
        best = mixers.best_of_each(choosing, following.allowed)  # [B, A]
        next_total = self._mixed(target_of, following, mixers.value_of_each(next_values, best))  # [B]
        target = value_target(batch["reward"], batch["discount"], next_total)  # [B]
        parts = TeamParts(self._team, batch["obs"])
        values = by_agent(self._net, online, parts.each)["q"]  # [B, A, n]
        total = self._mixed(online, parts, mixers.value_of_each(values, batch["action"]))  # [B]
        return tf.expand_dims(total, 1), tf.expand_dims(target, 1), tf.expand_dims(tf.ones_like(total), 1)

    def _of_sequences(self, online: Tensors, target_of: Tensors, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Return (values, their targets, 1 where there is a step), [B, L] each, of a batch of sequences."""
        obs, learnt = batch["obs"][:, self._config.burn_in :], batch["mask"].shape[1]  # obs [B, L + n, D]
        rows, steps, size = obs.shape.as_list()
        q, target_q = (self._in_sequences(weights, batch) for weights in (online, target_of))  # [B, L + n, A, n]
        shape = [rows * steps, *q.shape[2:]]
        parts = TeamParts(self._team, tf.reshape(obs, [rows * steps, size]))
        flat = tf.reshape(target_q, shape)  # [B·(L + n), A, n]
        best = mixers.best_of_each(tf.reshape(q, shape) if self._config.double_q else flat, parts.allowed)
        following = self._mixed(target_of, parts, mixers.value_of_each(flat, best))  # [B·(L + n)]
        bootstrap = looked_ahead(tf.reshape(following, [rows, steps]), batch["ahead"])  # [B, L]
        target = value_target(batch["reward"], batch["discount"], bootstrap)  # [B, L]
        parts = TeamParts(self._team, tf.reshape(obs[:, :learnt], [rows * learnt, size]))
        values = tf.reshape(q[:, :learnt], [rows * learnt, *q.shape[2:]])  # [B·L, A, n]
        action = tf.reshape(batch["action"], [rows * learnt, self._team.count])  # [B·L, A]
        total = self._mixed(online, parts, mixers.value_of_each(values, action))  # [B·L]
        return tf.reshape(total, [rows, learnt]), target, batch["mask"]

    def _in_sequences(self, weights: Tensors, batch: Batch) -> Tensor:
        """Return the values of each agent's actions after the burn-in, [B, L + n, A, n]."""
        rows, steps, size = batch["obs"].shape.as_list()
        each = TeamParts(self._team, tf.reshape(batch["obs"], [rows * steps, size])).each  # [B·S, A, O]
        seen = tf.reshape(each, [rows, steps, *each.shape[1:]])  # [B, S, A, O]
        state = [
            batch[f"state_{index}"] if f"state_{index}" in batch else tf.zeros([rows, *shape])
            for index, shape in enumerate(self._state_shapes)
        ]
        config = self._config
        heads = sequences_by_agent(
            self._net, weights, seen, state, batch["begins"], config.burn_in, looped=bool(config.xla)
        )
        return heads["q"]

    def apply(self, parts: Parts, rates: Rates, number: Tensor) -> None:
        """See LearnerGraph: change the weights with ``parts``, then move the targets and the average."""
        self._adam.apply(parts["q"], rates["lr"])
        targets = [self._target[net_builders.target_name(name)] for name in self._online]

        def move_targets() -> None:
            polyak_update(targets, list(self._online.values()), self._config.tau)

        every(self._target_every, number, move_targets, phase=self._target_every - 1)
        if self._config.policy_average:
            learnt = [self._online[name] for name in self._acting]
            move_average(list(self._acting.values()), learnt, self._config.policy_average)

    def _mixed(self, weights: Tensors, parts: TeamParts, values: Tensor) -> Tensor:
        """One value, [B], of ``values`` [B, A] of the agents that are there."""
        present = values * parts.alive  # [B, A]
        if self._mixer is None:
            return mixers.summed_values(present)  # [B]
        return mixers.monotonic_mix(present, TFNet(self._mixer, weights)(parts.state))  # [B]
