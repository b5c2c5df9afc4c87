"""Episodes of a random policy, checked step by step, and the findings about them.

Used by ``checks.env_check``; the environment is used as its package made it, without wrappers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from drl_cli.checks.findings import FAIL, NOTE, OK, WARN, Finding
from drl_cli.envs.carry_over import action_for, stepped

if TYPE_CHECKING:
    import gymnasium


SAME_LENGTH = 5  # episodes that terminate at one length before that looks like a time limit
LEAST_LENGTH = 30  # shorter ones may well be of one length for another reason
SLOW = 500  # steps a second below which an environment sets the pace of everything
SLOW_RESET_S = 0.05
SLOW_MAKING_S = 0.05


class Played(NamedTuple):
    """``episodes``: (return, length, how it ended: "terminated", "truncated", "both"). ``steps`` in ``seconds`` of step alone.

    ``outside``: what the first observation outside of its space was, or None, and how many there were; ``broken``: what was
    not finite, or None. ``resets_s``: seconds of each reset. ``longest``: steps of the longest episode, a cut one counted.
    """

    episodes: list[tuple[float, int, str]]
    steps: int
    seconds: float
    outside: tuple[str | None, int]
    broken: str | None
    resets_s: list[float]
    longest: int

    def score(self, making: float) -> dict[str, Any]:
        """Return the plain data of a report; ``making``: seconds to make an environment."""
        return {
            "rewards": [episode[0] for episode in self.episodes],
            "lengths": [episode[1] for episode in self.episodes],
            "steps_per_s": self.steps / self.seconds if self.seconds else None,
            "reset_s": float(np.mean(self.resets_s)),
            "make_s": making,
        }


class _Looking:
    """What is noted of observations and rewards."""

    def __init__(self, space: gymnasium.Space) -> None:
        self._space = space
        self.first, self.count, self.broken = None, 0, None

    def at(self, obs: Any, reward: Any, step: int) -> None:
        """Look at what a step, or a reset (step 0), returned."""
        if self.broken is None:
            self.broken = _not_finite(obs, reward, step)
        if not self._space.contains(obs):
            self.count += 1
            if self.first is None:
                self.first = f"at step {step}: {_misfit(self._space, obs)}"


def play(env: gymnasium.Env, seed: int, episodes: int, seconds: float) -> Played:
    """Play up to ``episodes`` with actions drawn from the action space, for ``seconds`` at most; returns Played."""
    looking, ended, resets = _Looking(env.observation_space), [], []
    began, stepping, steps, longest = time.perf_counter(), 0.0, 0, 0
    env.action_space.seed(seed)
    for number in range(episodes):
        if number and time.perf_counter() - began > seconds:
            break
        before = time.perf_counter()
        obs, _ = env.reset(seed=seed + number)
        resets.append(time.perf_counter() - before)
        looking.at(obs, 0.0, 0)
        total, length, how = 0.0, 0, None
        while how is None and time.perf_counter() - began <= seconds:
            action = action_for(env, obs)
            before = time.perf_counter()
            obs, reward, terminated, truncated, _ = stepped(env, action)
            stepping += time.perf_counter() - before
            steps, length, total = steps + 1, length + 1, total + float(np.asarray(reward).reshape(-1)[0])
            looking.at(obs, reward, length)
            if terminated or truncated:
                how = "both" if terminated and truncated else "terminated" if terminated else "truncated"
                ended.append((total, length, how))
        longest = max(longest, length)
    return Played(ended, steps, stepping, (looking.first, looking.count), looking.broken, resets, longest)


def judged(played: Played, limit: int | None, space: gymnasium.Space) -> list[Finding]:
    """Return the Findings about numbers, spaces and ends; ``limit``: the registered time limit in steps, or None."""
    found = [_finite(played), _inside(played, space)]
    return [*found, *_ends(played, limit)]


def _finite(played: Played) -> Finding:
    if played.broken:
        return Finding("numbers", FAIL, played.broken)
    return Finding("numbers", OK, f"observations and rewards of {played.steps:,} steps are finite")


def _inside(played: Played, space: gymnasium.Space) -> Finding:
    first, count = played.outside
    if first is None:
        return Finding("spaces", OK, "every observation is in the observation space")
    share = 100.0 * count / max(1, played.steps + len(played.resets_s))
    text = f"{share:.2g} % of the observations are outside of {' '.join(str(space).split())[:80]}; the first {first}"
    return Finding("spaces", WARN, f"{text}. drl passes them on as they are")


def _ends(played: Played, limit: int | None) -> list[Finding]:
    """Return what the ends of the episodes say."""
    ends = [episode[2] for episode in played.episodes]
    lengths = [episode[1] for episode in played.episodes]
    if not ends:
        after = f"no episode ended within {played.longest:,} steps"
        if limit is None:
            text = f"{after}, and there is no time limit: set horizon, or episode_reward_mean stays unknown"
            return [Finding("ends", WARN, text)]
        return [Finding("ends", NOTE, f"{after}; the time limit is {limit:,} steps")]
    counts = ", ".join(f"{ends.count(how)} {how}" for how in ("terminated", "truncated", "both") if how in ends)
    found = [Finding("ends", OK, f"of {len(ends)} episodes {counts}; {min(lengths):,} to {max(lengths):,} steps")]
    ended = [length for length, how in zip(lengths, ends, strict=True) if how == "terminated"]
    same = len(ended) >= SAME_LENGTH and len(set(ended)) == 1 and ended[0] >= LEAST_LENGTH
    if same and len(ended) == len(ends):
        text = f"all {len(ends)} episodes terminated after exactly {ended[0]} steps. If that is a time limit, return truncated"
        found.append(
            Finding(
                "truncation", WARN, f"{text} instead: reported as termination, it keeps values from bootstrapping there"
            )
        )
    late = [length for length in lengths if limit is not None and length > limit]
    if late:
        found.append(Finding("truncation", FAIL, f"an episode lasted {max(late):,} steps, its time limit is {limit:,}"))
    return found


def speed(played: Played, making: float) -> tuple[str, str]:
    """Return (state, text) about seconds: of steps, of resets, of making one."""
    rate = played.steps / played.seconds if played.seconds else 0.0
    reset = float(np.mean(played.resets_s))
    text = f"{rate:,.0f} steps/s on one core, {duration(reset)} per reset, {duration(making)} to make one"
    if making > SLOW_MAKING_S:
        text += (
            f": as long as {making * rate:,.0f} steps. A run makes one for each of its environments and uses it again; "
            "with fresh_envs: true it would make one for every episode"
        )
    if rate < SLOW:
        return WARN, f"{text}. It is the bottleneck: use one worker per core and few environments per worker"
    return (NOTE if reset > SLOW_RESET_S or making > SLOW_MAKING_S else OK), text


def duration(seconds: float) -> str:
    """Return a short time in words: "0.5 s", "12 ms"."""
    return f"{seconds:.2g} s" if seconds >= 0.1 else f"{1e3 * seconds:.2g} ms"


def _not_finite(obs: Any, reward: float, step: int) -> str | None:
    if not np.isfinite(np.asarray(reward, np.float64)).all():
        return f"the reward of step {step} is {reward!r:.40}"
    for name, part in _parts(obs):
        if np.issubdtype(part.dtype, np.number) and not np.isfinite(part).all():
            where = int(np.flatnonzero(~np.isfinite(part))[0])
            return f"element {where} of the observation{name} of step {step} is {part.flat[where]}"
    return None


def _parts(obs: Any, name: str = "") -> Iterator[tuple[str, np.ndarray]]:
    if isinstance(obs, dict):
        for key, part in obs.items():
            yield from _parts(part, f"{name}[{key!r}]")
    elif isinstance(obs, (tuple, list)):
        for index, part in enumerate(obs):
            yield from _parts(part, f"{name}[{index}]")
    else:
        yield name, np.asarray(obs)


def _misfit(space: Any, obs: Any) -> str:
    """Say why ``space`` does not contain ``obs``, as far as that is plain."""
    if isinstance(obs, np.ndarray) and type(space).__name__ == "Box":
        if obs.shape != space.shape:
            return f"its shape is {obs.shape}, not {space.shape}"
        if not np.can_cast(obs.dtype, space.dtype):
            return f"it is {obs.dtype}, not {space.dtype}"
        off = np.flatnonzero((obs < space.low) | (obs > space.high))
        if len(off):
            i = int(off[0])
            return f"element {i} is {obs.flat[i]:g}, its bounds are [{space.low.flat[i]:g}, {space.high.flat[i]:g}]"
    return f"{type(obs).__name__} {obs!r:.60}"
