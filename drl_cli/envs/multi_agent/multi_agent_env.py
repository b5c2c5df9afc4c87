"""The one form in which workers, testers and playback see an environment with several agents.

Every adapter of this package implements ``MultiAgentEnv``. Sources: RLlib's ``MultiAgentEnv`` (dictionaries keyed by agent,
only agents that are observed act, ``__all__``) and PettingZoo (Terry et al. 2021, arXiv 2009.14471). Here each agent ends by
itself, with a final observation and reward of its own, and an adapter fills in what its environment leaves out.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from drl_cli.envs.env_spec import EnvSpec, TeamLayout


class AgentsStep(NamedTuple):
    """What a reset or a step brought.

    ``obs``: the observation of every agent that acts next, and the final one of every agent that has just ended, float32 or
    uint8 as the agent's EnvSpec says. ``rewards``: since the last step, of any agent; of one that waits for its turn too.
    ``terminated``, ``truncated``: the agents that have just ended, each in one of them at least; both are in ``obs``.
    ``is_over``: every agent has ended: a reset comes next. ``infos``: by agent.
    """

    obs: Mapping[str, np.ndarray]
    rewards: Mapping[str, float]
    terminated: frozenset[str]
    truncated: frozenset[str]
    is_over: bool
    infos: Mapping[str, Mapping[str, Any]]

    @property
    def ended(self) -> frozenset[str]:
        """The agents that have just ended."""
        return self.terminated | self.truncated

    def acting(self) -> list[str]:
        """Return the agents that act next, in the order of ``obs``."""
        return [agent for agent in self.obs if agent not in self.terminated and agent not in self.truncated]


class MultiAgentEnv(abc.ABC):
    """An environment with several agents.

    ``agents``: every possible agent, in a fixed order. An agent acts when it is observed; it may be absent from some
    steps, join late and end early, and does not come back within an episode. At least one agent acts at every step.
    """

    agents: Sequence[str]
    is_turn_based: bool
    """Whether at most one agent acts at a time."""
    metadata: Mapping[str, Any] = {}
    """What it says of its pictures, as gymnasium has it: ``render_modes``, ``render_fps``."""
    spec: Any = None
    """What gymnasium's registry says of it, where it does: a film that fails names it."""
    notes: list[str]
    """What the environment left out and was filled in, a line each, reported once: the reader clears the list."""

    @property
    def unwrapped(self) -> Any:
        """The environment as its author made it."""
        return self

    @abc.abstractmethod
    def spaces(self, agent: str) -> EnvSpec:
        """Return the spaces of ``agent`` as its policy sees them (``envs.make.describe``)."""

    @abc.abstractmethod
    def reset(self, seed: int | None = None) -> AgentsStep:
        """Begin an episode; no agent has ended or has a reward."""

    @abc.abstractmethod
    def step(self, actions: Mapping[str, np.ndarray]) -> AgentsStep:
        """Step with an action of every agent that acts, as its space wants it. Raises what the environment raises."""

    def state(self) -> np.ndarray | None:
        """Return what a central critic sees beside the observations, float32 [S]; None where the environment has none."""
        return None

    @abc.abstractmethod
    def render(self) -> Any:
        """Return a frame, uint8 [H, W, 3], where the environment was made with ``render_mode="rgb_array"``."""

    @abc.abstractmethod
    def close(self) -> None:
        """Close it. Safe to call twice."""


@runtime_checkable
class SeenAsTeam(Protocol):
    """A gymnasium environment of several agents that are seen as one (``team.TeamEnv``)."""

    team_layout: TeamLayout
