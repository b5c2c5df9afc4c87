"""The searches that runs are trials of: recognised by their folders' names, described by the record beside them.

Users: ``drl runs``, ``runs.find`` and ``drl train --resume``. A search's record, ``search_<time>_<id>.json``, is
``search.search_record``'s; its trials are runs like any other, whose names hold the search's id and the trial's number.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drl_cli.checkpoints.files import parse_json, read_small
from drl_cli.config.origins import Where
from drl_cli.errors import CheckpointError

if TYPE_CHECKING:
    from drl_cli.runs.run_summary import Run

ID = re.compile(r"[0-9a-f]{5}")
_TRIAL = re.compile(r".*_([0-9a-f]{5})_(\d{5})_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_[0-9a-f]{8}", re.DOTALL)
_RECORD = re.compile(r"search_.*_([0-9a-f]{5})\.json")
MAX_BYTES = 64 * 2**20  # of a record
OVER = ("finished", "stopped", "failed")
"""States of a trial that is over."""


@dataclass(frozen=True)
class ListedSearch:
    """A search as ``drl runs`` lists it, with the fields of a ``runs.run_summary.Run`` that a list shows.

    runs: its trials among those that were found; trials: how many it has, over: how many of them have ended, as its record
    says. best and best_run: the highest best of a trial, and the id of that run; reward: None. steps, seconds and size are
    sums over its runs, started is the first's, updated the last's. path: its record, or the folder of its runs without one.
    """

    path: Path
    id: str
    experiment: str
    algorithm: str
    env: str
    state: str
    started: float | None
    updated: float | None
    steps: int | None
    seconds: float | None
    best: float | None
    best_run: str | None
    size: int
    runs: tuple[Run, ...]
    trials: int
    over: int
    metric: str | None
    reward: None = None
    seed: None = None


def trial_of(path: Path | str) -> tuple[str, int] | None:
    """Return (id of the search, number of the trial) of a run's folder, or None for a run of its own."""
    match = _TRIAL.fullmatch(Path(path).name)
    return (match[1], int(match[2])) if match else None


def record_of(folder: Path | str, search: str) -> Path | None:
    """Return the path of a search's record in the folder of its experiment, or None."""
    return next(iter(sorted(Path(folder).glob(f"search_*_{search}.json"))), None)


def searched(path: Path) -> str | None:
    """Return the id of the search whose record ``path`` is by its name, else None."""
    match = _RECORD.fullmatch(path.name)
    return match[1] if match else None


def find_record(search: str, roots: Iterable[Path | str]) -> Path | None:
    """Return the path of the record of the search with that id under the folders of results, or None."""
    if not ID.fullmatch(search):
        return None
    found = [record_of(folder, search) for root in roots for folder in sorted(Path(root).glob("*/"))]
    return next((path for path in found if path), None)


def experiments(record: Path | str) -> list[tuple[str, dict[str, Any], Where]]:
    """Return [(name, mapping, Where)] of the experiments of the search of a record."""
    data = _read(record).get("data")
    asked = data.get("experiments") if isinstance(data, dict) else None
    return [(one["name"], one["mapping"], Where(str(record))) for one in asked or ()]


def is_held(record: Path | str) -> bool:
    """Whether a living process runs the search of a record."""
    record = Path(record)
    try:
        lock = os.open(record.with_name(f".{record.stem}.lock"), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # a file system without locks
    finally:
        os.close(lock)
    return False


def folded(runs: Iterable[Run]) -> list[Run | ListedSearch]:
    """Return ``runs`` with one ListedSearch in the place of the first of its trials."""
    groups = {}
    for run in runs:
        trial = trial_of(run.path)
        groups.setdefault((run.path.parent, trial[0]) if trial else run.path, []).append(run)
    return [_search(key[1], found) if isinstance(key, tuple) else found[0] for key, found in groups.items()]


def _search(search: str, runs: Sequence[Run]) -> ListedSearch:
    record = record_of(runs[0].path.parent, search)
    recorded = _read(record) if record else {}
    trials, data = (recorded[name] if isinstance(recorded.get(name), dict) else {} for name in ("trials", "data"))
    trials = [trial for trial in trials.values() if isinstance(trial, dict)]
    scored = [(run.best, run.id) for run in runs if run.best is not None]
    best, best_run = max(scored, key=lambda pair: pair[0]) if scored else (None, None)
    numbers = {trial[1] for trial in (trial_of(run.path) for run in runs) if trial}
    return ListedSearch(
        path=record or runs[0].path.parent,
        id=search,
        experiment=runs[0].experiment,
        algorithm=_one([run.algorithm for run in runs], "algorithms"),
        env=_one([run.env for run in runs], "environments"),
        state=_state(recorded.get("state"), record, runs),
        started=min((run.started for run in runs if run.started is not None), default=None),
        updated=max((run.updated for run in runs if run.updated is not None), default=None),
        steps=_sum([run.steps for run in runs]),
        seconds=_sum([run.seconds for run in runs]),
        best=best,
        best_run=best_run,
        size=sum(run.size for run in runs),
        runs=tuple(runs),
        trials=max(len(trials), data.get("num_trials") or 0, len(numbers)),
        over=sum(trial.get("state") in OVER for trial in trials) if trials else len(numbers),
        metric=data.get("metric"),
    )


def _read(record: Path | str) -> dict[str, Any]:
    try:
        data = parse_json(read_small(record, MAX_BYTES), record)
    except CheckpointError:
        return {}  # a damaged record must not hide the runs
    return data if isinstance(data, dict) else {}


def _state(said: object, record: Path | None, runs: Sequence[Run]) -> str:
    """Return what the record says where that can be; without one, what the trials are."""
    if record and is_held(record):
        return "running"
    if said in ("finished", "interrupted"):
        return said
    states = [run.state for run in runs]
    return "running" if "running" in states else "died" if said == "running" else _one(states, "unknown", "unknown")


def _one(words: Iterable[str], several: str, instead: str | None = None) -> str:
    words = list(dict.fromkeys(words))
    return words[0] if len(words) == 1 else instead or f"{len(words)} {several}"


def _sum(values: Iterable[Any]) -> Any:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
