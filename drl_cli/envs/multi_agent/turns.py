"""PettingZoo's turn-based form (AEC: agent, environment, cycle) as a dictionary: one agent is observed at a time.

Used by ``open_envs``. An agent's reward is what ``last()`` says when its turn comes, or at its end: all since its last action.
Source: PettingZoo 1.27 (Terry et al. 2021, arXiv 2009.14471).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drl_cli.errors import EnvError


class TurnBased:
    """The dictionary form (``dictionary.DictionaryEnv``) of an ``AECEnv``."""

    def __init__(self, env: Any) -> None:
        """``env``: the environment's own object."""
        self._env = env
        self.possible_agents, self.agents = env.possible_agents, []
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self._acting: Any = None
        self.state, self.render, self.close = env.state, env.render, env.close
        self.metadata = getattr(env, "metadata", {})  # one's own need not have it

    def reset(self, seed: int | None = None) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Return (obs, infos) of the agent whose turn is first."""
        self._env.reset(seed=seed)
        obs, *_, infos = self._turn()
        return obs, infos

    def step(self, actions: Mapping[Any, Any]) -> tuple[dict[Any, Any], ...]:
        """Step with the action of the agent whose turn it is. Raises EnvError where it is another one's."""
        if list(actions) != [self._acting]:
            raise EnvError(f"it is the turn of {self._acting!r}; actions came of {list(actions)}.")
        self._env.step(actions[self._acting])
        return self._turn()

    def _turn(self) -> tuple[dict[Any, Any], ...]:
        """Return (obs, rewards, terminated, truncated, infos) of all who have just ended, and of the next one to act."""
        found: tuple[dict[Any, Any], ...] = ({}, {}, {}, {}, {})
        for _ in range(len(self.possible_agents) + 1):
            # Read once: every attribute goes through three wrappers.
            self.agents = list(self._env.agents)
            if not self.agents:
                break
            self._acting = agent = self._env.agent_selection
            if agent not in self.agents:
                raise EnvError(f"it is the turn of {agent!r}, which is not in the episode: {self.agents}.")
            for of_agents, value in zip(found, self._env.last(), strict=True):
                of_agents[agent] = value
            if not (found[2][agent] or found[3][agent]):
                break
            self._env.step(None)
        else:
            raise EnvError(f"agents that have ended stay in the episode: {self.agents}.")
        return found
