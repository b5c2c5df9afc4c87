"""Whether a reset with a seed forgets all that was before, found by trying: equal steps in a new object and in a used one.

Users: ``drl env check``, and a run that is resumed, which can go on bit for bit only where nothing is carried over. Two things
are compared: what the steps return, and the attributes of the environment and of its wrappers after the reset, among which
are statistics and counters that show only much later (curricula). A trial can find what is kept; what is kept outside of
Python's attributes and first matters after more steps than are tried, it cannot.
"""

from __future__ import annotations

import collections
import copy
import hashlib
import itertools
import random
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from drl_cli.envs.env_smoke_test import close
from drl_cli.envs.multi_agent.agents_smoke_test import sampled
from drl_cli.envs.multi_agent.multi_agent_env import MultiAgentEnv
from drl_cli.envs.spaces import MASK
from drl_cli.envs.steps import as_action

STEPS, SECONDS = 300, 2.0  # that are compared, and that a resumed run takes for each half
_DEPTH, _ITEMS = 4, 10_000  # how far attributes of attributes are followed, and how much of a list is read
_PLAIN = (bool, int, float, complex, str, bytes, np.generic, type(None))


class CarriedOver(NamedTuple):
    """``differs``: where a used environment begins to differ from a new one, in words, or None where it does not.

    ``kept``: names of attributes, "Class.name", that a reset does not set to what they are in a new one. ``make_s``: seconds
    that making one took.
    """

    differs: str | None
    kept: tuple[str, ...]
    make_s: float

    @property
    def is_nothing(self) -> bool:
        """Whether nothing was found that is carried over."""
        return self.differs is None and not self.kept

    def __str__(self) -> str:
        """What is kept, as the rest of a sentence."""
        names = ", ".join(self.kept[:3]) + (f" and {len(self.kept) - 3} more" if len(self.kept) > 3 else "")
        if self.differs is None:
            return names
        return f"a used one differs from a new one {self.differs}{f' ({names})' if names else ''}"


def tried(make: Callable[[], gymnasium.Env], seed: int = 0) -> CarriedOver:
    """Make an environment, play it, reset it with the same seed and play the same again; it is closed at the end.

    ``make()`` returns a new environment. Raises what the environment raises.
    """
    began = time.perf_counter()
    env = make()
    making = time.perf_counter() - began
    try:
        first, before = _played(env, seed, STEPS, SECONDS)
        second, after = _played(env, seed, len(first) - 1)
    finally:
        close(env)
    return CarriedOver(first_difference(first, second), tuple(n for n in before if before[n] != after.get(n)), making)


def tried_with_agents(make: Callable[[], MultiAgentEnv]) -> CarriedOver:
    """``tried`` of an environment with several agents; what its steps return is compared, attributes are not."""
    began = time.perf_counter()
    env = make()
    making = time.perf_counter() - began
    try:
        first = _agents_played(env, 0, STEPS, SECONDS)
        second = _agents_played(env, 0, len(first) - 1)
    finally:
        env.close()
    return CarriedOver(first_difference(first, second), (), making)


def _agents_played(env: MultiAgentEnv, seed: int, steps: int, seconds: float = float("inf")) -> list[str]:
    """Return the hashes of a reset and of ``steps`` steps, with sampled actions; episodes have the seeds from ``seed`` on."""
    began, rng = time.perf_counter(), np.random.default_rng(seed)
    step, found = env.reset(seed), []
    while True:
        ends = [sorted(step.terminated), sorted(step.truncated), step.is_over]
        found.append(_hash([dict(step.obs), dict(step.rewards), *ends]))
        if len(found) > steps or time.perf_counter() - began >= seconds:
            return found
        if step.is_over:
            seed += 1
            step = env.reset(seed)
        else:
            step = env.step({agent: sampled(env.spaces(agent), step.obs[agent], rng) for agent in step.acting()})


def first_difference(one: list[str], other: list[str]) -> str | None:
    """Return where two lists of hashes begin to differ, in words; None where they do not."""
    at = next((i for i, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1]), None)
    return None if at is None else "in the first observation" if at == 0 else f"from step {at} on"


