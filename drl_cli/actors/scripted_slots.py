"""A scripted opponent in a multi-agent worker: computes the actions of its streams, which are not learnt from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from drl_cli.envs.env_spec import EnvSetup, agents_of
from drl_cli.envs.multi_agent.scripted import ScriptedOpponent


class ScriptedSlots:
    """The streams of one opponent in one worker: what ``policy_slots`` is for policies."""

    def __init__(self, name: str, env: EnvSetup, envs: int) -> None:
        """``name``: of the opponent; ``envs``: environments of the worker."""
        spaces = agents_of(env)["spaces"]
        self._agents = {agent: index for index, agent in enumerate(spaces)}
        self._opponent = ScriptedOpponent(name, next(iter(spaces.values())), envs * len(spaces))

    def stream(self, env: int, agent: str) -> int:
        """Return the stream of ``agent`` in environment ``env``."""
        return env * len(self._agents) + self._agents[agent]

    def act(self, streams: Sequence[int], rng: np.random.Generator, steps: int) -> np.ndarray:
        """Return the actions of ``streams``."""
        return self._opponent.act(streams, [rng] * len(streams))

    def began(self, stream: int, frame: np.ndarray) -> None:
        """Note the first observation of an agent."""
        self._opponent.see(stream, frame)

    def observed(self, stream: int, frame: np.ndarray) -> None:
        """Note a further observation of an agent."""
        self._opponent.see(stream, frame)

    def rewarded(self, stream: int, reward: float) -> None:
        """Ignore the reward: scripted opponents have no use for it."""

    def ended(self, stream: int, ends: tuple[bool, bool], frame: np.ndarray) -> None:
        """Do nothing: no state is kept per episode."""

    def broken(self, stream: int) -> None:
        """Do nothing: no state is kept per episode."""

    def state(self) -> dict[str, np.ndarray]:
        """Return what a checkpoint keeps."""
        return {"obs": self._opponent.obs.copy()}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from ``state``. Raises KeyError or ValueError for another opponent's."""
        self._opponent.obs[...] = arrays["obs"]
