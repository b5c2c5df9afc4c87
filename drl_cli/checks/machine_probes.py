"""The resources of this machine: processors, memory, shared memory, files, threads, disks; and what Ray left on it.

Used by ``drl doctor``; ends and removes nothing itself. Each probe returns Findings; the thresholds are what a run with two
workers needs, with a margin. A run's own Ray dies with its run. What is left after a ``kill -9`` has lost its parent, as has a
cluster that was started on purpose with ``ray start``, which is reported as well.
"""

from __future__ import annotations

import os
import platform
import secrets
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from drl_cli.checks import package_versions
from drl_cli.checks.findings import FAIL, NOTE, OK, WARN, Finding
from drl_cli.process import DEFAULTS
from drl_cli.runtime import machine

GB = 2**30
LEAST_MEMORY, GOOD_MEMORY = 1.5 * GB, 3 * GB  # a run with two workers takes 1.2 to 1.8
LEAST_SHARED = 300 * 2**20  # the object store of a run's own Ray is 256 MB
LEAST_DISK, GOOD_DISK = 0.5 * GB, 5 * GB
LEAST_FILES, GOOD_FILES = 1024, 4096  # Ray opens some hundreds for each worker
LEAST_FILE, LEAST_SPACE = 20 * 2**20, 3 * GB  # the weights of a small net; a run with TensorFlow maps 2.3 GB
LEAST_PROCESSES = 1000  # with the threads of Ray's daemons
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def python() -> list[Finding]:
    """The interpreter."""
    window = package_versions.python_window()
    version = platform.python_version()
    text = f"{version} ({sys.executable}), {platform.system()} {platform.machine()}"
    if window and not package_versions.fits(version, window):
        mend = "python3.12 -m venv .venv && .venv/bin/pip install drl-cli"
        return [Finding("Python", FAIL, f"{text}; drl and TensorFlow are for {window}", mend)]
    found = [Finding("Python", OK, text)]
    if platform.system() != "Linux":
        found.append(Finding("system", WARN, f"drl is developed and tested on Linux; this is {platform.system()}"))
    return found


def processors() -> list[Finding]:
    """Cores, and what of them the container may use."""
    cores, quota = machine.cores(), machine.cpu_quota()
    text = f"{cores} core{'s' if cores > 1 else ''}"
    if quota is not None and quota < cores:
        mend = f"drl train … -s num_workers={max(0, round(quota) - 1)}"
        visible = (
            f"{text} are visible, but the container's CPU quota is {quota:g}: more processes than that only share them"
        )
        return [Finding("CPU", WARN, visible, mend)]
    if cores < 2:
        return [
            Finding(
                "CPU",
                NOTE,
                f"{text}: workers would only share the core with the learner",
                "drl train … -s num_workers=0",
            )
        ]
    return [Finding("CPU", OK, text)]


def memory() -> list[Finding]:
    """Memory that is free, within the container's limit."""
    total, free, limit = machine.memory_total(), machine.memory_free(), machine.memory_limit()
    if free is None or total is None:
        return [Finding("memory", NOTE, "cannot be read here")]
    text = f"{_size(free)} free of {_size(total)}{', a limit of the container' if limit == total else ''}"
    if free < LEAST_MEMORY:
        return [
            Finding(
                "memory", FAIL, f"{text}; a run with two workers takes about 1.5 GB", "drl train … -s num_workers=0"
            )
        ]
    if free < GOOD_MEMORY:
        return [
            Finding("memory", WARN, f"{text}; a large replay buffer will not fit: check with drl train … --plan", None)
        ]
    return [Finding("memory", OK, text)]


def shared_memory() -> list[Finding]:
    """/dev/shm, in which Ray keeps what processes hand one another."""
    total, free = machine.shared_memory()
    if total is None or free is None:
        return [
            Finding(
                "/dev/shm", WARN, "is missing: Ray will use files on disk", "mount -t tmpfs -o size=2G tmpfs /dev/shm"
            )
        ]
    text = f"{_size(free)} free of {_size(total)}"
    if free < LEAST_SHARED:
        mend = "docker run --shm-size=2g …"
        return [Finding("/dev/shm", WARN, f"{text}: too small for Ray's object store, which will be on disk", mend)]
    return [Finding("/dev/shm", OK, text)]


def limits() -> list[Finding]:
    """Open files and processes."""
    soft, hard = machine.open_files()
    found = []
    if soft < GOOD_FILES:
        state = FAIL if soft < LEAST_FILES else WARN
        raised = min(65536, hard) if hard > 0 else 65536
        mend = f"ulimit -n {raised}" if raised > soft else "docker run --ulimit nofile=65536 …"
        text = f"{soft:,} per process; Ray opens some hundreds for each worker"
        found.append(Finding("open files", state, text, mend))
    else:
        found.append(Finding("open files", OK, f"{soft:,} per process"))
    most = machine.process_limit()
    if most is not None and most < LEAST_PROCESSES:
        text = f"{most:,} processes and threads; Ray alone starts some hundreds of threads"
        found.append(Finding("processes", WARN, text, "docker run --pids-limit=4096 …"))
    return found


def sizes() -> list[Finding]:
    """Limits of this shell on the size of files and of a process, as ``ulimit`` sets them; [] without any."""
    found = []
    largest, space = machine.file_size_limit(), machine.address_space_limit()
    if largest is not None:
        text = f"{_size(largest)} per file; a checkpoint with a large replay buffer, or a log, may be larger"
        found.append(Finding("file size", FAIL if largest < LEAST_FILE else WARN, text, "ulimit -f unlimited"))
    if space is not None:
        text = f"{_size(space)} of addresses per process; TensorFlow reserves some GB, whether it uses them or not"
        found.append(Finding("address space", FAIL if space < LEAST_SPACE else WARN, text, "ulimit -v unlimited"))
    return found


