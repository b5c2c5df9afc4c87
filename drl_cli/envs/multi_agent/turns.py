"""PettingZoo's turn-based form (AEC: agent, environment, cycle) as a dictionary: of one agent at a time, or of whole cycles.

Used by ``open_envs``. ``TurnBased``: an agent's reward is what ``last()`` says when its turn comes, or at its end: all since
its last action. ``Cycles``: all agents act at once, as with PettingZoo's own conversion, which observes each agent twice a
cycle and reads every attribute through its wrappers.
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


class Cycles:
    """The dictionary form of an ``AECEnv`` whose metadata has ``is_parallelizable``: a step is a cycle of all agents."""

    def __init__(self, env: Any) -> None:
        """``env``: the environment's own object."""
        self._env, self._inner = env, _within(env)
        self.possible_agents, self.agents = env.possible_agents, []
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self.state, self.render, self.close = self._inner.state, env.render, env.close
        self.metadata = env.metadata

    def reset(self, seed: int | None = None) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Return (obs, infos) of all agents."""
        self._env.reset(seed=seed)
        self.agents = list(self._inner.agents)
        return self._observed(), dict(self._inner.infos)

    def step(self, actions: Mapping[Any, Any]) -> tuple[dict[Any, Any], ...]:
        """Step with an action of every agent. Raises EnvError where one ends before the cycle does."""
        inner, rewards = self._inner, dict.fromkeys(self.agents, 0.0)
        for agent in self.agents:
            if inner.agent_selection != agent or agent not in inner.agents:
                raise EnvError(
                    f"it is the turn of {inner.agent_selection!r}, not of {agent!r}; agents may only end with a cycle."
                )
            self._env.step(actions[agent])
            for name, reward in inner.rewards.items():
                rewards[name] += reward
        found = self._observed(), rewards, dict(inner.terminations), dict(inner.truncations), dict(inner.infos)
        while inner.agents and (inner.terminations[inner.agent_selection] or inner.truncations[inner.agent_selection]):
            self._env.step(None)
        self.agents = list(inner.agents)
        return found

    def _observed(self) -> dict[Any, Any]:
        return {agent: self._inner.observe(agent) for agent in self._inner.agents}


def in_cycles(env: Any) -> Any:
    """Return ``env`` as ``Cycles`` if it is what PettingZoo's conversion from AEC returns, else as it is."""
    from pettingzoo.utils.conversions import aec_to_parallel_wrapper

    return Cycles(env.aec_env) if type(env) is aec_to_parallel_wrapper else env


def _within(env: Any) -> Any:
    """Return what PettingZoo's own wrappers, through which each reading of an attribute takes microseconds, are around."""
    while type(env).__module__.startswith("pettingzoo.utils.wrappers."):
        env = env.env
    return env
