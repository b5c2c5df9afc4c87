"""What a process may use of this machine: processors, memory, shared memory, disk, open files, as Linux reports it.

A container's limits (cgroups, version 1 and 2) count where they are tighter than the machine's. Used before a run, by
``runtime.footprint`` and by ``checks``. Standard library only; what cannot be read is None.

Sources: cgroup-v2.rst and cgroup-v1/memory.rst of the kernel's documentation, proc(5).
"""

from __future__ import annotations

import os
import resource
import shutil
import socket
import time
from collections.abc import Collection
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
UNLIMITED = 2**60  # cgroup v1 writes a number near 2**63 where there is no limit


def cores() -> int:
    """Return the processors that this process may run on."""
    return len(os.sched_getaffinity(0))


def cpu_quota(root: Path = CGROUPS, own: Path | str = "/proc/self/cgroup") -> float | None:
    """Return the processors' worth of time that the container is given, None without a limit."""
    found = []
    for folder in _folders("cpu", root, own):
        words = (_read(folder / "cpu.max") or "").split()
        if len(words) == 2 and words[0] != "max":
            found.append(int(words[0]) / int(words[1]))
        quota, period = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
        if quota and period and quota > 0:
            found.append(quota / period)
    return min(found, default=None)


def memory_limit(root: Path = CGROUPS, own: Path | str = "/proc/self/cgroup") -> int | None:
    """Return the bytes that the container may use, None without a limit."""
    return min((limit for limit, _ in _memory_limits(root, own)), default=None)


def memory_total(root: Path = CGROUPS, own: Path | str = "/proc/self/cgroup") -> int | None:
    """Return the bytes of memory that can be used at all: the machine's, or the container's limit."""
    known = [size for size in (_meminfo("MemTotal"), memory_limit(root, own)) if size is not None]
    return min(known, default=None)


def memory_free(root: Path = CGROUPS, own: Path | str = "/proc/self/cgroup") -> int | None:
    """Return the bytes that could be used now without swapping: what is available, within the container's limits."""
    known = [max(0, limit - used) for limit, used in _memory_limits(root, own)]
    available = _meminfo("MemAvailable")
    return min([*known, *([] if available is None else [available])], default=None)


def process_limit(root: Path = CGROUPS, own: Path | str = "/proc/self/cgroup") -> int | None:
    """Return the processes and threads that the container or the user may have, None without a limit."""
    found = [limit for folder in _folders("pids", root, own) if (limit := _number(folder / "pids.max")) is not None]
    soft = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    return min([*found, *([] if soft == resource.RLIM_INFINITY else [soft])], default=None)


def open_files() -> tuple[int, int]:
    """Return (soft, hard): the files that a process may have open, and how far it may raise that."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)


def file_size_limit() -> int | None:
    """Return the bytes that a file may have which this process writes, None without a limit."""
    soft = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def address_space_limit() -> int | None:
    """Return the bytes of addresses that this process may have, used or only reserved, None without a limit."""
    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def shared_memory(path: str = "/dev/shm") -> tuple[int | None, int | None]:
    """Return (bytes of the shared memory's file system, bytes free), or (None, None) where there is none."""
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return None, None
    return usage.total, usage.free


def disk_free(path: Path | str) -> int | None:
    """Return the bytes free on the disk that ``path``, or its nearest parent that exists, is on; None if unknown."""
    path = Path(path).absolute()
    while not path.exists() and path != path.parent:
        path = path.parent
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return None


def _memory_limits(root: Path, own: Path | str) -> list[tuple[int, int]]:
    """Return [(limit, bytes in use that cannot be given back)] of the groups that have a limit."""
    found = []
    for folder in _folders("memory", root, own):
        for limit_name, used_name in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            limit = _number(folder / limit_name)
            if limit is not None and limit < UNLIMITED:
                cache = _stat(folder / "memory.stat", ("inactive_file", "total_inactive_file"))
                found.append((limit, max(0, (_number(folder / used_name) or 0) - cache)))
    return found


def _folders(controller: str, root: Path, own: Path | str) -> list[Path]:
    """Return the folders of this process's control groups for ``controller``, parents included, of either version."""
    found = []
    for line in (_read(Path(own)) or "").splitlines():
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if names and controller not in names.split(","):
            continue
        top = root / names if names else root
        if names and not top.is_dir():
            top = root / controller
        parts = [part for part in path.split("/") if part and part != ".."]
        found += [top.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1)]
    return [folder for folder in dict.fromkeys(found) if folder.is_dir()]


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return None


def _number(path: Path) -> int | None:
    text = (_read(path) or "").strip()
    return int(text) if text.lstrip("-").isdigit() else None


def _stat(path: Path, names: Collection[str]) -> int:
    """Return the largest of the entries ``names`` of a file of lines ``name number``, 0 where there is none."""
    entries = (line.split() for line in (_read(path) or "").splitlines())
    return max((int(words[1]) for words in entries if len(words) == 2 and words[0] in names), default=0)


def _meminfo(name: str) -> int | None:
    for line in (_read(Path("/proc/meminfo")) or "").splitlines():
        if line.startswith(name + ":"):
            return 1024 * int(line.split()[1])
    return None


def identity(is_local: bool) -> dict:
    """Return date, process and host, as they stand in a result; ``is_local``: no other machine takes part."""
    host = socket.gethostname()
    return {
        "date": time.strftime("%Y-%m-%d_%H-%M-%S"),
        "timestamp": int(time.time()),
        "pid": os.getpid(),
        "hostname": host,
        "node_ip": "127.0.0.1" if is_local else host,
    }
