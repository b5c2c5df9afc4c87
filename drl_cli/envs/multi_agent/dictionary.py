"""Environments whose ``reset`` and ``step`` are keyed by agent: RLlib's dictionaries and PettingZoo's parallel form.

Other forms are brought to this one (``turns``, ``tuples``) and opened by ``open_envs``. An agent acts when it is observed;
``__all__`` ends all who are left. What environments leave out is filled in by ``agents_episode``. Sources: RLlib's
``MultiAgentEnv`` of 0.8 to 2.59, PettingZoo's ``ParallelEnv`` (1.27).
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from drl_cli.envs.env_smoke_test import close
from drl_cli.envs.multi_agent.agent_view import AgentView, view_of
from drl_cli.envs.multi_agent.agents_episode import AgentsEpisode
from drl_cli.envs.multi_agent.multi_agent_env import AgentsStep, MultiAgentEnv
from drl_cli.errors import EnvError

if TYPE_CHECKING:
    from drl_cli.envs.env_spec import EnvSpec, Preprocessing

SIGNATURE = (
    "reset(seed=None, options=None) -> (obs, infos) and step(actions) -> (obs, rewards, terminated, truncated, infos), each "
    "a dict keyed by agent"
)
ALL = "__all__"
MAX_IDLE_STEPS = 1000  # steps in a row in which no agent is observed


class DictionaryEnv(MultiAgentEnv):
    """An environment keyed by agent. Ids of agents become strings."""

    def __init__(
        self,
        env: Any,
        preprocessing: Preprocessing | None = None,
        limit: int | None = None,
        lists_present: bool = False,
        is_turn_based: bool = False,
    ) -> None:
        """``env``: the environment's own object; ``limit``: env steps after which all who are left are truncated.

        ``preprocessing``: a plan of ``envs.preprocessors``. ``lists_present``: its ``agents`` are those who are still in the
        episode, as PettingZoo's are. Raises EnvError for agents or spaces that cannot be found.
        """
        self._env: Any = env
        self._limit, self._lists_present = limit, lists_present
        self.is_turn_based = is_turn_based
        described = getattr(env, "metadata", None)  # RLlib's form need not have it
        self.metadata = described if isinstance(described, Mapping) else {}
        self._takes_seed = _takes_seed(env)
        raw = _agents_of(env)
        raw = list(self._reset(0)[0]) if raw is None else raw
        self._raw = {str(agent): agent for agent in raw}
        self.agents = list(self._raw)
        if not self.agents or len(self._raw) < len(raw):
            named = f"{raw[:8]}, of which two are written alike" if raw else "none"
            raise EnvError(f"its agents are {named}; name each of them in possible_agents.")
        self._views = {agent: self._view(agent, preprocessing) for agent in self.agents}
        self._episode, self._steps = AgentsEpisode(self._views), 0
        self.notes = self._episode.notes

    def _view(self, agent: str, preprocessing: Preprocessing | None) -> AgentView:
        raw = self._raw[agent]
        try:
            return view_of(_space(self._env, "observation", raw), _space(self._env, "action", raw), preprocessing)
        except EnvError as error:
            raise EnvError(f"agent {agent!r}: {error}") from error

    @property
    def unwrapped(self) -> Any:
        """The environment as its author made it."""
        return getattr(self._env, "unwrapped", self._env)

    def spaces(self, agent: str) -> EnvSpec:
        """Return the spaces of ``agent`` as its policy sees them."""
        return self._views[agent].spec

    def reset(self, seed: int | None = None) -> AgentsStep:
        """Begin an episode; no agent has ended or has a reward."""
        self._steps = 0
        obs, infos = self._reset(seed)
        step = self._episode.begin(_by_agent(obs), _by_agent(infos))
        return self._until_someone_acts(step)

    def step(self, actions: Mapping[str, np.ndarray]) -> AgentsStep:
        """Step with an action of every agent that acts; see ``AgentsStep`` for what returns."""
        given = {self._raw[agent]: self._views[agent].action(action) for agent, action in actions.items()}
        return self._until_someone_acts(self._stepped(given))

    def state(self) -> np.ndarray | None:
        """Return what the environment's ``state()`` returns, flattened to float32 [S]; None where it has none."""
        if not hasattr(self._env, "state"):
            return None
        try:
            return np.asarray(self._env.state(), np.float32).ravel()
        except (
            NotImplementedError,
            AttributeError,
            TypeError,
        ):  # some of PettingZoo keep something else under that name
            return None

    def render(self) -> Any:
        """Return what the environment renders."""
        return self._env.render()

    def close(self) -> None:
        """Close it. Safe to call twice."""
        env, self._env = self._env, None
        trouble = close(env) if hasattr(env, "close") else None
        if trouble:
            raise EnvError(trouble)

    def _reset(self, seed: int | None) -> tuple[Any, Any]:
        """Return (obs, infos) of a reset; RLlib's older environments return observations alone."""
        answer = self._env.reset(seed=seed) if self._takes_seed else self._env.reset()
        obs, infos = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, {})
        if not isinstance(obs, Mapping):
            raise EnvError(f"reset returned {type(answer).__name__}; the interface is {SIGNATURE}.")
        return obs, infos

    def _stepped(self, given: Mapping[Any, Any]) -> AgentsStep:
        answer = self._env.step(given)
        if not (isinstance(answer, tuple) and len(answer) in (4, 5) and all(isinstance(a, Mapping) for a in answer)):
            raise EnvError(f"step returned {_kind(answer)}; the interface is {SIGNATURE}.")
        obs, rewards, terminated, *truncated, infos = answer
        # Older environments of RLlib have dones alone.
        truncated = truncated[0] if truncated else {}
        self._steps += 1
        is_late = self._limit is not None and self._steps >= self._limit
        everyone = bool(terminated.get(ALL)), bool(truncated.get(ALL)) or is_late
        present = [str(agent) for agent in self._env.agents] if self._lists_present else None
        ends = _by_agent(terminated), _by_agent(truncated)
        return self._episode.after(_by_agent(obs), _by_agent(rewards), ends, _by_agent(infos), everyone, present)

    def _until_someone_acts(self, step: AgentsStep) -> AgentsStep:
        """Step without actions while no agent is observed and the episode goes on; returns the combined step."""
        for _ in range(MAX_IDLE_STEPS):
            if step.acting() or (step.is_over and self._steps):
                return step
            step = _joined(step, self._stepped({}))
        raise EnvError(f"no agent was observed in {MAX_IDLE_STEPS:,} steps; one at least must be, or {ALL} be true.")


