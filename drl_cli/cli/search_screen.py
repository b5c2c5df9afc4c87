"""The output of a search while it runs: a live table on a terminal, plain lines elsewhere; both on stderr."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from drl_cli.cli import console, figures, terminal
from drl_cli.cli.search_view import SHOWN_STATE, STOPPING, short
from drl_cli.process import seconds_since_start

if TYPE_CHECKING:
    from drl_cli.cli.live import LiveScreen
    from drl_cli.cli.search_view import SearchView
    from drl_cli.cli.terminal import Session

QUIET_S = 10.0  # between two plain lines that only report progress
COLORS = {"failed": "red", "finished": "green"}


def open_watcher(
    view: SearchView, session: Session, plain: bool = False, quiet: bool = False
) -> LiveScreen | SearchLines:
    """Return a live table when stderr is a terminal to draw on, else plain lines; quiet ones only show failures."""
    stream = terminal.private_stderr()
    if plain or quiet or not console.fits_screen(stream) or terminal.in_ci():
        return SearchLines(stream, view, quiet, terminal.use_color(stream, session))
    from drl_cli.cli.live import LiveScreen
    from drl_cli.cli.search_table import picture

    return LiveScreen(terminal.rich_console(stream, session), view, picture)


class SearchLines:
    """One line for each change of a trial's state, and how far all is every ten seconds."""

    def __init__(
        self,
        stream: terminal.Stream,
        view: SearchView,
        quiet: bool = False,
        color: bool = False,
        clock: Callable[[], float] = seconds_since_start,
    ) -> None:
        self.view = view
        self._stream, self._quiet, self._color, self._clock = stream, quiet, color, clock
        self._states, self._told = {}, clock()
        self._lock = threading.Lock()

    def __call__(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Take one event and write its line, if it has one."""
        seconds = self._clock()
        with self._lock:
            self.view.take(kind, fields, seconds)
            if kind == "trial":
                self._trial(fields, seconds)
            elif kind == "warning":
                self._write(f"Warning: {fields['text']}", seconds, "yellow", urgent=True)
            elif kind in ("phase", "notice"):
                self._write(fields["text"], seconds)

    def interrupt(self, _number: int | None) -> None:
        """Acknowledge the first Ctrl-C. Called in a signal handler."""
        terminal.write_raw(self._stream, f"\n{STOPPING}\n")

    def abandon(self, _number: int | None = None) -> None:
        """Nothing to put back."""

    def close(self) -> None:
        """Nothing was held back."""

    def _trial(self, fields: Mapping[str, Any], seconds: float) -> None:
        number, state = fields["trial"], fields["state"]
        before = self._states.get(number, "pending")
        self._states[number] = state
        if state != before:
            self._write(self._line(number, fields), seconds, COLORS.get(state), urgent=state == "failed")
        elif seconds - self._told > QUIET_S:
            self._write(self.view.counts(), seconds)

    def _line(self, number: int, fields: Mapping[str, Any]) -> str:
        values = ", ".join(f"{name}={short(value)}" for name, value in fields["point"]["values"].items())
        text = f"trial {number} {SHOWN_STATE.get(fields['state'], fields['state'])}"
        result = fields.get("result") or {}
        if fields["state"] == "running":
            again = f" (trial {fields['point']['rescore']} retrained)" if "rescore" in fields["point"] else ""
            return f"{text}{again}{': ' + values if values else ''}"
        score = f"{self.view.data['metric']} {figures.reward(result.get(self.view.data['metric']))}"
        why = f" ({fields['text']})" if fields.get("text") else ""
        return f"{text}: {score} after {figures.count(result.get('timesteps_total'))} steps{why}"

    def _write(self, text: str, seconds: float, color: str | None = None, urgent: bool = False) -> None:
        self._told = seconds
        if self._quiet and not urgent:
            return
        text = click.style(text, fg=color) if color and self._color else text
        self._stream.write(f"{figures.clock(seconds):>7}  {text}\n")
        self._stream.flush()
