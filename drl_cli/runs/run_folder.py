"""A run's folder on disk: made exclusively, probed, locked for as long as the run lives, and what anyone may read of it.

Users: ``experiments`` (makes, locks and writes it), the rest of this room, ``checks`` and ``cli`` (read it). A run's folder
holds ``params.json``, ``status.json`` and ``best.json``. Its lock is ``flock`` on ``.lock``: the kernel frees it when the
process dies, however it dies.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import fcntl
import json
import os
import re
import secrets
import shutil
import socket
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from drl_cli import checkpoints, events, process
from drl_cli.checkpoints.files import json_bytes, parse_json, read_small, write_new
from drl_cli.errors import CheckpointError, DrlError, RunFolderError, full_or, reason_of
from drl_cli.runs import held_locks, run_names

MAX_RECORD = 4 * 2**20  # bytes of params.json and its like
MAX_LINE = 16 * 2**20  # bytes of a row of result.json, or of an event
NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
LEFTOVER = re.compile(r"\.(tmp|old|del)-(.+)-([0-9]+)-[0-9a-f]{8}")

# Tries to take a lock, and seconds between them: a process that reads a run (`drl runs`) holds it for microseconds.
PROBES = 5
PROBE_SECONDS = 0.02


def results_folder(given: Path | str | None = None) -> Path:
    """Return the folder of all results as an absolute path: ``given``, else TUNE_RESULT_DIR, else ~/ray_results."""
    return Path(process.results_folder(None if given is None else str(given)))


def read_record(path: Path | str) -> dict[str, Any] | None:
    """Return the dict in a record like params.json, or None without the file. Raises RunFolderError."""
    if not Path(path).exists():
        return None
    try:
        data = parse_json(read_small(path, MAX_RECORD), path)
    except CheckpointError as error:
        raise RunFolderError(str(error)) from error
    if not isinstance(data, dict):
        raise RunFolderError(f"{path}: is not a JSON object")
    return data


def open_record(path: Path | str) -> BinaryIO:
    """Open a file of a run for reading. OSError where it is no plain file: a pipe would be waited for, a device has no end."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
    return os.fdopen(fd, "rb")


def whole_lines(path: Path | str) -> Iterator[bytes]:
    """Yield the lines of a growing file, each with its end; what follows the last end is torn.

    Nothing where the file cannot be opened, or is no plain file; it ends at a line of ``MAX_LINE`` bytes.
    """
    with contextlib.suppress(OSError), open_record(path) as file:
        while (line := file.readline(MAX_LINE)).endswith(b"\n"):
            yield line


def is_params(data: Any) -> bool:
    """Whether ``data`` can be the params.json of a run of this program (other programs write one too)."""
    kinds = {"run": str, "env": str, "config": dict, "stop": (dict, type(None))}
    if not isinstance(data, dict) or not all(isinstance(data.get(name), kind) for name, kind in kinds.items()):
        return False
    imports = data.get("imports") or []
    return isinstance(imports, list) and all(isinstance(name, str) for name in imports)


def is_locked(path: Path | str) -> bool:
    """Whether a living process holds the run folder."""
    return bool(lock_state(path))


