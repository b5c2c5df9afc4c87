"""Where parts live and how they are called: the verbs spawn, call, wait, kill, close, without Ray.

``InlineCluster`` holds every part in this process. Calls run at once, those to a part in a thread of its own (the learner:
TensorFlow leaves the interpreter free while it computes) run beside the caller; ``wait`` returns references in the
order in which they were made, never by timing, so that a run is repeatable bit for bit. ``runtime.ray_cluster`` has the
same verbs over Ray actors.
"""

from __future__ import annotations

import concurrent.futures
import os
import threading
import traceback
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from drl_cli import process
from drl_cli.contracts import Call
from drl_cli.errors import DrlError, ResourcesExhausted, RunFailed, machine_failure
from drl_cli.extras import load

HERE, THREAD, ACTOR = "here", "thread", "actor"  # where a part is placed
CLOSE_S, HURRIED_S = 10.0, 0.2  # for the running call of a part in a thread, when all is closed


class PartLost(RunFailed):
    """The process of a part has died. Workers and testers are replaced; without any other part the run cannot go on."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name} was lost: {text}")


class PartFailed(DrlError):
    """A part raised something that no user could cause: a bug, with the part's traceback in ``detail``."""

    detail = ""


class PartExhausted(PartFailed, ResourcesExhausted):
    """The machine of a part ran out of something, or its disk fails: as a failure of a part, with the exit code of that."""


class Reference:
    """The outcome of a call, now or later."""

    watched = False  # whether a cluster wakes when it is done

    def __init__(self, future: Future) -> None:
        self.future = future

    def done(self) -> bool:
        """Whether ``result`` would return at once."""
        return self.future.done()

    def result(self, timeout: float | None = None) -> Any:
        """Return the value, or raise what the call raised."""
        return self.future.result(timeout)


def finished(value: Any = None) -> Reference:
    """Return a reference that is done with ``value``."""
    future = Future()
    future.set_result(value)
    return Reference(future)


def resolved(args: Iterable[Any]) -> list[Any]:
    """Replace references among ``args`` by their values."""
    return [arg.result() if hasattr(arg, "result") else arg for arg in args]


def _split(reference: Reference, count: int) -> Any:
    """Turn one reference to a tuple into ``count`` references to its members."""
    if count == 1:
        return reference
    parts = [Future() for _ in range(count)]

    def hand_out(future: Future) -> None:
        error = future.exception()
        for index, part in enumerate(parts):
            if error is not None:
                part.set_exception(error)
            else:
                part.set_result(future.result()[index])

    reference.future.add_done_callback(hand_out)
    return tuple(Reference(part) for part in parts)


class LocalHandle:
    """A part in this process whose calls run at once, in the caller's thread."""

    is_remote = False

    def __init__(self, name: str, factory: Any, args: Sequence[Any]) -> None:
        self.name = name
        try:
            self.part: Any = _made(factory, args)
        except Exception as error:
            raise shown(name, error) from error

    def call(self, method: str, *args: Any, returns: int = 1) -> Any:
        """Call ``method``; returns one reference, or a tuple of ``returns`` of them for a method that returns so many."""
        future = Future()
        try:
            future.set_result(getattr(self.part, method)(*resolved(args)))
        except Exception as error:  # raised where the result is taken
            future.set_exception(shown(self.name, error))
        return _split(Reference(future), returns)

    def ready(self) -> Reference:
        """Return a reference to the process id: the part has been made."""
        return finished(os.getpid())

    def close(self) -> None:
        """Close the part, if it can be closed."""
        _close(self.part)


