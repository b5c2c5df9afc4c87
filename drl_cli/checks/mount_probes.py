"""What kind of disk a folder is on, and whether it keeps what checkpoints and locks need of it. User: ``drl doctor``.

A checkpoint is whole after a power cut because of fsync and rename, and a run folder has one owner because of flock; Ray keeps
sockets below the temporary folder. Disks of other machines and layers of containers promise less. Read from
/proc/self/mountinfo, see proc(5) and, for each kind, nfs(5), mount.cifs(8), fuse(8), the kernel's overlayfs.rst and 9p.rst.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from drl_cli.checks.findings import FAIL, NOTE, OK, WARN, Finding

# As runs.run_folder.NO_LOCKS and checkpoints.files.NO_FOLDER_SYNC have them, which import NumPy: it may be what is broken.
NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)

MOUNTS = Path("/proc/self/mountinfo")
FOLDER_SYNC = "fsync of a folder"
LEAST_INODES, GOOD_INODES = (
    1_000,
    50_000,
)  # a checkpoint is a folder of five to ten files, a session of Ray some hundred
NFS_OPTIONS = ("nolock", "local_lock=all", "local_lock=flock")  # that keep locks on this machine
SHARED = {
    "nfs": "NFS: a run folder's lock may not be seen by other machines, and a server that hangs halts the run",
    "cifs": "CIFS (Windows share): locks and renames depend on the server; a server that hangs halts the run",
    "9p": "9p (a folder of the host of a virtual machine): locks are not shared with the host, fsync depends on its cache mode",
    "virtiofs": "virtiofs (a folder of the host of a virtual machine): locks are not shared with the host by default",
    "fuse": "FUSE: whether fsync, rename and locks work depends on the program that serves it",
    "ceph": "Ceph: a cluster that hangs halts the run",
    "lustre": "Lustre: locks need the mount option flock",
}
NAMES = {"nfs4": "nfs", "smb3": "cifs", "smbfs": "cifs", "drvfs": "9p"}  # other spellings in mountinfo
VANISHING = {
    "tmpfs": "in memory: what is there is lost at the next start, and counts as memory in use",
    "ramfs": "in memory: what is there is lost at the next start, and counts as memory in use",
    "overlay": "a container's own layer (overlay): what is there is lost with the container unless the folder is a volume",
    "aufs": "a container's own layer (aufs): what is there is lost with the container unless the folder is a volume",
}


class Mount(NamedTuple):
    """``point``: where it is mounted; ``kind``: the file system's name; ``source``; ``options``: of the mount and the disk."""

    point: str
    kind: str
    source: str
    options: tuple[str, ...]


def parsed(text: str) -> list[Mount]:
    """Return the mounts of a mountinfo ``text``, in its order; lines that are not of the form of proc(5) are left out."""
    found = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        first, last = before.split(" "), after.split(" ")
        if len(first) >= 6 and len(last) >= 3:
            options = (*first[5].split(","), *last[2].split(","))
            found.append(Mount(_unescaped(first[4]), last[0], _unescaped(last[1]), options))
    return found


def _unescaped(word: str) -> str:
    """Return a path of mountinfo, in which spaces and the like stand as three octal digits."""
    for code in ("\\040", "\\011", "\\012", "\\134"):
        word = word.replace(code, chr(int(code[1:], 8)))
    return word


def mount_of(folder: Path, mounts: Sequence[Mount]) -> Mount | None:
    """Return the mount that ``folder``, an absolute path without links, is on; of several on one point the last one."""
    path, best = str(folder), None
    for one in mounts:
        inside = path == one.point or path.startswith(one.point.rstrip("/") + "/")
        if inside and (best is None or len(one.point) >= len(best.point)):
            best = one
    return best


