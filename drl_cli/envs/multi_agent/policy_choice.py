"""Which policy acts for which agent of an episode: always the same, or chosen as one begins, by a function or for self-play."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from drl_cli import plugins
from drl_cli.envs.env_spec import AgentsSetup, SelfPlaySetup
from drl_cli.envs.plugin_calls import called
from drl_cli.errors import PluginFailed, suggestion
from drl_cli.randomness import generator

ODDS = "self_play"  # where the odds of opponents stand among the weights of policies: {"odds": float32 [players]}


def players(setup: SelfPlaySetup) -> list[str]:
    """Return who may play against the learner, in the order of the odds: itself, opponents by name, its frozen copies."""
    return [setup["learner"], *setup["scripted"], *setup["slots"]]


def first_odds(setup: SelfPlaySetup) -> np.ndarray:
    """Return the odds of ``players`` while there are no frozen copies, float64."""
    odds = np.zeros(len(players(setup)))
    odds[0] = setup["own_share"] if setup["scripted"] else 1.0
    odds[1 : 1 + len(setup["scripted"])] = (1.0 - setup["own_share"]) / max(1, len(setup["scripted"]))
    return odds


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
        self._self_play = agents.get("self_play")
        self._odds = None if self._self_play is None else first_odds(self._self_play)

    def of_episode(self, env: int) -> dict[str, str]:
        """Return {agent: policy id} of the next episode of environment ``env``. Raises PluginFailed."""
        if self._self_play is not None:
            return self._drawn(self._self_play, self._next_rng(env))
        fixed, name = self._agents["mapping"], self._agents["mapping_fn"]
        if name is None:
            return dict(fixed or {})
        function = plugins.POLICY_MAPPINGS.known()[name]
        count, rng = self._begun.get(env, 0), self._next_rng(env)
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

    def _next_rng(self, env: int) -> np.random.Generator:
        count = self._begun.get(env, 0)
        self._begun[env] = count + 1
        return generator(self._key[0], "mapping", self._key[1], env, count)

    def _drawn(self, setup: SelfPlaySetup, rng: np.random.Generator) -> dict[str, str]:
        """Draw who plays against the learner, and on which side: it acts for one agent, the opponent for the others."""
        opponent = rng.choice(len(players(setup)), p=self._odds)
        side = int(rng.integers(len(self._agents["spaces"])))
        return self._sided(players(setup)[opponent], side)

    def _sided(self, opponent: str, side: int) -> dict[str, str]:
        setup = self._agents.get("self_play")
        learner = opponent if setup is None else setup["learner"]
        return {agent: learner if index == side else opponent for index, agent in enumerate(self._agents["spaces"])}

    def of_evaluation(self, number: int) -> dict[str, str]:
        """Return {agent: policy id} of the ``number``-th episode of an evaluation.

        In self-play the opponents of ``evaluate_against`` in turn, each of them on every side. Raises PluginFailed.
        """
        if self._self_play is None:
            return self.of_episode(0)
        against, sides = self._self_play["evaluate_against"], len(self._agents["spaces"])
        return self._sided(against[number // sides % len(against)], number % sides)

    def adopt(self, weights: Mapping[str, Mapping[str, np.ndarray]]) -> None:
        """Draw opponents from now on by the odds that came with ``weights``, where some did."""
        if self._self_play is not None and ODDS in weights:
            self._odds = weights[ODDS]["odds"].astype(np.float64)
            self._odds /= self._odds.sum()

    def state(self) -> list[list[int]]:
        """Return what a checkpoint keeps."""
        return [[env, count] for env, count in sorted(self._begun.items())]

    def load(self, facts: Any) -> None:
        """Continue from ``state``."""
        self._begun = dict(map(tuple, facts))
