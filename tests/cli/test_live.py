"""The live screen on a terminal that is resized while a run goes on."""

import codecs
import fcntl
import os
import pty
import struct
import termios
import threading

import emulated
import pytest
import watched

from drl_cli.cli import live, screen, terminal
from drl_cli.cli.live import LiveScreen
from drl_cli.cli.view import RunView

HEAD = "SAC · LunarLanderContinuous-v3"
ABOVE = ["$ drl train --run SAC", "what stood here before"]

SCARRED = [  # a terminal that becomes too small for its picture, and larger again: one line of it, or many, stood above
    ((160, 24), (70, 24), (160, 24), (160, 50)),
    ((70, 24), (160, 50), (70, 24), (160, 50)),
    ((160, 50), (160, 24), (70, 50), (160, 50)),
    ((120, 24), (71, 24), (160, 25), (160, 26), (160, 40)),
]


class Window:
    """A pty, the terminal that reads it, and the live screen that writes to it."""

    def __init__(self, columns, lines, *kind):
        self.reader, self.writer = pty.openpty()
        self.terminal = emulated.Emulator(columns, lines, *kind)
        self._lock, self._marks = threading.Condition(), 0
        self.resize(columns, lines)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        self.stream = open(self.writer, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115 - see end
        self.stream.write("\n".join([*ABOVE, ""]))
        view = RunView("SAC", "LunarLanderContinuous-v3", checkpoint_freq=10)
        for at, kind, fields in watched.SCRIPT:
            view.take(kind, fields, at)
        self.console = terminal.rich_console(self.stream, None)
        self.live = LiveScreen(self.console, view, screen.picture, lambda: 52.0)

    def resize(self, columns, lines):
        with self._lock:
            fcntl.ioctl(self.writer, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
            self.terminal.resize(columns, lines)

    def draw(self):
        self.live("phase", {"text": "evaluating"})
        self.wait()

    def wait(self):
        """Until what was written has been read."""
        self._marks += 1
        self.stream.write(emulated.MARK)
        self.stream.flush()
        with self._lock:
            assert self._lock.wait_for(lambda: self.terminal.marks >= self._marks, timeout=20)

    def _read(self):
        decoder = codecs.getincrementaldecoder("utf-8")()
        while True:
            try:
                data = os.read(self.reader, 1 << 16)
            except OSError:  # the other end was closed
                return
            with self._lock:
                self.terminal.feed(decoder.decode(data).replace("\r\n", "\n"))
                self._lock.notify_all()

    def end(self):
        self.live.close()
        self.wait()
        self.stream.close()
        os.close(self.writer)
        self._thread.join(timeout=5)
        os.close(self.reader)


@pytest.fixture
def open_window(monkeypatch):
    for name in ("COLUMNS", "LINES", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(
        live, "REFRESHES_PER_SECOND", 0.001
    )  # only when asked to, so that none meets a resizing half-way
    opened = []

    def made(*size):
        opened.append(Window(*size))
        return opened[-1]

    yield made
    for window in opened:
        window.end()


def count(lines):
    return sum(line.startswith(HEAD) for line in lines)


@pytest.mark.parametrize("reflows", [True, False])
def test_resizing_leaves_one_picture_of_the_new_width_and_no_scar(open_window, reflows):
    window = open_window(100, 45, reflows)
    window.draw()
    for columns in (70, 120, 200, 71, 160, 80, 200, 70, 99):
        window.resize(columns, 45)
        window.draw()
        shown = window.terminal.shown()
        assert count(shown) == 1
        head = next(line for line in shown if line.startswith(HEAD))
        assert len(head) == min(columns, screen.WIDEST) - 1 and head.endswith("0:52")


def test_resizing_leaves_what_stands_above_the_picture_and_none_of_it_in_the_history(open_window):
    window = open_window(100, 45, True)
    window.draw()
    for columns in (70, 120, 80, 99):
        window.resize(columns, 45)
        window.draw()
        everything = window.terminal.scrolled() + window.terminal.shown()
        assert everything[:2] == ABOVE and count(everything) == 1


def test_a_large_window_is_used_and_narrowed_to_70_columns_loses_no_line_of_the_picture(open_window):
    window = open_window(160, 50, True, True)
    window.draw()
    shown = window.terminal.shown()
    assert 34 <= len(shown) - next(at for at, line in enumerate(shown) if line.startswith(HEAD)) < 50
    window.resize(70, 50)
    window.draw()
    assert count(window.terminal.shown()) == 1 and count(window.terminal.scrolled()) == 0


@pytest.mark.parametrize("keeps_blank", [False, True])
@pytest.mark.parametrize("sizes", SCARRED, ids=lambda sizes: " ".join(f"{one[0]}x{one[1]}" for one in sizes))
def test_what_no_longer_fitted_is_erased_when_a_larger_terminal_shows_it_again(open_window, sizes, keeps_blank):
    window = open_window(*sizes[0], True, keeps_blank)
    window.draw()
    for size in sizes[1:]:
        window.resize(*size)
        window.draw()
        shown = [line for line in window.terminal.shown() if line and line not in ABOVE]
        assert count(shown) == 1 and shown[0].startswith(HEAD)


def test_a_screen_that_becomes_lower_than_its_picture_shows_one_that_fits(open_window):
    window = open_window(100, 40, True)
    window.draw()
    window.resize(62, 16)
    window.draw()
    assert count(window.terminal.shown()) == 1 and len(window.terminal.shown()) <= 16


def test_a_window_of_ten_columns_ends_nothing(open_window):
    window = open_window(100, 40, True)
    for columns, lines in ((10, 5), (1, 1), (100, 40)):
        window.resize(columns, lines)
        window.draw()
    assert count(window.terminal.shown()) == 1


def test_what_a_program_prints_stays_above_the_picture(open_window):
    window = open_window(100, 40, True)
    window.draw()
    window.console.print("printed by the environment")
    window.draw()
    shown = window.terminal.shown()
    assert "printed by the environment" in shown and count(shown) == 1
