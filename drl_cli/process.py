"""What is set once for a process: threads, TensorFlow's and Ray's variables, the clock since its start; how it ends.

``prepare()`` must run before NumPy, TensorFlow or Ray are imported; ``drl_cli.cli.main`` calls it first. Only the
command line owns the process: code that joins an already running Ray calls none of this.
"""

import contextlib
import functools
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, MutableMapping
from typing import NoReturn, TypeAlias

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # the signals by which a user or the system ends a command
PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
GPU_DEVICES = ("/dev/dri/renderD128", "/dev/nvidia0")

DEFAULTS = {
    # One thread for each small matrix product: a handshake of two threads costs more than the product itself.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    # XLA takes its pool's size from here: with two threads it used 1.6 cores for 0.7 times the updates of one.
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    "SDL_AUDIODRIVER": "dummy",
    "PYGAME_HIDE_SUPPORT_PROMPT": "1",
}

Environ: TypeAlias = MutableMapping[str, str]
Mark: TypeAlias = tuple[int, int]
"""CPU time of the machine so far, all of it and the idle part of it, in clock ticks."""


def prepare(environ: Environ = os.environ) -> None:
    """Set the variables of ``DEFAULTS`` that the user has not set, and how MuJoCo draws where there is no display."""
    for name, value in DEFAULTS.items():
        environ.setdefault(name, value)
    if sys.platform.startswith("linux") and not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")):
        # Its own choice is GLFW, which needs a display. EGL draws on a GPU, OSMesa on the CPU.
        environ.setdefault("MUJOCO_GL", "egl" if any(map(os.path.exists, GPU_DEVICES)) else "osmesa")


temporary_folders: list[str] = []  # removed by ``leave``, which skips all other cleaning up
busy_threads: list[str] = []  # that still run at the end: no destructor must run under them, see ``leave``
_before: dict[str, str | None] = {}  # values that a config has replaced, None where there was none


def set_environs(given: Mapping[str, str], environ: Environ = os.environ) -> None:
    """Set the variables ``given`` of a config, after restoring those that an earlier config has set."""
    for name, value in _before.items():
        if value is None:
            environ.pop(name, None)
        else:
            environ[name] = value
    _before.clear()
    _before.update({name: environ.get(name) for name in given})
    environ.update(given)


RAY_DEFAULTS = {
    # Ray turns 127.0.0.1 into the machine's own address unless it takes this system for one that cannot cluster.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_worker_niceness": "0",  # 15 by default: with both cores busy a call then takes 22 ms instead of 1
    "RAY_prestart_worker_first_driver": "0",
    "RAY_event_stats": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_task_events_report_interval_ms": "0",
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_AUTH_MODE": "token",
}

TF_LOG_LEVELS = {"DEBUG": "0", "INFO": "0", "WARN": "2", "ERROR": "3"}  # the least severe that TensorFlow still prints

ONEDNN = "TF_ENABLE_ONEDNN_OPTS"  # read when TensorFlow is loaded; ``tf1.tensorflow`` sets it to 0 where it is not set


def prepare_tensorflow(
    intra: int,
    inter: int,
    num_gpus: float,
    log_level: str = "WARN",
    sees_images: bool = False,
    environ: Environ = os.environ,
) -> None:
    """Set thread counts, the visibility of GPUs and the log level for a TensorFlow that is about to be loaded here.

    ``sees_images``: the nets see images, which oneDNN runs seven times as fast as TensorFlow's own kernels: PPO's first batch
    of Pong, 160 minibatches of 128, took one core 7.7 s instead of 55.4.
    """
    environ["TF_CPP_MIN_LOG_LEVEL"] = TF_LOG_LEVELS[log_level]
    environ["TF_NUM_INTRAOP_THREADS"], environ["TF_NUM_INTEROP_THREADS"] = str(intra), str(inter)
    if num_gpus == 0:
        environ["CUDA_VISIBLE_DEVICES"] = "-1"
    if sees_images:
        environ.setdefault(ONEDNN, "1")


@contextlib.contextmanager
def muted(greets: str | None = None) -> Iterator[None]:
    """Discard what is written to descriptor 2 while the module ``greets`` loads; does nothing if it is loaded already.

    TensorFlow's C++ logs which GPUs it misses before it reads any of its variables. Without ``greets``: in any case.
    """
    if greets in sys.modules:
        yield
        return
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def prepare_ray() -> None:
    """Set the variables for a Ray of our own: loopback, a token for this run; before ``import ray``."""
    for name, value in RAY_DEFAULTS.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))


