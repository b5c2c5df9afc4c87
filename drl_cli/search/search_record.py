"""``search_<time>_<id>.json`` in the experiment's folder: all that a search is and has found, as plain data.

Used by ``search.run_search`` and by ``drl train --resume``. Written atomically when a trial changes its state, and at
most every few seconds for results. Nothing of Ray Tune's own state is kept: what it holds follows from this file and
from the runs.
"""

import contextlib
import datetime
import fcntl
import math
import os
import time
from pathlib import Path

from drl_cli import checkpoints
from drl_cli.checkpoints.files import json_bytes, parse_json, read_small
from drl_cli.config.plain_data import HIDDEN, redact
from drl_cli.errors import CheckpointError, ConfigError, RunFolderError
from drl_cli.runs.run_folder import is_locked, read_record

FORMAT = 1
MAX_BYTES = 64 * 2**20
WRITE_S = 3.0
DYING_S = 1.0  # for the processes of trials to be gone
LIVE = ("running", "paused")
OVER = ("finished", "stopped", "failed")
"""States of a trial that a resumed search leaves as it is."""


class Record:
    """The file of one search. ``data``: as ``experiments.search_spec`` made it; ``trials``: {number: dict(point, state, …)};
    ``scheduler``: what ``search.scheduler_state`` keeps of one that compares.
    """

    def __init__(self, path, data, trials=None, state="running", scheduler=None):
        self.path, self.data, self.trials, self.state = Path(path), data, trials or {}, state
        self.scheduler = scheduler or {}
        self._written = -math.inf

    @classmethod
    def new(cls, data):
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
            raise RunFolderError(
                f"{record.path}: cannot be written ({error.strerror}). Choose another folder with --local-dir"
            ) from error
        return record

    @classmethod
    def read(cls, path):
        """Read a record to go on with. Raises RunFolderError when it is none."""
        try:
            found = parse_json(read_small(path, MAX_BYTES), path)
        except CheckpointError as error:
            raise RunFolderError(str(error)) from error
        if not isinstance(found, dict) or found.get("format") != FORMAT or "data" not in found:
            raise RunFolderError(f"{path}: is not the record of a search of this version")
        if HIDDEN in _texts(found["data"]):
            raise ConfigError(f"{path}: a secret of the search was not recorded; start it anew.")
        trials = {int(number): trial for number, trial in found["trials"].items()}
        return cls(path, found["data"], trials, found["state"], found.get("scheduler"))

    @contextlib.contextmanager
    def held(self):
        """Hold the search for this process. Raises RunFolderError when another one runs it."""
        lock = os.open(self.path.with_name(f".{self.path.stem}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError as error:
            raise RunFolderError(f"{self.path}: another process runs this search. Wait for it or stop it") from error
        finally:
            os.close(lock)

    def change(self, number, **facts):
        """Note facts about a trial (state, point, result, run_folder, text, failures) and write when it is time."""
        trial = self.trials.setdefault(number, {})
        urgent = facts.get("state", trial.get("state")) != trial.get("state")
        trial.update(facts)
        if urgent or time.monotonic() - self._written > WRITE_S:
            self.write()

    def write(self, state=None):
        """Write the file, with a new state of the search if one is given. Raises OSError."""
        self.state = state or self.state
        self._written = time.monotonic()
        content = {"format": FORMAT, "state": self.state, "data": self.data, "trials": self.trials}
        content |= {"scheduler": self.scheduler} if self.scheduler else {}
        checkpoints.replace_file(self.path, json_bytes(redact(_strict(content))))

    def interrupt(self, code, text):
        """Write that the search was interrupted: its trials, and their runs whose processes were ended with it.

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

    def unfinished(self, rescored=False):
        """Return the points, searched ones or those that are rescored, which are not over."""
        chosen = [t for t in self.trials.values() if ("rescore" in t["point"]) == rescored]
        return [trial["point"] for trial in chosen if trial["state"] not in OVER]


def newest(folder):
    """Return the path of the experiment's newest search that is not finished, or None."""
    for path in sorted(Path(folder).glob("search_*.json"), reverse=True):
        try:
            if Record.read(path).state != "finished":
                return path
        except (RunFolderError, ConfigError):
            continue
    return None


def _strict(value):
    """Return plain data with text as keys and None for numbers that are not finite."""
    if isinstance(value, dict):
        return {str(name): _strict(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _texts(value):
    if isinstance(value, dict):
        return [text for inner in value.values() for text in _texts(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in _texts(inner)]
    return [value] if isinstance(value, str) else []
