"""What a run of the Python door says goes to ``logging``, as the lines of drl.log; nothing is printed unless that is asked for.

User: ``api.trainer``. The logger is "drl_cli": a program that configures ``logging`` sees it there.
"""

import logging
import sys

from drl_cli import events
from drl_cli.runs.journal import log_line

LOGGER = logging.getLogger("drl_cli")
LOGGER.addHandler(logging.NullHandler())  # or Python would print warnings of its own accord


class Passing:
    """Passes events on to the logger while it is started; with ``verbose`` its lines are printed on stderr too."""

    def __init__(self, verbose):
        self._handler = logging.StreamHandler(sys.stderr) if verbose else None
        self._unsubscribe = self._level = None

    def start(self):
        """Begin, unless it has begun."""
        if self._unsubscribe is not None:
            return
        self._unsubscribe = events.subscribe(self._hear)
        if self._handler:
            self._handler.setFormatter(logging.Formatter("%(message)s"))
            self._level = LOGGER.level
            LOGGER.addHandler(self._handler)
            LOGGER.setLevel(min(logging.INFO, LOGGER.getEffectiveLevel()))

    def stop(self):
        """End."""
        if self._unsubscribe is None:
            return
        self._unsubscribe()
        self._unsubscribe = None
        if self._handler:
            LOGGER.removeHandler(self._handler)
            LOGGER.setLevel(self._level)

    def _hear(self, kind, fields):
        if kind != "progress":
            level, text, _ = log_line(kind, fields)
            LOGGER.log(level, "%s", text)
