"""Pieces from a file of JSON lines: RLlib's batches, one a line, and the episodes that ``drl rollout --out`` writes.

Used by ``experience.recorded.read``. A line that is no JSON, or of another shape than it should be, is an error that names file
and line; only where the last line of a file has no end, it is taken for one that is being written, and skipped with a note.
The episodes of ``drl rollout --out`` (``analysis.play`` says what is in a line) hold actions as the environment got them, and
how each episode ended.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from drl_cli.errors import ExperienceError
from drl_cli.experience.recorded import rllib_batches
from drl_cli.experience.recorded.decode import Reader
from drl_cli.experience.recorded.pieces import Joiner, Part, Piece

if TYPE_CHECKING:
    from drl_cli.experience.recorded.input_files import InputFile
    from drl_cli.experience.recorded.pieces import Layout

FORMAT = "drl-episodes-1"
AGENTS_FORMAT = (
    "drl-agents-episodes-1"  # of several agents: {"agents": {agent: {"policy": id, and the fields of FORMAT}}}
)
_FIELDS = ("obs", "action", "reward", "terminated", "truncated")


MAX_LINE = 64 * 2**20  # bytes; what JSON makes of a line takes up to twenty times as much memory
_KNOWN = "Known are RLlib's SampleBatch and MultiAgentBatch, and the episodes of drl rollout --out."


def episode_parts(data: dict[str, Any], layout: Layout, where: str) -> list[Part]:
    """Return [Part] of the line ``data`` (dict), or [] of an episode without a step. Raises ExperienceError."""
    reader = Reader(layout, where)
    missing = [name for name in _FIELDS if name not in data]
    if missing:
        reader.refuse(f"the episode has no {', '.join(missing)}.")
    if data["reward"] == []:
        return []
    reward = reader.rewards(data["reward"], "reward")
    steps = len(reward)
    obs = reader.observations(data["obs"], "obs")
    if len(obs) != steps + 1:
        reader.refuse(f"obs: {len(obs)} rows for {steps} steps; one more than steps is expected.")
    ends = [reader.flags(data[name], name, steps) for name in ("terminated", "truncated")]
    if any(flags[:-1].any() for flags in ends):
        reader.refuse("the episode ends before its last step.")
    action = reader.actions(data["action"], "action", steps, 0 if layout.is_box else layout.action.get("start", 0))
    episode = data.get("episode", 0)
    if isinstance(episode, bool) or not isinstance(episode, (int, str)):
        reader.refuse("episode: is neither a number nor a string.")
    terminated, truncated = (bool(flags[-1]) for flags in ends)
    piece = Piece(obs[:-1], action, reward, terminated, truncated, obs[-1], None, 0, episode, where)
    return [Part(piece, ("line", where))]


def agents_parts(data: dict[str, Any], layout: Layout, where: str) -> list[Part]:
    """Return the Parts of the agents for which the layout's policy acted in the line ``data``. Raises ExperienceError."""
    reader, agents = Reader(layout, where), data.get("agents")
    if not layout.policies:
        reader.refuse("its episodes are of several agents; this run reads those of one.")
    if not isinstance(agents, dict) or not all(isinstance(own, dict) for own in agents.values()):
        reader.refuse("agents: is no object of steps by agent.")
    episode, found = data.get("episode", 0), []
    for agent, own in agents.items():
        if own.get("policy") == layout.policies[0]:
            parts = episode_parts({**own, "episode": f"{episode}:{agent}"}, layout, where)
            found += [part._replace(key=(*part.key, agent)) for part in parts]
    return found


class JsonFile:
    """An iterator of Pieces over one file."""

    def __init__(self, file: InputFile, layout: Layout, mark: Mapping[str, int] | None = None) -> None:
        """``file``: input_files.InputFile; ``layout``: Layout; ``mark``: where to begin, as ``mark`` returned it."""
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

    def __iter__(self) -> JsonFile:
        return self

    def __next__(self) -> Piece:
        piece = next(self._pieces)
        self._given += 1
        return piece

    def mark(self) -> dict[str, int]:
        """Return where the next piece comes from, as plain data."""
        return {"offset": self._anchor[0], "line": self._anchor[1], "given": self._given}

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read(self) -> Iterator[Piece]:
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

    def _parsed(self, text: bytes, where: str) -> dict[str, Any] | None:
        try:
            data = json.loads(text, object_pairs_hook=_once)
        except (ValueError, RecursionError) as error:
            if not text.endswith(b"\n"):
                self.notes.append(f"{where}: the last line is not complete (is it being written?) and is skipped")
                return None
            what = f"{error.msg}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)[:120]
            raise ExperienceError(f"{where}: is no JSON ({what}).") from error
        if not isinstance(data, dict):
            raise ExperienceError(f"{where}: is not a JSON object. {_KNOWN}")
        return data

    def _parts(self, data: dict[str, Any], where: str) -> list[Part]:
        if data.get("format") == FORMAT:
            if self._layout.policies:
                Reader(self._layout, where).refuse("its episode is of one agent; this run reads those of several.")
            return episode_parts(data, self._layout, where)
        if data.get("format") == AGENTS_FORMAT:
            return agents_parts(data, self._layout, where)
        if "type" in data:
            return rllib_batches.parts(data, self._layout, where, self.notes)
        raise ExperienceError(f'{where}: has no field "type" or "format". {_KNOWN}')


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        raise ValueError("a field occurs twice")
    return data