def action_for(env: gymnasium.Env, obs: Any) -> Any:
    """Return an action drawn from the action space of ``env``: an allowed one, where ``obs`` says which are."""
    space = env.action_space
    if isinstance(obs, dict) and MASK in obs and type(space).__name__ == "Discrete":
        allowed = (np.asarray(obs[MASK]) > 0.5).astype(np.int8)
        return space.sample(allowed) if allowed.any() else space.sample()
    return space.sample()


def stepped(env: gymnasium.Env, action: Any) -> tuple[Any, ...]:
    """Step ``env`` with ``action`` as runs do it: a copy, as the interface wants it."""
    if isinstance(action, (dict, tuple)):
        return env.step(copy.deepcopy(action))
    return env.step(as_action(action.copy() if hasattr(action, "copy") else action))


def hashes(env: gymnasium.Env, seed: int, steps: int) -> list[str]:
    """Return ``steps`` + 1 short hashes: of the first observation after a reset with ``seed``, and of each step.

    Episodes that end are followed by a reset without a seed, so that what continues them is compared as well.
    """
    return _played(env, seed, steps)[0]


def _played(
    env: gymnasium.Env, seed: int, steps: int, seconds: float = float("inf")
) -> tuple[list[str], dict[str, str]]:
    """Return the ``hashes`` of up to ``seconds``, and the ``attributes`` after the first reset."""
    began = time.perf_counter()
    env.action_space.seed(seed)
    obs, _ = env.reset(seed=seed)
    found, attributes_then = [_hash(obs)], attributes(env)
    while len(found) <= steps and time.perf_counter() - began < seconds:
        obs, reward, terminated, truncated, _ = stepped(env, action_for(env, obs))
        found.append(_hash((obs, float(np.asarray(reward).reshape(-1)[0]), bool(terminated), bool(truncated))))
        if terminated or truncated:
            obs, _ = env.reset()
    return found, attributes_then


def attributes(env: gymnasium.Env) -> dict[str, str]:
    """Return {"Class.name": hash} of the attributes of an environment and of its wrappers."""
    found = {}
    while True:
        for name, value in vars(env).items():
            if name != "env":
                digest = hashlib.blake2b(digest_size=6)
                _feed_attribute(digest, value, _DEPTH)
                found[f"{type(env).__name__}.{name}"] = digest.hexdigest()
        if not isinstance(env, gymnasium.Wrapper):
            return found
        env = env.env


def _feed_attribute(digest: Any, value: Any, depth: int) -> None:
    """Add to ``digest`` what can be compared in ``value``: numbers, strings, generators; lists, dicts and objects of them."""
    if isinstance(value, np.random.Generator):
        value = value.bit_generator.state
    elif isinstance(value, np.random.RandomState):
        value = value.get_state(legacy=False)
    elif isinstance(value, random.Random):
        value = value.getstate()
    if isinstance(value, _PLAIN):
        digest.update(f"{type(value).__name__} {value!r};".encode())
    elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
        digest.update(f"{value.dtype}{value.shape}".encode() + np.ascontiguousarray(value).tobytes())
    elif depth and isinstance(value, Mapping):
        for name, inner in itertools.islice(value.items(), _ITEMS):
            digest.update(f"{name!s}:".encode() if isinstance(name, _PLAIN) else b":")
            _feed_attribute(digest, inner, depth - 1)
    elif depth and isinstance(value, (list, tuple, collections.deque)):
        digest.update(f"{len(value)}[".encode())
        for inner in itertools.islice(value, _ITEMS):
            _feed_attribute(digest, inner, depth - 1)
    elif depth and not callable(value) and not isinstance(value, (gymnasium.Env, gymnasium.Space, type(random))):
        _feed_attribute(digest, getattr(value, "__dict__", {}), depth - 1)


def _hash(value: Any) -> str:
    digest = hashlib.blake2b(digest_size=6)
    _feed(digest, value)
    return digest.hexdigest()


def _feed(digest: Any, value: Any) -> None:
    if isinstance(value, dict):
        for name in sorted(value, key=str):
            digest.update(str(name).encode())
            _feed(digest, value[name])
    elif isinstance(value, (tuple, list)):
        for item in value:
            _feed(digest, item)
    elif isinstance(value, str):
        digest.update(value.encode())
    else:
        array = np.ascontiguousarray(value)
        digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
