"""A gymnasium environment with a Tuple of spaces and a list of rewards, as a dictionary of agents "0", "1", …

Used by ``open_envs``. Source: level-based foraging (Papoudakis et al. 2021, arXiv 2006.07869), whose form EPyMARL uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from drl_cli.errors import EnvError


class TupleAgents:
    """The dictionary form (``dictionary.DictionaryEnv``) of such an environment: every agent acts at every step."""

    def __init__(self, env: gymnasium.Env) -> None:
        """``env``: one with a Tuple of as many action spaces as observation spaces."""
        spaces: Any = env.observation_space, env.action_space
        self._env = env
        self.possible_agents = [str(index) for index in range(len(spaces[1]))]
        self.observation_spaces, self.action_spaces = (
            dict(zip(self.possible_agents, space, strict=True)) for space in spaces
        )
        self.render, self.close, self.metadata = env.render, env.close, env.metadata
        own: Any = env.unwrapped
        if hasattr(own, "state") and callable(own.state):
            self.state = own.state

    def reset(self, seed: int | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return (obs, infos)."""
        obs, info = self._env.reset(seed=seed)
        return self._each(obs, "observation"), dict.fromkeys(self.possible_agents, info)

    def step(self, actions: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        """Return (obs, rewards, terminated, truncated, infos); an end may be one for all, or one for each."""
        obs, rewards, *ends, info = self._env.step(tuple(actions[agent] for agent in self.possible_agents))
        terminated, truncated = (
            self._each([end] * len(self.possible_agents) if np.ndim(end) == 0 else end, "end") for end in ends
        )
        infos = dict.fromkeys(self.possible_agents, info)
        return self._each(obs, "observation"), self._each(rewards, "reward"), terminated, truncated, infos

    def _each(self, values: Any, what: str) -> dict[str, Any]:
        if not hasattr(values, "__len__") or len(values) != len(self.possible_agents):
            wanted = f"one of each of {len(self.possible_agents)} agents is needed"
            raise EnvError(f"its {what}s are {values!r:.60}; {wanted}.")
        return dict(zip(self.possible_agents, values, strict=True))
