"""Whether a run has stopped moving between two results, from the events of its progress. User: ``experiments.run``.

- *no movement*: neither an env step nor an update for a minute, or three times the longest pause so far.
- *silence*: no event at all for three minutes: the thread of the run is inside one call all that time, so another thread looks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from drl_cli import events
from drl_cli.runs.diagnosis import Findings

STILL_S = 60.0
SILENT_S, LISTEN_S = 180.0, 5.0  # the longest evaluations and checkpoints take minutes


class StallWatch:
    """Listens to the events of one run from ``start`` on, and looks every few seconds whether there are any."""

    def __init__(self, has_limit: bool, clock: Callable[[], float] = time.monotonic, every_s: float = LISTEN_S) -> None:
        """``has_limit``: episodes have a time limit; ``clock``: seconds; ``every_s``: seconds between two looks."""
        self._has_limit, self._clock, self._every_s = has_limit, clock, every_s
        self._findings = Findings(clock)
        self._moved: tuple[tuple, float] | None = None  # (env steps and updates, when they last changed)
        self._longest = 0.0  # seconds between two changes
        self._is_compiling = False
        self._last_event = clock()
        self._over = threading.Event()

    def start(self) -> Callable[[], None]:
        """Begin to listen; returns the function that ends it."""
        unsubscribe = events.subscribe(self.hear)
        thread = threading.Thread(target=self._look, name="silence", daemon=True)
        thread.start()

        def stop() -> None:
            unsubscribe()
            self._over.set()
            thread.join(timeout=1.0)

        return stop

    def _look(self) -> None:
        while not self._over.wait(self._every_s):
            self.check_silence()

    def hear(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Take in one event, and report if ``progress`` shows that nothing has moved for long."""
        if kind != "diagnosis":
            self._last_event = self._clock()
        if kind in ("result", "learner"):
            self._moved = None  # what follows may be an evaluation, a checkpoint or the compiler's work
        if kind == "learner":
            self._is_compiling = bool(fields["text"])
        if kind != "progress" or self._is_compiling:
            return
        now, seen = self._clock(), (fields.get("env_steps"), fields.get("updates"))
        if self._moved is None or seen != self._moved[0]:
            if self._moved is not None:
                self._longest = max(self._longest, now - self._moved[1])
            self._moved = (seen, now)
            return
        still = now - self._moved[1]
        if still >= max(STILL_S, 3 * self._longest) and fields.get("learner") == "learning":
            waiting = fields.get("waiting")
            who = f" ({waiting})" if waiting else ""
            text = f"Looks stuck: no env step and no update for {still:.0f} s{who}. Does env.step hang?"
            self._findings.report("no movement", text)

    def check_silence(self) -> None:
        """Report it when there has been no event for long."""
        silent = self._clock() - self._last_event
        if silent >= SILENT_S:
            ends = "" if self._has_limit else " (there is no time limit: set horizon)"
            text = f"Looks stuck: no news for {silent:.0f} s: env.step may hang, or the episodes of an evaluation do not end"
            self._findings.report("silence", f"{text}{ends}, or one very long call of the learner.")
