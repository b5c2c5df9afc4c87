"""Disks, clocks and limits that go wrong in the middle of a run, for tests and ``benchmarks/disks.py``.

Two parts. A shared library for LD_PRELOAD, compiled from ``SHIM`` on use, lets system calls on paths below one folder fail or
wait, and moves the wall clock, while the file ``switch`` exists. And this module itself, imported into a run by ``--import``,
begins and ends the trouble at given iterations (what a run reports is heard inside of it, so that nothing depends on time), and
appends each checkpoint that the run reports to a list outside of the troubled folder.
"""

import contextlib
import errno
import json
import os
import resource
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import process_family

from drl_cli import events

T = TypeVar("T")

SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int is_on(void) {
    static const char *path;
    if (!path && !(path = getenv("TROUBLE_SWITCH"))) return 0;
    int kept = errno, on = access(path, F_OK) == 0;
    errno = kept;
    return on;
}

static int is_below(const char *path) {
    const char *folder = getenv("TROUBLE_FOLDER");
    const char *name = getenv("TROUBLE_NAME");
    return folder && path && strncmp(path, folder, strlen(folder)) == 0 && (!name || strstr(path, name));
}

/* Waits, and returns whether a call named `call` on `path` is to fail; errno is set then. */
static int strikes(const char *call, const char *path) {
    static long seen;
    const char *calls = getenv("TROUBLE_CALLS"), *code = getenv("TROUBLE_ERRNO");
    const char *after = getenv("TROUBLE_AFTER"), *wait = getenv("TROUBLE_WAIT_MS");
    if (!calls || !strstr(calls, call) || !is_below(path) || !is_on()) return 0;
    if (seen++ < (after ? atol(after) : 0)) return 0;
    if (wait) usleep(1000L * atol(wait));
    if (!code) return 0;
    errno = atoi(code);
    return 1;
}

static int strikes_fd(const char *call, int fd) {
    char link[64], path[4096];
    int kept = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    errno = kept;
    if (size < 0) return 0;
    path[size] = 0;
    return strikes(call, path);
}

ssize_t write(int fd, const void *data, size_t n) { return strikes_fd("write", fd) ? -1 : REAL(write)(fd, data, n); }
ssize_t writev(int fd, const struct iovec *v, int n) { return strikes_fd("write", fd) ? -1 : REAL(writev)(fd, v, n); }
ssize_t pwrite(int fd, const void *d, size_t n, off_t at) { return strikes_fd("write", fd) ? -1 : REAL(pwrite)(fd, d, n, at); }
ssize_t pwrite64(int fd, const void *d, size_t n, off64_t at) {
    return strikes_fd("write", fd) ? -1 : REAL(pwrite64)(fd, d, n, at);
}
int fsync(int fd) { return strikes_fd("fsync", fd) ? -1 : REAL(fsync)(fd); }
int fdatasync(int fd) { return strikes_fd("fsync", fd) ? -1 : REAL(fdatasync)(fd); }
int ftruncate(int fd, off_t n) { return strikes_fd("truncate", fd) ? -1 : REAL(ftruncate)(fd, n); }
int ftruncate64(int fd, off64_t n) { return strikes_fd("truncate", fd) ? -1 : REAL(ftruncate64)(fd, n); }
int mkdir(const char *path, mode_t mode) { return strikes("mkdir", path) ? -1 : REAL(mkdir)(path, mode); }
int rename(const char *a, const char *b) { return strikes("rename", b) ? -1 : REAL(rename)(a, b); }
int unlink(const char *path) { return strikes("unlink", path) ? -1 : REAL(unlink)(path); }
int rmdir(const char *path) { return strikes("unlink", path) ? -1 : REAL(rmdir)(path); }

static int writes(int flags) { return (flags & O_ACCMODE) != O_RDONLY; }

#define OPEN(name)                                                              \
    int name(const char *path, int flags, ...) {                                \
        va_list rest; va_start(rest, flags);                                    \
        mode_t mode = va_arg(rest, mode_t); va_end(rest);                       \
        if ((flags & O_CREAT) && strikes("create", path)) return -1;            \
        if (writes(flags) && strikes("open", path)) return -1;                  \
        return REAL(name)(path, flags, mode);                                   \
    }
OPEN(open)
OPEN(open64)

static time_t jump(void) { const char *s = getenv("TROUBLE_JUMP_S"); return s && is_on() ? (time_t)atoll(s) : 0; }

