"""The progress of a run towards its stop rules, and the time left. Used by the screen and the plain lines."""

from typing import NamedTuple

from drl_cli.cli.view import RunView

COUNTED = {  # stop field -> (counter of a progress event, what it counts)
    "timesteps_total": ("env_steps", "env steps"),
    "training_iteration": ("training_iteration", "iterations"),
    "episodes_total": ("episodes", "episodes"),
    "info/num_updates": ("updates", "updates"),
}
SECONDS = "time_total_s"
MEASURED_S = 5.0  # an estimate needs this long


class Budget(NamedTuple):
    """``value`` of ``limit`` ``unit`` (None: seconds), and the ``seconds`` left at the pace of the last minute, or None."""

    value: float
    limit: float
    unit: str | None
    seconds: float | None

    @property
    def share(self) -> float:
        """How much is used up, 0 to 1."""
        return min(1.0, max(0.0, self.value / self.limit)) if self.limit > 0 else 1.0


def nearest(view: RunView, seconds: float) -> Budget | None:
    """Return the stop rule that ends the run first by what is known ``seconds`` after the start; None without any."""
    limits = {name: limit for name, limit in view.stop.items() if isinstance(limit, (int, float))}
    found = [_counted(view, seconds, name, limit) for name, limit in limits.items() if name in COUNTED]
    if SECONDS in limits:
        total, at = view.time_total
        total += 0.0 if at is None else max(0.0, seconds - at)
        limit = limits[SECONDS]
        found.append(Budget(total, limit, None, None if view.finished else max(0.0, limit - total)))
    known = [one for one in found if one is not None]
    return min(known, key=lambda one: (one.seconds is None, one.seconds or 0.0, -one.share), default=None)


def _counted(view: RunView, seconds: float, name: str, limit: float) -> Budget | None:
    counter, unit = COUNTED[name]
    unit = "timesteps" if unit == "env steps" and view.only_reads else unit
    value = view.progress.get(counter)
    if value is None:
        return None
    left = None
    if view.pace and not view.finished:
        since, before = view.pace[0]
        passed, made = seconds - since, value - (before.get(counter) or 0)
        if passed >= MEASURED_S and made > 0:
            left = max(0.0, (limit - value) * passed / made)
    return Budget(value, limit, unit, left)
