"""The actor-critic of a team as graph variables: agents are rows, each of which holds all that is to be known of it.

Used by ``algorithms.mappo_graph``. A row is [the state | what the agent observes | which of its actions are allowed, or which
dimensions it has | its number]; so what is learnt from is a batch of rows like any other.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from drl_cli.policies import distributions_tf
from drl_cli.policies.action_specs import DiscreteSpec
from drl_cli.policies.actor_critic_tf import ActorCritic, Seen
from drl_cli.policies.distributions import FILL
from drl_cli.policies.forward_tf import TFNet
from drl_cli.policies.team_tf import TeamParts
from drl_cli.tf1.tensorflow import Tensor, Variable, tf

if TYPE_CHECKING:
    from drl_cli.policies.forward_tf import Tensors
    from drl_cli.policies.nets import NetSpec, Weights
    from drl_cli.policies.policy_spec import PolicySpec


class TeamActorCritic:
    """The nets of ``spec`` as variables, see ``ActorCritic``; ``distribution`` is that of one agent's actions."""

    def __init__(
        self, spec: PolicySpec, initial: Weights, scope: str, death_masking: bool, average: float = 0.0
    ) -> None:
        """``death_masking``: the value sees zeros in the place of the state for agents that are gone; others as there."""
        if spec.team is None:
            raise TypeError("a policy of a team is needed")
        whole = ActorCritic(spec, initial, scope, average=average)
        self.variables: dict[str, Variable] = whole.variables
        self.averaged, self.acting_values, self.move_average = whole.averaged, whole.acting_values, whole.move_average
        self.trained, self.published, self.values = whole.trained, whole.published, whole.values
        self.team, self._nets, self._masks = spec.team, spec.nets, death_masking
        self._discrete = spec.action.kind == "MultiDiscrete"
        kind = "categorical" if self._discrete else "gaussian"
        of_one = dataclasses.replace(spec, action=DiscreteSpec(spec.team.widest), team=None)
        self.distribution = distributions_tf.BY_NAME[kind](of_one)

    def rows(self, obs: Tensor) -> Tensor:
        """Return the rows of all agents, [B·A, R], of the team's observations ``obs`` [B, D]."""
        team, parts = self.team, TeamParts(self.team, obs)
        count = obs.shape[0]
        state = tf.repeat(parts.state[:, None], team.count, axis=1)  # [B, A, S]
        if self._masks:
            state *= parts.alive[..., None]
        if self._discrete:
            has = tf.cast(parts.allowed, tf.float32)  # [B, A, n]
        else:
            dimensions = np.arange(team.widest) < np.asarray(team.actions)[:, None]  # [A, n]
            has = tf.broadcast_to(dimensions.astype(np.float32), [count, *dimensions.shape])  # [B, A, n]
        number = tf.broadcast_to(np.arange(team.count, dtype=np.float32)[:, None], [count, team.count, 1])  # [B, A, 1]
        whole = tf.concat([state, parts.each, has, number], axis=-1)  # [B, A, R]
        return tf.reshape(whole, [count * team.count, whole.shape[-1]])  # [B·A, R]

    def look(self, values: Tensors, rows: Tensor) -> Seen:
        """Return what the weights ``values`` ({name: tensor}) make of ``rows`` [X, R], as Seen."""
        team = self.team
        sizes = [team.state[1], team.obs, team.widest, 1]
        state, own, has, number = tf.split(rows, sizes, axis=-1)  # [X, S], [X, O], [X, n], [X, 1]
        acting, judging = self._nets
        heads = self._of_agent(acting, values, own, number)  # [X, n]
        nothing = float(FILL) if self._discrete else 0.0
        heads = {head: tf.where(has > 0.5, y, tf.fill(tf.shape(y), nothing)) for head, y in heads.items()}
        value = self._of_agent(judging, values, tf.concat([state, own], axis=-1), number)["value"]  # [X, 1]
        return Seen(heads, value[:, 0])

    @staticmethod
    def _of_agent(net: NetSpec, values: Tensors, seen: Tensor, number: Tensor) -> Tensors:
        """Heads of ``net`` for ``seen`` [X, size], [X, …]; of own weights those of the agent ``number`` [X, 1]."""
        heads = TFNet(net, values)(seen)  # [(A,) X, …]
        if net.copies == 1:
            return heads
        whose = tf.transpose(tf.one_hot(tf.cast(number[:, 0], tf.int32), net.copies))[..., None]  # [A, X, 1]
        return {head: tf.reduce_sum(y * whose, axis=0) for head, y in heads.items()}
