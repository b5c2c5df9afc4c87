"""The listeners that write a run's own records of what happens: events.jsonl, drl.log and status.json.

The newest ``progress`` is in status.json, for other processes that watch the run.

User: ``experiments.run``. A record that cannot be written never stops training.
"""

from __future__ import annotations

import contextlib
import json
import logging
import logging.handlers
import math
import os
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TextIO

from drl_cli import events
from drl_cli.config.plain_data import plain
from drl_cli.runs.run_folder import RunFolder, now

LOG_BYTES, LOG_FILES = 10 * 2**20, 3
STATUS_SECONDS = 5.0  # status.json is rewritten at most this often while nothing but the counters changes
UNRECORDED = ("progress", "result", "history")  # several a second, and in result.json, respectively
UNLOGGED = ("progress", "history")
WARNINGS = ("warning", "checkpoint_failed", "worker_lost", "diagnosis")


class EndOfRun(Protocol):
    """How a run ended, see ``experiments.run.Outcome``."""

    @property
    def state(self) -> str:
        """Finished, interrupted or failed."""
        ...

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        ...

    @property
    def text(self) -> str:
        """Why it ended."""
        ...


class Journal:
    """Subscribes to ``drl_cli.events`` for one run; ``handler`` is the log file for anyone who uses ``logging``."""

    def __init__(
        self, folder: RunFolder, clock: Callable[[], float] = time.monotonic, log_format: str = "text"
    ) -> None:
        """``folder`` is the RunFolder, ``clock`` returns monotonic seconds; ``log_format``: of drl.log, "text" or "json"."""
        self._folder, self._clock = folder, clock
        self._written = -math.inf  # when status.json was last written
        self._status = {"state": "running", "pid": os.getpid(), "host": socket.gethostname(), "started": now()}
        self._is_over = False
        self._status.update(training_iteration=None, timesteps_total=None, checkpoint=None)
        self.handler = _log_handler(folder.path / "drl.log", log_format)
        self._events = _open_lines(folder.path / "events.jsonl")
        self._unsubscribe = events.subscribe(self._hear)
        self._write_status()

    def close(self) -> None:
        """Stop listening and close the files."""
        self._unsubscribe()
        for file in (self.handler, self._events):
            with contextlib.suppress(
                OSError
            ):  # closing writes what could not be written before, on a full disk again in vain
                if file is not None:
                    file.close()

    def end(self, outcome: EndOfRun) -> None:
        """Write how the run ended into status.json without an event: a handler of events may be what blocks.

        Nothing but another ``end`` writes it from there on: a process that is about to exit must not leave half a file.
        """
        self._is_over = True
        self._status.update(state=outcome.state, exit_code=outcome.exit_code, text=outcome.text)
        self._write_status()

    def log(self, level: int, text: str, component: str = "driver") -> None:
        """Write ``text`` (several lines are fine) to drl.log only."""
        record = logging.LogRecord(component, level, "", 0, text, None, None)
        self.handler.handle(record)

    def _hear(self, kind: str, fields: Mapping[str, Any]) -> None:
        if kind not in UNLOGGED:
            self.log(*log_line(kind, fields))
        if kind not in UNRECORDED and self._events is not None:
            _write_line(self._events, {"time": now(), "kind": kind, **plain(fields)})
        if not self._is_over:
            self._follow(kind, fields)

    def _follow(self, kind: str, fields: Mapping[str, Any]) -> None:
        if kind == "result":
            row = fields["result"]
            self._status["training_iteration"] = row.get("training_iteration")
            self._status["timesteps_total"] = row.get("timesteps_total")
            if self._clock() - self._written < STATUS_SECONDS:
                return
        elif kind == "progress":
            self._status["progress"] = fields
            if self._clock() - self._written < STATUS_SECONDS:
                return
        elif kind == "checkpoint":
            self._status["checkpoint"] = os.path.basename(str(fields["path"]))
        elif kind == "finished":
            self._status.update(state=fields["state"], exit_code=fields["exit_code"], text=fields["text"])
        else:
            return
        self._write_status()

    def _write_status(self) -> None:
        self._written = self._clock()
        try:
            self._folder.write("status.json", plain({**self._status, "updated": now()}))
        except OSError as error:
            self.log(logging.WARNING, f"status.json cannot be written ({error})")


class JsonLogFormatter(logging.Formatter):
    """One JSON object a line: time (ISO 8601, UTC, milliseconds), level, component, text; several lines are one text."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a LogRecord."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {"time": f"{seconds}.{int(record.msecs):03d}Z", "level": record.levelname, "component": record.name}
        return json.dumps(line | {"text": record.getMessage()})


def _log_handler(path: Path, log_format: str) -> logging.Handler:
    # delay: an unwritable file must fail when a line is written, where it is ignored, and not here.
    handler = logging.handlers.RotatingFileHandler(path, "a", LOG_BYTES, LOG_FILES - 1, encoding="utf-8", delay=True)
    formatter = logging.Formatter("%(asctime)s.%(msecs)03dZ %(levelname)-7s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler.setFormatter(JsonLogFormatter() if log_format == "json" else formatter)
    handler.handleError = lambda record: None  # logging would print a traceback to the user's screen
    return handler


def _open_lines(path: Path) -> TextIO | None:
    try:
        return open(path, "a", encoding="utf-8")
    except OSError as error:
        events.report("warning", text=f"{path.name} cannot be written ({error})")
        return None


def _write_line(file: TextIO, data: Mapping[str, Any]) -> None:
    try:
        file.write(json.dumps(data, allow_nan=False) + "\n")
        file.flush()
    except (OSError, ValueError):
        return  # the same news is in drl.log and on the screen


def log_line(kind: str, fields: Mapping[str, Any]) -> tuple[int, str, str]:
    """Return (level, text, component) of an event for drl.log."""
    level = logging.WARNING if kind in WARNINGS else logging.INFO
    component = "driver"
    if "worker" in fields:
        component = f"worker-{fields['worker']}#{fields.get('incarnation', 0)}"
    if kind == "finished" and fields["state"] == "failed":
        level = logging.ERROR
    if kind == "result":
        return level, _result_line(fields["result"]), component
    if kind == "learner":
        return level, f"learner {fields['text'] or 'is ready'}", component
    rest = {key: value for key, value in plain(fields).items() if key not in ("text", "worker", "incarnation")}
    text = " ".join([kind, str(fields.get("text", "")), *(f"{key}={value}" for key, value in rest.items())])
    return level, " ".join(text.split(" ")).replace("  ", " ").strip(), component


def _result_line(row: Mapping[str, Any]) -> str:
    shown = ("training_iteration", "timesteps_total", "episodes_total", "episode_reward_mean", "time_total_s")
    return "result " + " ".join(f"{name}={row.get(name)}" for name in shown)
