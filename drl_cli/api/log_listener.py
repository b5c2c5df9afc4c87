"""The events of a run of the Python API go to ``logging``, as the lines of drl.log; printed only with ``verbose``.

User: ``api.trainer``. The logger is "drl_cli".
"""

import logging
import sys
from collections.abc import Callable, Mapping
from typing import Any

from drl_cli import events
from drl_cli.runs.journal import log_line

LOGGER = logging.getLogger("drl_cli")
LOGGER.addHandler(logging.NullHandler())  # or Python would print warnings on stderr


class LogForwarder:
    """Forwards events to the logger while it is started; with ``verbose`` its lines are printed on stderr too."""

    def __init__(self, verbose: bool) -> None:
        self._handler = logging.StreamHandler(sys.stderr) if verbose else None
        self._unsubscribe: Callable[[], None] | None = None
        self._level = logging.NOTSET  # of the logger before

    def start(self) -> None:
        """Begin to forward, unless it has begun."""
        if self._unsubscribe is not None:
            return
        self._unsubscribe = events.subscribe(self._hear)
        if self._handler:
            self._handler.setFormatter(logging.Formatter("%(message)s"))
            self._level = LOGGER.level
            LOGGER.addHandler(self._handler)
            LOGGER.setLevel(min(logging.INFO, LOGGER.getEffectiveLevel()))

    def stop(self) -> None:
        """Stop forwarding."""
        if self._unsubscribe is None:
            return
        self._unsubscribe()
        self._unsubscribe = None
        if self._handler:
            LOGGER.removeHandler(self._handler)
            LOGGER.setLevel(self._level)

    def _hear(self, kind: str, fields: Mapping[str, Any]) -> None:
        if kind != "progress":
            level, text, _ = log_line(kind, fields)
            LOGGER.log(level, "%s", text)
