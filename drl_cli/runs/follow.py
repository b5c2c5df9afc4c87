"""A run in another process, as the stream of its events. User: ``drl watch``.

Reads what the run itself writes: ``events.jsonl``, the rows of ``result.json``, and the newest counters in ``status.json``.
The events have the kinds and fields of ``drl_cli.events``, so that the same screen draws them; ``progress`` is made of rows
where the run has not reported it. Nothing is locked, and nothing is written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from drl_cli.errors import RunFolderError
from drl_cli.runs.loggers.tables import is_row
from drl_cli.runs.run_folder import MAX_LINE, open_record, read_record
from drl_cli.runs.run_summary import epoch, state_of

BESIDE_ROWS = ("waiting", "learner", "workers", "replay_capacity")  # what rows do not hold
SHOWN_ROWS = 5  # rows of the past that become results; all of them become progress, for the curve


class Heard(NamedTuple):
    """An event of the run: its kind and fields (see ``drl_cli.events``), and seconds since the run's process began."""

    kind: str
    fields: dict[str, Any]
    seconds: float


class Follower:
    """Continues to read where it stopped: ``poll()`` returns what is new, ``state`` is the run's at the last poll.

    path: the run folder. all_rows: rows of the past become results too. started: seconds since the epoch when its
    present process began. last_seconds: how long it went on for, once it is over, else None. Events of processes before
    the present one, which a resumed run has, are left out; their rows are not.
    """

    def __init__(self, path: Path | str, all_rows: bool = False) -> None:
        self.path = Path(path)
        self.last_seconds: float | None = None
        self._shown_rows = None if all_rows else SHOWN_ROWS
        self.state = "running"
        self.started = 0.0
        self._events = _Lines(self.path / "events.jsonl")
        self._rows = _Lines(self.path / "result.json")
        self._iteration = -1
        self._is_inline = _is_inline(self.path)
        self._progress = self._updates = None
        self._is_first = True
        self._is_over = False

    def poll(self) -> list[Heard]:
        """Return ``[(kind, fields, seconds), …]`` since the last poll, in order; seconds since ``started``.

        A run that is over ends with the event ``finished``, its state "died" when its process is gone.
        """
        status = _status(self.path)
        self.state = state_of(self.path, status)  # before its files are read: what is over has written all of them
        self.started = epoch(status.get("started")) or self.started or os.stat(self.path).st_mtime
        heard = [*self._new_events(), *self._new_rows()]
        heard.sort(key=lambda event: event[2])
        heard += self._newest_progress(status, heard)
        self._is_first = False
        self._is_over = self._is_over or any(kind == "finished" for kind, _, _ in heard)
        if self.state != "running" and not self._is_over:
            self._is_over = True
            heard.append(Heard("finished", self._end(status), self._last_seconds(status, heard)))
        if self._is_over:
            self.last_seconds = max(self.last_seconds or 0.0, self._last_seconds(status, heard))
        return heard

    def _new_events(self) -> list[Heard]:
        heard = []
        for line in self._events.new():
            when, kind = epoch(line.get("time")), line.get("kind")
            if when is None or not isinstance(kind, str) or when < self.started - 0.001:
                continue
            fields = {name: value for name, value in line.items() if name not in ("time", "kind")}
            heard.append(Heard(kind, fields, when - self.started))
        return heard

    def _new_rows(self) -> list[Heard]:
        rows = [row for row in self._rows.new() if is_row(row)]
        rows = [row for row in rows if row["training_iteration"] > self._iteration]
        heard = []
        for place, row in enumerate(rows):
            self._iteration = row["training_iteration"]
            seconds = max(0.0, (row.get("timestamp") or self.started) - self.started)
            fields = progress_of(row, self._updates) | ({"workers": 0} if self._is_inline else {})
            heard.append(Heard("progress", fields, seconds))
            self._updates = (row.get("info") or {}).get("num_updates")
            if not self._is_first or self._shown_rows is None or place >= len(rows) - self._shown_rows:
                heard.append(Heard("result", {"result": row}, seconds))
        return heard

    def _newest_progress(self, status: Mapping[str, Any], heard: Sequence[Heard]) -> list[Heard]:
        """The counters in status.json when they are newer than the last row, else only the other fields there."""
        fields = status.get("progress")
        if self.state != "running" or not isinstance(fields, dict) or fields == self._progress:
            return []
        self._progress = fields
        if (fields.get("training_iteration") or 0) < self._iteration:  # the rows are newer
            fields = {name: fields[name] for name in BESIDE_ROWS if name in fields}
        return [Heard("progress", fields, self._last_seconds(status, heard))]

    def _last_seconds(self, status: Mapping[str, Any], heard: Sequence[Heard]) -> float:
        updated = epoch(status.get("updated")) or self.started
        return max(updated - self.started, heard[-1][2] if heard else 0.0)

    def _end(self, status: Mapping[str, Any]) -> dict[str, Any]:
        died = self.state == "died"
        text = f"its process ({status.get('pid')} on {status.get('host')}) is gone" if died else status.get("text")
        code = None if died else status.get("exit_code")
        return {"state": self.state, "text": text or "", "exit_code": code, "run": str(self.path)}


def _is_inline(path: Path) -> bool:
    """Whether a run has no workers of its own: its rows count the one process that samples."""
    try:
        config = (read_record(path / "params.json") or {}).get("config")
    except RunFolderError:
        return False
    return isinstance(config, dict) and config.get("num_workers") == 0


def progress_of(row: Mapping[str, Any], updates_before: int | None = None) -> dict[str, Any]:
    """Return the fields of a ``progress`` event as far as a row of results holds them.

    ``updates_before``: the number of updates at the end of the row before it, or None.
    """
    info, seconds, steps = row.get("info") or {}, row.get("time_this_iter_s"), row.get("timesteps_this_iter")
    updates = info.get("num_updates")
    made = updates - updates_before if updates is not None and updates_before is not None else None
    fields = {
        "training_iteration": row.get("training_iteration"),
        "env_steps": row.get("timesteps_total"),
        "env_steps_per_s": steps / seconds if steps and seconds else None,
        "updates": updates,
        "updates_per_s": made / seconds if made is not None and seconds else None,
        "episodes": row.get("episodes_total"),
        "episode_reward_mean": row.get("episode_reward_mean"),
        "replay_size": info.get("replay_size"),
        "replay_capacity": info.get("replay_capacity"),
        "weight_version": info.get("weight_version"),
        "weight_lag": info.get("weight_lag_mean"),
        "workers": row.get("num_healthy_workers"),
        "learner": "learning" if updates else None,
    }
    return {name: value for name, value in fields.items() if value is not None}


class _Lines:
    """The whole lines of a growing file of JSON objects; one that was replaced or cut is read anew."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._place, self._inode = 0, None

    def new(self) -> list[dict[str, Any]]:
        """Return the objects of the lines that have come since the last call; damaged lines are left out."""
        found = []
        try:
            with open_record(self._path) as file:
                known = os.fstat(file.fileno())
                if known.st_ino != self._inode or known.st_size < self._place:
                    self._place, self._inode = 0, known.st_ino
                file.seek(self._place)
                while (line := file.readline(MAX_LINE)).endswith(b"\n"):
                    self._place += len(line)
                    found.append(_object(line))
        except OSError:  # not written yet: asked again at the next look
            return []
        return [value for value in found if value is not None]


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _status(path: Path) -> dict[str, Any]:
    try:
        return read_record(path / "status.json") or {}
    except RunFolderError:  # being replaced, or damaged: asked again at the next look
        return {}
