"""Locked files that this process holds for as long as it lives; children that an environment forks do not hold them with it.

Users: ``runs.run_folder``, ``search.search_record``. A ``flock`` belongs to the open file, which a forked child shares: without
this the folder of a run that has ended would stay locked until the last child has ended too.
"""

from __future__ import annotations

import contextlib
import fcntl
import os

_held: set[int] = set()  # file descriptors


def hold(lock: int) -> int:
    """Keep the open, locked file ``lock`` (a descriptor) out of children that are forked from now on; returns it."""
    _held.add(lock)
    return lock


def free(lock: int) -> None:
    """Unlock and close ``lock``; nothing where this process does not hold it."""
    if lock not in _held:
        return
    _held.remove(lock)
    with contextlib.suppress(OSError):  # a file system without locks
        fcntl.flock(lock, fcntl.LOCK_UN)
    with contextlib.suppress(OSError):  # a network disk reports here what it could not write; the lock is free
        os.close(lock)


def _leave() -> None:
    """Close in a forked child what is held by its parent, which stays locked there."""
    for lock in _held:
        with contextlib.suppress(OSError):
            os.close(lock)
    _held.clear()


os.register_at_fork(after_in_child=_leave)
