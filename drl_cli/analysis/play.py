"""The loop that plays a policy in one environment, episode by episode, and what it keeps of each.

Used by ``drl rollout``. One environment, which is used again for the next episode, or one after the other, for runs that were
trained so (``fresh_envs``).
Sources: the five-line loops of bsuite and gymnasium's own documentation.
"""

import json
import math
from dataclasses import dataclass, field

import numpy as np

from drl_cli.envs.frame_stack import FrameStack
from drl_cli.envs.make import bound_of
from drl_cli.envs.spaces import seen_dtype
from drl_cli.envs.steps import as_action
from drl_cli.errors import InputError, RunFailed, failure

EPISODES_FORMAT = "drl-episodes-1"
STEPS, INFOS, CHOICES = "steps", "infos", "choices"  # what a Player keeps of episodes; the others come with steps
LONGEST_TEXT = 1000  # characters of what an info holds that is no plain data


@dataclass(frozen=True)
class Limits:
    """When to stop: after ``episodes`` or ``steps`` (environment steps of all episodes), whichever comes first.

    None means no such limit; one of the two is given. horizon cuts a single episode, as a part of the task; max_steps does
    as a bound to what is looked at, None: see ``envs.make.bound_of``.
    """

    episodes: int | None = None
    steps: int | None = None
    horizon: int | None = None
    max_steps: int | None = None


@dataclass
class Episode:
    """One episode as it was played.

    reward: the sum of raw rewards. length: environment steps. terminated, truncated: how it ended; neither when the
    limit of steps cut it, so that ``complete`` is False. is_cut: truncated by ``max_steps``. Filled only when transitions
    are kept: obs [length + 1, *obs_shape] (single frames), action [length, *action_shape] as the environment got it, rewards
    [length]; with ``INFOS`` also infos [length] of plain data; with ``CHOICES`` also chosen [length, …], the action as
    recordings hold it (``NumpyPolicy.recorded``), and its logp [length], None where it was not drawn.
    """

    number: int
    seed: int
    reward: float = 0.0
    length: int = 0
    terminated: bool = False
    truncated: bool = False
    is_cut: bool = False
    obs: list = field(default_factory=list)
    action: list = field(default_factory=list)
    chosen: list = field(default_factory=list)
    rewards: list = field(default_factory=list)
    infos: list = field(default_factory=list)
    logp: list = field(default_factory=list)

    @property
    def complete(self):
        """Whether it came to an end of its own, or of the horizon."""
        return self.terminated or self.truncated


class Player:
    """Plays ``policy`` in environments that ``make_env()`` makes, and yields each Episode as it ends.

    recorder: None, or called with the number of each episode for an object with ``add(frame)``, ``close()`` and
    ``abort()`` (see ``envs.video``). keep: None, ``STEPS``, ``INFOS`` or ``CHOICES``. fresh: a new environment for every
    episode. frames: how many of the last observations the policy acts on.
    """

    def __init__(self, policy, make_env, explore=False, recorder=None, keep=None, fresh=False, frames=1):
        self._policy = policy
        self._make_env = make_env
        self._explore = explore
        self._recorder = recorder
        self._keep = keep
        self._fresh = fresh
        self._frames = frames

    def play(self, limits, seed):
        """Yield episodes until a limit is reached; episode i is seeded with ``seed + i``. Raises RunFailed."""
        left = math.inf if limits.steps is None else limits.steps
        count = math.inf if limits.episodes is None else limits.episodes
        env, number = None, 0
        try:
            while number < count and left > 0:
                if env is None:
                    env = self._make_env()
                horizon, bound = limits.horizon or math.inf, bound_of(env, limits.max_steps) or math.inf
                episode = self._episode(env, Episode(number, seed + number), min(left, horizon, bound))
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

    def _episode(self, env, episode, most):
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

    def _steps(self, env, episode, most, video):
        rng = np.random.default_rng([episode.seed, 1])
        state = self._policy.initial_state(1)
        space = env.observation_space
        stack = FrameStack(1, space.shape, seen_dtype(space), self._frames)
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
                episode.infos.append(plain_info(info))
            if self._keep == CHOICES:
                episode.chosen.append(self._policy.recorded(chosen)[0])
                episode.logp.append(self._logp(seen, before, chosen))
            self._policy.rewarded(state, reward)
            episode.reward += float(reward)
            episode.length += 1
            episode.terminated, episode.truncated = bool(terminated), bool(truncated)
            obs = after
            stack.push(0, obs)
            self._show(env, video)
        if self._keep:
            episode.obs.append(obs)

    def _logp(self, obs, state, chosen):
        """How likely the action was; None where it was not drawn, or where noise in the net drew it."""
        policy = self._policy
        if not self._explore or not policy.is_drawn_from or policy.spec.distribution == "q" or policy.spec.is_noisy:
            return None
        return float(policy.logp(policy.stepped(obs, state)[0], policy.recorded(chosen))[0])

    def _show(self, env, video):
        if video:
            video.add(env.render())


