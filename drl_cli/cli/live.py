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
from rich.segment import ControlType, Segment, SegmentLines
from rich.spinner import Spinner
from rich.text import Text

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
    so that it takes more rows than were drawn; all of them are erased.
    """

    def __init__(self, rich_console: Console, draw: Callable[[], RenderableType]) -> None:
        """``draw``: returns the picture, for the console's present size."""
        self._draw = draw
        self._coming: list[list[Segment]] = []  # lines of the newest picture
        self._drawn: list[int] = []  # columns of each line of the picture on the terminal
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
        lines = self.console.render_lines(self._draw(), pad=False)[: self.console.height]
        self._coming = [_stripped(line) for line in lines]
        return SegmentLines(self._coming, new_lines=True)

    def process_renderables(self, renderables: Sequence[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Return what erases the picture, ``renderables``, which stay above it, and the new picture."""
        with self._lock:
            columns, lines = terminal.size(self.console.file) or self.console.size
            rows = sum(max(1, -(-drawn // max(1, columns))) for drawn in self._drawn)
            self._drawn = [Segment.get_line_length(line) for line in self._coming]
            erasing = ((ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2)) * (rows - 1)
            erased = (
                Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2), *erasing) if rows else Control()
            )
            # Of what no longer fits, the rest is in the terminal's history, and its last line may go on in the top row.
            beyond = [Text("")] if rows > lines else []
            return [erased, *beyond, *renderables, self._live_render]


def _stripped(line: list[Segment]) -> list[Segment]:
    """Return ``line`` without the blanks at its end: a terminal that becomes narrower would wrap them."""
    while line and not line[-1].text.strip():
        line = line[:-1]
    return [*line[:-1], Segment(line[-1].text.rstrip(), line[-1].style)] if line else line
