"""Pieces of episodes from files: which files are meant, in which order they are read, and how far reading has come.

Used by ``actors.experience_reader``, estimates and the command line. A file is streamed line by line (or episode by episode, of
a Minari dataset), never loaded whole; only episodes that are not over yet are held. Every pass goes through all files, in an
order drawn from (seed, pass). ``Shuffled`` draws the next piece from a few that it holds, for ``shuffle_buffer_size``.

Deviations from RLlib (1.0.1): its JsonReader draws files at random for ever, so that some are read often and others never; it
skips lines that it cannot read; and it unpickles. Its ShuffledInput draws again and again from what it holds; here every piece
comes once in each pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from drl_cli.errors import CheckpointError, ExperienceError
from drl_cli.experience.recorded.input_files import find
from drl_cli.experience.recorded.json_lines import JsonFile
from drl_cli.extras import load
from drl_cli.randomness import generator, set_state, state_of

if TYPE_CHECKING:
    from drl_cli.experience.recorded.input_files import InputFile, Paths
    from drl_cli.experience.recorded.minari_dataset import MinariDataset
    from drl_cli.experience.recorded.pieces import Layout, Piece


class Source:
    """An iterator of Pieces over all episodes of some files; endless unless ``passes`` is given."""

    def __init__(
        self, paths: Paths, layout: Layout, seed: int = 0, passes: int | None = None, share: tuple[int, int] = (0, 1)
    ) -> None:
        """``paths``: a file, folder, glob or minari://ID, or a list of them; ``layout``: a Layout.

        ``passes``: how often all files are read, None: for ever. ``share``: (index, count): of the pieces of each pass those
        that are the ``index``-th in a row of ``count``, so that ``count`` sources of one seed read everything once between
        them: whole files where there are enough of them, single pieces otherwise. Raises ExperienceError for paths that hold
        nothing.
        """
        self.files = find(paths)
        self._layout, self._seed, self._passes = layout, seed, passes
        index, count = share
        self._by_file = len(self.files) >= count
        self._index, self._count = index, count
        self.passed = 0  # whole passes so far
        self.notes = []  # for the user, about what was skipped; taken by the reader
        self._place = 0  # which file of the pass is read
        self._number = 0  # pieces that the pass has brought so far
        self._order: list[int] | None = None  # of the files that this pass reads
        self._open: JsonFile | MinariDataset | None = None
        self._seen = False  # whether this pass has brought a piece

    def __iter__(self) -> Source:
        return self

    def __next__(self) -> Piece:
        """Return the next Piece. Raises ExperienceError with file and line for what cannot be read."""
        while True:
            if self._passes is not None and self.passed >= self._passes:
                raise StopIteration
            if self._open is None:
                self._open = self._opened(None)
            reader = self._open
            piece = next(reader, None)
            self.notes += reader.notes
            reader.notes = []
            if piece is None:
                self._next_file()
                continue
            number, self._number = self._number, self._number + 1
            if self._by_file or number % self._count == self._index:
                self._seen = True
                return piece

    def place(self) -> dict[str, Any]:
        """Return plain data: where the next piece comes from, ``state`` without the files."""
        mark = self._open.mark() if self._open is not None else None
        return {"pass": self.passed, "place": self._place, "number": self._number, "seen": self._seen, "at": mark}

    def state(self) -> dict[str, Any]:
        """Return plain data from which ``load`` reads on exactly here."""
        return self.place() | {"files": [[file.name, file.size] for file in self.files]}

    def load(self, state: Mapping[str, Any]) -> None:
        """Read on from ``state``. Raises CheckpointError where the files are others than they were."""
        try:
            files, mark = [tuple(pair) for pair in state["files"]], state["at"]
            place = (int(state["pass"]), int(state["place"]), int(state["number"]), bool(state["seen"]))
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"The state of what reads experience is incomplete ({error}).") from error
        if files != [(file.name, file.size) for file in self.files]:
            raise CheckpointError(
                "The files of experience have changed since the checkpoint was made (names or sizes); a resumed run "
                "would read different steps. Restore them, or start a new run with: drl train --restore CHECKPOINT"
            )
        self.close()
        self.passed, self._place, self._number, self._seen = place
        self._order = None
        try:
            self._open = self._opened(mark) if mark is not None else None
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise CheckpointError(f"The state of what reads experience fits no file ({error}).") from error

    def close(self) -> None:
        """Close the file that is open."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def _opened(self, mark: Mapping[str, int] | None) -> JsonFile | MinariDataset:
        order = self._order
        if order is None:
            order = generator(self._seed, "files", self.passed).permutation(len(self.files)).tolist()
            order = self._order = order[self._index :: self._count] if self._by_file else order
        file = self.files[order[self._place]]
        if file.kind == "json":
            return JsonFile(file, self._layout, mark)
        rng = generator(self._seed, "files", self.passed, order[self._place])
        load("h5py")  # says what to install where it is missing
        from drl_cli.experience.recorded.minari_dataset import MinariDataset

        return MinariDataset(file, self._layout, mark, rng)

    def _next_file(self) -> None:
        self.close()
        self._place += 1
        if self._order is not None and self._place < len(self._order):
            return
        if not self._seen:
            raise ExperienceError(self._nothing())
        self.passed, self._place, self._order, self._seen, self._number = self.passed + 1, 0, None, False, 0

    def _nothing(self) -> str:
        """Say why a whole pass has brought nothing."""
        if self._number:
            return f"{self.files[0].path}: {self._number} episodes are too few for {self._count} readers. Lower num_workers."
        whose = f" of the policy {self._layout.policies[0]}" if self._layout.policies else ""
        return f"{self.files[0].path}: holds no steps{whose} to train on."