def disks(results: Path, mounts_file: Path = MOUNTS) -> list[Finding]:
    """Return Findings about the disks of the results and of temporary files: their kind, inodes, locks and fsync."""
    try:
        mounts = parsed(mounts_file.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        mounts = []  # another system than Linux: the kind of a disk is not known, the rest can be tried
    found = []
    for what, folder in (("results", results), ("temporary", Path(tempfile.gettempdir()))):
        there = _nearest(folder)
        found += [*kind(what, there, mounts, folder), *inodes(what, there)]
    return [*found, *works("results", _nearest(results))]


def _nearest(folder: Path) -> Path:
    path = Path(os.path.realpath(folder))
    return next((one for one in (path, *path.parents) if one.exists()), path)


def kind(what: str, folder: Path, mounts: Sequence[Mount], shown: Path | None = None) -> list[Finding]:
    """Return a Finding about the kind of disk of ``folder``, [] where it is not known; ``shown``: the folder to name."""
    mount = mount_of(folder, mounts)
    if mount is None:
        return []
    title, name = f"{what} disk", _name(mount.kind)
    text = f"{shown or folder} is on {mount.kind} ({mount.point})"
    elsewhere = "drl train … --local-dir /a/local/disk" if what == "results" else "export TMPDIR=/a/local/disk"
    if name in SHARED:
        lost = [option for option in mount.options if option in NFS_OPTIONS]
        more = f"; mounted with {', '.join(lost)}, two machines can write one run folder" if lost else ""
        return [Finding(title, WARN, f"{text}. {SHARED[name]}{more}", elsewhere)]
    if name in VANISHING and what == "results":
        return [Finding(title, NOTE, f"{text}. {VANISHING[name]}", elsewhere)]
    return [Finding(title, OK, text)]


def _name(kind: str) -> str:
    return "fuse" if kind.startswith("fuse") and kind != "fuseblk" else NAMES.get(kind, kind)


def inodes(what: str, folder: Path) -> list[Finding]:
    """Return a Finding where the disk of ``folder`` has room for few more files; some disks have no such limit."""
    try:
        state = os.statvfs(folder)
    except OSError:
        return []
    if not state.f_files:  # btrfs, ZFS through FUSE: inodes are made as they are needed
        return []
    free = state.f_favail
    text = f"{folder} has room for {free:,} more files (inodes)"
    if free >= GOOD_INODES:
        return [Finding(f"{what} inodes", OK, text)]
    mend = f"du --inodes -x {folder} | sort -n | tail"
    return [Finding(f"{what} inodes", FAIL if free < LEAST_INODES else WARN, text, mend)]


def works(what: str, folder: Path) -> list[Finding]:
    """Try what checkpoints and locks need in ``folder``: fsync of a file and a folder, a rename over a file, flock.

    [] where nothing can be written at all, which another probe reports.
    """
    base = folder / f".drl-doctor-{secrets.token_hex(4)}"
    first, second = base.with_suffix(".a"), base.with_suffix(".b")
    try:
        second.touch()
    except OSError:
        return []
    step = "open"
    try:
        fd = os.open(first, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            step = "flock"
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            step = "fsync"
            os.write(fd, b"x")
            os.fsync(fd)
        finally:
            os.close(fd)
        step = "rename"
        os.replace(first, second)
        step = FOLDER_SYNC
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        return [_refused(what, folder, step, error)]
    finally:
        for path in (first, second):
            path.unlink(missing_ok=True)
    return [Finding(f"{what} locks", OK, "fsync, rename and locks work")]


def _refused(what: str, folder: Path, step: str, error: OSError) -> Finding:
    text = f"{step} does not work in {folder} ({error.strerror})"
    if step == "flock" and error.errno in NO_LOCKS:
        return Finding(f"{what} locks", WARN, f"{text}: two runs could write one folder", "mount it with locks")
    mend = "drl train … --local-dir /a/local/disk"
    if step == FOLDER_SYNC and error.errno in NO_FOLDER_SYNC:
        return Finding(f"{what} locks", WARN, f"{text}: a power cut may take the newest checkpoint", mend)
    return Finding(f"{what} locks", FAIL, f"{text}: checkpoints cannot be saved there", mend)