class ThreadHandle:
    """A part in a thread of its own: calls run there one after the other. It is also constructed there."""

    is_remote = False

    def __init__(self, name: str, factory: Any, args: Sequence[Any]) -> None:
        self.name = name
        self.part: Any = None
        self._queue = []
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, args=(factory, args), name=name, daemon=True)
        self._thread.start()

    def call(self, method: str, *args: Any, returns: int = 1) -> Any:
        """As ``LocalHandle.call``; arguments that are references are resolved in the part's thread."""
        future = Future()
        with self._changed:
            self._queue.append((future, method, args))
            self._changed.notify()
        return _split(Reference(future), returns)

    def ready(self) -> Reference:
        """Return a reference to the process id: the part is made in the thread, and calls to it wait for that."""
        return finished(os.getpid())

    def close(self, patience: float = CLOSE_S) -> None:
        """Let the running call end, drop the others. One that takes long goes on until the process ends, see ``process``."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(timeout=patience)
        if self._thread.is_alive():
            process.busy_threads.append(self.name)
        else:
            _close(self.part)

    def _serve(self, factory: Any, args: Sequence[Any]) -> None:
        failure = None
        try:
            self.part = _made(factory, args)
        except (
            BaseException
        ) as error:  # every call reports it: a thread that ended (SystemExit) would leave callers waiting
            failure = shown(self.name, error)
        while True:
            with self._changed:
                while not self._queue and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
                future, method, arguments = self._queue.pop(0)
            try:
                if failure is not None:
                    raise failure
                future.set_result(getattr(self.part, method)(*resolved(arguments)))
            except BaseException as error:  # raised where the result is taken
                future.set_exception(shown(self.name, error))


class InlineCluster:
    """Every part in this process; no Ray."""

    is_remote = False
    is_patient = False  # whether workers that find no place are waited for without end

    def __init__(self) -> None:
        self._handles = []
        self.is_hurried = False  # when it is closed: the run is to end now
        self.check = lambda: None  # called again and again while something is waited for or computed here; may raise

    def spawn(
        self, name: str, factory: Any, args: tuple, place: str, resources: Mapping[str, Any] | None = None
    ) -> LocalHandle | ThreadHandle:
        """Make the part ``factory`` ("module:Class") with ``args``; returns its handle. Actors are placed here."""
        kind = ThreadHandle if place == THREAD else LocalHandle
        handle = kind(name, factory, args)
        if place != THREAD and hasattr(handle.part, "check"):
            handle.part.check = lambda: self.check()
        self._handles.append(handle)
        return handle

    def wait(self, references: Sequence[Call], timeout: float | None = None) -> list[Call]:
        """Wait for the first of ``references`` (in their order) and return it in a list, [] after ``timeout`` seconds."""
        self.check()
        if not references:
            return []
        try:
            references[0].result(timeout)
        except concurrent.futures.TimeoutError:  # in Python 3.10 not yet the built-in one
            if not references[0].done():
                return []
        except Exception:  # raised again where the result is taken
            return [references[0]]
        return [references[0]]

    def resources(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        """Return ({}, {}): nothing is counted in one process."""
        return {}, {}

    def nodes(self) -> list[Mapping[str, float]]:
        """Return []: there are none beside this process."""
        return []

    def kill(self, handle: Any) -> None:
        """End a part."""
        handle.close()
        if handle in self._handles:
            self._handles.remove(handle)

    def close(self) -> None:
        """End all parts."""
        for handle in reversed(self._handles):
            close(handle, self.is_hurried)
        self._handles.clear()


def close(handle: LocalHandle | ThreadHandle, is_hurried: bool) -> None:
    """Close a part of this process; a call that runs in a thread of its own is not waited for where it ``is_hurried``."""
    if is_hurried and isinstance(handle, ThreadHandle):
        handle.close(HURRIED_S)
    else:
        handle.close()


def _made(factory: Any, args: Sequence[Any]) -> Any:
    made: Any = load(factory)
    return made(*args)


def _close(part: Any) -> None:
    if hasattr(part, "close"):
        part.close()


def shown(name: str, error: BaseException) -> DrlError:
    """Turn what a part raised into an error that carries the part's name and its traceback."""
    if isinstance(error, DrlError):
        return error
    reason = machine_failure(error)
    failed = PartFailed(f"{name} failed: {type(error).__name__}: {error}") if reason is None else None
    failed = failed or PartExhausted(f"{name}: {reason}")
    failed.detail = "".join(traceback.format_exception(error))
    return failed
