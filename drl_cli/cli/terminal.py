"""The two streams of a command: results on stdout, everything else on stderr; colours, encodings, readers that leave.

Used by every command. Sources: no-color.org, force-color.org, clig.dev.
"""

from __future__ import annotations

import errno
import json
import os
import select
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, cast

import click

from drl_cli.config.plain_data import plain

if TYPE_CHECKING:
    from rich.console import Console

MIN_WIDTH = 20
GONE = (errno.EPIPE, errno.EBADF, errno.ENOSPC, errno.EIO, errno.ENXIO, errno.ESHUTDOWN)


class ReaderGone(Exception):
    """The reader of stdout has closed it: a read-only command has nothing more to do."""


@dataclass
class Session:
    """The settings of one call of ``drl`` that concern its output.

    debug: show tracebacks. color: True or False when asked for, None to decide by the stream. run_folder: the folder
    of the run that is going on, whose ``raw_log`` takes tracebacks, and what libraries write to stderr. stdout_gone:
    stdout has no reader any more. arguments: the words after ``drl``.
    """

    debug: bool = field(default_factory=lambda: os.environ.get("DRL_DEBUG", "") not in ("", "0"))
    color: bool | None = None
    run_folder: str | None = None
    raw_log: str = "drl.log"
    stdout_gone: bool = False
    arguments: list = field(default_factory=list)


def open_standard_streams(session: Session) -> None:
    """Give descriptors 0 to 2 that are closed a harmless target, and let no character of ours fail to encode.

    A closed descriptor would otherwise be handed to the next file that is opened: a checkpoint on descriptor 1.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
            session.stdout_gone = session.stdout_gone or number == 1
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - lives as long as the process
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def stdout_has_no_reader() -> bool:
    """True when stdout is a pipe or socket whose other end is closed, or a device that takes nothing (/dev/full)."""
    try:
        number = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        return False
    poll = select.poll()
    poll.register(number, select.POLLOUT)
    if any(events & (select.POLLERR | select.POLLHUP | select.POLLNVAL) for _, events in poll.poll(0)):
        return True
    try:
        os.write(number, b"")
    except OSError:
        return True
    return False


def forget_stdout(session: Session) -> None:
    """Point stdout at nothing, so that neither a later write nor the flush at exit fails."""
    session.stdout_gone = True
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)
    except (AttributeError, OSError, ValueError):
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - lives as long as the process


class Stdout:
    """Stdout, for results. When its reader leaves, a read-only command ends, one with ``keep_going`` goes on mute."""

    def __init__(self, session: Session, keep_going: bool = False) -> None:
        self._session = session
        self._keep_going = keep_going

    def json_line(self, value: Mapping[str, Any]) -> None:
        """Write ``value`` as one line of strict JSON; see ``line``."""
        self.line(json_line(value))

    def line(self, text: str = "") -> None:
        """Write ``text`` and a line break, and flush. Raises ReaderGone unless ``keep_going``."""
        if not self._session.stdout_gone:
            try:
                sys.stdout.write(text + "\n")
                sys.stdout.flush()
                return
            except OSError as error:
                if error.errno not in GONE:
                    raise
                forget_stdout(self._session)
        if not self._keep_going:
            raise ReaderGone


def json_line(value: Mapping[str, Any]) -> str:
    """Return ``value`` as one line of strict JSON; numbers that are not finite become null."""
    return json.dumps(plain(value), allow_nan=False, separators=(",", ":"), ensure_ascii=True)


def say(text: str, session: Session | None = None, color: str | None = None) -> None:
    """Write a line to stderr; a stderr that cannot be written is ignored."""
    stream = Forgiving(sys.stderr)
    stream.write((click.style(text, fg=color) if color and use_color(stream, session) else text) + "\n")
    stream.flush()


def write_raw(stream: Stream, text: str) -> None:
    """Write ``text`` to the descriptor of ``stream`` in one call: no lock, no buffer, safe in a signal handler."""
    try:
        os.write(stream.fileno(), text.encode("ascii", "replace"))
    except (AttributeError, OSError, ValueError):
        return


class Forgiving:
    """Wraps a stream and goes silent when it breaks: a closed terminal, a full disk."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write ``text`` if that is possible; returns its length."""
        self._guarded(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Flush if that is possible."""
        self._guarded(self._stream.flush)

    def _guarded(self, call: Callable[[], object]) -> None:
        try:
            call()
        except (OSError, ValueError):  # ValueError: the stream was closed
            return


Stream = IO[str] | Forgiving


def private_stderr() -> Forgiving:
    """Return a forgiving text stream on a copy of stderr's descriptor.

    A screen drawn on it survives, and stays clean, when the run turns descriptor 2 over to its log.
    """
    try:
        number = os.dup(sys.stderr.fileno())
    except (AttributeError, OSError, ValueError):
        return Forgiving(sys.stderr)
    stream = open(number, "w", encoding=sys.stderr.encoding or "ascii", errors="replace", buffering=1)  # noqa: SIM115
    return Forgiving(stream)


class Diversion:
    """Descriptor 2 turned over to a log: what TensorFlow, XLA and Ray write there does not disturb the screen."""

    def __init__(self) -> None:
        self._kept = None

    def into(self, path: str) -> None:
        """Append everything written to descriptor 2 to ``path`` from now on; nothing happens when it cannot be opened."""
        if self._kept is not None:
            return
        try:
            log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        except OSError:
            return
        sys.stderr.flush()
        self._kept = os.dup(2)
        os.dup2(log, 2)
        os.close(log)

    def end(self) -> None:
        """Give descriptor 2 back."""
        if self._kept is not None:
            sys.stderr.flush()
            os.dup2(self._kept, 2)
            os.close(self._kept)
            self._kept = None


def is_terminal(stream: Stream) -> bool:
    """True when ``stream`` is a terminal that can be drawn on."""
    try:
        return stream.isatty() and os.environ.get("TERM", "") not in ("dumb", "unknown")
    except (AttributeError, ValueError):
        return False


def in_ci() -> bool:
    """True when the variable CI says that a machine reads along."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def use_color(stream: Stream, session: Session | None = None) -> bool:
    """--no-color, then NO_COLOR, then FORCE_COLOR, then whether ``stream`` is a terminal."""
    if session is not None and session.color is not None:
        return session.color
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "") not in ("", "0"):
        return True
    return is_terminal(stream)