@contextlib.contextmanager
def signal_handlers_kept() -> Iterator[None]:
    """Restore the handlers of ``ENDING`` afterwards, also where only the kernel's differ; a thread but the main one may not.

    ``ray.init`` replaces that of SIGTERM, then its C++ core replaces it for the kernel. The latter prints a stack trace, which
    waits for libraries that are being loaded, and aborts the process after 3 s. Source: Abseil's failure signal handler, and
    Ray's pull request 64830.
    """
    is_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in ENDING} if is_main else {}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # one that C code had set before
                signal.signal(number, handler)


def results_folder(given: str | None = None, environ: Mapping[str, str] = os.environ) -> str:
    """Return the folder of all results as an absolute path: ``given``, else TUNE_RESULT_DIR, else ~/ray_results."""
    return os.path.abspath(os.path.expanduser(given or environ.get("TUNE_RESULT_DIR") or "~/ray_results"))


def use_of_machine(before: Mark | None = None) -> tuple[float | None, float | None, Mark | None]:
    """Return (busy share of all CPUs since ``before`` in percent, memory in use in percent, a mark for the next call).

    None for what /proc does not say, and for the CPUs at the first call.
    """
    try:
        with open("/proc/stat", encoding="ascii") as file:
            ticks = [int(word) for word in file.readline().split()[1:9]]
        with open("/proc/meminfo", encoding="ascii") as file:
            memory = {line.split(":")[0]: int(line.split()[1]) for line in file if line[:3] == "Mem"}
    except (OSError, ValueError, IndexError):
        return None, None, None
    mark = (sum(ticks), ticks[3] + ticks[4])  # all, idle and waiting for disks
    used = 100.0 * (1.0 - memory["MemAvailable"] / memory["MemTotal"])
    if before is None or mark[0] <= before[0]:
        return None, used, mark
    return 100.0 * (1.0 - (mark[1] - before[1]) / (mark[0] - before[0])), used, mark


def seconds_since_start() -> float:
    """Return the seconds since this process was started by the kernel (imports included); 0.0 where /proc is missing."""
    try:
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - _started(os.getpid()))
    except (OSError, IndexError, ValueError, AttributeError):
        return 0.0


@functools.lru_cache(maxsize=1)
def _started(pid: int) -> float:
    """Return the seconds from the machine's start to that of process ``pid``; read once, since files may run out later."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        field = file.read().rpartition(")")[2].split()[19]  # 22 of proc(5), counted after the command's name
    return int(field) / os.sysconf("SC_CLK_TCK")


def leave(code: int) -> NoReturn:
    """End this process at once with ``code``, and all processes below it; runs no destructor and no ``atexit`` function.

    Waits for nothing after the first kill, and so keeps the interpreter lock: a main thread that is starting Ray would hold it
    for 30 s, while Ray's core looks for a daemon that is gone.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # a reader that is gone
            stream.flush()
    for pid in descendants():
        with contextlib.suppress(OSError):  # it has just ended
            os.kill(pid, signal.SIGKILL)
    if temporary_folders:
        with contextlib.suppress(OSError):  # without it the next run removes them
            os.posix_spawnp("rm", ["rm", "-rf", *temporary_folders], os.environ)
    os._exit(code)


@contextlib.contextmanager
def removed_by_leave(folder: str) -> Iterator[None]:
    """Have ``leave`` remove ``folder`` while this is entered."""
    temporary_folders.append(folder)
    try:
        yield
    finally:
        temporary_folders.remove(folder)


KILL_S = 0.4  # for killed processes to be gone


def kill_descendants(seconds: float = KILL_S) -> None:
    """Kill all processes below this one, those too whose parents die of it; wait up to ``seconds`` for their end."""
    import ctypes  # commands that are light do without

    with contextlib.suppress(Exception):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # orphans become children of this process
    until = time.monotonic() + seconds
    while (found := descendants()) and time.monotonic() < until:
        for pid in found:
            with contextlib.suppress(OSError):  # it has just ended
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def stat_of(pid: int) -> tuple[str, int] | None:
    """Return (name, parent's id) of a process, None where it has ended, maybe as a zombie, or /proc is missing."""
    with contextlib.suppress(OSError, IndexError), open(f"/proc/{pid}/stat", "rb") as file:
        before, _, after = file.read().rpartition(b")")
        if (state := after.split())[0] not in (b"Z", b"X"):
            return before.partition(b"(")[2].decode(errors="replace"), int(state[1])
    return None


def descendants(root: int | None = None) -> list[int]:
    """Return the ids of the living processes below ``root`` (None: this one); [] where /proc is missing."""
    children: dict[int, list[int]] = {}
    for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()] if os.path.isdir("/proc") else ():
        if stat := stat_of(pid):
            children.setdefault(stat[1], []).append(pid)
    found, waiting = [], [root or os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found
