"""One run folder → one ``Run``: its state, its best score, how far it got, how much room it takes.

Users: the other files of this room and the commands. Reads the end of ``result.json`` only, so that hundreds of runs
are listed in a second. A run that says "running" and whose process is gone has ``died``.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drl_cli.config.env_names import displayed
from drl_cli.errors import CheckpointError, RunFolderError
from drl_cli.runs import retention
from drl_cli.runs.run_folder import MAX_LINE, is_alive, is_params, lock_state, open_record, read_record

STATES = ("running", "finished", "interrupted", "failed", "died", "unknown")
TAIL_BYTES = 64 * 1024  # of result.json: more than a row with its window of episodes takes
FRESH_SECONDS = 3600.0  # a run of another host that wrote its status within this time is taken to be alive


@dataclass(frozen=True)
class Run:
    """A run as it is on disk.

    path; id, the last part of its folder's name; experiment; algorithm; env; seed; state, one of ``STATES``; exit_code
    and text of how it ended, or None; started and updated, seconds since the epoch or None; iteration; steps (env
    steps); seconds (of training); reward (mean of the last training episodes); best, best_metric and best_checkpoint
    (what best.json says); checkpoints, names from the oldest; size in bytes; pid and host of its process; params, the
    content of params.json.
    """

    path: Path
    id: str
    experiment: str
    algorithm: str
    env: str
    seed: int | None
    state: str
    exit_code: int | None
    text: str | None
    started: float | None
    updated: float | None
    iteration: int | None
    steps: int | None
    seconds: float | None
    reward: float | None
    best: float | None
    best_metric: str | None
    best_checkpoint: str | None
    checkpoints: tuple[str, ...]
    size: int
    pid: int | None
    host: str | None
    params: dict[str, Any]

    @property
    def config(self) -> dict[str, Any]:
        """The resolved config."""
        return self.params.get("config") or {}


def is_run(path: Path | str) -> bool:
    """Whether a folder holds the records of a run of this program (other programs write a params.json too)."""
    try:
        params = read_record(Path(path) / "params.json")
    except RunFolderError:
        return False
    return is_params(params)


def read(path: Path | str) -> Run:
    """Return the Run in the folder ``path``. Raises RunFolderError when it is none, or its records are damaged."""
    path = Path(path)
    params = read_record(path / "params.json")
    if params is None:
        raise RunFolderError(f"{path}: is not the folder of a run (params.json is missing)")
    if not is_params(params):
        raise RunFolderError(f"{path}: its params.json is another program's")
    status, best, last = _or_empty(path / "status.json"), _or_empty(path / "best.json"), last_row(path)
    return Run(
        path=path,
        id=path.name.rpartition("_")[2],
        experiment=str(params.get("experiment") or path.parent.name),
        algorithm=params["run"],
        env=displayed(params["env"], params["config"].get("env_config")),
        seed=_whole(params.get("seed")),
        state=state_of(path, status),
        exit_code=_whole(status.get("exit_code")),
        text=_text(status.get("text")),
        started=epoch(status.get("started")),
        updated=epoch(status.get("updated")),
        iteration=_whole(last.get("training_iteration")),
        steps=_whole(last.get("timesteps_total")),
        seconds=_number(last.get("time_total_s")),
        reward=_number(last.get("episode_reward_mean")),
        best=_number(best.get("value")),
        best_metric=_text(best.get("metric")),
        best_checkpoint=_text(best.get("checkpoint")),
        checkpoints=_checkpoints(path),
        size=size_of(path),
        pid=_whole(status.get("pid")),
        host=_text(status.get("host")),
        params=params,
    )


def state_of(path: Path, status: Mapping[str, Any]) -> str:
    """Return the state of the run in ``path`` given the content of its status.json: what it says, if that can be."""
    said, held = status.get("state"), lock_state(path)
    if held:
        return "running"
    if said != "running":
        return said if said in STATES else "died" if said is None else "unknown"
    if status.get("host") != socket.gethostname():
        # Locks of another machine are not seen on every shared file system.
        updated = epoch(status.get("updated"))
        fresh = updated is not None and _now() - updated < FRESH_SECONDS
        return "running" if fresh else "died"
    return "running" if held is None and is_alive(status.get("pid")) else "died"


def last_row(path: Path | str) -> dict[str, Any]:
    """Return the last whole row of ``result.json`` (a nested dict), or an empty one."""
    try:
        with open_record(Path(path) / "result.json") as file:
            end = file.seek(0, os.SEEK_END)
            for wanted in (TAIL_BYTES, MAX_LINE):
                file.seek(max(0, end - wanted))
                lines = file.read().split(b"\n")[:-1]  # what follows the last newline is torn
                whole = lines if wanted >= end else lines[1:]
                if whole:
                    return _row(whole[-1])
                if wanted >= end:
                    break
    except OSError:  # before the first row
        return {}
    return {}


def _row(line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError:
        return {}
    return row if isinstance(row, dict) else {}


def size_of(path: Path | str) -> int:
    """Return the bytes of all files under ``path``; links are not followed, what cannot be read counts nothing."""
    total, waiting = 0, [path]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_size
        except OSError:  # removed meanwhile
            continue
    return total


def epoch(text: object) -> float | None:
    """Return the seconds since the epoch of a UTC ISO 8601 time as the records hold it, or None."""
    try:
        return (
            datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() if isinstance(text, str) else None
        )
    except ValueError:
        return None


def _now() -> float:
    return datetime.datetime.now(datetime.timezone.utc).timestamp()


def _checkpoints(path: Path) -> tuple[str, ...]:
    try:
        return tuple(found.name for _, found in retention.numbers(path))
    except CheckpointError:
        return ()


def _or_empty(path: Path) -> dict[str, Any]:
    try:
        return read_record(path) or {}
    except RunFolderError:
        return {}  # a damaged status must not hide the run


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: object) -> float | None:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    number = _whole(value)
    return number if number is not None and abs(number) < 2**63 else None  # larger ones may have no float
