"""The loop that plays the policies of several agents in one environment, episode by episode; ``play`` is that of one agent.

Used by ``drl rollout``. An episode that was played here has, beside the sum, the return of every agent and the policy that
acted for it; agents act by the classes with which ``actors.agents_tester`` scores them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from drl_cli.actors.agents_tester import ActingPolicies, AgentEpisode, play_step
from drl_cli.analysis.play import INFOS, LONGEST_TEXT, AgentSteps, EpisodePlayer, FrameRecorder, Limits, PlayedEpisode
from drl_cli.config.plain_data import plain
from drl_cli.envs.env_reuse import FOREIGN
from drl_cli.envs.make import UNBOUNDED_STEPS
from drl_cli.envs.multi_agent.policy_choice import EpisodeMapping
from drl_cli.errors import InputError, ResourcesExhausted, RunFailed, failure

if TYPE_CHECKING:
    from drl_cli.analysis.loaded_checkpoint import Subject
    from drl_cli.envs.multi_agent.multi_agent_env import AgentsStep, MultiAgentEnv


class AgentsPlayer(EpisodePlayer):
    """Plays the policies of ``subject``, whose environment has several agents, and yields each episode as it ends."""

    def __init__(
        self,
        subject: Subject,
        render_mode: str | None = None,
        explore: bool = False,
        recorder: Callable[[int], FrameRecorder] | None = None,
        keep: str | None = None,
        fresh: bool = False,
    ) -> None:
        """See ``play.Player``; ``keep``: None, ``STEPS`` or ``INFOS``."""
        super().__init__(recorder, fresh)
        self._subject, self._mode, self._explore = subject, render_mode, explore
        self._keep = keep
        self._agents = subject.several

    def _open(self) -> MultiAgentEnv:
        return self._subject.make_agents_env(self._mode)

    def _bound(self, env: MultiAgentEnv, limits: Limits) -> float:
        return limits.max_steps or UNBOUNDED_STEPS

    def _steps(self, env: MultiAgentEnv, played: PlayedEpisode, most: float, video: FrameRecorder | None) -> None:
        policies = self._subject.policies
        acting = ActingPolicies(policies, self._agents, 1)
        mapping = EpisodeMapping(self._agents, (played.seed, 0)).of_evaluation(played.number)
        episode = AgentEpisode(0, played.seed, env, mapping)
        kept = _Kept(played, self._keep)
        try:
            episode.begin(acting)
            kept.add(episode.now)
            self._show(env, video)
            while episode.length < most and not episode.now.is_over:
                actions = play_step([episode], acting, list(policies), self._explore)[0]
                kept.acted(actions)
                kept.add(episode.now)
                self._show(env, video)
        except (InputError, ResourcesExhausted):  # of the film
            raise
        except FOREIGN as error:
            place = f"step {episode.length + 1} of episode #{played.number} (seed {played.seed})"
            raise RunFailed(f"{self._subject.env} raised in {place}: {failure(error)}") from error
        played.returns, played.policy_of, played.length = dict(episode.returns), mapping, episode.length
        learner = self._agents["self_play"]["learner"] if "self_play" in self._agents else None
        played.reward = float(episode.scored(False, learner).reward)
        if episode.now.is_over:
            played.terminated, played.truncated = episode.terminated, not episode.terminated


class _Kept:
    """Files what each agent does into ``PlayedEpisode.steps``, where transitions are kept."""

    def __init__(self, played: PlayedEpisode, keep: str | None) -> None:
        self._steps, self._keep = played.steps, keep

    def add(self, step: AgentsStep) -> None:
        if not self._keep:
            return
        for agent, reward in step.rewards.items():
            own = self._steps.get(agent)
            if own is not None and own.rewards:
                own.rewards[-1] += float(reward)
        for agent, obs in step.obs.items():
            own = self._steps.setdefault(agent, AgentSteps())
            own.obs.append(np.array(obs))
            if self._keep == INFOS and own.action:
                own.infos.append(plain(step.infos.get(agent, {}), LONGEST_TEXT))
            if agent in step.ended:
                own.ends = (agent in step.terminated, agent in step.truncated)

    def acted(self, actions: Mapping[str, np.ndarray]) -> None:
        if self._keep:
            for agent, action in actions.items():
                self._steps[agent].action.append(np.asarray(action))
                self._steps[agent].rewards.append(0.0)