def _stepped(env, stack, action):
    obs, reward, terminated, truncated, info = env.step(as_action(action))
    # A copy: an environment may hand out an array that it goes on writing to, and episodes are kept.
    return stack.seen(obs).copy(), reward, terminated, truncated, info


def _name(env):
    return env.spec.id if getattr(env, "spec", None) else type(env).__name__


def _guarded(env, episode, call):
    """Call into the environment; whatever it raises names the environment, the episode and the step."""
    try:
        return call()
    except Exception as error:
        place = f"step {episode.length + 1} of episode #{episode.number} (seed {episode.seed})"
        raise RunFailed(f"{_name(env)} raised in {place}: {failure(error)}") from error


class EpisodeFile:
    """Writes episodes as JSON lines: one line an episode, complete as soon as the episode is.

    A line is an object: ``format`` "drl-episodes-1", ``env``, ``episode`` (number), ``seed``, ``obs`` (length + 1
    observations: before each step, and the last one), ``action`` (length actions as the environment got them),
    ``reward``, ``terminated``, ``truncated`` (length values each), and ``info`` (length objects) where infos are kept.
    """

    def __init__(self, path, env, write=None):
        """Open ``path`` anew for episodes of ``env``; ``write(line)`` takes the lines instead, if given.

        Raises InputError.
        """
        self._env = env
        self._file = None
        self._write = write
        if write is None:
            try:
                self._file = open(path, "w", encoding="utf-8")  # noqa: SIM115 - closed by close()
            except OSError as error:
                raise InputError(f"--out {path}: {error.strerror}.") from error

    def add(self, episode):
        """Write one Episode."""
        last = [False] * max(0, episode.length - 1)
        told = {
            "format": EPISODES_FORMAT,
            "env": self._env,
            "episode": episode.number,
            "seed": episode.seed,
            "obs": [_plain(obs) for obs in episode.obs],
            "action": [_plain(action) for action in episode.action],
            "reward": episode.rewards,
            "terminated": [*last, episode.terminated],
            "truncated": [*last, episode.truncated],
        }
        if episode.infos:
            told["info"] = episode.infos
        line = json.dumps(told, allow_nan=False, separators=(",", ":"))
        if self._write:
            self._write(line)
            return
        self._file.write(line + "\n")
        self._file.flush()

    def close(self):
        """Close the file."""
        if self._file:
            self._file.close()


def _plain(array):
    """Return nested lists of an array; float32 keeps the fewest digits that give it back, so that files stay small."""
    if array.dtype == np.float32:
        return [_plain(part) for part in array] if array.ndim else float(str(array))
    return array.tolist()


def plain_info(value):
    """Return what JSON can hold of an environment's info: numbers that are not finite become None, objects their text."""
    if isinstance(value, dict):
        return {str(name): plain_info(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain_info(inner) for inner in value]
    if isinstance(value, np.ndarray):
        return plain_info(value.tolist())
    if isinstance(value, np.generic):
        return plain_info(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)[:LONGEST_TEXT]
