"""What recorded experience is made of: ``Piece``, a part of one episode in time order, and ``Layout``, what it must fit.

Every reader yields pieces, every learner from files and every estimate takes them. A line of a file holds some steps of some
episodes; the next steps of an episode stand some lines below. ``Joiner`` joins such parts again. What it holds until an
episode ends is bounded, by steps and by bytes: a longer episode comes in several pieces, and one that is never continued comes
at the end of its file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from drl_cli.envs.env_spec import EnvSpec, SpaceSpec

MAX_STEPS = 10_000  # of one piece
MAX_BYTES = 256 * 2**20  # of all that is held


class Piece(NamedTuple):
    """One episode, or a part of one, in time order.

    Neither ``terminated`` nor ``truncated``: it is broken off; its episode goes on elsewhere or was lost.
    """

    obs: np.ndarray  # [T, …] single observations as the policy sees them: vectors float32, images uint8 or float32
    action: np.ndarray  # [T, …] Box: float32 in the environment's units, not clipped; else int32, counted from 0
    reward: np.ndarray  # [T] float32, as the environment gave it
    terminated: bool  # of the last step
    truncated: bool  # of the last step
    end_obs: np.ndarray | None  # the observation after the last step; None where the file has none
    logp: np.ndarray | None  # [T] float32 log-probability (density) of ``action`` as it stands here, of what acted
    start: int | None  # how many steps of its episode come before it; None only where a line of a file does not say
    episode: int | str  # which episode it belongs to
    source: str  # "file:line" of its first step, for messages

    @property
    def steps(self) -> int:
        """Steps T."""
        return len(self.reward)

    @property
    def stop(self) -> int:
        """Steps of its episode up to its end; one that does not say where it starts counts from 0."""
        return (self.start or 0) + self.steps

    @property
    def is_whole(self) -> bool:
        """Whether it is an episode from its beginning to its end."""
        return self.start == 0 and (self.terminated or self.truncated)


class Layout(NamedTuple):
    """What observations and actions look like in an environment; see ``layout_of``."""

    obs_shape: tuple[int, ...]  # of a single observation
    obs_dtype: str  # "float32" or "uint8"
    action: SpaceSpec  # the described action space, see ``envs.spaces``
    limits: tuple[int, ...] = ()  # lengths of episodes at which a file's `dones` are time limits
    frames: int = 1  # single observations in a stack of which a file may hold
    normalized: bool = False  # whether Box actions in files are within ±1 of their bounds, and to be stretched
    policies: tuple[str, ...] = ()  # of a run with several agents: the policy whose steps are read, then the others

    @property
    def action_shape(self) -> tuple[int, ...]:
        """Shape of one action of the policy."""
        return tuple(self.action["shape"])

    @property
    def parts(self) -> list[tuple[SpaceSpec, slice]]:
        """The parts of actions that are a Dict or Tuple, each with its place in the vector; [] of all others."""
        found, begin = [], 0
        for part in self.action.get("parts", []):
            end = begin + math.prod(part["shape"])
            found.append((part, slice(begin, end)))
            begin = end
        return found

    @property
    def is_box(self) -> bool:
        """Whether actions are numbers within bounds."""
        return self.action["kind"] == "Box"

    def bounds(self) -> tuple[np.ndarray, ...]:
        """Return (low, high) of Box actions, float32 [A] each."""
        shape = self.action_shape
        return tuple(
            np.broadcast_to(np.asarray(self.action[side], np.float32), shape).copy() for side in ("low", "high")
        )


def layout_of(
    spaces: EnvSpec, limits: Iterable[int | None] = (), normalized: bool = False, policies: Sequence[str] = ()
) -> Layout:
    """Return the Layout of an environment.

    ``spaces``: as ``envs.make.check`` describes them, with "obs", "action" and maybe "frames"; ``limits``: lengths at which
    episodes are cut (the registry's time limit, ``horizon``), None among them is passed over; ``normalized``: the key
    ``actions_in_input_normalized``; ``policies``: of a run with several agents, the one whose steps are read first.
    """
    obs = spaces["obs"]
    known = tuple(sorted({int(limit) for limit in limits if limit is not None}))
    frames = int(spaces.get("frames", 1))
    return Layout(tuple(obs["shape"]), obs["dtype"], spaces["action"], known, frames, bool(normalized), tuple(policies))


class Part(NamedTuple):
    """Steps of one episode from one line."""

    piece: Piece  # ``start`` None: not known
    key: tuple  # of its episode within the file
    done: bool = False  # whether it ended, where the file does not say how
    limits: tuple = ()  # lengths at which such an end is a time limit


class Joiner:
    """Holds the parts of episodes that have not ended."""

    def __init__(self) -> None:
        self._held = {}  # key -> list of Pieces, each continuing the one before
        self._bytes = 0

    @property
    def is_open(self) -> bool:
        """Whether anything is held."""
        return bool(self._held)

    def add(self, part: Part) -> Iterator[Piece]:
        """Take a Part; yield the Pieces that are complete with it."""
        before = self._held.get(part.key)
        if before and not _continues(before[-1], part.piece):
            yield self._released(part.key)
            before = None
        piece = _placed(part, before[-1] if before else None)
        self._held.setdefault(part.key, []).append(piece)
        self._bytes += piece.obs.nbytes
        if piece.terminated or piece.truncated or sum(p.steps for p in self._held[part.key]) >= MAX_STEPS:
            yield self._released(part.key)
        while self._bytes > MAX_BYTES:
            yield self._released(next(iter(self._held)))

    def rest(self) -> Iterator[Piece]:
        """Yield what is left, in the order in which it began."""
        while self._held:
            yield self._released(next(iter(self._held)))

    def _released(self, key: tuple) -> Piece:
        pieces = self._held.pop(key)
        self._bytes -= sum(piece.obs.nbytes for piece in pieces)
        return joined(pieces)


def joined(pieces: Sequence[Piece]) -> Piece:
    """Return one Piece of ``pieces`` that continue one another."""
    first, last = pieces[0], pieces[-1]
    if len(pieces) == 1:
        return first
    logps = [piece.logp for piece in pieces if piece.logp is not None]
    return last._replace(
        obs=np.concatenate([piece.obs for piece in pieces]),
        action=np.concatenate([piece.action for piece in pieces]),
        reward=np.concatenate([piece.reward for piece in pieces]),
        logp=np.concatenate(logps) if len(logps) == len(pieces) else None,
        start=first.start,
        source=first.source,
    )


def _continues(before: Piece, piece: Piece) -> bool:
    """Whether ``piece`` goes on where ``before`` was left; where only one of them says so, as it says."""
    counted = piece.start is None or piece.start == before.stop
    seen = before.end_obs is None or np.array_equal(before.end_obs, piece.obs[0])
    return counted and seen


def _placed(part: Part, before: Piece | None) -> Piece:
    """Return the part's Piece with its place in the episode and the kind of its end."""
    piece = part.piece
    start = piece.start
    if start is None:
        start = before.stop if before else 0
    if not part.done:
        return piece._replace(start=start)
    late = start + piece.steps in part.limits
    return piece._replace(start=start, terminated=not late, truncated=late)