def threads(environ: Mapping[str, str] = os.environ) -> list[Finding]:
    """Threads of BLAS in every process."""
    odd = {name: environ.get(name) for name in THREADS if environ.get(name) not in (None, DEFAULTS[name])}
    if not odd:
        return [Finding("BLAS", OK, "one thread in each process, set by drl")]
    settings = ", ".join(f"{name}={value}" for name, value in odd.items())
    text = f"{settings}: every worker starts that many threads, which slows down small nets"
    return [Finding("BLAS", WARN, text, f"unset {' '.join(odd)}")]


def results(folder: Path) -> list[Finding]:
    """The folder of results: that it can be written, and that there is room."""
    home = Path(os.path.expanduser("~"))
    found = [_writable("home", home)] if not os.access(home, os.W_OK) else []
    place = Path(folder)
    nearest = next((path for path in (place, *place.parents) if path.exists()), place)
    found.append(_writable("results", nearest, place))
    free = machine.disk_free(place)
    if free is not None and found[-1].state == OK:
        text = f"{place}, {_size(free)} free"
        mend = "drl train … --local-dir /another/disk"
        state = FAIL if free < LEAST_DISK else WARN if free < GOOD_DISK else OK
        found[-1] = Finding("results", state, text, None if state == OK else mend)
    return found


def temporary() -> list[Finding]:
    """The folders of temporary files: the system's, and /tmp, where Ray keeps its sockets and logs."""
    found = []
    for folder in dict.fromkeys(["/tmp", tempfile.gettempdir()]):
        finding, free = _writable("temporary", Path(folder)), machine.disk_free(folder)
        if finding.state == OK and free is not None and free < LEAST_DISK:
            finding = Finding("temporary", FAIL, f"{folder}: {_size(free)} free", f"du -sh {folder}/* | sort -h | tail")
        found.append(finding)
    return found


def _writable(what: str, folder: Path, meant: Path | None = None) -> Finding:
    """Try to make a file in ``folder``."""
    shown = meant or folder
    path = folder / f".drl-doctor-{secrets.token_hex(4)}"
    try:
        path.touch(exist_ok=False)
        path.unlink()
    except OSError as error:
        text = f"{shown} cannot be written ({error.strerror})"
        mend = f"chmod u+w {folder}" if folder.is_dir() else f"mkdir -p {folder}"
        mend = "export TUNE_RESULT_DIR=/another/folder" if what == "results" else mend
        return Finding(what, FAIL, text, mend)
    return Finding(what, OK, f"{shown} can be written")


def _size(count: int) -> str:
    if count >= GB / 2:
        return f"{count / GB:,.1f} GB"
    return f"{count / 2**20:,.0f} MB" if count >= 10 * 2**20 else f"{count / 2**20:,.1f} MB"


DAEMONS = ("raylet", "gcs_server")
MANY_BYTES = 2**30
MOST_FILES = 20_000  # that are counted for the size of old sessions


def processes(proc: Path = Path("/proc"), own: int | None = None) -> Finding:
    """Return a Finding about daemons of Ray of this user."""
    mine = os.getuid() if own is None else own
    orphans, living = [], []
    for folder in proc.iterdir() if proc.is_dir() else ():
        if not folder.name.isdigit():
            continue
        try:
            if folder.stat().st_uid != mine:
                continue
            words = (folder / "cmdline").read_bytes().split(b"\0")
            parent = int((folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue  # it has just ended
        if os.path.basename(words[0].decode("utf-8", "replace")) in DAEMONS:
            (orphans if parent == 1 else living).append(int(folder.name))
    if orphans:
        pids = " ".join(map(str, sorted(orphans)))
        text = f"{len(orphans)} Ray daemons whose program is gone (processes {pids}). A cluster started with "
        text += "ray start looks the same: end them only if you did not start one"
        return Finding("Ray's processes", WARN, text, f"kill {pids}")
    text = f"{len(living)} running, of active runs" if living else "none left over"
    return Finding("Ray's processes", OK, text)


def sessions(tops: Sequence[Path] | None = None) -> Finding:
    """Return a Finding about the folders of Ray's sessions; ``tops``: where they are, by default ours and Ray's own."""
    tops = tops or [Path(f"/tmp/drl-{os.getuid()}"), Path("/tmp/ray")]
    found = []
    for top in tops:
        try:
            found += [path for path in top.iterdir() if path.is_dir() and not path.is_symlink()]
        except OSError:
            continue
    size, is_whole = _total(found)
    where = " and ".join(map(str, tops))
    text = f"{len(found)} sessions in {where}, {'' if is_whole else 'more than '}{size / 2**20:,.0f} MB"
    if size >= MANY_BYTES:
        mend = "rm -r " + " ".join(f"{top}/*" for top in tops if top.is_dir())
        return Finding("Ray's folders", NOTE, f"{text}; they can be removed while no Ray is running", mend)
    return Finding("Ray's folders", OK, text)


def _total(folders: Sequence[Path]) -> tuple[int, bool]:
    """Return (bytes, whether all files were counted)."""
    total = seen = 0
    for folder in folders:
        for path, _, names in os.walk(folder):
            for name in names:
                seen += 1
                if seen > MOST_FILES:
                    return total, False
                try:
                    total += os.lstat(os.path.join(path, name)).st_size
                except OSError:
                    continue
    return total, True
