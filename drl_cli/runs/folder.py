"""A run's folder on disk: made exclusively, probed, locked for as long as the run lives.

Users: ``experiments.open_run`` and ``runs.checkpoint_policy``; ``find_unfinished`` also the command line. What anyone may read
of it is ``runs.run_folder``.
Its lock is ``flock`` on ``.lock``: the kernel frees it when the process dies, however it dies.
"""

import datetime
import errno
import fcntl
import json
import os
import secrets
import socket
import time
from pathlib import Path

from drl_cli import checkpoints, events
from drl_cli.checkpoints.files import json_bytes
from drl_cli.errors import CheckpointError, ResourcesExhausted, RunFolderError
from drl_cli.runs import retention, run_names
from drl_cli.runs.run_folder import NO_LOCKS, is_locked, read_record

# Tries to take a lock, and seconds between them: whoever looks at a run (`drl runs`) holds it for microseconds.
PROBES = 5
PROBE_SECONDS = 0.02


def now():
    """Return the time as UTC ISO 8601 with milliseconds."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class RunFolder:
    """``path`` and the lock on it. Made by ``create`` or ``reopen``; ``close`` frees the lock."""

    def __init__(self, path, lock):
        self.path = path
        self._lock = lock

    def write(self, name, data):
        """Replace the record ``name`` ("status.json") by strict JSON of ``data``, atomically. Raises OSError."""
        checkpoints.replace_file(self.path / name, json_bytes(data))

    def read(self, name):
        """Return the record ``name``, or None when there is none. Raises RunFolderError when it is malformed."""
        return read_record(self.path / name)

    def close(self):
        """Free the lock."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def create(local_dir, experiment, run, env, trial=0):
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


def reopen(path):
    """Lock an existing run's folder for going on with it and clear what a dead process left in it.

    Raises RunFolderError when it is no run of this program, cannot be written, or another process holds it.
    """
    path = Path(path).expanduser()
    if not path.is_dir():
        raise RunFolderError(f"{path}: there is no such run folder")
    if not (path / "params.json").is_file():
        raise RunFolderError(f"{path}: is not the folder of a run (params.json is missing)")
    folder = _take(path)
    retention.remove_leftovers(path)
    return folder


def _take(path):
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
    return RunFolder(path, lock)


def _flock(lock, path, probes=PROBES):
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


def _holder(lock):
    try:
        data = json.loads(os.pread(lock, 4096, 0))
        return f"process {data['pid']} on {data['host']}, since {data['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "its process is unknown"


def _probe(path):
    """Write and sync a little, so that a read-only or full disk is told before anything is started."""
    probe = path / f".probe-{secrets.token_hex(4)}"
    checkpoints.files.write_new(probe, [b"probe\n" * 1000])
    probe.unlink()


def _cannot_write(path, error):
    reason = getattr(error, "strerror", None) or str(error)
    text = f"{path}: the results folder cannot be written ({reason}). Choose another with --local-dir"
    full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
    return ResourcesExhausted(text) if full else RunFolderError(text)


def find_unfinished(local_dir, experiment):
    """Return the path of the experiment's newest run that has not finished, that no process holds and that can go on.

    Newest by the time in its name; a run can go on from a whole checkpoint. Raises RunFolderError that says what was found
    instead.
    """
    parent = Path(local_dir).expanduser() / run_names.check_experiment(experiment)
    runs = [path for path in parent.iterdir() if run_names.RUN_FOLDER.fullmatch(path.name)] if parent.is_dir() else []
    seen = []
    for path in sorted(runs, key=lambda path: (run_names.RUN_FOLDER.fullmatch(path.name)[1], path.name), reverse=True):
        if not (path / "params.json").is_file():
            continue
        state = _state(path)
        if is_locked(path):
            state = "running"
        elif state != "finished":  # "running" without a lock: its process died
            if _can_go_on(path):
                return path
            state = f"{'died' if state == 'running' else state}, without a checkpoint to go on from"
        seen.append(f"\n  {path.name}: {state}")
    found = "".join(seen[:5]) or "\n  no run at all"
    raise RunFolderError(
        f"{parent}: there is no unfinished run to resume. Found:{found}\nA finished run is trained on by its id and a higher "
        "stop: drl train --resume ID --stop FIELD=N"
    )


def _can_go_on(path):
    try:
        return retention.newest_valid(path, parts=("state",)) is not None
    except CheckpointError:
        return False


def _state(path):
    try:
        return (read_record(path / "status.json") or {}).get("state", "unknown")
    except RunFolderError:
        return "unknown"