def _joined(first: AgentsStep, then: AgentsStep) -> AgentsStep:
    """Return two steps as one."""
    rewards = dict(first.rewards)
    for agent, reward in then.rewards.items():
        rewards[agent] = rewards.get(agent, 0.0) + reward
    return AgentsStep(
        {**first.obs, **then.obs},
        rewards,
        first.terminated | then.terminated,
        first.truncated | then.truncated,
        then.is_over,
        {**first.infos, **then.infos},
    )


def _agents_of(env: Any) -> list[Any] | None:
    """Return the agents that an environment names, under any of the names in use; None where it names none."""
    for name in ("possible_agents", "observation_spaces", "get_agent_ids", "_agent_ids", "agents"):
        named: Any = getattr(env, name, None)
        if callable(named):
            named = named()
        if named:
            # Sets have an order of their own in every process.
            return sorted(named, key=str) if isinstance(named, (set, frozenset)) else list(named)
    return None


def _space(env: Any, what: str, agent: Any) -> Any:
    """Return the "observation" or "action" space of an agent: by a method, a dict, a Dict space, or one for all."""
    one: Any = getattr(env, f"{what}_space", None)
    if callable(one):
        return one(agent)
    for spaces in (getattr(env, f"{what}_spaces", None), one):
        found = getattr(spaces, "spaces", spaces)
        if isinstance(found, Mapping) and agent in found:
            return found[agent]
    if one is None:
        raise EnvError(f"it has no {what} space. Give the environment {what}_space(agent), or {what}_spaces, a dict.")
    return one


def _takes_seed(env: Any) -> bool:
    parameters = inspect.signature(env.reset).parameters.values()
    return any(p.name == "seed" or p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)


def _by_agent(values: Any) -> dict[str, Any]:
    """Return a mapping with strings for agents; RLlib's keys for all agents together are left out."""
    return {str(agent): value for agent, value in values.items() if not _is_shared(agent)}


def _is_shared(agent: Any) -> bool:
    return isinstance(agent, str) and agent.startswith("__") and agent.endswith("__")


def _kind(answer: Any) -> str:
    return f"a tuple of {len(answer)}" if isinstance(answer, tuple) else f"a {type(answer).__name__}"