def size(stream: Stream) -> tuple[int, int] | None:
    """Columns and lines of the terminal that ``stream`` writes to, COLUMNS and LINES first; None when it is none."""
    try:
        columns, lines = os.get_terminal_size(stream.fileno())
    except (AttributeError, OSError, ValueError):
        return None
    asked = [os.environ.get(name, "") for name in ("COLUMNS", "LINES")]
    asked = [int(text) if text.isdecimal() else 0 for text in asked]
    return asked[0] or columns, asked[1] or lines


def width() -> int:
    """Columns to write in: COLUMNS, else the terminal's, else 80; never below 20."""
    return max(MIN_WIDTH, shutil.get_terminal_size((80, 24)).columns)


def lines() -> int:
    """Lines to draw in: LINES, else the terminal's, else 24."""
    return shutil.get_terminal_size((80, 24)).lines


def is_unicode(stream: Stream) -> bool:
    """True when ``stream`` can carry block characters."""
    return (getattr(stream, "encoding", None) or "ascii").lower().replace("-", "").startswith("utf")


def plus_minus(stream: Stream) -> str:
    """Return the sign for a standard deviation that ``stream`` can carry."""
    return "±" if is_unicode(stream) else "+/-"


def rich_console(stream: Stream, session: Session | None) -> Console:
    """Return a rich Console on ``stream`` under this session's colours and width."""
    from rich.console import Console

    colored = use_color(stream, session)
    return Console(
        file=cast(IO[str], stream),  # Forgiving has all that rich calls
        width=width(),
        no_color=not colored,
        force_terminal=colored or is_terminal(stream),
        highlight=False,
        markup=False,
        emoji=False,
    )
