"""Parts of episodes, as the lines of a file hold them, joined to whole episodes again. User: ``json_lines``.

A line holds some steps of some episodes; the next steps of an episode stand some lines below. What is held until an episode
ends is bounded, by steps and by bytes: a longer one comes in several pieces, an episode that is never continued comes at
the end of its file.
"""

from typing import NamedTuple

import numpy as np

from drl_cli.experience.recorded.pieces import Piece

MAX_STEPS = 10_000  # of one piece
MAX_BYTES = 256 * 2**20  # of all that is held


class Part(NamedTuple):
    """Steps of one episode from one line."""

    piece: Piece  # ``start`` None: not known
    key: tuple  # of its episode within the file
    done: bool = False  # whether it ended, where the file does not say how
    limits: tuple = ()  # lengths at which such an end is a time limit


class Joiner:
    """Holds the parts of episodes that have not ended."""

    def __init__(self):
        self._held = {}  # key -> list of Pieces, each continuing the one before
        self._bytes = 0

    @property
    def is_open(self):
        """Whether anything is held."""
        return bool(self._held)

    def add(self, part):
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

    def rest(self):
        """Yield what is left, in the order in which it began."""
        while self._held:
            yield self._released(next(iter(self._held)))

    def _released(self, key):
        pieces = self._held.pop(key)
        self._bytes -= sum(piece.obs.nbytes for piece in pieces)
        return joined(pieces)


def joined(pieces):
    """Return one Piece of ``pieces`` that continue one another."""
    first, last = pieces[0], pieces[-1]
    if len(pieces) == 1:
        return first
    scored = all(piece.logp is not None for piece in pieces)
    return last._replace(
        obs=np.concatenate([piece.obs for piece in pieces]),
        action=np.concatenate([piece.action for piece in pieces]),
        reward=np.concatenate([piece.reward for piece in pieces]),
        logp=np.concatenate([piece.logp for piece in pieces]) if scored else None,
        start=first.start,
        source=first.source,
    )


def _continues(before, piece):
    """Whether ``piece`` goes on where ``before`` was left; where only one of them tells, what it tells."""
    counted = piece.start is None or piece.start == before.start + before.steps
    seen = before.end_obs is None or np.array_equal(before.end_obs, piece.obs[0])
    return counted and seen


def _placed(part, before):
    """Return the part's Piece with its place in the episode and the kind of its end."""
    piece = part.piece
    start = piece.start
    if start is None:
        start = before.start + before.steps if before else 0
    if not part.done:
        return piece._replace(start=start)
    late = start + piece.steps in part.limits
    return piece._replace(start=start, terminated=not late, truncated=late)
