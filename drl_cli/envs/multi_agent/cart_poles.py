"""CartPole with several agents, each with a pole of its own; and the same where environments crash and stall.

Registered by ``envs.bundled_envs``. Source: RLlib's examples ``MultiAgentCartPole`` and ``MultiAgentCartPoleCrashing``, whose
env_config they take; the number of agents is 2 unless it is given.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from drl_cli.envs import make
from drl_cli.envs.multi_agent.copies import Copies
from drl_cli.envs.multi_agent.multi_agent_env import AgentsStep, MultiAgentEnv

if TYPE_CHECKING:
    from drl_cli.envs.env_spec import EnvSpec


def multi_agent_cart_pole(
    num_agents: int = 2, render_mode: str | None = None, config: Mapping[str, Any] | None = None, **env_config: Any
) -> Copies:
    """Return ``num_agents`` CartPoles, of agents "0", "1", …; ``env_config`` is CartPole's.

    ``config``: all of these in a mapping, as files of RLlib 2 write them. Raises ValueError for fewer than one agent.
    """
    if config:
        return multi_agent_cart_pole(**{"num_agents": num_agents, "render_mode": render_mode, **env_config, **config})
    if type(num_agents) is not int or num_agents < 1:
        raise ValueError(f"num_agents {num_agents!r:.40} must be a whole number from 1 on")
    return Copies(lambda: make.make("CartPole-v1", env_config, render_mode), num_agents)


class CrashingCartPoles(MultiAgentEnv):
    """The same, which raises RuntimeError and stalls at random. The seed of an episode decides when."""

    is_turn_based = False

    def __init__(
        self,
        p_crash: float = 0.002,
        p_crash_reset: float = 0.0,
        p_stall: float = 0.002,
        stall_time_sec: float = 0.1,
        config: Mapping[str, Any] | None = None,
        **env_config: Any,
    ) -> None:
        """``p_crash``, ``p_crash_reset``: probability that a step or a reset raises; ``p_stall``: that a step stalls.

        ``stall_time_sec``: for how long. ``config``: all of these in a mapping. ``env_config``: as for
        ``multi_agent_cart_pole``, and ``init_time_s``, or ``init_time_s_min`` and ``init_time_s_max``: seconds that a
        construction takes.
        """
        if config:
            own = {
                "p_crash": p_crash,
                "p_crash_reset": p_crash_reset,
                "p_stall": p_stall,
                "stall_time_sec": stall_time_sec,
            }
            CrashingCartPoles.__init__(self, **{**own, **env_config, **config})
            return
        least = env_config.pop("init_time_s_min", env_config.pop("init_time_s", 0.0))
        time.sleep(np.random.default_rng().uniform(least, max(least, env_config.pop("init_time_s_max", least))))
        self._env = multi_agent_cart_pole(**env_config)
        self.agents, self.notes, self.metadata = self._env.agents, self._env.notes, self._env.metadata
        self._p_crash, self._p_crash_reset = p_crash, p_crash_reset
        self._p_stall, self._stall_s = p_stall, stall_time_sec
        self._rng = np.random.default_rng()

    def spaces(self, agent: str) -> EnvSpec:
        """Return the spaces of ``agent``."""
        return self._env.spaces(agent)

    def reset(self, seed: int | None = None) -> AgentsStep:
        """Begin an episode, or raise RuntimeError."""
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        if self._rng.random() < self._p_crash_reset:
            raise RuntimeError("crashed in reset, as p_crash_reset asks")
        return self._env.reset(seed)

    def step(self, actions: Mapping[str, np.ndarray]) -> AgentsStep:
        """Step, stall and step, or raise RuntimeError."""
        crash, stall = self._rng.random(2)
        if crash < self._p_crash:
            raise RuntimeError("crashed in step, as p_crash asks")
        if stall < self._p_stall:
            time.sleep(self._stall_s)
        return self._env.step(actions)

    def render(self) -> Any:
        """Return the copies' frames side by side."""
        return self._env.render()

    def close(self) -> None:
        """Close every copy."""
        self._env.close()
