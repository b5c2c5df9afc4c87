"""What keeps a picture of something that goes on in its place on a terminal, redrawn at most four times a second.

Used for a run (``screen.picture``) and for a search (``search_table.picture``).
"""

import sys
import threading

from rich.live import Live
from rich.spinner import Spinner

from drl_cli.cli import terminal
from drl_cli.process import seconds_since_start

REFRESHES_PER_SECOND = 4


class LiveScreen:
    """Listens to events and keeps the picture of ``view`` on a terminal (a rich Console).

    ``picture(view, seconds, rich_console, spinner, interrupted)`` returns what rich can print; ``clock`` the seconds now.
    """

    def __init__(self, rich_console, view, picture, clock=seconds_since_start):
        self.view = view
        self._console, self._picture, self._clock = rich_console, picture, clock
        self._interrupted = False
        self._lock = threading.Lock()
        self._spinner = Spinner("dots" if terminal.is_unicode(rich_console.file) else "line", style="cyan")
        self._live = Live(
            console=rich_console,
            get_renderable=self._render,
            refresh_per_second=REFRESHES_PER_SECOND,
            vertical_overflow="crop",
            redirect_stdout=terminal.is_terminal(sys.stdout),  # what a library prints goes above the picture
        )
        self._live.start()

    def __call__(self, kind, fields, seconds=None):
        """Take one event of now, or of ``seconds`` on this screen's clock.

        A phase is drawn at once, since what follows may keep the interpreter busy.
        """
        with self._lock:
            self.view.take(kind, fields, self._clock() if seconds is None else seconds)
        if kind in ("phase", "stopping"):
            self._live.refresh()

    def interrupt(self, _number):
        """Say that the first Ctrl-C was seen: the next redraw shows it."""
        self._interrupted = True

    def abandon(self, _number=None):
        """Leave the last picture and give the cursor back before the process ends at once."""
        self._live.stop()
        terminal.write_raw(self._console.file, "\x1b[?25h\n")

    def close(self):
        """Draw the last state and leave it on the terminal."""
        self._live.stop()

    def _render(self):
        with self._lock:
            return self._picture(self.view, self._clock(), self._console, self._spinner, self._interrupted)
