"""What is set once for a process: threads, TensorFlow's and Ray's variables, signals, the clock since its start.

``prepare()`` must run before NumPy, TensorFlow or Ray are imported; ``drl_cli.cli.main`` calls it first. Only the
command line owns the process: code that joins an already running Ray calls none of this.
"""

import contextlib
import os
import secrets
import signal
import sys
import time

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


def prepare(environ=os.environ):
    """Set the variables of ``DEFAULTS`` that the user has not set."""
    for name, value in DEFAULTS.items():
        environ.setdefault(name, value)


_before = {}  # what the variables were that a config has set, None: they were not there


def set_environs(given, environ=os.environ):
    """Set the variables ``given`` ({name: text}) of a config, and those of an earlier one back to what they were."""
    for name, value in _before.items():
        if value is None:
            environ.pop(name, None)
        else:
            environ[name] = value
    _before.clear()
    _before.update({name: environ.get(name) for name in given})
    environ.update(given)


RAY_DEFAULTS = {
    # Ray turns 127.0.0.1 into the machine's own address unless it believes that it cannot cluster on this system.
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


# Read once, when TensorFlow is loaded; ``tf1.tensorflow`` sets it to 0 where it is not set by then.
ONEDNN = "TF_ENABLE_ONEDNN_OPTS"


def prepare_tensorflow(intra, inter, num_gpus, log_level="WARN", sees_images=False, environ=os.environ):
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
def muted(greets=None):
    """Send descriptor 2 nowhere while the module ``greets`` loads, which writes there whatever it is told; not if it has.

    TensorFlow's C++ logs what GPUs it misses before it reads any of its variables. Without ``greets``: in any case.
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


def prepare_ray(environ=os.environ):
    """Set the variables for a Ray of our own: loopback, a token for this run; before ``import ray``."""
    for name, value in RAY_DEFAULTS.items():
        environ.setdefault(name, value)
    environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))


def results_folder(given=None, environ=os.environ):
    """Return the folder of all results as an absolute path: ``given``, else TUNE_RESULT_DIR, else ~/ray_results."""
    return os.path.abspath(os.path.expanduser(given or environ.get("TUNE_RESULT_DIR") or "~/ray_results"))


def use_of_machine(before=None):
    """Return (busy share of all CPUs since ``before`` in percent, memory in use in percent, a mark for the next call).

    None for what /proc does not tell, and for the CPUs at the first call.
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


def seconds_since_start():
    """Return the seconds since this process was started by the kernel (imports included); 0.0 where /proc is missing."""
    try:
        with open("/proc/self/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")  # field 22 of proc(5), counted behind the command's name
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started)
    except (OSError, IndexError, ValueError, AttributeError):
        return 0.0


class StopRequest:
    """Turns SIGINT, SIGTERM and SIGHUP into a flag that the training loop polls.

    The first signal only sets ``signal``; the second SIGINT (or any second signal) leaves at once through
    ``on_second`` and ``os._exit(128 + number)``, so that earlier checkpoints stay as they are. Install it after Ray
    has started, since Ray replaces the SIGTERM handler in its ``init``; installing again is harmless.
    """

    HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self, on_first=None, on_second=None):
        """``on_first(number)`` is called once in the handler, ``on_second(number)`` before the hard exit."""
        self.signal = None
        self._on_first = on_first
        self._on_second = on_second
        self._previous = {}

    def __bool__(self):
        return self.signal is not None

    @property
    def exit_code(self):
        """128 + the signal's number, or 0 when none has come."""
        return 128 + self.signal if self.signal else 0

    def install(self):
        """Take over the signals; returns self."""
        for number in self.HANDLED:
            if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue  # nohup: the run shall survive its terminal
            previous = signal.signal(number, self._handle)
            self._previous.setdefault(number, previous)
        return self

    def remove(self):
        """Give the signals back to whoever had them before the first ``install``."""
        for number, previous in self._previous.items():
            signal.signal(number, previous if previous is not None else signal.SIG_DFL)
        self._previous.clear()

    def _handle(self, number, _frame):
        if self.signal is None:
            self.signal = number
            if self._on_first:
                self._on_first(number)
            return
        try:
            if self._on_second:
                self._on_second(number)
        finally:
            sys.stderr.flush()
            os._exit(128 + number)
