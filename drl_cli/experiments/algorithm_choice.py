"""The algorithm and the keys of a command without ``--run``: chosen from what is seen of its environment.

User: ``experiments.config_tree``. ``look`` makes the environment and plays random episodes for about a second, ``choose``
derives a choice and its reasons from what they showed, ``complete`` lays the choice under what was typed and reports it. A
run records chosen keys like typed ones, so that it resumes without choosing again.

The rules come from ``docs/measured.rst`` and the tuned files: a replay buffer reuses every step, which pays off for continuous
actions and slow steps; PPO takes any actions, and needs the least time where steps are cheap.

In one process with seed 100, BipedalWalker came to 181 within 80 s with PPO and the keys chosen for it and to -48 with SAC, and
LunarLanderContinuous to 200 after 26 and 36 s.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import shlex
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from drl_cli import process
from drl_cli.algorithms import table
from drl_cli.config import environment_variables, search_space
from drl_cli.config.origins import Layers, Where
from drl_cli.config.parse import ReadConfig, read_given
from drl_cli.config.plain_data import redact_command
from drl_cli.envs import make, preprocessors
from drl_cli.envs.env_smoke_test import close
from drl_cli.envs.env_spec import EnvSpec
from drl_cli.envs.multi_agent import open_envs
from drl_cli.envs.multi_agent.agents_smoke_test import sampled
from drl_cli.envs.steps import as_action
from drl_cli.errors import ConfigError, DrlError
from drl_cli.events import report

CHOSEN = Where("chosen for the environment")
EPISODES, STEPS, SECONDS = 8, 10_000, 0.7  # of each kind of random play, at most
MOST_NUMBERS = 10_000_000  # of observations that are kept, 40 MB
HELD = 8  # steps for which the second kind repeats an action, as in mountaincar-continuous-sac
CHEAP_S, SLOW_S, DEAR_S = (
    0.0005,
    0.002,
    0.02,
)  # of a step: sampling is nearly free; sets the pace; costs more than an update
LATE = 10  # steps of an episode from which on a reward at its end is delayed
LONG = 1000  # steps of an episode from which on a discount of 0.99 sees a tenth at most


class Episode(NamedTuple):
    """An episode of random play: its return, its steps, and whether it terminated (False: it was truncated)."""

    reward: float
    length: int
    terminated: bool


class EnvTraits(NamedTuple):
    """What is known of an environment.

    action: the kind of its action space; sees_images; several: whether it has several agents, in which case nothing else is
    known; unlimited: whether nothing limits an episode; limit: the registered one in steps, or None; step_s: the median;
    episodes: complete random ones; held: the same with each action held for ``HELD`` steps; spread: the least and the largest
    standard deviation of a number of the observation, None where all are 0 or 1; one_hot: whether each observation has one 1
    among zeros; reward_size: mean size of a reward; at_end: whether only last steps of long episodes are rewarded; cores:
    that this process may use; failure: what ended random play, or None.
    """

    action: str = "Discrete"
    sees_images: bool = False
    several: bool = False
    unlimited: bool = False
    limit: int | None = None
    step_s: float = 1e-5
    episodes: Sequence[Episode] = ()
    held: Sequence[Episode] = ()
    spread: tuple[float, float] | None = None
    one_hot: bool = False
    reward_size: float = 1.0
    at_end: bool = False
    cores: int = 1
    failure: str | None = None


class Choice(NamedTuple):
    """The name of an algorithm and why it, and its keys: {dotted name: (value, why)}."""

    run: str
    why: str
    keys: dict[str, tuple[Any, str]]


def choose(seen: EnvTraits, reads: Callable[[str], bool] = lambda _: True) -> Choice:
    """Return the Choice for an environment; ``reads``: whether an algorithm takes the keys that were typed."""
    names, why = _algorithms(seen)
    run = next((name for name in names if reads(name)), names[0])
    if run != names[0]:
        why = f"which has the keys that were given; {names[0]} does not"
    if seen.several:
        return Choice(run, why, {})
    of_run = _of_on_policy(seen) if run == "PPO" else {**_of_replay(seen), **_of_held_actions(seen)}
    return Choice(run, why, {**_of_time(seen), **of_run})


def _algorithms(seen: EnvTraits) -> tuple[tuple[str, ...], str]:
    """Return (algorithms, the best first; why it)."""
    step = f"{_seconds(seen.step_s)} a step"
    if seen.several:
        return ("PPO",), "for several agents"
    if seen.action not in ("Box", "Discrete"):
        return ("PPO",), f"for {'Dict or Tuple' if seen.action == 'Composite' else seen.action} actions"
    if seen.sees_images:
        return ("PPO", "DQN" if seen.action == "Discrete" else "SAC"), "for images"
    if seen.action == "Box":
        if seen.step_s >= DEAR_S:
            return ("CROSSQ", "SAC", "TQC", "PPO"), f"for continuous actions and as few steps as possible ({step})"
        if seen.step_s < CHEAP_S and _ends_early(seen):
            return ("PPO", "SAC", "TD3"), f"for continuous actions and long episodes of cheap steps ({step})"
        return ("SAC", "TD3", "PPO"), f"for continuous actions ({step})"
    if seen.step_s >= SLOW_S:
        return ("DQN", "PPO", "SAC"), f"for discrete actions and slow steps, which it reuses ({step})"
    return ("PPO", "DQN", "SAC"), f"for discrete actions and cheap steps ({step})"


def _ends_early(seen: EnvTraits) -> bool:
    """Whether random episodes end long before a high time limit: there is much to learn before an episode is complete."""
    if seen.limit is None or seen.limit < LONG or not seen.episodes:
        return False
    return 2 * statistics.median(one.length for one in seen.episodes) < seen.limit


def _of_time(seen: EnvTraits) -> dict[str, tuple[Any, str]]:
    keys: dict[str, tuple[Any, str]] = {}
    if seen.unlimited:
        keys["horizon"] = (LONG, "no time limit")
    if seen.step_s >= SLOW_S and seen.cores > 1:
        keys["remote_worker_envs"] = (True, f"{seen.cores} cores")
    return keys


def _of_on_policy(seen: EnvTraits) -> dict[str, tuple[Any, str]]:
    keys: dict[str, tuple[Any, str]] = {}
    if seen.spread is not None and (seen.spread[1] > 2 or seen.spread[0] < 0.2):
        keys["observation_filter"] = ("MeanStdFilter", _deviations(seen.spread))
    usual = statistics.median(one.reward for one in seen.episodes) if seen.episodes else 1.0
    if abs(usual) > 100 or 0 < abs(usual) < 0.1:
        keys["reward_scaling"] = (True, f"random returns near {_figure(usual)}")
    if seen.limit is not None and seen.limit >= LONG and not seen.sees_images:
        keys["gamma"] = (0.997, f"up to {seen.limit:,} steps an episode")
    if seen.one_hot:
        # What is learnt of a state does not carry over to others, which need to be tried, and larger steps, for themselves.
        keys["lr"] = (0.002, "one-hot observations")
        keys["entropy_coeff"] = (0.03, "one-hot observations")
    if seen.at_end:
        # Values of late states are learnt long before those of early ones: returns must not rest on them.
        keys["lambda"] = (1.0, "rewards at the end of episodes only")
        keys["gamma"] = (0.999, "rewards at the end of episodes only")
    return keys


def _of_replay(seen: EnvTraits) -> dict[str, tuple[Any, str]]:
    keys: dict[str, tuple[Any, str]] = {}
    if seen.spread is not None and seen.spread[1] > 20:
        keys["observation_filter"] = ("MeanStdFilter", _deviations(seen.spread))
    if seen.reward_size > 100 or 0 < seen.reward_size < 0.001:
        keys["reward_scaling"] = (True, f"rewards near {_figure(seen.reward_size)} in size")
    return keys


def _deviations(spread: tuple[float, float]) -> str:
    return f"deviations from {_figure(spread[0])} to {_figure(spread[1])}"


def _of_held_actions(seen: EnvTraits) -> dict[str, tuple[Any, str]]:
    """Keys for an environment whose episodes random actions end only if each is held for some steps."""
    ends = [one for one in seen.held if one.terminated]
    if seen.action != "Box" or not ends or not seen.episodes or any(one.terminated for one in seen.episodes):
        return {}
    if max(one.reward for one in ends) <= max(one.reward for one in seen.episodes):
        return {}  # it ends earlier only because it fails earlier
    why = f"held actions end {len(ends)} of {len(seen.held)} random episodes, others none"
    keys: dict[str, tuple[Any, str]] = {"exploration_config.hold_steps": (HELD, why)}
    longest = max(one.length for one in seen.episodes)
    if longest > 200:
        # A whole episode each of eight environments, see mountaincar-continuous-sac.
        starts = min(10_000, math.ceil(8 * longest / 1000) * 1000)
        keys["learning_starts"] = (starts, "to meet such an end")
        keys["gamma"] = (0.999, f"up to {longest:,} steps to it")
    return keys


def complete(layers: Layers, flags: Mapping[str, Any]) -> None:
    """Lay an algorithm and its keys under the ``layers`` of a command that names an environment and no algorithm.

    Nothing is chosen where a checkpoint or recorded experience is given, whose algorithm must be known. Raises ConfigError for
    an unknown environment, EnvError for one that cannot be made.
    """
    env, config = layers.data.get("env"), layers.data.get("config", {})
    if not isinstance(env, str) or not isinstance(config, dict) or "run" in layers.data or "restore" in layers.data:
        return
    if config.get("input", "sampler") != "sampler":
        return
    plain = {name: value for name, value in config.items() if not any(search_space.find({name: value}))}
    readings: dict[str, ReadConfig] = {}

    def reads(name: str, keys: Mapping[str, Any] = plain) -> bool:
        readings[name] = read_given(table.find(name), keys, layers.where.inside("config"), table.rows())
        return readings[name].config is not None

    seen = look(env, layers, flags, plain)
    if seen.failure is not None:
        report(
            "notice", text=f"Random play of {env} {seen.failure}; algorithm and keys follow from what it showed before"
        )
    choice = choose(seen, reads)
    typed = readings[choice.run]
    kept: dict[str, tuple[Any, str]] = {}
    for name, chosen in choice.keys.items():
        if name.partition(".")[0] in {*config, *typed.given}:
            continue
        more = {**kept, name: chosen}
        # A chosen key may exclude a typed one; where those are refused themselves, the draft says why.
        if typed.config is None or reads(choice.run, _merged(plain, more)):
            kept = more
    layers.set(("run",), choice.run, CHOSEN)
    for name, (value, _) in kept.items():
        layers.set(("config", *name.split(".")), value, CHOSEN)
    for text in lines(choice._replace(keys=kept), env, flags.get("command") or ()):
        report("choice", text=text)


def lines(choice: Choice, env: str, command: Sequence[str] = ()) -> list[str]:
    """Return what was chosen and why, and the command that says the same.

    ``command``: the words that were typed, ["drl", "train", …], without which the command names the environment alone. A plan
    becomes a run.
    """
    keys = [f"{name}={_typed(value)} ({why})" for name, (value, why) in choice.keys.items()]
    words = [word for word in redact_command(command) if word != "--plan"] or ["drl", "train", "--env", env]
    settings = [word for name, (value, _) in choice.keys.items() for word in ("-s", f"{name}={_typed(value)}")]
    at = words.index("train") + 1 if "train" in words else len(words)
    return [
        f"No --run given: {choice.run}, {choice.why}.",
        f"Keys: {', '.join(keys)}." if keys else "Its keys stay at their defaults.",
        f"The same: {shlex.join([*words[:at], '--run', choice.run, *words[at:], *settings])}",
    ]


def look(env: str, layers: Layers, flags: Mapping[str, Any], config: Mapping[str, Any]) -> EnvTraits:
    """Return the EnvTraits of the environment that ``layers`` name; ``config``: the keys that were typed.

    Raises ConfigError where there is no such environment, EnvError where it cannot be made.
    """
    trusted = flags.get("env") == env
    try:
        env_id = make.resolve(env, strict=bool(flags.get("strict_env")), trusted=trusted).id
    except DrlError as error:
        raise ConfigError(f"{str(error).rstrip('.')} ({layers.where.place(('env',))}).") from error
    env_config = config.get("env_config")
    env_config = env_config if isinstance(env_config, dict) else {}
    if "multiagent" in config or open_envs.kind_of(env_id, env_config) is not None:
        return EnvTraits(several=True)
    # As most algorithms see it by default; the draft refuses what is wrong with these keys.
    row = table.find("PPO")
    read = read_given(row, config, CHOSEN).config or read_given(row, {"env_config": env_config}, CHOSEN).config
    if read is None:
        return EnvTraits()
    process.set_environs(environment_variables.as_strings(read.extra_python_environs_for_driver))
    made = make.make(env_id, env_config, preprocessing=preprocessors.plan(read, env_id))
    try:
        return played(made, make.time_limit(env_id))
    finally:
        close(made)


def played(env: gymnasium.Env, limit: int | None) -> EnvTraits:
    """Return the EnvTraits that random episodes of ``env`` show; ``limit``: the registered one."""
    spaces = make.describe(env)
    free = _Play(env, spaces, 1)
    held = _Play(env, spaces, HELD) if spaces["action"]["kind"] == "Box" else None
    return EnvTraits(
        action=spaces["action"]["kind"],
        sees_images=len(spaces["obs"]["shape"]) == 3,
        unlimited=limit is None and make.bound_of(env, None) is not None,
        limit=limit,
        step_s=statistics.median(free.seconds) if free.seconds else 0.0,
        episodes=free.episodes,
        held=held.episodes if held else (),
        spread=_spread(free.observations),
        one_hot=_are_one_hot(free.observations),
        at_end=_pay_at_end(free.rewards, free.episodes),
        reward_size=float(np.mean(np.abs(free.rewards))) if free.rewards else 1.0,
        cores=len(os.sched_getaffinity(0)),
        failure=free.failure or (held.failure if held else None),
    )


class _Play:
    """Random episodes of ``env``, each action held for ``hold`` steps, until enough was seen.

    ``seconds``: of each step; ``observations`` and ``rewards``: of each step; ``episodes``: those that came to an end;
    ``failure``: the error that ended it, or None.
    """

    def __init__(self, env: gymnasium.Env, spaces: EnvSpec, hold: int) -> None:
        self.seconds: list[float] = []
        self.observations: list[np.ndarray] = []
        self.rewards: list[float] = []
        self.episodes: list[Episode] = []
        self.failure: str | None = None
        until, rng = time.perf_counter() + SECONDS, np.random.default_rng(0)
        try:
            while len(self.episodes) < EPISODES and len(self.seconds) < STEPS and time.perf_counter() < until:
                self._episode(env, spaces, hold, (until, rng))
        except Exception as error:
            said = " ".join(f"{type(error).__name__}: {error}".split())
            self.failure = f"ended after {len(self.seconds):,} steps with {said}"

    def _episode(
        self, env: gymnasium.Env, spaces: EnvSpec, hold: int, bounds: tuple[float, np.random.Generator]
    ) -> None:
        until, rng = bounds
        obs, _ = env.reset(seed=len(self.episodes))
        before, action = len(self.rewards), None
        while len(self.seconds) < STEPS and time.perf_counter() < until:
            if action is None or (len(self.rewards) - before) % hold == 0:
                action = sampled(spaces, np.asarray(obs), rng)
            began = time.perf_counter()
            obs, reward, terminated, truncated, _ = env.step(as_action(action.copy()))
            self.seconds.append(time.perf_counter() - began)
            self.rewards.append(float(np.asarray(reward).reshape(-1)[0]))
            # The scale of images is known.
            if len(spaces["obs"]["shape"]) == 1 and len(self.observations) * np.size(obs) < MOST_NUMBERS:
                self.observations.append(np.array(obs, np.float32))
            if terminated or truncated:
                length = len(self.rewards) - before
                self.episodes.append(Episode(sum(self.rewards[before:]), length, bool(terminated)))
                return


def _are_one_hot(observations: Sequence[np.ndarray]) -> bool:
    seen = np.array(observations)
    return (
        seen.ndim == 2 and seen.shape[1] > 1 and bool(np.isin(seen, (0.0, 1.0)).all() and (seen.sum(axis=1) == 1).all())
    )


def _pay_at_end(rewards: Sequence[float], episodes: Sequence[Episode]) -> bool:
    """Whether the last steps of long ``episodes``, with which ``rewards`` begin, got different rewards, and no others any."""
    ends = list(itertools.accumulate(one.length for one in episodes))
    if not ends or statistics.median(one.length for one in episodes) < LATE:
        return False
    last = {end - 1 for end in ends}
    before = any(reward for at, reward in enumerate(rewards) if at not in last)
    return not before and len({rewards[at] for at in last}) > 1


def _spread(observations: Sequence[np.ndarray]) -> tuple[float, float] | None:
    """Return the least and the largest standard deviation of a number that varies, None where all are 0 or 1."""
    seen = np.array(observations) if observations else np.zeros((1, 1), np.float32)
    if np.isin(seen, (0.0, 1.0)).all():
        return None
    deviations = seen.std(axis=0, dtype=np.float64)
    varying = deviations[deviations > 0]
    return (float(varying.min()), float(varying.max())) if len(varying) else None


def _merged(config: Mapping[str, Any], keys: Mapping[str, tuple[Any, str]]) -> dict[str, Any]:
    merged = Layers(config, CHOSEN)
    for name, (value, _) in keys.items():
        merged.set(tuple(name.split(".")), value, CHOSEN)
    return merged.data


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.2g}"


def _typed(value: Any) -> str:
    """Return a value as ``-s`` takes it."""
    return value if isinstance(value, str) else json.dumps(value)


def _seconds(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds >= 0.1 else f"{1000 * seconds:.2g} ms"
