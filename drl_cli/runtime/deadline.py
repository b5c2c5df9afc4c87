"""How long a run that has to end waits for what is still under way. User: ``runtime.driver``."""

import time

from drl_cli.errors import Overdue

REST_S = 2.5  # for all parts to come to rest, so that saving and closing are over within 5 s


class Deadline:
    """Counts from the moment at which a run was first seen to have to end; ``rest_s`` is the patience from there on."""

    def __init__(self, stop_requested, limits, passed, clock=time.monotonic):
        """``stop_requested()``: whether somebody asked for the end; ``limits``: {field: seconds} of the run's stop rules, and
        ``passed()`` returns how many seconds of each have passed.
        """
        self._stop_requested, self._limits, self._passed, self._clock = stop_requested, limits, passed, clock
        self._heard = None
        self.rest_s = REST_S

    def since(self):
        """Return the seconds since the run was seen to have to end, None where it need not."""
        if not self._stop_requested() and not self._is_out_of_time():
            self._heard = None
            return None
        now = self._clock()
        self._heard = now if self._heard is None else self._heard
        return now - self._heard

    def check(self):
        """Raise Overdue when the run has to end and its patience is at an end."""
        since = self.since()
        if since is not None and since > self.rest_s:
            raise Overdue("The run has to end, and what goes on takes too long.")

    def _is_out_of_time(self):
        if not self._limits:
            return False
        passed = self._passed()
        return any(passed[field] >= limit for field, limit in self._limits.items())


def reached(thresholds, loop):
    """Whether one of the stop rules ``thresholds`` is reached: what is left of ``min_iter_time_s`` would be beyond it."""
    meters = loop.meters
    known = {
        "timesteps_total": loop.sampled,
        "episodes_total": meters.episodes,
        "episode_reward_mean": meters.reward_mean(),
    }
    return any(known[field] is not None and known[field] >= threshold for field, threshold in thresholds.items())
