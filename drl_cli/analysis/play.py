"""The loop that plays a policy in one environment, episode by episode, and what it records of each.

Used by ``drl rollout``. One environment, which is used again for the next episode, or one after the other, for runs that were
trained so (``fresh_envs``).
Sources: the five-line loops of bsuite and gymnasium's own documentation.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, SupportsFloat, TypeVar

import numpy as np

from drl_cli.config.plain_data import plain
from drl_cli.envs.frame_stack import FrameStack
from drl_cli.envs.make import bound_of
from drl_cli.envs.spaces import seen_dtype
from drl_cli.envs.steps import as_action, success_of
from drl_cli.errors import RunFailed, failure

if TYPE_CHECKING:
    import gymnasium

    from drl_cli.envs.multi_agent.multi_agent_env import MultiAgentEnv
    from drl_cli.policies.numpy_policy import NumpyPolicy

T = TypeVar("T")

STEPS, INFOS, CHOICES = "steps", "infos", "choices"  # what a Player records of episodes; the other two include steps
LONGEST_TEXT = 1000  # characters of what an info holds that is no plain data


@dataclass(frozen=True)
class Limits:
    """When to stop: after ``episodes`` or ``steps`` (environment steps of all episodes), whichever comes first.

    None means no such limit; one of the two is given. horizon truncates a single episode, as a part of the task; max_steps does
    so to bound the time that it takes, None: see ``envs.make.bound_of``.
    """

    episodes: int | None = None
    steps: int | None = None
    horizon: int | None = None
    max_steps: int | None = None


@dataclass
class AgentSteps:
    """What one agent did: obs [L + 1, …] before each of its steps and the last one, action [L, …], rewards [L], infos [L].

    A reward is the sum since the agent acted. ends: (terminated, truncated); neither where the episode was cut.
    """

    obs: list[np.ndarray] = field(default_factory=list)
    action: list[np.ndarray] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    infos: list[Any] = field(default_factory=list)
    ends: tuple[bool, bool] = (False, False)


@dataclass
class PlayedEpisode:
    """One episode as it was played.

    reward: the sum of raw rewards. length: environment steps. terminated, truncated: how it ended; neither when the
    limit of steps cut it, so that ``complete`` is False. is_cut: truncated by ``max_steps``. success: whether it reached its
    goal, None where the environment does not say (``steps.success_of``). Filled only when transitions
    are kept: obs [length + 1, *obs_shape] (single frames), action [length, *action_shape] as the environment got it, rewards
    [length]; with ``INFOS`` also infos [length] of plain data; with ``CHOICES`` also chosen [length, …], the action as
    recordings hold it (``NumpyPolicy.recorded``), and its logp [length], None where it was not drawn.
    Of several agents (``play_agents``) returns by agent, policy_of: agent → policy id, and steps by agent where transitions are
    kept; all of them are empty of one agent.
    """

    number: int
    seed: int
    reward: float = 0.0
    length: int = 0
    terminated: bool = False
    truncated: bool = False
    is_cut: bool = False
    success: bool | None = None
    obs: list[np.ndarray] = field(default_factory=list)
    action: list[np.ndarray] = field(default_factory=list)
    chosen: list[np.ndarray] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    infos: list[Any] = field(default_factory=list)
    logp: list[float | None] = field(default_factory=list)
    returns: dict[str, float] = field(default_factory=dict)
    policy_of: dict[str, str] = field(default_factory=dict)
    steps: dict[str, AgentSteps] = field(default_factory=dict)

    @property
    def policy_rewards(self) -> dict[str, list[float]]:
        """The returns of each policy's agents, by policy id."""
        found: dict[str, list[float]] = {}
        for agent, own in self.returns.items():
            found.setdefault(self.policy_of[agent], []).append(own)
        return found

    @property
    def complete(self) -> bool:
        """Whether it came to an end of its own, or of the horizon."""
        return self.terminated or self.truncated


class FrameRecorder(Protocol):
    """Records the frames of one episode, see ``envs.video``."""

    def add(self, frame: Any) -> None:
        """Take in the next frame."""
        ...

    def close(self) -> None:
        """Finish the file."""
        ...

    def abort(self) -> None:
        """Remove what was written."""
        ...


class EpisodePlayer(ABC):
    """Plays episodes one after the other and yields each PlayedEpisode as it ends; subclasses play the steps.

    recorder: None, or called with the number of each episode for an object with ``add(frame)``, ``close()`` and
    ``abort()`` (see ``envs.video``). fresh: a new environment for every episode.
    """

    def __init__(self, recorder: Callable[[int], FrameRecorder] | None, fresh: bool) -> None:
        self._recorder = recorder
        self._fresh = fresh

    def play(self, limits: Limits, seed: int) -> Iterator[PlayedEpisode]:
        """Yield episodes until a limit is reached; episode i is seeded with ``seed + i``. Raises RunFailed."""
        left = math.inf if limits.steps is None else limits.steps
        count = math.inf if limits.episodes is None else limits.episodes
        env, number = None, 0
        try:
            while number < count and left > 0:
                if env is None:
                    env = self._open()
                horizon, bound = limits.horizon or math.inf, self._bound(env, limits)
                episode = self._episode(env, PlayedEpisode(number, seed + number), min(left, horizon, bound))
                if not episode.complete and episode.length >= min(horizon, bound):
                    episode.truncated, episode.is_cut = True, episode.length < horizon
                left -= episode.length
                number += 1
                if self._fresh:
                    env.close()
                    env = None
                yield episode
        finally:
            if env is not None:
                env.close()

    def _episode(self, env: Any, episode: PlayedEpisode, most: float) -> PlayedEpisode:
        """Play one episode of at most ``most`` steps."""
        video = self._recorder(episode.number) if self._recorder else None
        try:
            self._steps(env, episode, most, video)
        except BaseException:
            if video:
                video.abort()
            raise
        if video:
            video.close()
        return episode

    def _show(self, env: gymnasium.Env | MultiAgentEnv, video: FrameRecorder | None) -> None:
        if video:
            from drl_cli.envs.video import frame_of  # loads ffmpeg, which only films need

            video.add(frame_of(env))

    @abstractmethod
    def _open(self) -> Any:
        """Return a new environment."""

    @abstractmethod
    def _bound(self, env: Any, limits: Limits) -> float:
        """Return the env steps after which an episode is cut."""

    @abstractmethod
    def _steps(self, env: Any, episode: PlayedEpisode, most: float, video: FrameRecorder | None, /) -> None:
        """Play at most ``most`` steps of ``episode`` and note them in it; frames go to ``video``."""


