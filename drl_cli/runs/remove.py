"""Removing runs: never outside of the folder of results, never one in progress, never another program's.

User: ``drl runs rm``. A run is locked, renamed out of sight in one step and then deleted, so that a crash leaves a
hidden folder ``.del-…`` and never half a run; the next removal under the same folder clears those away.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from drl_cli.errors import RunFolderError
from drl_cli.runs.run_folder import is_alive
from drl_cli.runs.run_summary import Run, read, size_of
from drl_cli.runs.search_folders import is_held, record_of, trial_of

LEFTOVER = re.compile(r"\.del-.+-([0-9]+)-[0-9a-f]{8}")


def check(run: Run, roots: Iterable[Path | str]) -> str | None:
    """Return why ``run`` (a Run) may not be removed, or None. ``roots``: the folders of results."""
    real = run.path.resolve()
    if run.path.is_symlink():
        return "is a link"
    if not any(_inside(real, Path(root).resolve()) for root in roots):
        where = ", ".join(str(root) for root in roots)
        return f"is outside the results in {where}; name its folder of results with --local-dir"
    if run.state == "running":
        return f"is running (process {run.pid} on {run.host}); stop it first"
    return None


def _inside(path: Path, root: Path) -> bool:
    return root in path.parents


def keep_best(runs: Sequence[Run], count: int) -> list[Run]:
    """Return ``runs`` without the ``count`` best ones of each algorithm on each environment."""
    kept = set()
    for key in {(run.algorithm, run.env) for run in runs}:
        scored = [(run.best, run.path) for run in runs if (run.algorithm, run.env) == key and run.best is not None]
        kept |= {path for _, path in sorted(scored, key=lambda pair: pair[0], reverse=True)[:count]}
    return [run for run in runs if run.path not in kept]


def remove(run: Run, roots: Sequence[Path | str]) -> int:
    """Delete the folder of ``run`` and return the bytes that were freed. Raises RunFolderError."""
    path = run.path
    problem = check(read(path), roots)  # the run may have been resumed since it was listed
    if problem:
        raise RunFolderError(f"{path}: {problem}")
    hidden = path.with_name(f".del-{path.name}-{os.getpid()}-{secrets.token_hex(4)}")
    lock = _lock(path)
    try:
        size = size_of(path)
        os.rename(path, hidden)
        shutil.rmtree(hidden)
    except OSError as error:
        raise RunFolderError(f"{path}: cannot be removed ({error.strerror or error})") from error
    finally:
        if lock is not None:
            os.close(lock)
    _forget_search(path)
    _tidy(path.parent, roots)
    return size


def _forget_search(path: Path) -> None:
    """Delete the record of the search that the run of ``path`` was a trial of, once none of its trials is left."""
    trial = trial_of(path)
    record = record_of(path.parent, trial[0]) if trial else None
    left = [name for name in os.listdir(path.parent) if (trial_of(name) or ("",))[0] == trial[0]] if trial else []
    if record and not left and not is_held(record):
        for file in (record, record.with_suffix(".log"), record.with_name(f".{record.stem}.lock")):
            file.unlink(missing_ok=True)


def _lock(path: Path) -> int | None:
    """Take the run's lock, so that no process resumes it while it is removed; None where there is none to take."""
    try:
        lock = os.open(path / ".lock", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # a folder that never was a run of this program, or one without a lock
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        raise RunFolderError(f"{path}: is running; stop it first") from error
    except OSError:
        return lock  # a file system without locks
    return lock


def _tidy(folder: Path, roots: Iterable[Path | str]) -> None:
    """Delete what a removal that died left in ``folder``, and the folder of an experiment that is empty now."""
    for name in os.listdir(folder):
        match = LEFTOVER.fullmatch(name)
        if match and not is_alive(int(match[1])):
            shutil.rmtree(folder / name, ignore_errors=True)
    if folder.resolve() in [Path(root).resolve() for root in roots]:
        return
    try:
        folder.rmdir()
    except OSError:
        return  # something is in it
