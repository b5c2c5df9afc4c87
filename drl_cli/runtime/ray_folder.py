"""The temporary folder of a Ray of our own, and the removal of those whose run was killed. Used by ``runtime.ray_cluster``."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import tempfile
import time

from drl_cli.errors import RunFolderError, full_or

OWNER = "owner"  # file in a temporary folder with the process id of its run
MAKING_S = 60.0  # within which a folder that was made has its owner's file


def private_folder() -> str:
    """Make and return a new folder /tmp/drl-<uid>/<8 hex> that only this user can enter.

    Short, because socket paths end at 107 bytes; below /tmp whatever HOME or TMPDIR are, for the same reason. A
    ``/tmp/drl-<uid>`` of another user, or a link, is not used.
    """
    parent = f"/tmp/drl-{os.getuid()}"
    try:
        os.mkdir(parent, 0o700)
    except FileExistsError:  # whose it is, is looked at next
        pass
    found = os.lstat(parent)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        parent = tempfile.mkdtemp(prefix="drl-", dir="/tmp")
    remove_leftovers(parent)
    path = os.path.join(parent, secrets.token_hex(4))
    try:
        os.mkdir(path, 0o700)
        with open(os.path.join(path, OWNER), "w", encoding="ascii") as file:
            file.write(str(os.getpid()))
    except OSError as error:
        raise full_or(error, RunFolderError)(
            f"Ray's temporary folder {path} cannot be made: {error.strerror}"
        ) from error
    return path


def remove_leftovers(parent: str) -> None:
    """Remove the folders in ``parent`` whose run was killed: those that name an owner that is no longer alive, and older ones
    that name none, in which a daemon wrote something while they were being removed.
    """
    for name in os.listdir(parent):
        path = os.path.join(parent, name)
        try:
            with open(os.path.join(path, OWNER), encoding="ascii") as file:
                os.kill(int(file.read()), 0)
        except ProcessLookupError:
            shutil.rmtree(path, ignore_errors=True)
        except FileNotFoundError:
            with contextlib.suppress(OSError):  # another run has just removed it
                if time.time() - os.stat(path).st_mtime > MAKING_S:
                    shutil.rmtree(path, ignore_errors=True)
        except (OSError, ValueError):
            continue  # not ours to judge
