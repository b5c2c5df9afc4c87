"""Actions that are a Dict or a Tuple, as one vector: what lies between a policy and an environment that has such actions.

Used by ``envs.preprocessors``, which puts it around every such environment; all that steps environments, replays and records
then has one float32 array for an action, and the environment gets its own structure. ``envs.spaces.leaves`` says in which
order the parts are. Parametrised actions (a choice and the numbers that go with it) are such spaces: Masson et al. 2016,
"Reinforcement Learning with Parameterized Actions" (arXiv 1509.01644); Hausknecht & Stone 2016 (arXiv 1511.04143).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from drl_cli.envs.spaces import leaves


class CompositeSpace(gymnasium.Space):
    """The space of the vectors [A] that stand for the actions of a Dict or Tuple space; ``structure`` is that space."""

    def __init__(self, structure: Any) -> None:
        """``structure``: a space with ``leaves``. Raises ValueError for any other."""
        found = leaves(structure)
        if found is None:
            raise ValueError(f"{structure} has parts that have no vector")
        self.structure = structure
        self._leaves = [leaf for _, leaf in found]
        self._starts = [_start(leaf) for leaf in self._leaves]
        sizes = [math.prod(leaf.shape) for leaf in self._leaves]
        self._ends = np.cumsum(sizes).tolist()
        super().__init__((sum(sizes),), np.float32)

    @property
    def is_np_flattenable(self) -> bool:
        """Whether its elements are vectors, which they are."""
        return True

    def sample(self, mask: Any = None, probability: Any = None) -> np.ndarray:
        """Return an action drawn from the space, float32 [A]; it takes neither ``mask`` nor ``probability``."""
        if mask is not None or probability is not None:
            raise ValueError("actions of a Dict or Tuple space are drawn without a mask")
        return self.vector(self.structure.sample())

    def seed(self, seed: Any = None) -> Any:
        """Seed what ``sample`` draws from."""
        return self.structure.seed(seed)

    def contains(self, x: Any) -> bool:
        """Return whether ``x`` is an array [A] that stands for an action of the space."""
        if not isinstance(x, np.ndarray) or x.shape != self.shape:
            return False
        return bool(self.structure.contains(self.structured(x)))

    def vector(self, action: Any) -> np.ndarray:
        """Return ``action``, one of the structure, as float32 [A]. Raises ValueError where it has other parts."""
        parts: list[np.ndarray] = []
        _collect(self.structure, action, parts)
        return np.concatenate([np.ravel(part - start) for part, start in zip(parts, self._starts, strict=True)]).astype(
            np.float32
        )

    def structured(self, vector: np.ndarray) -> Any:
        """Return the action of the structure that ``vector`` [A] stands for: a dict or tuple of arrays and ints, all new."""
        parts = []
        begin = 0
        for leaf, start, end in zip(self._leaves, self._starts, self._ends, strict=True):
            part = vector[begin:end].reshape(leaf.shape)
            if type(leaf).__name__ != "Box":
                part = np.rint(part).astype(np.int64) + start
            parts.append(int(part) if type(leaf).__name__ == "Discrete" else part.astype(leaf.dtype))
            begin = end
        return _filled(self.structure, iter(parts))


class FlatActions(gymnasium.ActionWrapper):
    """An environment whose Dict or Tuple actions are vectors."""

    def __init__(self, env: gymnasium.Env) -> None:
        """``env``: its action space has ``leaves``."""
        super().__init__(env)
        self.action_space: CompositeSpace = CompositeSpace(env.action_space)

    def action(self, action: np.ndarray) -> Any:
        """Return the environment's action for a vector float32 [A]."""
        return self.action_space.structured(np.asarray(action))


def with_flat_actions(env: gymnasium.Env) -> gymnasium.Env:
    """Return ``env``, in FlatActions where its actions are a Dict or Tuple whose parts have a vector."""
    if type(env.action_space).__name__ not in ("Dict", "Tuple") or leaves(env.action_space) is None:
        return env
    return FlatActions(env)


def structure_of(parts: Sequence[Any]) -> gymnasium.Space:
    """Return a Dict or Tuple space with these described ``parts`` (``envs.spaces``), whose Boxes have no bounds."""
    names = list(dict.fromkeys(part["path"][0] for part in parts))
    inner = []
    for name in names:
        own = [{**part, "path": part["path"][1:]} for part in parts if part["path"][0] == name]
        inner.append(structure_of(own) if own[0]["path"] else _leaf(own[0]))
    if isinstance(names[0], str):
        return gymnasium.spaces.Dict(dict(zip(names, inner, strict=True)))
    return gymnasium.spaces.Tuple(inner)


def _leaf(part: Any) -> gymnasium.Space:
    if part["kind"] == "Box":
        return gymnasium.spaces.Box(-np.inf, np.inf, tuple(part["shape"]), np.dtype(part["dtype"]).type)
    if part["kind"] == "Discrete":
        return gymnasium.spaces.Discrete(part["n"], start=part["start"])
    if part["kind"] == "MultiDiscrete":
        return gymnasium.spaces.MultiDiscrete(np.asarray(part["nvec"]), start=np.asarray(part["start"]))
    return gymnasium.spaces.MultiBinary(part["n"])


def _start(leaf: Any) -> Any:
    """Return from where a leaf counts: 0 of a Box and of switches."""
    return leaf.start if isinstance(leaf, gymnasium.spaces.Discrete | gymnasium.spaces.MultiDiscrete) else 0


def _collect(space: Any, action: Any, parts: list[np.ndarray]) -> None:
    """Append the parts of ``action``, in the order of ``leaves``."""
    kind = type(space).__name__
    if kind == "Dict":
        if not isinstance(action, dict) or set(action) != set(space.spaces):
            raise ValueError(f"a dict with the keys {', '.join(space.spaces)} is needed")
        for name, part in space.spaces.items():
            _collect(part, action[name], parts)
    elif kind == "Tuple":
        if not isinstance(action, (tuple, list)) or len(action) != len(space.spaces):
            raise ValueError(f"a tuple of {len(space.spaces)} is needed")
        for part, held in zip(space.spaces, action, strict=True):
            _collect(part, held, parts)
    else:
        array = np.asarray(action, np.float64)
        if array.size != math.prod(space.shape):
            raise ValueError(f"a part of shape {space.shape} is needed, not {array.shape}")
        parts.append(array.reshape(space.shape))


def _filled(space: Any, parts: Any) -> Any:
    """Return the dict or tuple of ``space`` with the next of ``parts`` (an iterator) at each leaf."""
    kind = type(space).__name__
    if kind == "Dict":
        return {name: _filled(part, parts) for name, part in space.spaces.items()}
    if kind == "Tuple":
        return tuple(_filled(part, parts) for part in space.spaces)
    return next(parts)
