"""Finds a call of an environment that does not return, where the environment runs in the process of the run.

User: ``experiments.run``. A thread looks once a second at the stack of the thread that trains, so that a step costs nothing
more. An environment that keeps the interpreter's lock, such as a loop in C that does not release it, stops this thread too, and
cannot be found from inside the process.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NamedTuple

import gymnasium

from drl_cli.envs.multi_agent.multi_agent_env import MultiAgentEnv

LOOK_S = 1.0
METHODS = frozenset({"__init__", "reset", "step", "render", "close"})
DEBUGGERS = frozenset({"bdb", "pdb"})  # modules: a call that is being debugged may take any time


class EnvCall(NamedTuple):
    """A running call of an environment, from its outermost wrapper on.

    ``outermost``: the frame of its method; ``text``: the innermost method and the lines that it and the innermost function are
    in, such as "MyEnv.reset (my_env.py:12, in threading.py:327)".
    """

    outermost: FrameType
    text: str


class EnvCallWatch:
    """Calls ``on_hang(text)`` once, when one call of an environment has taken longer than ``limit_s``."""

    def __init__(
        self, limit_s: float | None, on_hang: Callable[[str], object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Watches the thread that makes it. ``limit_s`` None: nothing is watched; ``clock``: seconds."""
        self._limit_s, self._on_hang, self._clock = limit_s, on_hang, clock
        self._thread_id = threading.get_ident()
        self._seen: tuple[FrameType, float] | None = None  # the running call, and when it was first seen
        self._over = threading.Event()

    def start(self) -> Callable[[], None]:
        """Begin to watch; returns the function that ends it."""
        if self._limit_s is not None:
            threading.Thread(target=self._look, name="environment calls", daemon=True).start()
        return self._over.set

    def _look(self) -> None:
        while not self._over.wait(LOOK_S):
            if self.check():
                return

    def check(self) -> bool:
        """Look once; returns whether ``on_hang`` was called."""
        call, now = running_call(sys._current_frames().get(self._thread_id)), self._clock()
        if call is None or self._limit_s is None:
            self._seen = None
        elif self._seen is None or self._seen[0] is not call.outermost:
            self._seen = (call.outermost, now)
        elif now - self._seen[1] >= self._limit_s:
            self._over.set()
            self._on_hang(
                f"{call.text} has not returned for {now - self._seen[1]:.0f} s. If it is only slow, raise env_timeout_s "
                "(seconds; null: no limit)."
            )
            return True
        return False


def running_call(innermost: FrameType | None) -> EnvCall | None:
    """Return the call of an environment that runs in a stack, or None. None too while it is being debugged."""
    frames = list(_outwards(innermost))
    if any(frame.f_globals.get("__name__") in DEBUGGERS for frame in frames):
        return None
    methods = [frame for frame in frames if frame.f_code.co_name in METHODS and _is_env(_owner(frame))]
    if not methods:
        return None
    where = _line(methods[0]) + ("" if methods[0] is frames[0] else f", in {_line(frames[0])}")
    return EnvCall(methods[-1], f"{type(_owner(methods[0])).__name__}.{methods[0].f_code.co_name} ({where})")


def _line(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _is_env(owner: object) -> bool:
    return isinstance(owner, gymnasium.Env | MultiAgentEnv)


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _owner(frame: FrameType) -> object:
    """The object whose method ``frame`` runs, None for a function without arguments."""
    names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
    return frame.f_locals.get(names[0]) if names else None
