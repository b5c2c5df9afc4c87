"""The time of a run: its iterations and seconds, restored ones counted, and how long a run that has to end waits for its parts.

Used by ``runtime.driver``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from drl_cli.errors import Overdue
from drl_cli.runtime.loop_kinds import Loop

# From a stop on: for all parts to come to rest, and for the last save, so that all is over within 5 s.
REST_S, SAVE_S = 2.2, 2.6


class Since(NamedTuple):
    """The totals of a run at its last restore."""

    seconds: float = 0.0
    steps: int = 0
    iterations: int = 0


class RunClock:
    """Counts iterations and the seconds spent in them."""

    def __init__(self) -> None:
        self.iteration = 0
        self.total_s = 0.0
        self.since = Since()
        self._began: float | None = None  # while an iteration is running

    def begin_iteration(self) -> None:
        """Start an iteration's clock."""
        self._began = time.monotonic()

    def running_s(self) -> float:
        """Return the seconds of the running iteration, 0 between two."""
        return 0.0 if self._began is None else time.monotonic() - self._began

    def end_iteration(self) -> float:
        """Add the running iteration's seconds to the total, and return them."""
        seconds = self.running_s()
        self._began = None
        self.total_s += seconds
        return seconds

    def passed(self) -> dict[str, float]:
        """Return the seconds that stop rules limit, {field of a result: seconds}, at this moment."""
        total = self.total_s + self.running_s()
        return {"time_total_s": total, "time_since_restore": total - self.since.seconds}

    def load(self, counters: Mapping[str, Any]) -> None:
        """Continue from the counters of a checkpoint."""
        self.iteration, self.total_s = counters["training_iteration"], counters["time_total_s"]
        self.since = Since(self.total_s, counters["timesteps_total"], self.iteration)


class Deadline:
    """Counts from the moment at which a run was first seen to have to end; ``rest_s`` is the patience from there on."""

    def __init__(
        self,
        stop_requested: Callable[[], bool],
        limits: Mapping[str, float],
        passed: Callable[[], Mapping[str, float]],
    ) -> None:
        """``limits``: {field: seconds} of the run's stop rules; ``passed()`` returns how many seconds of each have passed."""
        self._stop_requested, self._limits, self._passed = stop_requested, limits, passed
        self._noticed: float | None = None
        self._asked: float | None = None  # when a stop was first seen to be requested
        self.rest_s = REST_S

    def since(self) -> float | None:
        """Return the seconds since the run was seen to have to end, None where it need not."""
        is_asked, now = self._is_asked(), time.monotonic()
        if not is_asked and not self._is_out_of_time():
            self._noticed = None
            return None
        self._noticed = now if self._noticed is None else self._noticed
        return now - self._noticed

    def check(self) -> None:
        """Raise Overdue when the run has to end and its patience is at an end."""
        since = self.since()
        if since is not None and since > self.rest_s:
            raise Overdue("The run has to end, and what goes on takes too long.")

    def check_save(self) -> None:
        """Raise Overdue when a stop was requested ``SAVE_S`` ago; after a stop rule a save may take the time it needs."""
        if self._is_asked() and self._asked is not None and time.monotonic() - self._asked > SAVE_S:
            raise Overdue("The run has to end, and its checkpoint takes too long to write.")

    def _is_asked(self) -> bool:
        if not self._stop_requested():
            self._asked = None
        elif self._asked is None:
            self._asked = time.monotonic()
        return self._asked is not None

    def _is_out_of_time(self) -> bool:
        if not self._limits:
            return False
        passed = self._passed()
        return any(passed[field] >= limit for field, limit in self._limits.items())


def reached(thresholds: Mapping[str, float], loop: Loop) -> bool:
    """Return whether one of the stop rules ``thresholds`` is reached: the rest of ``min_iter_time_s`` would go beyond it."""
    meters = loop.ledger.meters
    known = {
        "timesteps_total": loop.sampled,
        "episodes_total": meters.episodes,
        "episode_reward_mean": meters.reward_mean(),
    }
    return any(
        value is not None and value >= thresholds[field] for field, value in known.items() if field in thresholds
    )
