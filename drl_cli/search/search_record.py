"""``search_<time>_<id>.json`` in the experiment's folder: all that a search is and has found, as plain data.

Used by ``search.run_search`` and by ``drl train --resume``. Written atomically when a trial changes its state, and at
most every few seconds for results. Nothing of Ray Tune's own state is kept: it follows from this file and from the runs.
"""

import contextlib
import datetime
import fcntl
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict, cast

from drl_cli import checkpoints
from drl_cli.checkpoints.files import json_bytes, parse_json, read_small
from drl_cli.config.plain_data import HIDDEN, plain, redact
from drl_cli.errors import CheckpointError, ConfigError, RunFolderError, full_or
from drl_cli.experiments.search_data import Point, SearchData
from drl_cli.runs import held_locks
from drl_cli.runs.run_folder import is_locked, read_record

FORMAT = 1
MAX_BYTES = 64 * 2**20
WRITE_S = 3.0  # the record is rewritten at most this often while trials only go on
DYING_S = 1.0  # for the processes of trials to exit
LIVE = ("running", "paused")
OVER = ("finished", "stopped", "failed")
"""States of a trial that a resumed search leaves as it is."""

TrialState = Literal["pending", "running", "paused", "interrupted", "finished", "stopped", "failed"]


class _Recorded(TypedDict):
    point: Point
    state: TrialState


class TrialRecord(_Recorded, total=False):
    """One trial. ``result``: its last numbers by field; ``text``: why it ended; ``best``: path of its best checkpoint.

    ``ended``: the state that its run ended with, until Tune reports the trial complete.
    """

    run_folder: str
    result: dict[str, float]
    text: str | None
    best: str
    exit_code: int
    failures: int
    ended: TrialState


Trials = dict[int, TrialRecord]
Row = dict[str, Any]
"""The numbers of one result, flat."""


class EarlierRows(NamedTuple):
    """Rows of earlier sessions of a search, by trial: of those that are ``over``, and of those that are ``live`` again."""

    over: dict[int, list[Row]]
    live: dict[int, list[Row]]


class Work(NamedTuple):
    """What one session of Ray Tune runs: ``points``, and ``new`` ones that a searcher draws while it runs.

    ``observed``: (values, score) of the trials that are over, a score of None for one without. ``is_rescoring``: the best
    trials are trained again, and none is compared or stopped.
    """

    points: list[Point]
    new: int
    rows: EarlierRows
    observed: list[tuple[dict[str, Any], float | None]]
    is_rescoring: bool


class Record:
    """The file of one search. ``data``: as ``experiments.search_spec`` made it; ``trials``: by number; ``state``: "running",
    "interrupted" or "finished"; ``scheduler``: what ``search.tune_schedulers`` keeps.
    """

    def __init__(
        self,
        path: Path,
        data: SearchData,
        trials: Trials | None = None,
        state: str = "running",
        scheduler: dict[str, Any] | None = None,
    ) -> None:
        self.path, self.data, self.state = Path(path), data, state
        self.trials: Trials = trials or {}
        self.scheduler: dict[str, Any] = scheduler or {}
        self._written = -math.inf

    @classmethod
    def new(cls, data: SearchData) -> "Record":
        """Start the record of a search. Raises RunFolderError when its folder cannot be written."""
        folder = Path(data["folder"])
        now = datetime.datetime.now(datetime.timezone.utc)
        record = cls(folder / f"search_{now:%Y-%m-%d_%H-%M-%S}_{data['id']}.json", data)
        for point in data["points"]:
            record.trials[point["trial"]] = {"point": point, "state": "pending"}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            record.write()
        except OSError as error:
            raise full_or(error, RunFolderError)(
                f"{record.path}: cannot be written ({error.strerror}). Choose another folder with --local-dir"
            ) from error
        return record

    @classmethod
    def read(cls, path: Path) -> "Record":
        """Read the record of a search. Raises RunFolderError for a file that is none, ConfigError where a secret is missing."""
        try:
            found = parse_json(read_small(path, MAX_BYTES), path)
        except CheckpointError as error:
            raise RunFolderError(str(error)) from error
        if not isinstance(found, dict) or found.get("format") != FORMAT or "data" not in found:
            raise RunFolderError(f"{path}: is not the record of a search of this version")
        if HIDDEN in _strings(found["data"]):
            raise ConfigError(f"{path}: a secret value of the search was not recorded; start a new search.")
        trials = {int(number): trial for number, trial in found["trials"].items()}
        return cls(path, found["data"], trials, found["state"], found.get("scheduler"))

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Lock the search for this process. Raises RunFolderError when another one runs it."""
        lock = os.open(self.path.with_name(f".{self.path.stem}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(lock)
            raise RunFolderError(f"{self.path}: another process runs this search. Wait for it or stop it") from error
        held_locks.hold(lock)
        try:
            yield
        finally:
            held_locks.free(lock)

    def change(self, number: int, **facts: Any) -> None:
        """Update a trial with ``facts`` (keys of TrialRecord); writes at once on a new state, else every few seconds."""
        trial = cast("dict[int, dict[str, Any]]", self.trials).setdefault(number, {})
        urgent = facts.get("state", trial.get("state")) != trial.get("state")
        trial.update(facts)
        if urgent or time.monotonic() - self._written > WRITE_S:
            self.write()

    def write(self, state: str | None = None) -> None:
        """Write the file, with a new state of the search if one is given. Raises OSError."""
        self.state = state or self.state
        self._written = time.monotonic()
        content = {"format": FORMAT, "state": self.state, "data": self.data, "trials": self.trials}
        content |= {"scheduler": self.scheduler} if self.scheduler else {}
        checkpoints.replace_file(self.path, json_bytes(redact(plain(content))))

    def interrupt(self, code: int, text: str) -> list[int]:
        """Record that the search was interrupted: its trials, and their runs whose processes were ended with it.

        ``code``: the exit code; ``text``: why those runs ended. Returns the numbers of those trials.
        """
        live = [number for number, trial in self.trials.items() if trial["state"] in LIVE]
        for number in live:
            self.trials[number]["state"] = "interrupted" if self.trials[number].get("run_folder") else "pending"
        self.write("interrupted")
        until = time.monotonic() + DYING_S
        for path in Path(self.data["folder"]).glob(f"*_{self.data['id']}_*/status.json"):
            while is_locked(path.parent) and time.monotonic() < until:
                time.sleep(0.05)
            status = read_record(path) or {}
            if status.get("state") == "running":
                status |= {"state": "interrupted", "exit_code": code, "text": text}
                checkpoints.replace_file(path, json_bytes(status))
        return live

    def unfinished(self, rescored: bool = False) -> list[Point]:
        """Return the points of trials that are not over: of the search, or with ``rescored`` those that are trained again."""
        chosen = [t for t in self.trials.values() if ("rescore" in t["point"]) == rescored]
        return [trial["point"] for trial in chosen if trial["state"] not in OVER]


def newest(folder: Path) -> Path | None:
    """Return the path of the experiment's newest search that is not finished, or None."""
    for path in sorted(Path(folder).glob("search_*.json"), reverse=True):
        try:
            if Record.read(path).state != "finished":
                return path
        except (RunFolderError, ConfigError):
            continue
    return None


def _strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for inner in value.values() for text in _strings(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in _strings(inner)]
    return [value] if isinstance(value, str) else []
