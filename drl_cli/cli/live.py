"""A live picture on a terminal, redrawn in place at most four times a second.

Used for a run (``screen.picture``) and for a search (``search_table.picture``).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleRenderable, RenderableType
from rich.control import Control
from rich.live import Live
from rich.segment import ControlType, Segment, SegmentLines, Segments
from rich.spinner import Spinner

from drl_cli.cli import terminal
from drl_cli.process import seconds_since_start

if TYPE_CHECKING:
    from drl_cli.cli.search_view import SearchView
    from drl_cli.cli.view import RunView

REFRESHES_PER_SECOND = 4


class LiveScreen:
    """Draws ``view`` on a terminal (a rich Console) and redraws it as events arrive.

    ``picture(view, seconds, rich_console, spinner, interrupted)`` returns what rich can print; ``clock`` the seconds now.
    """

    def __init__(
        self,
        rich_console: Console,
        view: RunView | SearchView,
        picture: Callable[..., RenderableType],
        clock: Callable[[], float] = seconds_since_start,
    ) -> None:
        self.view = view
        self._console, self._picture, self._clock = rich_console, picture, clock
        self._interrupted = False
        self._lock = threading.Lock()
        self._spinner = Spinner("dots" if terminal.is_unicode(rich_console.file) else "line", style="cyan")
        self._live = _Resizable(rich_console, self._render)
        self._live.start()

    def __call__(self, kind: str, fields: Mapping[str, Any], seconds: float | None = None) -> None:
        """Take one event of now, or of ``seconds`` on this screen's clock.

        A phase is drawn at once, since what follows may keep the interpreter busy.
        """
        with self._lock:
            self.view.take(kind, fields, self._clock() if seconds is None else seconds)
        if kind in ("phase", "learner", "stopping"):
            self._live.refresh()

    def interrupt(self, _number: int | None) -> None:
        """Acknowledge the first Ctrl-C: the next redraw shows it."""
        self._interrupted = True

    def abandon(self, _number: int | None = None) -> None:
        """Leave the last picture and give the cursor back before the process ends at once."""
        self._live.stop()
        terminal.write_raw(self._console.file, "\x1b[?25h\n")

    def close(self) -> None:
        """Draw the last state and leave it on the terminal."""
        self._live.stop()

    def _render(self) -> RenderableType:
        with self._lock:
            return self._picture(self.view, self._clock(), self._console, self._spinner, self._interrupted)


class _Resizable(Live):
    """rich's Live on a terminal whose size may change between two pictures.

    The size is asked for at each drawing. A terminal that has become narrower has wrapped the lines of the picture before,
    so that it takes more rows than were drawn; all of them are erased. What went above the top row is out of reach until a
    larger terminal shows it again: it is counted, and erased then. For this the picture stands at the bottom: of rows below
    it, terminals disagree whether they make room (VTE) or stay (tmux).
    """

    def __init__(self, rich_console: Console, draw: Callable[[], RenderableType]) -> None:
        """``draw``: returns the picture, for the console's present size."""
        self._draw = draw
        self._coming: list[list[Segment]] = []  # lines of the newest picture
        # Columns of each line of older pictures that is above the top row, and of each line on the terminal.
        self._beyond: list[int] = []
        self._drawn: list[int] = []
        super().__init__(
            console=rich_console,
            get_renderable=self._lines,
            refresh_per_second=REFRESHES_PER_SECOND,
            redirect_stdout=terminal.is_terminal(sys.stdout),  # what a library prints goes above the picture
        )

    def _lines(self) -> SegmentLines:
        """Return the picture cut to the terminal as it is now."""
        columns, rows = terminal.size(self.console.file) or self.console.size
        self.console.size = (max(terminal.MIN_WIDTH, columns), max(1, rows))
        # The top row may hold the end of a line that wrapped: a picture there would be joined to it.
        most = max(1, self.console.height - 1)
        self._coming = [_stripped(line) for line in self.console.render_lines(self._draw(), pad=False)[:most]]
        return SegmentLines(self._coming, new_lines=True)

    def process_renderables(self, renderables: Sequence[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Return what erases the picture, ``renderables``, which stay above it, and the new picture."""
        with self._lock:
            columns, lines = (max(1, one) for one in terminal.size(self.console.file) or self.console.size)
            erased, is_cut = self._erase(columns, lines)
            height = len(self._coming)
            self._drawn = [Segment.get_line_length(line) for line in self._coming]
            if not all(isinstance(one, Control) for one in renderables):  # a refresh is an empty Control
                self._beyond = []
            elif self._beyond:  # all rows are the picture's
                self._drawn = [0] * (lines - height - is_cut) + self._drawn
            room = Segments([Segment("\n" * (height - 1))])
            down = Control((ControlType.CURSOR_DOWN, lines), *((ControlType.CURSOR_UP, height - 1),) * (height > 1))
            return [erased, *renderables, room, down, self._live_render]

    def _erase(self, columns: int, lines: int) -> tuple[Control, bool]:
        """Return what erases the picture on a terminal of this size, and whether a line of it reaches above the top row.

        Such a line goes on in the top row, also when that is blank: a wider terminal joins the two.
        """
        own = [*self._beyond, *self._drawn]
        rows = [max(1, -(-drawn // columns)) for drawn in own]
        left, self._beyond, is_cut = sum(rows), [], False
        erasing = ((ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2)) * (left - 1)
        for drawn, taken in zip(own, rows, strict=True):
            out = left - lines
            if out <= 0:
                break
            is_cut = taken > out
            self._beyond.append(columns * out + 1 if is_cut else drawn)
            left -= taken
        if not own:
            return Control(), False
        return Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2), *erasing), is_cut


def _stripped(line: list[Segment]) -> list[Segment]:
    """Return ``line`` without the blanks at its end: a terminal that becomes narrower would wrap them."""
    while line and not line[-1].text.strip():
        line = line[:-1]
    return [*line[:-1], Segment(line[-1].text.rstrip(), line[-1].style)] if line else line