def lock_state(path: Path | str) -> bool | None:
    """Return True when a living process holds the run folder, False when none does, None where that cannot be found out."""
    try:
        lock = os.open(Path(path) / ".lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        return False if error.errno == errno.ELOOP else None  # of another user, say: not a reason to call a run dead
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(lock)
    return False


def is_alive(pid: object) -> bool:
    """Whether a process of this number lives on this machine."""
    if not isinstance(pid, int) or pid < 1:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def now() -> str:
    """Return the time as UTC ISO 8601 with milliseconds."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class RunFolder:
    """``path`` and the lock on it. Made by ``create`` or ``reopen``; ``close`` frees the lock."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock: int | None = lock

    def write(self, name: str, data: Mapping[str, Any]) -> None:
        """Replace the record ``name`` ("status.json") by strict JSON of ``data``, atomically. Raises OSError."""
        checkpoints.replace_file(self.path / name, json_bytes(data))

    def read(self, name: str) -> dict[str, Any] | None:
        """Return the record ``name``, or None when there is none. Raises RunFolderError when it is malformed."""
        return read_record(self.path / name)

    def close(self) -> None:
        """Free the lock."""
        if self._lock is not None:
            held_locks.free(self._lock)
            self._lock = None  # the number may become another file's


def create(local_dir: Path | str, experiment: str, run: str, env: str, trial: int | str = 0) -> RunFolder:
    """Make ``<local_dir>/<experiment>/<RUN>_<Env>_<trial>_<time>_<hex>`` and return it as a locked RunFolder.

    Raises RunFolderError (a name that does not fit, a folder that cannot be written), ResourcesExhausted (disk full).
    """
    parent = Path(local_dir).expanduser() / run_names.check_experiment(experiment)
    path = parent / run_names.run_name(run, env, trial)
    try:
        parent.mkdir(parents=True, exist_ok=True)
        path.mkdir()
    except (OSError, ValueError) as error:  # ValueError: a NUL in local_dir
        raise _cannot_write(path, error) from error
    return _take(path)


def reopen(path: Path | str) -> RunFolder:
    """Lock an existing run's folder to resume it, and clear what a dead process left in it.

    Raises RunFolderError when it is no run of this program, cannot be written, or another process holds it.
    """
    path = Path(path).expanduser()
    if not path.is_dir():
        raise RunFolderError(f"{path}: there is no such run folder")
    if not (path / "params.json").is_file():
        raise RunFolderError(f"{path}: is not the folder of a run (params.json is missing)")
    folder = _take(path)
    remove_leftovers(path)
    return folder


def _take(path: Path) -> RunFolder:
    lock = None
    try:
        lock = os.open(path / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        _flock(lock, path)
        os.ftruncate(lock, 0)
        os.pwrite(lock, json_bytes({"pid": os.getpid(), "host": socket.gethostname(), "since": now()}), 0)
        _probe(path)
    except OSError as error:
        if lock is not None:
            os.close(lock)
        raise _cannot_write(path, error) from error
    return RunFolder(path, held_locks.hold(lock))


def _flock(lock: int, path: Path, probes: int = PROBES) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        if probes > 1:
            time.sleep(PROBE_SECONDS)
            return _flock(lock, path, probes - 1)
        held = _holder(lock)
        os.close(lock)
        raise RunFolderError(f"{path}: another run is using this folder ({held}). Wait for it or stop it") from error
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        text = f"{path} is on a file system without locks: do not start a second run on this folder"
        events.report("warning", text=text)


def _holder(lock: int) -> str:
    try:
        data = json.loads(os.pread(lock, 4096, 0))
        return f"process {data['pid']} on {data['host']}, since {data['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "its process is unknown"


def _probe(path: Path) -> None:
    """Write and sync a little, so that a read-only or full disk is found before anything is started."""
    probe = path / f".tmp-probe-{os.getpid()}-{secrets.token_hex(4)}"
    write_new(probe, [b"probe\n" * 1000])
    probe.unlink()


def _cannot_write(path: Path, error: OSError | ValueError) -> DrlError:
    text = f"{path}: the results folder cannot be written ({reason_of(error)}). Choose another with --local-dir"
    return full_or(error, RunFolderError)(text)


def remove_leftovers(folder: Path | str, made: str | None = None) -> list[Path]:
    """Clear what a process that died while it wrote or pruned left in ``folder``; returns the paths that were cleared.

    In a run folder to be called by the holder of its lock, before its own first save. A checkpoint that was being replaced
    is put back when its successor did not arrive. ``made``: clear only what was being made under this name, in a folder that
    is no run's.
    """
    cleared = []
    for name in sorted(os.listdir(folder)):
        match = LEFTOVER.fullmatch(name)
        if not match or made not in (None, match[2]):
            continue
        pid = int(match[3])
        # In a container the same pid comes back; our own first save is still to come.
        if pid != os.getpid() and is_alive(pid):
            continue
        path = Path(folder) / name
        target = path.with_name(f"checkpoint_{match[2]}")
        if match[1] == "old" and not target.exists():
            os.rename(path, target)
        elif path.is_file():
            path.unlink()
        else:
            shutil.rmtree(path, ignore_errors=True)
        cleared.append(path)
    return cleared
