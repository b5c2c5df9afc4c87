"""What anyone may read of a run's folder: where runs are, their records, and whether a living process holds one.

Users: ``experiment`` (which also writes and locks them), ``runs``, ``checks``. A run's folder holds ``params.json``,
``status.json`` and ``best.json``; its lock is ``flock`` on ``.lock``, which the kernel frees when the process dies.
"""

import errno
import fcntl
import os
from pathlib import Path
from typing import Any

from drl_cli import process
from drl_cli.checkpoints.files import parse_json, read_small
from drl_cli.errors import CheckpointError, RunFolderError

MAX_RECORD = 4 * 2**20  # bytes of params.json and its like
NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


def results_folder(given=None):
    """Return the folder of all results as an absolute path: ``given``, else TUNE_RESULT_DIR, else ~/ray_results."""
    return Path(process.results_folder(given))


def read_record(path):
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


def is_params(data: Any) -> bool:
    """Whether ``data`` can be the params.json of a run of this program (other programs write one too)."""
    kinds = {"run": str, "env": str, "config": dict, "stop": (dict, type(None))}
    return isinstance(data, dict) and all(isinstance(data.get(name), kind) for name, kind in kinds.items())


def is_locked(path):
    """Whether a living process holds the run folder."""
    return bool(lock_state(path))


def lock_state(path):
    """Return True when a living process holds the run folder, False when none does, None where locks do not work."""
    try:
        lock = os.open(Path(path) / ".lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError as error:
        return None if error.errno in NO_LOCKS else False
    finally:
        os.close(lock)
    return False