class Player(EpisodePlayer):
    """Plays ``policy`` in environments that ``make_env()`` makes, and yields each Episode as it ends.

    recorder, fresh: see ``EpisodePlayer``. keep: None, ``STEPS``, ``INFOS`` or ``CHOICES``. frames: how many of the last
    observations the policy acts on.
    """

    def __init__(
        self,
        policy: NumpyPolicy,
        make_env: Callable[[], gymnasium.Env],
        explore: bool = False,
        recorder: Callable[[int], FrameRecorder] | None = None,
        keep: str | None = None,
        fresh: bool = False,
        frames: int = 1,
    ) -> None:
        super().__init__(recorder, fresh)
        self._policy = policy
        self._make_env = make_env
        self._explore = explore
        self._keep = keep
        self._frames = frames

    def _open(self) -> gymnasium.Env:
        return self._make_env()

    def _bound(self, env: gymnasium.Env, limits: Limits) -> float:
        return bound_of(env, limits.max_steps) or math.inf

    def _steps(self, env: gymnasium.Env, episode: PlayedEpisode, most: float, video: FrameRecorder | None) -> None:
        rng = np.random.default_rng([episode.seed, 1])
        state = self._policy.initial_state(1)
        space = env.observation_space
        stack = FrameStack(1, space.shape or (), seen_dtype(space), self._frames)
        obs = _guarded(env, episode, lambda: stack.seen(env.reset(seed=episode.seed)[0]))
        stack.begin(0, obs)
        self._show(env, video)
        while episode.length < most and not episode.complete:
            seen, before = stack.stacked(), state
            chosen, state, _ = self._policy.act(seen, state, rng, self._explore)
            action = np.asarray(self._policy.to_env(chosen)[0], env.action_space.dtype).reshape(env.action_space.shape)
            after, reward, terminated, truncated, info = _guarded(
                env, episode, lambda action=action: _stepped(env, stack, action)
            )
            if not math.isfinite(reward):
                raise RunFailed(
                    f"{_name(env)} gave the reward {reward} in step {episode.length + 1} of episode #{episode.number}."
                )
            if self._keep:
                episode.obs.append(obs)
                episode.action.append(action)
                episode.rewards.append(float(reward))
            if self._keep == INFOS:
                episode.infos.append(plain(info, LONGEST_TEXT))
            if self._keep == CHOICES:
                episode.chosen.append(self._policy.recorded(chosen)[0])
                episode.logp.append(self._logp(seen, before, chosen))
            self._policy.rewarded(state, reward)
            episode.reward += float(reward)
            episode.length += 1
            episode.terminated, episode.truncated = bool(terminated), bool(truncated)
            episode.success = success_of(info)
            obs = after
            stack.push(0, obs)
            self._show(env, video)
        if self._keep:
            episode.obs.append(obs)

    def _logp(self, obs: np.ndarray, state: tuple[np.ndarray, ...], chosen: np.ndarray) -> float | None:
        """The log-probability of the action; None where it was not sampled, or where noise in the net sampled it."""
        policy = self._policy
        if not self._explore or not policy.is_drawn_from or policy.spec.distribution == "q" or policy.spec.is_noisy:
            return None
        return float(policy.logp(policy.stepped(obs, state)[0], policy.recorded(chosen))[0])


def _stepped(
    env: gymnasium.Env, stack: FrameStack, action: np.ndarray
) -> tuple[np.ndarray, SupportsFloat, bool, bool, dict[str, Any]]:
    obs, reward, terminated, truncated, info = env.step(as_action(action))
    # A copy: an environment may return an array that it writes to again, and episodes are kept.
    return stack.seen(obs).copy(), reward, terminated, truncated, info


def _name(env: gymnasium.Env) -> str:
    return env.spec.id if env.spec else type(env).__name__


def _guarded(env: gymnasium.Env, episode: PlayedEpisode, call: Callable[[], T]) -> T:
    """Call into the environment; RunFailed for anything that it raises, with the environment, the episode and the step."""
    try:
        return call()
    except Exception as error:
        place = f"step {episode.length + 1} of episode #{episode.number} (seed {episode.seed})"
        raise RunFailed(f"{_name(env)} raised in {place}: {failure(error)}") from error
