"""A team as plain data: which part of its observation is whose, for policies whose nets act for one agent at a time.

Made from ``envs.env_spec.TeamLayout``; part of a PolicySpec, and so of checkpoints. ``policies.team_forward`` reads the parts
in NumPy, ``policies.team_tf`` in a graph.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from drl_cli.errors import ConfigError

if TYPE_CHECKING:
    from drl_cli.envs.env_spec import EnvSpec

MAX_AGENTS = 4096  # a manifest from elsewhere must not make us allocate without bound


@dataclasses.dataclass(frozen=True)
class TeamSpec:
    """See ``env_spec.TeamLayout``, whose keys these are; each part is (start, size)."""

    agents: tuple[str, ...]
    obs: int
    actions: tuple[int, ...]
    mask: tuple[int, int]
    alive: tuple[int, int]
    rewards: tuple[int, int]
    state: tuple[int, int]

    @property
    def count(self) -> int:
        """Number of agents A."""
        return len(self.agents)

    @property
    def widest(self) -> int:
        """Most actions, or action dimensions, n that an agent has."""
        return max(self.actions)

    @property
    def choices(self) -> tuple[int, ...]:
        """Where the actions that there are stand among those of all agents padded to the widest."""
        return tuple(self.widest * agent + index for agent, n in enumerate(self.actions) for index in range(n))

    def misfit(self, obs_size: int) -> str | None:
        """Return in words why these are no parts of observations of ``obs_size`` numbers, or None."""
        fits = 1 <= self.count <= MAX_AGENTS and self.obs >= 1 and len(self.actions) == self.count
        fits = fits and min(self.actions) >= 1 and self.count * self.obs <= obs_size
        fits = fits and self.mask[1] in (0, self.count * self.widest) and self.state[1] >= 1
        fits = fits and self.alive[1] == self.rewards[1] == self.count
        parts = (self.mask, self.alive, self.rewards, self.state)
        fits = fits and all(len(part) == 2 and part[0] >= 0 and sum(part) <= obs_size for part in parts)
        return None if fits else f"the team {str(self)[:100]} in observations of {obs_size} numbers"


def team_of(spaces: EnvSpec) -> TeamSpec:
    """Return the TeamSpec of ``spaces`` (``envs.make.describe``). Raises ConfigError where they are of one agent."""
    if "team" not in spaces:
        raise ConfigError("this algorithm trains a team of agents; the environment has one agent.")
    if spaces.get("frames", 1) > 1:
        raise ConfigError("model.framestack: a team's observations are not stacked. Set it to 1.")
    given: Any = spaces["team"]
    parts = {name: _pair(given[name]) for name in ("mask", "alive", "rewards", "state")}
    return TeamSpec(tuple(given["agents"]), given["obs"], tuple(given["actions"]), **parts)


def of_one_agent(spaces: EnvSpec, team: TeamSpec) -> EnvSpec:
    """Return ``spaces`` with what one agent of the ``team`` observes in the place of the whole."""
    return {**spaces, "obs": {**spaces["obs"], "shape": [team.obs]}}


def _pair(part: Sequence[int]) -> tuple[int, int]:
    start, size = part
    return start, size