def check(paths: Paths, layout: Layout) -> Piece:
    """Read the first piece of ``paths``. Raises ExperienceError where there is none, or it does not fit the Layout."""
    source = Source(paths, layout, passes=1)
    try:
        return next(source)
    finally:
        source.close()


class Shuffled:
    """A Source whose pieces come in another order: one drawn at random from a few that are held."""

    def __init__(self, source: Source, size: int, seed: int) -> None:
        """``source``: a fresh Source; ``size``: how many pieces are held at most, 1 or more."""
        self._source, self._size = source, size
        self._rng = generator(seed, "shuffle")
        self._held = []  # (where it came from: the source's place, piece)
        self.passed = 0  # whole passes so far: one is over with the call after its last piece

    @property
    def files(self) -> list[InputFile]:
        """Those of the source."""
        return self._source.files

    @property
    def notes(self) -> list[str]:
        """Those of the source."""
        return self._source.notes

    @notes.setter
    def notes(self, notes: list[str]) -> None:
        self._source.notes = notes

    def __iter__(self) -> Shuffled:
        return self

    def __next__(self) -> Piece:
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

    def state(self) -> dict[str, Any]:
        """Return plain data from which ``load`` goes on exactly here: what is held is read again."""
        held = [place for place, _ in self._held]
        return self._source.state() | {"held": held, "rng": state_of(self._rng), "passed": self.passed}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from ``state``. Raises CheckpointError where the files are others than they were."""
        try:
            held, passed = [dict(place) for place in state["held"]], int(state["passed"])
            set_state(self._rng, state["rng"])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"The state of what reads experience is incomplete ({error}).") from error
        self._held, self.passed = [], passed
        for place in held:
            self._source.load({**state, **place})
            piece = next(self._source, None)
            if piece is None:
                raise CheckpointError("The state of what reads experience names pieces that no file holds.")
            self._held.append((place, piece))
        self._source.load(state)
        self._source.notes = []

    def close(self) -> None:
        """Close the file that is open."""
        self._source.close()
