"""Pieces from a file of JSON lines: RLlib's batches, one a line, and the episodes that ``drl rollout --out`` writes.

User: ``reading``. A line that is no JSON, or of another shape than it should be, is an error that names file and line; only
where the last line of a file has no end, it is taken for one that is being written, and passed over with a note.
"""

import json

from drl_cli.errors import ExperienceError
from drl_cli.experience.recorded import episode_lines, rllib_batches
from drl_cli.experience.recorded.episode_parts import Joiner

MAX_LINE = 64 * 2**20  # bytes; what JSON makes of a line takes up to twenty times as much memory
_KNOWN = "Known are RLlib's SampleBatch and MultiAgentBatch, and the episodes of drl rollout --out."


class JsonFile:
    """An iterator of Pieces over one file."""

    def __init__(self, file, layout, mark=None):
        """``file``: finding.Found; ``layout``: Layout; ``mark``: where to begin, as ``mark`` returned it."""
        mark = {"offset": 0, "line": 0, "given": 0} if mark is None else mark
        if min(mark["offset"], mark["line"], mark["given"]) < 0:
            raise ValueError("a place before the file's beginning")
        self._path, self._layout = file.path, layout
        self.notes = []
        try:
            self._file = open(file.path, "rb")  # noqa: SIM115 - closed by close()
            self._file.seek(mark["offset"])
        except OSError as error:
            raise ExperienceError(f"{file.path}: {error.strerror}.") from error
        self._line = mark["line"]
        self._joiner = Joiner()
        self._anchor = (mark["offset"], mark["line"])  # the newest line before which no episode was open
        self._given = 0  # pieces that came from there on
        self._pieces = self._read()
        for _ in range(mark["given"]):
            next(self._pieces, None)
        self._given = mark["given"]

    def __iter__(self):
        return self

    def __next__(self):
        piece = next(self._pieces)
        self._given += 1
        return piece

    def mark(self):
        """Return where the next piece comes from, as plain data."""
        return {"offset": self._anchor[0], "line": self._anchor[1], "given": self._given}

    def close(self):
        """Close the file."""
        self._file.close()

    def _read(self):
        while True:
            if not self._joiner.is_open:
                self._anchor, self._given = (self._file.tell(), self._line), 0
            text = self._file.readline(MAX_LINE + 1)
            if not text:
                break
            self._line += 1
            where = f"{self._path}:{self._line}"
            if len(text) > MAX_LINE:
                raise ExperienceError(f"{where}: a line of more than {MAX_LINE >> 20} MiB.")
            if not text.strip():
                continue
            data = self._parsed(text, where)
            if data is None:
                break
            for part in self._parts(data, where):
                yield from self._joiner.add(part)
        yield from self._joiner.rest()

    def _parsed(self, text, where):
        try:
            data = json.loads(text, object_pairs_hook=_once)
        except (ValueError, RecursionError) as error:
            if not text.endswith(b"\n"):
                self.notes.append(f"{where}: the last line is not complete (is it being written?) and is passed over")
                return None
            what = f"{error.msg}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)[:120]
            raise ExperienceError(f"{where}: is no JSON ({what}).") from error
        if not isinstance(data, dict):
            raise ExperienceError(f"{where}: is no JSON object. {_KNOWN}")
        return data

    def _parts(self, data, where):
        if data.get("format") == episode_lines.FORMAT:
            return episode_lines.parts(data, self._layout, where)
        if "type" in data:
            return rllib_batches.parts(data, self._layout, where, self.notes)
        raise ExperienceError(f'{where}: has no field "type" or "format". {_KNOWN}')


def _once(pairs):
    data = dict(pairs)
    if len(data) < len(pairs):
        raise ValueError("a field stands there twice")
    return data
