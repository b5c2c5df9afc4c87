"""One run that a Python program steps: opened, trained an iteration at a time, and ended; one at a time in a process.

User: ``api.trainer``. The run is that of ``experiments.run``, which ``drl train`` drives. Its events go to the logger
"drl_cli", as the lines of drl.log, and are printed only with ``verbose``.
"""

import enum
import logging
import sys
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from drl_cli import events
from drl_cli.errors import InputError, ResourcesExhausted
from drl_cli.experiments.run import Moment, Outcome, Result, Steps, stepwise
from drl_cli.experiments.spec import ExperimentSpec
from drl_cli.runs.journal import log_line
from drl_cli.runtime.driver import Driver
from drl_cli.stop_request import StopCondition

LOGGER = logging.getLogger("drl_cli")
LOGGER.addHandler(logging.NullHandler())  # or Python would print warnings on stderr
# The session whose run is open: events, and a Ray of our own, belong to the process.
_open_session: "weakref.ReferenceType[RunSession] | None" = None


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


class SessionState(enum.Enum):
    """How far a run is. ``RunSession.begin`` opens it; ``RunSession.end``, a stop rule or an error closes it."""

    NOT_BEGUN = "not begun"
    OPEN = "open"
    OVER = "over"


class RunSession:
    """One run of an ExperimentSpec. ``state``: a SessionState; ``outcome``: how it ended, where it ended in order."""

    def __init__(self, spec: ExperimentSpec, log: LogForwarder) -> None:
        """``log`` forwards events to ``logging`` while the run is open."""
        self._spec, self._log = spec, log
        self._stop = StopCondition()
        self._steps: Steps | None = None
        self._moment: Moment | None = None
        self.state = SessionState.NOT_BEGUN
        self.outcome: Outcome | None = None

    @property
    def is_open(self) -> bool:
        """Whether the run has begun and is not over."""
        return self.state is SessionState.OPEN

    @property
    def moment(self) -> Moment | None:
        """The run between its last two iterations, None before the first."""
        return self._moment

    @property
    def driver(self) -> Driver:
        """The driver of an open run. Raises InputError where none is open."""
        if self._moment is None:
            raise InputError("The run is not open.")
        return self._moment.driver

    @property
    def run_folder(self) -> Path | None:
        """The folder of the run, None before it has begun."""
        if self.outcome is not None:
            return self.outcome.run_folder
        return self._moment.run_folder if self._moment else None

    @property
    def iteration(self) -> int:
        """Iterations trained so far, those before a restored checkpoint included; 0 before the run has begun."""
        return self._moment.driver.iteration if self._moment else 0

    def begin(self) -> None:
        """Open the run and start its parts. Raises InputError when it is over, or another one of this process is open."""
        if self.outcome is not None:
            raise InputError(
                f"This run has ended ({self.outcome.text.splitlines()[0]}). restore(CHECKPOINT) continues from there "
                f"in a new run; its folder is {self.outcome.run_folder}."
            )
        other = _open_session() if _open_session else None
        if other is not None:
            raise InputError(
                f"Another Trainer of this process is training ({other.run_folder}). A process runs one at a time: call its "
                "stop() first."
            )
        self._log.start()
        self._stop = StopCondition()
        _set_open(self)
        self._steps, self.state = stepwise(self._spec, self._stop, at_start=True), SessionState.OPEN
        self._advance()

    def step(self) -> Result:
        """Train one iteration of an open run and return its result. Raises what ends the run."""
        return self._advance().result or {}

    def _advance(self) -> Moment:
        """Go to the next Moment; where the run ends instead, raise why."""
        reached = self._next()
        if isinstance(reached, Moment):
            return reached
        raise reached.error if reached.error is not None else KeyboardInterrupt

    def _next(self) -> Moment | Outcome:
        """Go on to the next Moment, or to the run's end, which closes it."""
        if self._steps is None:
            raise InputError("The run is not open.")
        try:
            self._moment = next(self._steps)
        except StopIteration as end:
            self._close(end.value)
            return end.value
        except BaseException:
            self._close(None)
            raise
        return self._moment

    def end(self, ending: tuple[str, str] | None) -> None:
        """Save the last state and close the run, if it is open; ``ending``: (state, text), None where a rule was met.

        Raises the error of a run that fails on the way, and ResourcesExhausted when its last state could not be written.
        """
        if self._steps is None:
            return
        self._stop.ending = ending
        while isinstance(outcome := self._next(), Moment):
            pass
        if outcome.error is not None:
            raise outcome.error
        if outcome.exit_code == ResourcesExhausted.exit_code:
            raise ResourcesExhausted(outcome.text)

    def _close(self, outcome: Outcome | None) -> None:
        """The run is over; without an outcome (a bug, an interrupt) ``begin`` may open another one."""
        _set_open(None)
        self._steps, self.outcome = None, outcome
        self.state = SessionState.OVER if outcome is not None else SessionState.NOT_BEGUN
        self._log.stop()


def _set_open(session: RunSession | None) -> None:
    global _open_session
    _open_session = None if session is None else weakref.ref(session)