int clock_gettime(clockid_t id, struct timespec *now) {
    int code = REAL(clock_gettime)(id, now);
    if (code == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) now->tv_sec += jump();
    return code;
}
int gettimeofday(struct timeval *now, void *zone) {
    int code = REAL(gettimeofday)(now, zone);
    if (code == 0) now->tv_sec += jump();
    return code;
}
time_t time(time_t *kept) {
    time_t now = REAL(time)(NULL) + jump();
    if (kept) *kept = now;
    return now;
}
"""
SETTING = "TROUBLED_MACHINE"  # the variable that holds the settings of the part inside a run
ALL_WRITES = "create,open,write,fsync,truncate,mkdir,rename,unlink"


def has_compiler() -> bool:
    """Whether there is a C compiler to make the library with."""
    return shutil.which("cc") is not None


def compiled(folder: Path) -> Path:
    """Return the library, compiled into ``folder``. Raises subprocess.CalledProcessError."""
    source, library = folder / "troubled_machine.c", folder / "troubled_machine.so"
    source.write_text(SHIM)
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-w", "-o", library, source, "-ldl"], check=True)
    return library


def calls_below(folder: Path, switch: Path, library: Path, calls: str, **more: str | int) -> dict[str, str]:
    """Return the variables that trouble ``calls`` (words of ``ALL_WRITES``) on paths below ``folder`` while ``switch`` exists.

    ``more``: errno, name (a part of the paths that are meant), after (calls that still work), wait_ms (before each).
    """
    variables = {"LD_PRELOAD": library, "TROUBLE_FOLDER": folder, "TROUBLE_SWITCH": switch, "TROUBLE_CALLS": calls}
    variables |= {f"TROUBLE_{name.upper()}": value for name, value in more.items()}
    return {name: str(value) for name, value in variables.items()}


def clock_jump(switch: Path, library: Path, seconds: int) -> dict[str, str]:
    """Return the variables that move the wall clock by ``seconds`` while ``switch`` exists."""
    return {"LD_PRELOAD": str(library), "TROUBLE_SWITCH": str(switch), "TROUBLE_JUMP_S": str(seconds)}


def inside(saved: Path, begin: int | None = None, end: int | None = None, **what: Path | int) -> dict[str, str]:
    """Return the variables for the part inside a run: trouble at the result of iteration ``begin``, over at that of ``end``.

    ``saved``: the list of checkpoints that the run has reported. ``what``: switch (the file to make), fill (a folder whose disk
    is filled), names (a folder whose disk gets files until it takes no more), signal (a number, sent to the run after
    that), worker (a number, sent to the process of one of Ray's workers), files (how many more the process may open), memory
    (the smallest block of it, in bytes, of which there are no more), size (bytes that a file may have).
    """
    settings = {"saved": str(saved), "begin": begin, "end": end, **{name: str(path) for name, path in what.items()}}
    return {SETTING: json.dumps(settings), "PYTHONPATH": os.path.dirname(os.path.abspath(__file__))}


class _Trouble:
    """Hears what a run reports."""

    def __init__(self, settings: dict) -> None:
        self._settings = settings
        self._made: list[str] = []
        self._taken: list[bytearray] = []

    def hear(self, kind: str, fields: dict) -> None:
        """Note a checkpoint; begin or end the trouble."""
        settings = self._settings
        if kind == "checkpoint":
            with open(settings["saved"], "a", encoding="utf-8") as file:
                file.write(os.path.basename(fields["path"]) + "\n")
        if kind != "result":
            return
        number = fields["result"]["training_iteration"]
        if number == settings["begin"]:
            self._begin()
        if number == settings["end"]:
            self._end()

    def _begin(self) -> None:
        settings = self._settings
        if "switch" in settings:
            Path(settings["switch"]).touch()
        if "fill" in settings:
            self._fill(os.path.join(settings["fill"], ".filler"))
        if "names" in settings:
            self._take_names(settings["names"])
        if "files" in settings:
            lowest = os.open(os.devnull, os.O_RDONLY)  # the limit is one of numbers, and the lowest free one is given
            os.close(lowest)
            _limit(resource.RLIMIT_NOFILE, lowest + int(settings["files"]))
        if "memory" in settings:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            _limit(resource.RLIMIT_AS, pages * resource.getpagesize())
            self._take_memory(int(settings["memory"]))
        if "size" in settings:
            _limit(resource.RLIMIT_FSIZE, int(settings["size"]))
        if "worker" in settings:
            os.kill(_worker_of_ray(), int(settings["worker"]))
        if "signal" in settings:
            os.kill(os.getpid(), int(settings["signal"]))

    def _take_memory(self, least: int) -> None:
        """Take what the process has and does not use, as long as there is a block of ``least`` bytes."""
        size = 2**26
        while size >= least:
            try:
                self._taken.append(bytearray(size))
            except MemoryError:
                size //= 2

    def _fill(self, path: str) -> None:
        self._made.append(path)
        with open(path, "wb", buffering=0) as file, contextlib.suppress(OSError):
            for size in (2**16, 2**12, 1):
                with contextlib.suppress(OSError):
                    while file.write(b"x" * size):
                        pass

    def _take_names(self, folder: str) -> None:
        for number in range(10**6):
            path = os.path.join(folder, f".name-{number}")
            try:
                open(path, "x").close()
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                return
            self._made.append(path)

    def _end(self) -> None:
        if "switch" in self._settings:
            Path(self._settings["switch"]).unlink()
        for name in LIMITS:
            _limit(name, resource.getrlimit(name)[1])
        self._taken.clear()
        for path in self._made:
            os.unlink(path)


LIMITS = (resource.RLIMIT_NOFILE, resource.RLIMIT_AS, resource.RLIMIT_FSIZE)


def _worker_of_ray() -> int:
    """Return the process of a rollout worker, which Ray starts as a descendant of the run."""
    named = process_family.asked(process_family.children(), lambda process: process.cmdline())
    return next(process.pid for process, words in named if words and words[0].startswith("ray::Worker"))


def _limit(name: int, value: int) -> None:
    resource.setrlimit(name, (value, resource.getrlimit(name)[1]))


def heard_inside(env: dict[str, str], call: Callable[[], T]) -> T:
    """Return ``call()``, a run in this process, with the trouble of ``env`` (of ``inside``) and without that of the library."""
    unsubscribe = events.subscribe(_Trouble(json.loads(env[SETTING])).hear)
    try:
        return call()
    finally:
        unsubscribe()


if SETTING in os.environ:
    events.subscribe(_Trouble(json.loads(os.environ[SETTING])).hear)
