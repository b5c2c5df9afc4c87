"""What is set once for a process: threads, TensorFlow's and Ray's variables, signals, the clock since its start.

``prepare()`` must run before NumPy, TensorFlow or Ray are imported; ``drl_cli.cli.main`` calls it first. Only the
command line owns the process: code that joins an already running Ray calls none of this.
"""

import contextlib
import functools
import os
import secrets
import select
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from types import FrameType
from typing import Any, NamedTuple, NoReturn, TypeAlias

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


LastAct: TypeAlias = Callable[[int, bool], int | None]
"""``act(number, is_late)``, called before a process ends; see ``StopRequest.before_exit``."""


class _SignalReader(NamedTuple):
    """The thread that reads signals, the pipe that they are written to, and the descriptor that had them before."""

    thread: threading.Thread
    read_end: int
    write_end: int
    previous_end: int


class StopCondition:
    """What ends a run from outside: true as soon as the run must stop. This one reads no signal, and ends no process.

    ``signal``: number of the signal that came, or None; ``ending``: (state, text) of the run's outcome, set by what ends it
    without a signal.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self.ending: tuple[str, str] | None = None

    def __bool__(self) -> bool:
        return self.signal is not None or self.ending is not None

    @property
    def exit_code(self) -> int:
        """128 + the signal's number, or 0 when none has come."""
        return 128 + self.signal if self.signal else 0

    def install(self) -> "StopCondition":
        """Take over the signals; returns self. In the main thread; installing again is harmless."""
        return self

    def starting(self) -> contextlib.AbstractContextManager[None]:
        """While this is entered nothing can be lost: the first signal ends the process at once."""
        return contextlib.nullcontext()

    def before_exit(self, act: LastAct) -> Callable[[], None]:
        """Have ``act(number, is_late)`` called before an end of this process, the last registered first.

        Returns what undoes this. ``is_late``: the process did not end by itself in time; else the end was asked for. What it
        returns, if anything, is the exit code. Called in a thread of its own while the others go on.
        """
        return lambda: None


class StopRequest(StopCondition):
    """Turns SIGINT, SIGTERM and SIGHUP into a flag that the training loop polls, and ends a process that does not poll it.

    The first signal sets ``signal`` and calls ``on_first(number)``. A process that has not ended ``REST_S`` seconds later is
    ended. A second signal, or the first while nothing can be lost (``starting``), ends it at once. Such an end kills all
    processes below this one and leaves through ``os._exit``, which runs no destructor of a half-started library; before it,
    what ``before_exit`` has registered is called.

    A thread reads the signals from a pipe that the kernel's handler writes to (``signal.set_wakeup_fd``): they arrive
    while the main thread computes outside of Python, and also where another library has replaced the handlers (Ray does, in its
    ``init``).
    """

    HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    REST_S = 3.5  # from the first signal to the end of a process that does not end by itself
    has_come = False  # whether this process has had one of these signals
    LAST_ACTS_S = 1.0  # for all that is registered to be called before such an end

    def __init__(self, on_first: Callable[[int], object] | None = None) -> None:
        """``on_first(number)`` is called once, in a thread of its own."""
        super().__init__()
        self._on_first = on_first
        self._previous: dict[int, Any] = {}
        self._last_acts: list[LastAct] = []
        self._first_at: float | None = None  # when the first signal came (monotonic seconds)
        self._can_lose = True  # whether an end loses something
        self._reader: _SignalReader | None = None

    def install(self) -> "StopRequest":
        """See StopCondition."""
        for number in self.HANDLED:
            if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue  # nohup: the run must survive its terminal
            self._previous.setdefault(number, signal.signal(number, self._handle))
        if self._reader is None:
            read_end, write_end = os.pipe()
            for end in (read_end, write_end):
                os.set_blocking(end, False)
            previous_end = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
            thread = threading.Thread(target=self._watch, args=(read_end,), name="signals", daemon=True)
            self._reader = _SignalReader(thread, read_end, write_end, previous_end)
            thread.start()
        return self

    def remove(self) -> None:
        """Restore the handlers that were there before the first ``install``."""
        for number, previous in self._previous.items():
            signal.signal(number, previous if previous is not None else signal.SIG_DFL)
        self._previous.clear()
        if self._reader is not None:
            signal.set_wakeup_fd(self._reader.previous_end)
            os.write(self._reader.write_end, b"\0")  # no signal has this number: the end
            self._reader.thread.join()
            os.close(self._reader.read_end)
            os.close(self._reader.write_end)
            self._reader = None

    @contextlib.contextmanager
    def starting(self) -> Iterator[None]:
        """See StopCondition."""
        self._can_lose = False
        if self._first_at is not None and self.signal is not None:
            self._end(self.signal)
        try:
            yield
        except SystemExit:  # Ray's handler of SIGTERM raises it: then the thread is about to end the process
            time.sleep(0.2)
            if self._first_at is not None:
                time.sleep(2 * self.LAST_ACTS_S)
            raise
        finally:
            self._can_lose = True

    def before_exit(self, act: LastAct) -> Callable[[], None]:
        """See StopCondition."""
        self._last_acts.append(act)
        return lambda: self._last_acts.remove(act)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self.signal = self.signal or number

    def _watch(self, read_end: int) -> None:
        while True:
            select.select([read_end], [], [], self._left())
            numbers = b""
            with contextlib.suppress(BlockingIOError):
                numbers = os.read(read_end, 64)
            for number in numbers:
                if number == 0:
                    return
                if number in self.HANDLED:
                    self._came(number)
            if self._left() == 0.0 and self.signal is not None:
                self._end(self.signal, is_late=True)

    def _left(self) -> float | None:
        """Seconds until this thread has something to do, None without end."""
        if self._first_at is None:
            return None
        return max(0.0, self.REST_S - (time.monotonic() - self._first_at))

    def _came(self, number: int) -> None:
        if self._first_at is not None:
            self._end(number)
        self._first_at, StopRequest.has_come = time.monotonic(), True
        self.signal = self.signal or number
        if not self._can_lose:
            self._end(number)
        if self._on_first:
            self._on_first(number)

    def _end(self, number: int, is_late: bool = False) -> None:
        code = [128 + number]

        def call() -> None:
            for act in reversed(self._last_acts):
                with contextlib.suppress(Exception):  # the other acts, and the end, come all the same
                    given = act(number, is_late)
                    code[0] = code[0] if given is None else given

        # Whatever holds a lock for ever must not hold up the end.
        thread = threading.Thread(target=call, name="last acts", daemon=True)
        thread.start()
        thread.join(self.LAST_ACTS_S)
        leave(code[0])


def leave(code: int) -> NoReturn:
    """End this process at once with ``code``, and all processes below it; runs no destructor and no ``atexit`` function."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # a reader that is gone
            stream.flush()
    kill_descendants()
    for folder in list(temporary_folders):  # another thread may add one
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(code)


KILL_S = 0.4  # for killed processes to be gone; all three together are less than 5 s


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
