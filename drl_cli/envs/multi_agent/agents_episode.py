"""The running episode of an environment with several agents: which agents are in it, which have ended, and what was left out.

Used by ``dictionary``. Environments differ in what they say of an agent's end; here every agent that was observed ends once:

- ``__all__`` ends all who are left; so does an environment whose list of agents is empty.
- An agent that its environment drops without an end is truncated at its last observation.
- An agent that comes back after its end is left out for the rest of the episode.
- An observation of None, and one that is missing at an agent's end: the last one that there was.
- A reward of an agent that has not been observed yet, or that had ended before, is dropped.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from drl_cli.envs.multi_agent.agent_view import AgentView
from drl_cli.envs.multi_agent.multi_agent_env import AgentsStep
from drl_cli.envs.steps import as_number
from drl_cli.errors import EnvError, suggestion


class AgentsEpisode:
    """What must be remembered of an episode from step to step."""

    def __init__(self, views: Mapping[str, AgentView]) -> None:
        """``views``: of every possible agent."""
        self._views = views
        self._last: dict[str, np.ndarray] = {}  # of those who are in it: their last observation
        self._ended: set[str] = set()
        self._said: set[str] = set()
        self.notes: list[str] = []

    def begin(self, obs: Mapping[str, Any], infos: Mapping[str, Any]) -> AgentsStep:
        """Begin an episode with what a reset returned, by agent. Raises as ``after``."""
        self._ended = set()
        self._last = self._seen(obs)
        return AgentsStep(dict(self._last), {}, frozenset(), frozenset(), False, self._of_known(infos))

    def after(
        self,
        obs: Mapping[str, Any],
        rewards: Mapping[str, Any],
        ends: tuple[Mapping[str, Any], Mapping[str, Any]],
        infos: Mapping[str, Any],
        everyone: tuple[bool, bool] = (False, False),
        present: Collection[str] | None = None,
    ) -> AgentsStep:
        """Return what a step brought.

        ``obs``, ``rewards``, ``infos``: by agent, as the environment returned them; ``ends``: terminated and truncated, by
        agent; ``everyone``: the same of all together. ``present``: who is still in it, where the environment says that.
        Raises FloatingPointError for numbers that are not finite, EnvError for an agent that the environment has not named,
        ValueError for observations that do not fit.
        """
        known = [{agent for agent in self._of_known(end) if end[agent]} for end in ends]
        self._note_returns({agent for agent, raw in obs.items() if raw is not None}, known)
        seen = self._seen({agent: raw for agent, raw in obs.items() if agent not in self._ended})
        self._last.update(seen)
        terminated, truncated = (end & self._last.keys() for end in known)
        left = self._last.keys() - terminated - truncated
        if any(everyone):
            (terminated if everyone[0] else truncated).update(left)
        elif present is not None:
            dropped = left - set(present) - seen.keys()
            for agent in sorted(dropped):
                self._say(f"agent {agent!r} is gone without an end: it counts as truncated at its last observation.")
            truncated |= dropped
        earned = self._earned(rewards)
        ended = terminated | truncated
        step_obs = {agent: one for agent, one in self._last.items() if agent in seen or agent in ended}
        for agent in ended:
            del self._last[agent]
        self._ended |= ended
        return AgentsStep(
            step_obs, earned, frozenset(terminated), frozenset(truncated), not self._last, self._of_known(infos)
        )

    def _seen(self, obs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        seen = {}
        for agent, raw in self._of_known(obs).items():
            if raw is None:
                continue
            try:
                seen[agent] = one = self._views[agent].obs(raw)
            except (TypeError, ValueError, KeyError) as error:
                raise ValueError(f"agent {agent!r}: {error}") from error
            if one.dtype != np.uint8 and not np.isfinite(one).all():
                where = int(np.flatnonzero(~np.isfinite(one))[0])
                raise FloatingPointError(f"agent {agent!r}: element {where} of its observation is {one.flat[where]}")
        return seen

    def _earned(self, rewards: Mapping[str, Any]) -> dict[str, float]:
        earned = {}
        for agent, reward in self._of_known(rewards).items():
            if reward is None or agent not in self._last:
                continue
            try:
                earned[agent] = number = as_number(reward)
            except (TypeError, ValueError) as error:
                raise ValueError(f"agent {agent!r}: its reward is {reward!r:.60}; one number is needed") from error
            if not math.isfinite(number):
                raise FloatingPointError(f"agent {agent!r}: its reward is {number}")
        return earned

    def _of_known(self, by_agent: Mapping[str, Any]) -> Mapping[str, Any]:
        for agent in by_agent:
            if agent not in self._views:
                raise EnvError(
                    f"agent {agent!r} is not among the environment's agents ({', '.join(list(self._views)[:8])})."
                    f"{suggestion(agent, list(self._views))} List every possible agent in possible_agents."
                )
        return by_agent

    def _note_returns(self, observed: set[str], ends: list[set[str]]) -> None:
        for agent in sorted((observed & self._ended) - ends[0] - ends[1]):
            self._say(f"agent {agent!r} came back after its end; it is left out for the rest of the episode.")

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self.notes.append(text)
