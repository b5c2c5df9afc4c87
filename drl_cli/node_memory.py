"""Files in a node's memory that its processes share: a private folder, and locks that tell whether a file is in use.

The kernel releases the lock of a process that dies. Users: ``evolution.noise_table``, ``actors.node_weights``.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator


def private_folder(name: str) -> str:
    """Create and return a folder that only this user can access, for all processes of the node.

    It is in /dev/shm if that is writable, else in the temporary folder. Raises PermissionError if another user can access it.
    """
    path = os.path.join(parent(), f"drl-{name}-{os.getuid()}")
    with contextlib.suppress(FileExistsError):  # another process of this user was first
        os.mkdir(path, 0o700)
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(errno.EPERM, "is not a folder of this user alone", path)
    return path


def parent() -> str:
    """Return the folder in a node's memory in which others are made, the temporary folder where there is none."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()


@contextlib.contextmanager
def locked(folder: str) -> Iterator[None]:
    """Hold the exclusive lock of ``folder``, under which files in it are made and removed."""
    with open(os.path.join(folder, "lock"), "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def remove_unused(path: str) -> None:
    """Remove the file at ``path`` unless a process has it locked."""
    with contextlib.suppress(OSError), open(path, "rb") as file:  # another process uses it or has removed it
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)
