"""An environment with several agents in a process of its own, for ``remote_worker_envs``; see ``envs.remote_env``.

Used by ``agents_batch``. The infos of a step stay in the process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from drl_cli.envs.env_spec import EnvSpec, agents_of
from drl_cli.envs.multi_agent.multi_agent_env import AgentsStep, MultiAgentEnv
from drl_cli.envs.remote_env import RemoteProcess
from drl_cli.envs.remote_env_process import pack_by_agent, unpack_by_agent
from drl_cli.errors import EnvError

if TYPE_CHECKING:
    from drl_cli.envs.env_spec import EnvSetup


class RemoteAgents(MultiAgentEnv):
    """``reset``, ``step`` and ``close`` of an environment elsewhere. ``process``: where it is."""

    def __init__(self, setup: EnvSetup) -> None:
        """``setup``: with ``agents``. The environment is being made; nothing waits for it."""
        self._spaces = agents_of(setup)["spaces"]
        self.agents, self.is_turn_based = list(self._spaces), agents_of(setup)["is_turn_based"]
        self.notes = []
        self.process = RemoteProcess(setup)
        self._is_begun = False

    def spaces(self, agent: str) -> EnvSpec:
        """Return the spaces of ``agent`` as its policy sees them."""
        return self._spaces[agent]

    def reset(self, seed: int | None = None) -> AgentsStep:
        """Begin an episode; no agent has ended or has a reward."""
        self._is_begun = False
        return self._step_of(self.process.reset(seed))

    def begin(self, actions: Mapping[str, np.ndarray]) -> None:
        """Send the actions of a step; the answer is that of the next ``step``."""
        self.process.send(b"S" + pack_by_agent(actions, {}))
        self._is_begun = True

    def step(self, actions: Mapping[str, np.ndarray]) -> AgentsStep:
        """Step with ``actions``, or return the step that was begun."""
        if not self._is_begun:
            self.begin(actions)
        self._is_begun = False
        return self._step_of(self.process.answer())

    def _step_of(self, answer: bytes) -> AgentsStep:
        obs, facts = unpack_by_agent(answer)
        self.notes += facts["notes"]
        ends = frozenset(facts["terminated"]), frozenset(facts["truncated"])
        return AgentsStep(obs, facts["rewards"], *ends, facts["is_over"], {})

    def render(self) -> Any:
        """Raise EnvError: ``remote_env.misfits`` refuses films of such environments."""
        raise EnvError("an environment in a process of its own is not rendered")

    def close(self) -> None:
        """End the environment and its process."""
        self.process.close()
