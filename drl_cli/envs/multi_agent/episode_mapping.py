"""Which policy acts for which agent of an episode: always the same, or chosen by a registered function as one begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from drl_cli import plugins
from drl_cli.envs.env_spec import AgentsSetup
from drl_cli.envs.plugin_calls import called
from drl_cli.errors import PluginFailed, suggestion
from drl_cli.randomness import generator


class MappedEpisode(NamedTuple):
    """What a mapping function knows of the episode that begins."""

    number: int  # episodes of this environment before it
    env_index: int
    worker_index: int
    agents: Sequence[str]
    rng: np.random.Generator  # seeded by the run's seed, the worker, the environment and the episode


class EpisodeMapping:
    """The mapping of one worker or tester."""

    def __init__(self, agents: AgentsSetup, key: tuple[int, int]) -> None:
        """``key``: (seed, worker index)."""
        self._agents, self._key = agents, key
        self._begun: dict[int, int] = {}  # episodes by environment

    def of_episode(self, env: int) -> dict[str, str]:
        """Return {agent: policy id} of the next episode of environment ``env``. Raises PluginFailed."""
        fixed, name = self._agents["mapping"], self._agents["mapping_fn"]
        if name is None:
            return dict(fixed or {})
        count = self._begun.get(env, 0)
        self._begun[env] = count + 1
        function = plugins.POLICY_MAPPINGS.known()[name]
        rng = generator(self._key[0], "mapping", self._key[1], env, count)
        episode = MappedEpisode(count, env, self._key[1], list(self._agents["spaces"]), rng)
        found = {agent: called(f"policy_mapping_fn {name}", function, agent, episode) for agent in episode.agents}
        policies = self._agents["policies"]
        for agent, policy in found.items():
            if policy not in policies:
                raise PluginFailed(
                    f"policy_mapping_fn {name} chose {str(policy)[:60]!r} for the agent {agent}, which is no policy of this "
                    f"run.{suggestion(str(policy), policies)} They are {', '.join(policies)}."
                )
            if agent not in policies[policy]["agents"]:
                raise PluginFailed(
                    f"policy_mapping_fn {name} chose {policy} for the agent {agent}, whose spaces are not that policy's."
                )
        return found

    def state(self) -> list[list[int]]:
        """Return what a checkpoint keeps."""
        return [[env, count] for env, count in sorted(self._begun.items())]

    def load(self, facts: Any) -> None:
        """Continue from ``state``."""
        self._begun = dict(map(tuple, facts))
