"""Several independent copies of an environment with one agent, as an environment with agents "0", "1", …

Used by ``open_envs`` and ``bundled``. Source: RLlib's ``make_multi_agent``. Each copy has a seed of its own and ends by itself;
the episode is over when all have ended.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from drl_cli.envs import preprocessors
from drl_cli.envs.env_smoke_test import close
from drl_cli.envs.multi_agent.agent_view import AgentView
from drl_cli.envs.multi_agent.multi_agent_env import AgentsStep, MultiAgentEnv
from drl_cli.envs.steps import as_number, is_finite
from drl_cli.randomness import number

if TYPE_CHECKING:
    from drl_cli.envs.env_spec import EnvSpec


class Copies(MultiAgentEnv):
    """N environments with one agent each, as one with N agents."""

    is_turn_based = False

    def __init__(self, make: Callable[[], gymnasium.Env], count: int) -> None:
        """``make()`` returns a copy, prepared (``envs.make.make``); ``count``: N. Raises what ``make`` raises."""
        self._envs = {str(index): make() for index in range(count)}
        self.agents = list(self._envs)
        self.metadata = self._envs["0"].metadata
        self._view = AgentView(preprocessors.described(self._envs["0"]))
        self._playing: set[str] = set()
        self.notes = []

    def spaces(self, agent: str) -> EnvSpec:
        """Return the spaces of ``agent``, which all have the same."""
        return self._view.spec

    def reset(self, seed: int | None = None) -> AgentsStep:
        """Begin an episode in every copy, each with a seed made of ``seed`` and its index."""
        obs, infos = {}, {}
        for index, (agent, env) in enumerate(self._envs.items()):
            raw, infos[agent] = env.reset(seed=None if seed is None else number(seed, "env", index))
            obs[agent] = self._checked(agent, raw, 0.0)
        self._playing = set(obs)
        return AgentsStep(obs, {}, frozenset(), frozenset(), False, infos)

    def step(self, actions: Mapping[str, np.ndarray]) -> AgentsStep:
        """Step the copies of all agents that act. Raises what a copy raises, FloatingPointError for numbers not finite."""
        obs, rewards, infos, ends = {}, {}, {}, (set(), set())
        for agent, action in actions.items():
            raw, reward, *ended, infos[agent] = self._envs[agent].step(self._view.action(action))
            rewards[agent] = as_number(reward)
            obs[agent] = self._checked(agent, raw, rewards[agent])
            for one, has_ended in zip(ends, ended, strict=True):
                if has_ended:
                    one.add(agent)
        self._playing -= ends[0] | ends[1]
        return AgentsStep(obs, rewards, frozenset(ends[0]), frozenset(ends[1]), not self._playing, infos)

    def render(self) -> Any:
        """Return the copies' frames side by side, in rows of nearly as many as there are rows."""
        frames = [np.asarray(env.render()) for env in self._envs.values()]
        return tiled(frames)

    def close(self) -> None:
        """Close every copy. Safe to call twice."""
        for env in self._envs.values():
            close(env)

    def _checked(self, agent: str, raw: Any, reward: float) -> np.ndarray:
        obs = self._view.obs(raw)
        if not is_finite(obs, reward):
            raise FloatingPointError(f"agent {agent!r}: observation or reward is not finite (reward {reward})")
        return obs


def tiled(frames: Sequence[np.ndarray]) -> np.ndarray:
    """Return frames of one size, uint8 [H, W, 3] each, as one picture with about as many rows as columns."""
    columns = math.ceil(math.sqrt(len(frames)))
    empty = [np.zeros_like(frames[0])] * (-len(frames) % columns)
    rows = [*frames, *empty]
    return np.concatenate(
        [np.concatenate(rows[start : start + columns], axis=1) for start in range(0, len(rows), columns)]
    )
