"""The parts of a team's observation as graph tensors, and nets that act for every agent, as ``policies.team_forward`` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from drl_cli.policies.distributions import FILL
from drl_cli.policies.forward_tf import TFNet
from drl_cli.policies.team_forward import VALUES
from drl_cli.tf1.tensorflow import Tensor, tf

if TYPE_CHECKING:
    from collections.abc import Sequence

    from drl_cli.policies.forward_tf import Tensors
    from drl_cli.policies.nets import NetSpec
    from drl_cli.policies.team_spec import TeamSpec


class TeamParts:
    """The parts of observations ``obs`` [B, D] of ``team``."""

    def __init__(self, team: TeamSpec, obs: Tensor) -> None:
        self._team, self._obs = team, obs

    @property
    def each(self) -> Tensor:
        """What each agent observes, [B, A, O]."""
        return self._slice((0, self._team.count * self._team.obs), self._team.obs)  # [B, A, O]

    @property
    def alive(self) -> Tensor:
        """1 for each agent that is there, else 0, [B, A]."""
        return self._slice(self._team.alive)  # [B, A]

    @property
    def rewards(self) -> Tensor:
        """Each agent's reward since the observation before, [B, A]."""
        return self._slice(self._team.rewards)  # [B, A]

    @property
    def state(self) -> Tensor:
        """What is known of the state, [B, S]."""
        return self._slice(self._team.state)  # [B, S]

    @property
    def allowed(self) -> Tensor:
        """Which actions each agent may take, bool [B, A, n]; all that it has where that is none."""
        mask = self._slice(self._team.mask, self._team.widest) > 0.5  # [B, A, n]
        own = tf.constant(np.arange(self._team.widest) < np.asarray(self._team.actions)[:, None])  # [A, n]
        return tf.logical_or(mask, tf.logical_and(own, tf.logical_not(tf.reduce_any(mask, axis=-1, keepdims=True))))

    def _slice(self, part: tuple[int, int], last: int = 0) -> Tensor:
        """[B, size], or [B, size / last, last]."""
        found = self._obs[:, part[0] : sum(part)]  # [B, size]
        return tf.reshape(found, [-1, part[1] // last, last]) if last else found


def by_agent(net: NetSpec, weights: Tensors, seen: Tensor) -> Tensors:
    """Run ``net`` on what each agent sees, ``seen`` [B, A, size]; returns {head: [B, A, size]}.

    A net of one copy has the weights of all agents, else each agent has weights of its own.
    """
    agents, size = seen.shape.as_list()[1:]
    if net.copies > 1:
        heads = TFNet(net, weights)(tf.transpose(seen, [1, 0, 2]))  # [A, B, size]
        return {head: tf.transpose(y, [1, 0, 2]) for head, y in heads.items()}
    heads = TFNet(net, weights)(tf.reshape(seen, [-1, size]))  # [B·A, size]
    return {head: tf.reshape(y, [-1, agents, y.shape[-1]]) for head, y in heads.items()}


def acting_heads(team: TeamSpec, net: NetSpec, weights: Tensors, obs: Tensor) -> Tensors:
    """Return the heads of the acting ``net`` at ``obs`` [B, D], [B, A, size] each; ``FILL`` for what is not allowed."""
    parts = TeamParts(team, obs)
    return _of_allowed(parts, by_agent(net, weights, parts.each))  # [B, A, size]


def acting_step(
    team: TeamSpec, net: NetSpec, weights: Tensors, obs: Tensor, state: Sequence[Tensor]
) -> tuple[Tensors, tuple[Tensor, ...]]:
    """Return what ``acting_heads`` does of a ``net`` with an LSTM, and the next of its ``state``, [B, A, cells] each."""
    parts = TeamParts(team, obs)
    flat = [tf.reshape(part, [-1, part.shape[-1]]) for part in state]  # [B·A, cells] each
    heads, after = TFNet(net, weights).step([tf.reshape(parts.each, [-1, team.obs])], flat)
    found = {head: tf.reshape(y, [-1, team.count, y.shape[-1]]) for head, y in heads.items()}  # [B, A, size]
    return _of_allowed(parts, found), tuple(tf.reshape(part, [-1, team.count, part.shape[-1]]) for part in after)


def sequences_by_agent(
    net: NetSpec, weights: Tensors, seen: Tensor, state: Sequence[Tensor], begins: Tensor, skip: int, looped: bool
) -> Tensors:
    """Run a ``net`` with an LSTM on what each agent sees, ``seen`` [B, S, A, O]; returns {head: [B, S − skip, A, size]}.

    ``state``: of each agent before the first step, [B, A, cells] each; ``begins`` [B, S], ``skip``, ``looped``: as for
    ``TFNet.sequence``. Agents are rows of one batch.
    """
    rows, steps, agents, size = seen.shape.as_list()
    flat = tf.reshape(tf.transpose(seen, [0, 2, 1, 3]), [rows * agents, steps, size])  # [B·A, S, O]
    before = [tf.reshape(part, [rows * agents, part.shape[-1]]) for part in state]  # [B·A, cells] each
    heads, _ = TFNet(net, weights).sequence(flat, before, tf.repeat(begins, agents, axis=0), skip, looped)
    each = {head: tf.reshape(y, [rows, agents, steps - skip, y.shape[-1]]) for head, y in heads.items()}
    return {head: tf.transpose(y, [0, 2, 1, 3]) for head, y in each.items()}


def _of_allowed(parts: TeamParts, heads: Tensors) -> Tensors:
    return {
        head: tf.where(parts.allowed, y, tf.fill(tf.shape(y), float(FILL))) if head in VALUES else y
        for head, y in heads.items()
    }


def side_by_side(team: TeamSpec, heads: Tensors) -> Tensors:
    """Return heads [B, A, size] as ``team_forward`` has them: [B, Σ of each agent's size], of all that there are."""
    found = {head: tf.reshape(y, [-1, team.count * y.shape[-1]]) for head, y in heads.items()}
    if len(set(team.actions)) == 1:
        return found
    return {head: tf.gather(y, team.choices, axis=1) if head in VALUES else y for head, y in found.items()}
