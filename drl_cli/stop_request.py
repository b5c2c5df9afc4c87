"""What ends a run from outside: signals, as a flag that its loop polls, and the end of a process that does not poll it."""

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NamedTuple, TypeAlias

from drl_cli import process

WAKE = b"\xff"  # to the thread that reads signals; none has this number
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

    def starting(self) -> contextlib.AbstractContextManager[None]:
        """While this is entered nothing can be lost: the first signal ends the process at once."""
        return contextlib.nullcontext()

    def before_exit(self, act: LastAct) -> Callable[[], None]:
        """Have ``act(number, is_late)`` called before an end of this process, the last registered first.

        Returns what undoes this. ``is_late``: the process did not end by itself in time; else the end was asked for. What it
        returns, if anything, is the exit code. Called in a thread of its own while the others go on.
        """
        return lambda: None

    def closing(self, say: Callable[[], object]) -> Callable[[], None]:
        """Begin to close what a run that is over and saved had open; returns what is called when all of it is closed.

        A process in which that takes too long is ended, after ``say()``.
        """
        return lambda: None

    def end_stuck(self) -> None:
        """End this process, whose run cannot go on and does not return; this condition, which ends none, only returns."""


class StopRequest(StopCondition):
    """Turns SIGINT, SIGTERM and SIGHUP into a flag that the training loop polls, and ends a process that does not poll it.

    The first signal sets ``signal`` and calls ``on_first(number)``. A process that has not ended ``REST_S`` seconds later is
    ended. A second signal, or the first while nothing can be lost (``starting``), ends it at once. Such an end kills all
    processes below this one and leaves through ``os._exit``, which runs no destructor of a half-started library; before it,
    what ``before_exit`` has registered is called.

    A thread reads the signals from a pipe that the kernel's handler writes to (``signal.set_wakeup_fd``): they arrive
    while the main thread computes outside of Python, and also while another library has replaced the handlers (Ray does, in its
    ``init``; see ``process.signal_handlers_kept``).
    """

    REST_S = 3.5  # from the first signal to the end of a process that does not end by itself
    CLOSE_S = 30.0  # for all that is open when a run is over, such as an environment that hangs in close
    has_come = False  # whether this process has had one of these signals
    LAST_ACTS_S = 1.0  # for all that is registered to be called before such an end
    STUCK_S = 20.0  # the same where nobody waits for the end

    def __init__(self, on_first: Callable[[int], object] | None = None) -> None:
        """``on_first(number)`` is called once, in a thread of its own."""
        super().__init__()
        self._on_first = on_first
        self._previous: dict[int, Any] = {}
        self._last_acts: list[LastAct] = []
        self._first_at: float | None = None  # when the first signal came (monotonic seconds)
        self._can_lose = True  # whether an end loses something
        self._close_by: float | None = None  # when what is being closed must be (monotonic seconds)
        self._say_late: Callable[[], object] = lambda: None
        self._reader: _SignalReader | None = None

    def install(self) -> "StopRequest":
        """Take over the signals; returns self. Called once, in the main thread."""
        for number in process.ENDING:
            if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue  # nohup: the run must survive its terminal
            self._previous[number] = signal.signal(number, self._handle)
        read_end, write_end = os.pipe()
        for end in (read_end, write_end):
            os.set_blocking(end, False)
        previous_end = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        thread = threading.Thread(target=self._watch, args=(read_end,), name="signals", daemon=True)
        self._reader = _SignalReader(thread, read_end, write_end, previous_end)
        thread.start()
        return self

    def remove(self) -> None:
        """Restore the handlers that were there before ``install``."""
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

    def closing(self, say: Callable[[], object]) -> Callable[[], None]:
        """See StopCondition; the thread that reads signals does it: without memory a new one may never start."""
        self._close_by, self._say_late = time.monotonic() + self.CLOSE_S, say
        if self._reader is not None:
            os.write(self._reader.write_end, WAKE)

        def closed() -> None:
            self._close_by = None

        return closed

    def end_stuck(self) -> None:
        """See StopCondition."""
        self._end(0, is_late=True, patience=self.STUCK_S)

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
                if number in process.ENDING:
                    self._came(number)
            now, close_by = time.monotonic(), self._close_by  # which the other thread takes back
            if self._first_at is not None and now >= self._first_at + self.REST_S and self.signal is not None:
                self._end(self.signal, is_late=True)
            if close_by is not None and now >= close_by:
                self._say_late()
                self._end(0, is_late=True)

    def _left(self) -> float | None:
        """Seconds until this thread has something to do, None without end."""
        signalled = None if self._first_at is None else self._first_at + self.REST_S
        until = [moment for moment in (signalled, self._close_by) if moment is not None]
        return max(0.0, min(until) - time.monotonic()) if until else None

    def _came(self, number: int) -> None:
        if self._first_at is not None:
            self._end(number)
        self._first_at, StopRequest.has_come = time.monotonic(), True
        self.signal = self.signal or number
        if not self._can_lose:
            self._end(number)
        if self._on_first:
            self._on_first(number)

    def _end(self, number: int, is_late: bool = False, patience: float | None = None) -> None:
        code = [128 + number]

        def call() -> None:
            for act in reversed(self._last_acts):
                with contextlib.suppress(Exception):  # the other acts, and the end, come all the same
                    given = act(number, is_late)
                    code[0] = code[0] if given is None else given

        # Whatever holds a lock for ever must not hold up the end.
        thread = threading.Thread(target=call, name="last acts", daemon=True)
        thread.start()
        thread.join(self.LAST_ACTS_S if patience is None else patience)
        process.leave(code[0])
