"""Pieces of episodes in another order than that of the files: of a few that are held, one drawn at random comes next.

User: the reader among the actors, for ``shuffle_buffer_size``. Source: RLlib's ShuffledInput (1.0.1). Deviations: what RLlib
gives is drawn again and again from what it holds, so that some lines come twice and others never; here every piece comes once
in each pass.
"""

from drl_cli.errors import CheckpointError
from drl_cli.randomness import generator, set_state, state_of


class Shuffled:
    """The surface of a ``reading.Source``, whose pieces it brings."""

    def __init__(self, source, size, seed):
        """``source``: a fresh Source; ``size``: how many pieces are held at most, 1 or more."""
        self._source, self._size = source, size
        self._rng = generator(seed, "shuffle")
        self._held = []  # (where it came from: the source's place, piece)
        self.passed = 0  # whole passes so far: one is over when more is asked for behind its last piece

    @property
    def files(self):
        """Those of the source."""
        return self._source.files

    @property
    def notes(self):
        """Those of the source."""
        return self._source.notes

    @notes.setter
    def notes(self, notes):
        self._source.notes = notes

    def __iter__(self):
        return self

    def __next__(self):
        """Return the next Piece; errors as the source's."""
        while len(self._held) < self._size:
            place = self._source.place()
            piece = next(self._source, None)
            if piece is None:
                break
            self._held.append((place, piece))
        if not self._held:
            self.passed = self._source.passed
            raise StopIteration
        # The last one fills the gap: what is held has no order.
        at = int(self._rng.integers(len(self._held)))
        self._held[at], self._held[-1] = self._held[-1], self._held[at]
        place, piece = self._held.pop()
        self.passed = max(self.passed, place["pass"])
        return piece

    def state(self):
        """Return plain data from which ``load`` goes on exactly here: what is held is read again."""
        held = [place for place, _ in self._held]
        return self._source.state() | {"held": held, "rng": state_of(self._rng), "passed": self.passed}

    def load(self, state):
        """Go on from ``state``. Raises CheckpointError where the files are others than they were."""
        try:
            held, passed = [dict(place) for place in state["held"]], int(state["passed"])
            set_state(self._rng, state["rng"])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"The state of what reads experience is incomplete ({error}).") from error
        self._held, self.passed = [], passed
        for place in held:
            self._source.load(state | place)
            piece = next(self._source, None)
            if piece is None:
                raise CheckpointError("The state of what reads experience speaks of pieces that no file holds.")
            self._held.append((place, piece))
        self._source.load(state)
        self._source.notes = []

    def close(self):
        """Close the file that is open."""
        self._source.close()
