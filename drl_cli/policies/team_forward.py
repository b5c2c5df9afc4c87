"""A net that acts for every agent of a team, in NumPy: agents are rows of one batch. ``policies.team_tf`` has it in a graph.

A net of one copy has the weights of all agents; one of as many copies as there are agents gives each weights of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from drl_cli.policies.distributions import FILL
from drl_cli.policies.forward import Forward

if TYPE_CHECKING:
    from drl_cli.policies.nets import Heads, State
    from drl_cli.policies.team_spec import TeamSpec

VALUES = ("q", "logits")  # heads of which an agent may have fewer, and some of which it may not take


class TeamForward:
    """``TeamForward(team, forward)(obs)``: a ``Forward`` run on each agent's part of the team's observation [N, D].

    Heads come side by side, [N, Σ of each agent's size], those of actions that an agent may not take are ``FILL``; "value" is
    one number an agent, [N, A].
    """

    def __init__(self, team: TeamSpec, forward: Forward, copies: int, sees_state: bool = False) -> None:
        """``copies``: those of the net; ``sees_state``: the state comes before each agent's observation (a central critic)."""
        self._team, self._forward, self._own, self._sees_state = team, forward, copies > 1, sees_state
        self._choices = None if len(set(team.actions)) == 1 else np.asarray(team.choices)

    def __call__(self, obs: np.ndarray, rng: np.random.Generator | None = None) -> Heads:
        """Map the team's observations, float32 [N, D], to heads; ``rng``: noisy layers draw."""
        return self._joined(self._forward(self._rows(obs), rng), obs)

    def run(self, obs: np.ndarray, state: State, rng: np.random.Generator | None = None) -> tuple[Heads, State]:
        """Map observations and the recurrent state, [N, A, cells] each, to (heads, the next state)."""
        rows, agents = len(obs), self._team.count
        flat = tuple(part.reshape(rows * agents, -1) for part in state)
        heads, after = self._forward.run(self._rows(obs), flat, rng)
        return self._joined(heads, obs), tuple(part.reshape(rows, agents, -1) for part in after)

    def _rows(self, obs: np.ndarray) -> np.ndarray:
        """What the net sees, [N·A, size], or [A, N, size] for own weights."""
        team = self._team
        each = obs[:, : team.count * team.obs].reshape(len(obs), team.count, team.obs)
        if self._sees_state:
            state = obs[:, None, team.state[0] : sum(team.state)]
            each = np.concatenate([np.broadcast_to(state, (*each.shape[:2], team.state[1])), each], axis=-1)
        return each.swapaxes(0, 1) if self._own else each.reshape(-1, each.shape[-1])

    def _joined(self, heads: Heads, obs: np.ndarray) -> Heads:
        found = {}
        for head, values in heads.items():
            each = values.swapaxes(0, 1) if self._own else values
            each = each.reshape(len(obs), self._team.count, -1)
            if head in VALUES:
                each = np.where(allowed(self._team, obs), each, FILL)
            joined = each.reshape(len(obs), -1)
            found[head] = joined if self._choices is None or head not in VALUES else joined[:, self._choices]
        return found


def allowed(team: TeamSpec, obs: np.ndarray) -> np.ndarray:
    """Return which actions each agent may take at ``obs`` [N, D], bool [N, A, n]; all that it has where that is none."""
    mask = obs[:, team.mask[0] : sum(team.mask)].reshape(len(obs), team.count, team.widest) > 0.5
    own = np.arange(team.widest) < np.asarray(team.actions)[:, None]
    return mask | (own & ~mask.any(axis=-1, keepdims=True))
