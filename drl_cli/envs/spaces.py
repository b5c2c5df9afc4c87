"""Spaces as plain data, and whether an algorithm can use them.

Used by ``envs.make``. Works on any object with gymnasium's attributes (shape, dtype, low, high, n), so it imports
none. What ``envs.preprocessors`` makes of observations is a Box of one dimension or an image [H, W, C].

    {"kind": "Box", "shape": [8], "dtype": "float32", "low": [...], "high": [...]}     null where there is no bound
    {"kind": "Discrete", "n": 4, "start": 0, "shape": [], "dtype": "int64"}
    {"kind": "MultiDiscrete", "nvec": [3, 2], "start": [0, 0], "shape": [2], "dtype": "int64"}
    {"kind": "MultiBinary", "n": 5, "shape": [5], "dtype": "int8"}
    {"kind": "Composite", "parts": [{"path": ["kick", 0], ...}, ...], "shape": [A], "dtype": "float32", "text": "Dict(...)"}
    {"kind": "Dict", "text": "Dict('a': Text(1, 5))"}                                  what is not described further

A Composite is a Dict or a Tuple, of any depth, whose leaves are of the kinds above it; the ``path`` of a part has a string for
each key of a Dict and a number for each position in a Tuple. Its actions are one vector of A numbers (``leaves``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from drl_cli.envs.env_spec import EnvSpec, SpaceSpec


@runtime_checkable
class _Vector(Protocol):
    """The space of the vectors that stand for the actions of a Dict or Tuple space (``envs.composite_actions``)."""

    structure: Any


class Needs(Protocol):
    """What an algorithm can use: its name, kinds of action spaces, and "Box1d" and "Image" of observations; or a team."""

    @property
    def name(self) -> str: ...

    @property
    def team(self) -> bool: ...

    @property
    def actions(self) -> Sequence[str]: ...

    @property
    def observations(self) -> Sequence[str]: ...


IMAGE_SIDE = 8  # a Box with height and width of at least this many pixels is taken for an image

_ACTIONS = {
    ("Box",): "a continuous action space: a Box of one dimension with finite bounds",
    ("Discrete",): "a Discrete action space",
    ("Box", "Discrete"): "a Discrete or a continuous (Box) action space",
    ("Box", "Discrete", "Composite"): "a Discrete or a continuous (Box) action space, or a Dict or Tuple of these",
    ("Box", "Discrete", "MultiDiscrete", "MultiBinary", "Composite"): (
        "a Box, Discrete, MultiDiscrete or MultiBinary action space, or a Dict or Tuple of these"
    ),
}
_ANY_ACTIONS = "a Box, Discrete, MultiDiscrete or MultiBinary action space"
_OF_TEAMS = {"MultiDiscrete": "Discrete", "Box": "Box"}  # actions of a team as one → those of its agents
_WHOLE = ("Discrete", "MultiDiscrete", "MultiBinary")
MASK = "action_mask"  # the key of a Dict observation that says which actions are allowed
GOALS = ("achieved_goal", "desired_goal")  # keys of a Dict observation
_OBSERVATIONS = {"Box1d": "vectors (a Box of one dimension)", "Image": "images [height, width, channels]"}


def describe_space(space: Any) -> SpaceSpec:
    """Return a space as plain data that strict JSON can hold."""
    kind = type(space).__name__
    if kind == "Box":
        bounds = {"low": _bounds(space.low), "high": _bounds(space.high)}
        return _spec(kind=kind, shape=[int(size) for size in space.shape], dtype=str(space.dtype), **bounds)
    if kind == "Discrete":
        return _spec(kind=kind, n=int(space.n), start=int(space.start), shape=[], dtype=str(space.dtype))
    if kind in ("MultiDiscrete", "MultiBinary") and len(space.shape) == 1:
        counts = {"n": int(space.n)} if kind == "MultiBinary" else {"nvec": space.nvec.tolist()}
        starts = {"start": space.start.tolist()} if kind == "MultiDiscrete" else {}
        return _spec(kind=kind, **counts, **starts, shape=list(space.shape), dtype=str(space.dtype))
    return _composite(space) or _spec(kind=kind, text=_words(space))


def leaves(space: Any) -> list[tuple[tuple[str | int, ...], Any]] | None:
    """Return the parts of a Dict or Tuple space in order, [(path, space)]; None where it has one that is no such part.

    Its actions as a vector are theirs, one after the other: a Box row by row, choices counted from 0, switches 0 or 1. A part
    is a Box, a Discrete, or a MultiDiscrete or MultiBinary of one axis; a Dict or Tuple that holds nothing is none, nor is a
    Dict with keys that are no strings. ``space``: of gymnasium, or what ``envs.composite_actions`` made of it.
    """
    space = space.structure if isinstance(space, _Vector) else space
    kind = type(space).__name__
    if kind in ("Dict", "Tuple") and space.spaces:
        items = list(space.spaces.items() if kind == "Dict" else enumerate(space.spaces))
        if any(kind == "Dict" and not isinstance(name, str) for name, _ in items):
            return None
        found = []
        for name, part in items:
            below = leaves(part) if type(part).__name__ in ("Dict", "Tuple") else [((), part)]
            if below is None:
                return None
            found += [((name, *path), leaf) for path, leaf in below]
        return found if all("text" not in describe_space(leaf) for _, leaf in found) else None
    return None


def _words(space: Any) -> str:
    """Return what a space says of itself, on one line."""
    return " ".join(str(space).split())[:200]


def _composite(space: Any) -> SpaceSpec | None:
    """Return the description of a Dict or Tuple whose actions can be a vector, or None."""
    parts = leaves(space)
    if parts is None:
        return None
    described = [{"path": list(path), **describe_space(leaf)} for path, leaf in parts]
    size = sum(math.prod(part["shape"]) for part in described)
    text = _words(space.structure if isinstance(space, _Vector) else space)
    return _spec(kind="Composite", parts=described, shape=[size], dtype="float32", text=text)


def _spec(**known: Any) -> SpaceSpec:
    """Return what is ``known`` of a space of some kind: that kind has no other keys."""
    return cast("SpaceSpec", known)


def describe_obs(space: Any) -> SpaceSpec:
    """Return an observation space as plain data, with the dtype in which observations are kept (``seen_dtype``)."""
    described = describe_space(space)
    if described["kind"] == "Box":
        described["dtype"] = seen_dtype(space)
    return described


def _parts(space: Any) -> dict[str, Any]:
    """Return the parts of a Dict space by name; {} of another space."""
    held = getattr(space, "spaces", None)
    return held if isinstance(held, dict) else {}


def find_mask(obs_space: Any, action_space: Any, size_of: Callable[[Any], int]) -> list[int] | None:
    """Return [start, n]: where a flattened Dict ``obs_space`` holds its action mask; None where it has none.

    ``size_of``: gives the numbers that a space becomes when it is flattened. Raises ValueError for a mask that does not fit.
    """
    parts = _parts(obs_space)
    if MASK not in parts:
        return None
    kind, start = type(parts[MASK]).__name__, 0
    if type(action_space).__name__ != "Discrete":
        raise ValueError(
            f"its observations have a part {MASK!r}, which is for Discrete actions; its actions are "
            f"{_text(describe_space(action_space))}. If it is something else, rename it in a wrapper."
        )
    if kind not in ("Box", "MultiBinary") or parts[MASK].shape != (int(action_space.n),):
        raise ValueError(
            f"its {MASK!r} is {str(parts[MASK])[:120]}; for {int(action_space.n)} actions it is a MultiBinary or Box "
            f"of shape ({int(action_space.n)},), 1 where an action is allowed."
        )
    for name, part in parts.items():
        if name == MASK:
            return [start, int(action_space.n)]
        start += size_of(part)
    return None


def find_goal(obs_space: Any, size_of: Callable[[Any], int]) -> list[int] | None:
    """Return [achieved, desired, n]: where a flattened Dict ``obs_space`` holds its two goals of n numbers; None without.

    They are Boxes of one dimension and equal size. ``size_of``: see ``find_mask``.
    """
    parts = _parts(obs_space)
    if not set(GOALS) <= set(parts):
        return None
    goals = [parts[name] for name in GOALS]
    if any(type(goal).__name__ != "Box" or len(goal.shape) != 1 for goal in goals) or goals[0].shape != goals[1].shape:
        return None
    names = list(parts)
    starts = [sum(size_of(parts[before]) for before in names[: names.index(name)]) for name in GOALS]
    return [*starts, int(goals[0].shape[0])]


def find_board(obs_space: Any, size_of: Callable[[Any], int]) -> list[int] | None:
    """Return [start, height, width, planes]: where a flattened Dict ``obs_space`` holds its only Box of three axes, or None.

    None too where that one is an image of bytes. ``size_of``: see ``find_mask``.
    """
    start, found = 0, []
    for part in _parts(obs_space).values():
        if type(part).__name__ == "Box" and len(part.shape) == 3 and part.dtype != np.uint8:
            found.append([start, *map(int, part.shape)])
        start += size_of(part)
    return found[0] if len(found) == 1 else None


def is_image(shape: Sequence[int]) -> bool:
    """Whether a Box of this ``shape`` is an image: [H, W] or [H, W, C] with at least 8 pixels each way."""
    return len(shape) in (2, 3) and min(shape[:2]) >= IMAGE_SIDE


def seen_dtype(space: Any) -> str:
    """Return the dtype in which observations of ``space`` are kept: images of bytes as "uint8", all else "float32"."""
    return "uint8" if is_image(space.shape) and space.dtype == np.uint8 else "float32"


def misfit(spaces: EnvSpec, needs: Needs, fitting: Mapping[str, str] | None = None) -> str | None:
    """Return what keeps an algorithm from these spaces, or None.

    ``needs``: name, actions, observations (a row of ``algorithms.table``). ``fitting``: {kind: names of the algorithms
    that take it, as string} for the kinds Box, Discrete, Box1d and Image, for the advice.
    """
    fitting = {} if fitting is None else fitting
    if needs.team and "team" not in spaces:
        return f"{needs.name} trains a team of several agents that act at once; this environment has one agent."
    return _action_misfit(spaces["action"], needs, fitting) or _obs_misfit(spaces["obs"], needs, fitting)


def _bounds(values: np.ndarray) -> Any:
    """Return nested lists with null for no bound; one number, or null, where all are equal and there are many."""
    finite = np.isfinite(values)
    if values.size > 64 and (values == values.flat[0]).all():
        return values.flat[0].item() if finite.flat[0] else None
    return np.where(finite, values.astype(object), np.array(None, object)).tolist()


def _each(bounds: Any, size: int) -> list:
    """Undo the shortening of ``_bounds`` for a vector of ``size`` elements."""
    return bounds if isinstance(bounds, list) else [bounds] * size


def _action_misfit(action: SpaceSpec, needs: Needs, fitting: Mapping[str, str]) -> str | None:
    kind = action["kind"]
    if needs.team and kind not in needs.actions:
        kinds = " or ".join(_OF_TEAMS[one] for one in needs.actions)
        advice = f" Algorithms for such teams: {fitting[kind]}." if kind in fitting else ""
        theirs = f"these agents have {_OF_TEAMS[kind]} actions.{advice}"
        return f"{needs.name} trains teams whose agents have {kinds} actions; {theirs}"
    wants = f"{needs.name} needs {_ACTIONS.get(tuple(needs.actions), _ANY_ACTIONS)}"
    if kind not in needs.actions:
        if kind in fitting:
            advice = f"Algorithms for such actions: {fitting[kind]}."
        else:
            advice = "No algorithm supports such actions; convert them to one Discrete or one Box in a wrapper."
        return f"{wants}; its actions are {_text(action)}. {advice}"
    if kind == "Composite":
        return _parts_misfit(action, wants)
    if kind in _WHOLE:
        several = f"{wants}; its actions are {_text(action)}, which have more than one axis. Reshape them in a wrapper."
        return several if "text" in action else None
    return _bounds_misfit(action, wants)


def _parts_misfit(action: SpaceSpec, wants: str) -> str | None:
    """Whether each Box of a Composite has bounds; what its parts may be beside that is up to the nets of an algorithm."""
    for part in action["parts"]:
        if part["kind"] == "Box":
            size = math.prod(part["shape"])
            sides = {side: np.ravel(part[side]).tolist() if size <= 64 else part[side] for side in ("low", "high")}
            flat = cast("SpaceSpec", {**part, "shape": [size], **sides})
            problem = _bounds_misfit(flat, f"{wants}; of its action {part_name(part)}")
            if problem:
                return problem
    return None


def part_name(part: Mapping[str, Any]) -> str:
    """Return in words where a part of a Composite is: "kick.0" for its path ["kick", 0]."""
    return ".".join(map(str, part["path"]))


def _bounds_misfit(action: SpaceSpec, wants: str) -> str | None:
    if len(action["shape"]) != 1 or action["shape"][0] < 1:
        return f"{wants}; its actions are a Box of shape {tuple(action['shape'])}. Reshape them in a wrapper."
    if not action["dtype"].startswith("float"):
        return f"{wants}; its actions are whole numbers ({action['dtype']})."
    size = action["shape"][0]
    for index, (low, high) in enumerate(zip(_each(action["low"], size), _each(action["high"], size), strict=True)):
        if low is None or high is None:
            return (
                f"{wants}; action {index} has the bounds [{_side(low, '-')}, {_side(high, '')}]. Rescale the actions "
                "with gymnasium.wrappers.RescaleAction, or clip them to finite bounds in a wrapper."
            )
        if not low < high or high - low > float(np.finfo(np.float32).max):
            return f"{wants}; action {index} has the bounds [{low}, {high}], which span no usable range."
    return None


def _obs_misfit(obs: SpaceSpec, needs: Needs, fitting: Mapping[str, str]) -> str | None:
    wants = (
        f"{needs.name} needs observations that are {' or '.join(_OBSERVATIONS[kind] for kind in needs.observations)}"
    )
    if obs["kind"] != "Box":
        return f"{wants}; its observations are {_text(obs)}, which drl cannot flatten. Flatten them in a wrapper."
    shape = obs["shape"]
    if min(shape, default=0) < 1:
        return f"{wants}; its observations are empty, of shape {tuple(shape)}."
    kind = "Box1d" if len(shape) == 1 else "Image"
    if kind in needs.observations:
        return None
    what = "vectors" if kind == "Box1d" else "images"
    advice = f" Algorithms for {what}: {fitting[kind]}." if kind in fitting else f" No algorithm here takes {what} yet."
    return f"{wants}; its observations are {what} of shape {tuple(shape)}.{advice}"


def _text(space: SpaceSpec) -> str:
    if space["kind"] == "MultiDiscrete" and "nvec" in space:
        return f"MultiDiscrete([{' '.join(map(str, space['nvec']))}])"[:200]
    if space["kind"] in ("Discrete", "MultiBinary") and "n" in space:
        return f"{space['kind']}({space['n']})"
    return space.get("text") or f"a Box of {space['shape']}"


def _side(bound: float | None, sign: str) -> Any:
    return f"{sign}infinity" if bound is None else bound
