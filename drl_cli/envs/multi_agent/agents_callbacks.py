"""The episodes of several agents as callbacks see them, and the steps of each policy; see ``callback_episodes``.

``agents_batch`` and ``actors.agents_tester``, which step environments, call it for every event; ``actors.policy_slots`` for the
steps of its policy. Names are those of RLlib's ``MultiAgentEpisode`` (1.0): ``agent_rewards``, ``policy_for``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from drl_cli.envs import callback_episodes
from drl_cli.envs.callback_episodes import CallbackEpisodes, EpisodeMetrics
from drl_cli.envs.multi_agent.multi_agent_env import AgentsStep, MultiAgentEnv

if TYPE_CHECKING:
    from drl_cli.envs.callbacks import Hooks


class AgentsCallbackEpisode:
    """One episode of several agents, from its reset to its end; what hooks are given as ``episode``.

    ``env`` (``env.unwrapped``: as its author made it), ``worker_index``, ``env_index``, ``in_evaluation``, ``length``,
    ``custom_metrics``, ``hist_data``, ``user_data``: as of a ``CallbackEpisode``.
    ``agent_rewards``: {(agent, policy id): raw rewards so far} of the agents that have any; ``total_reward``: their sum.
    ``last_obs`` (as the policy gets it), ``last_action`` (as the environment got it), ``last_reward``, ``last_info``: by agent,
    the newest of each. ``acting``: the agents that act next.
    """

    def __init__(
        self, watch: CallbackEpisodes, index: int, env: MultiAgentEnv, step: AgentsStep, policy_of: Mapping[str, str]
    ) -> None:
        """``step``: the first one; ``policy_of``: agent → policy id."""
        self.env, self.worker_index, self.env_index = env, watch.worker_index, index
        self.in_evaluation = watch.in_evaluation
        self.length = 0
        self.agent_rewards: dict[tuple[str, str], float] = {}
        self.last_obs: dict[str, np.ndarray] = dict(step.obs)
        self.last_action: dict[str, np.ndarray] = {}
        self.last_reward: dict[str, float] = {}
        self.last_info: dict[str, Mapping[str, Any]] = dict(step.infos)
        self.acting = step.acting()
        self.custom_metrics, self.hist_data, self.user_data = {}, {}, {}
        self._watch, self._policy_of = watch, dict(policy_of)

    @property
    def agents(self) -> list[str]:
        """Every possible agent."""
        return list(self.env.agents)

    @property
    def total_reward(self) -> float:
        """The raw rewards of all agents so far."""
        return sum(self.agent_rewards.values())

    @property
    def is_replayed(self) -> bool:
        """Whether this call repeats what was there before the run was stopped and resumed."""
        return self._watch.is_replaying

    def policy_for(self, agent: str) -> str:
        """Return the id of the policy that acts for ``agent``. Raises KeyError for an agent that is not there."""
        return self._policy_of[agent]

    def over(self) -> None:
        """The environment goes on to other episodes; nothing here looks at it."""

    def take(self, actions: Mapping[str, np.ndarray], step: AgentsStep) -> None:
        """Note a step."""
        self.length += 1
        for agent, reward in step.rewards.items():
            key = agent, self._policy_of[agent]
            self.agent_rewards[key] = self.agent_rewards.get(key, 0.0) + reward
        self.last_obs |= step.obs
        self.last_action |= actions
        self.last_reward |= step.rewards
        self.last_info |= step.infos
        self.acting = step.acting()


class AgentsCallbacks:
    """Calls the hooks of one object of callbacks for the episodes of environments with several agents."""

    def __init__(
        self,
        hooks: Hooks,
        policy_of: Callable[[int], Mapping[str, str]],
        worker_index: int = 0,
        in_evaluation: bool = False,
    ) -> None:
        """``policy_of(environment)``: agent → policy id of the episode that begins there."""
        self.episodes = CallbackEpisodes(hooks, worker_index, in_evaluation)
        self._policy_of = policy_of

    def began(self, index: int, env: MultiAgentEnv, step: AgentsStep) -> None:
        """An episode has begun in ``env`` with ``step``."""
        self.episodes.start(index, AgentsCallbackEpisode(self.episodes, index, env, step, self._policy_of(index)))

    def stepped(self, index: int, actions: Mapping[str, np.ndarray], step: AgentsStep) -> None:
        """Environment ``index`` has taken a step that counts."""
        episode = self.episodes.running(index)
        episode.take(actions, step)
        self.episodes.hooks.call("on_episode_step", episode=episode)

    def ended(self, index: int) -> EpisodeMetrics:
        """The episode of environment ``index`` is over; returns (custom_metrics, hist_data) as plain data."""
        return self.episodes.ended(index)


class PolicyCallbacks:
    """The steps of one policy in one worker as hooks see them: ``on_postprocess`` by agent, ``on_sample_end`` by policy."""

    def __init__(self, watch: AgentsCallbacks, policy_id: str, agents: Sequence[str]) -> None:
        """``agents``: A that the policy may act for; stream env·A + i is the i-th of them in environment ``env``."""
        self._episodes, self._policy_id, self._agents = watch.episodes, policy_id, agents
        self._rows: dict[int, list[AgentsCallbackEpisode]] = {}  # by stream: the episode of each step that has begun
        self._keeps_rows = watch.episodes.hooks.has("on_postprocess")

    def acted(self, streams: Sequence[int]) -> None:
        """The agents of ``streams`` have begun a step."""
        if self._keeps_rows:
            for stream in streams:
                self._rows.setdefault(stream, []).append(self._episodes.running(stream // len(self._agents)))

    def taken_back(self, stream: int) -> None:
        """The newest step of ``stream`` has not happened."""
        if self._keeps_rows:
            self._rows[stream].pop()

    def postprocess(self, columns: dict[str, np.ndarray], gamma: float) -> None:
        """Call ``on_postprocess`` for every part of an agent's episode in the fragment ``columns``."""
        if not self._keeps_rows:
            return

        def arguments(stream: int, step: int) -> dict[str, Any]:
            agent = self._agents[stream % len(self._agents)]
            return {"episode": self._rows[stream][step], "agent_id": agent, "policy_id": self._policy_id}

        callback_episodes.postprocess(self._episodes.hooks, columns, gamma, arguments)
        longest, streams = columns["reward"].shape
        lengths = columns.get("length", columns.get("steps", np.full(streams, longest)))
        self._rows = {stream: rows[lengths[stream] :] for stream, rows in self._rows.items()}

    def sampled(self, columns: dict[str, np.ndarray]) -> None:
        """Call ``on_sample_end`` with the policy's finished fragment."""
        callback_episodes.sampled(
            self._episodes.hooks, columns, worker_index=self._episodes.worker_index, policy_id=self._policy_id
        )

    def load(self, is_open: np.ndarray) -> None:
        """Continue with the steps that are open, bool by stream, in the episodes that run now."""
        self._rows = {}
        self.acted(np.flatnonzero(is_open).tolist())
