"""The state of a run for the screens: events in, plain attributes out; and its progress towards its stop rules.

Read by the live screen and the plain lines; draws nothing. Rewards are raw returns of episodes; times are seconds since the
process started.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from drl_cli.config.result_names import EVALUATION_REWARD, TRAINING_REWARD, policy_in

STOPPING = "Stopping: saving a checkpoint (Ctrl-C again to quit without saving)."
GOALS = (EVALUATION_REWARD, TRAINING_REWARD)  # stop fields that are a reward to reach
CURVE_POINTS = 1_000  # more than any screen has columns
NOTICES = 6
PACE_MARKS, PACE_EVERY_S = 13, 5.0  # of the last minute
COUNTERS = ("env_steps", "updates", "episodes", "training_iteration")


class Curve:
    """A value over env steps in bounded memory: points are means of ``stride`` values; the stride doubles when full."""

    def __init__(self, limit: int = CURVE_POINTS) -> None:
        self.points: list[tuple[float, float]] = []  # (env steps, value)
        self._limit = limit
        self._stride = 1
        self._pending: list[tuple[float, float]] = []

    def add(self, steps: float, value: float) -> None:
        """Add the value after so many env steps."""
        self._pending.append((steps, value))
        if len(self._pending) < self._stride:
            return
        self.points.append(_middle(self._pending))
        self._pending = []
        if len(self.points) >= self._limit:
            self.points = [_middle(pair) for pair in zip(self.points[::2], self.points[1::2], strict=False)]
            self._stride *= 2

    def columns(self, width: int) -> list[float]:
        """Return the values in ``width`` equal spans of env steps; a span without one has that of the span before."""
        if not self.points:
            return []
        first, last = self.points[0][0], self.points[-1][0]
        if last <= first:
            return [self.points[-1][1]]
        spans: list[list[float]] = [[] for _ in range(width)]
        for steps, value in self.points:
            spans[min(width - 1, int((steps - first) / (last - first) * width))].append(value)
        values = [self.points[0][1]]
        for span in spans:
            values.append(sum(span) / len(span) if span else values[-1])
        return values[1:]


def _middle(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    steps, values = zip(*points, strict=True)
    return sum(steps) / len(points), sum(values) / len(points)


@dataclass
class RunView:
    """The state of one run, from its events.

    algorithm, env, goal, checkpoint_freq, stop: known before it starts; goal is the reward at which it stops, or None, stop
    all of its stop rules. progress: the newest ``progress`` fields. curve: episode_reward_mean over env steps. phase: what
    takes time just now, empty when nothing does. compiling: what the learner is at before it can learn, or an empty string.
    evaluation: the newest one. best: what best.json says, or None. notices: the last lines, as (seconds, text, kind).
    by_policy: the newest result of several agents, {} of one agent.
    pace: (seconds, counters) of the last minute.
    """

    algorithm: str = ""
    env: str = ""
    goal: float | None = None
    checkpoint_freq: int = 0
    stop: dict[str, Any] = field(default_factory=dict)
    run_folder: str = ""
    progress: dict[str, Any] = field(default_factory=dict)
    curve: Curve = field(default_factory=Curve)
    phase: str = ""
    notices: deque[tuple[float, str, str]] = field(default_factory=lambda: deque(maxlen=NOTICES))
    iteration: int = 0
    evaluation: Mapping[str, Any] | None = None
    estimates: Mapping[str, Any] | None = None
    custom_metrics: Mapping[str, Any] = field(default_factory=dict)
    by_policy: Mapping[str, Any] = field(default_factory=dict)
    best: Mapping[str, Any] | None = None
    compiling: str = ""
    time_total: tuple[float, float | None] = (0.0, None)  # time_total_s, and when it was that
    pace: deque[tuple[float, dict[str, Any]]] = field(default_factory=lambda: deque(maxlen=PACE_MARKS))
    checkpoint: Mapping[str, Any] | None = None
    stopping: bool = False
    finished: Mapping[str, Any] | None = None

    def take(self, kind: str, fields: Mapping[str, Any], seconds: float) -> None:
        """Take one event in; ``seconds`` is when it came. Unknown kinds change nothing."""
        if kind in _HANDLERS:
            _HANDLERS[kind](self, fields, seconds)

    @property
    def reward(self) -> float | None:
        """The newest mean reward of training episodes, or None."""
        return self.progress.get("episode_reward_mean")

    @property
    def only_reads(self) -> bool:
        """Whether all that is learnt from was recorded: no episodes are played but those of evaluations."""
        return bool(self.progress.get("only_reads"))

    def next_checkpoint(self) -> int | None:
        """The iteration of the next periodic checkpoint, or None when only the best and the last are kept."""
        if not self.checkpoint_freq:
            return None
        return (self.iteration // self.checkpoint_freq + 1) * self.checkpoint_freq

    def _take_phase(self, fields: Mapping[str, Any], seconds: float) -> None:
        self.phase = fields["text"]
        if not self.progress:  # the story of the start; later phases come round again and again
            self._note(seconds, fields["text"], "phase")

    def _take_notice(self, fields: Mapping[str, Any], seconds: float) -> None:
        self._note(seconds, fields["text"], "notice")

    def _take_warning(self, fields: Mapping[str, Any], seconds: float) -> None:
        self._note(seconds, f"Warning: {fields['text']}", "warning")

    def _take_diagnosis(self, fields: Mapping[str, Any], seconds: float) -> None:
        self._note(seconds, fields["text"], "warning")

    def _take_bottleneck(self, fields: Mapping[str, Any], _seconds: float) -> None:
        self.progress = {**self.progress, "bottleneck": fields["text"]}

    def _take_learner(self, fields: Mapping[str, Any], seconds: float) -> None:
        self.compiling, self.phase = fields["text"], ""
        if not self.compiling:
            self.progress = {**self.progress, "learner": "learning"}
        elif not self.iteration:
            self._note(seconds, self.compiling, "phase")

    def _take_progress(self, fields: Mapping[str, Any], seconds: float) -> None:
        self.phase = ""
        self.progress = {**self.progress, **fields}
        self.iteration = fields.get("training_iteration") or self.iteration
        self._add_to_curve(self.progress.get("env_steps"), fields.get("episode_reward_mean"))
        if self.time_total[1] is None:
            self.time_total = (self.time_total[0], seconds)
        self._note_pace(seconds)

    def _note_pace(self, seconds: float) -> None:
        if self.progress.get("learner") not in (None, "learning"):
            return
        if self.pace and seconds <= self.pace[-1][0]:
            self.pace.pop()  # rows of an earlier process, which all have the time of this one's start
        if not self.pace or seconds - self.pace[-1][0] >= PACE_EVERY_S:
            self.pace.append((seconds, {name: self.progress.get(name) for name in COUNTERS}))

    def _take_result(self, fields: Mapping[str, Any], seconds: float) -> None:
        result = fields["result"]
        self.phase = ""
        self.iteration = result.get("training_iteration") or self.iteration
        known = {
            "training_iteration": result.get("training_iteration"),
            "env_steps": result.get("timesteps_total"),
            "episodes": result.get("episodes_total"),
            "episode_reward_mean": result.get("episode_reward_mean"),
            "updates": (result.get("info") or {}).get("num_updates"),
        }
        self.progress = {**self.progress, **{k: v for k, v in known.items() if v is not None}}
        self.custom_metrics = result.get("custom_metrics") or {}
        self.by_policy = result if result.get("policy_reward_mean") else {}
        self.time_total = (result.get("time_total_s") or 0.0, seconds)
        self._see_evaluation_of(result, seconds)

    def _see_evaluation_of(self, result: Mapping[str, Any], seconds: float) -> None:
        """Take the evaluation that a row holds, where it was not an event of this process."""
        held = result.get("evaluation") or {}
        number = held.get("training_iteration")
        known = (self.evaluation or {}).get("training_iteration")
        if number is None or (known is not None and known >= number):
            return
        known_fields = {
            name: held.get(name) for name in ("training_iteration", "timesteps_total", "episode_reward_mean")
        }
        more = {"episodes": held.get("episodes_this_iter"), "confirmed": held.get("confirmed_reward_mean")}
        self.evaluation = known_fields | more | {"seconds": seconds}

    def _take_history(self, fields: Mapping[str, Any], seconds: float) -> None:
        for steps, value in fields["rewards"]:
            self._add_to_curve(steps, value)
        if fields["result"]:
            self._take_result({"result": fields["result"]}, seconds - fields["seconds_ago"]["evaluation"])
        self.time_total = (self.time_total[0], None)
        self.best = fields["best"] or self.best
        self.checkpoint = {**fields["checkpoint"], "at": seconds - fields["seconds_ago"]["checkpoint"]}

    def _take_evaluation(self, fields: Mapping[str, Any], seconds: float) -> None:
        self.phase = ""
        self.evaluation = {**fields, "seconds": seconds}
        if self.only_reads:
            self._add_to_curve(fields.get("timesteps_total"), fields.get("episode_reward_mean"))

    def _take_best(self, fields: Mapping[str, Any], _seconds: float) -> None:
        self.best = fields

    def _take_estimates(self, fields: Mapping[str, Any], _seconds: float) -> None:
        self.estimates = fields

    def _take_goal(self, fields: Mapping[str, Any], seconds: float) -> None:
        fresh = fields.get("confirmed")
        sure = "" if fresh is None else f", confirmed by {fresh:.1f} over fresh episodes"
        policy = policy_in(fields["metric"])
        whose = "" if policy is None else f" of {policy}"
        self._note(seconds, f"goal {fields['target']:g}{whose} reached: {fields['value']:.1f}{sure}", "goal")

    def _take_checkpoint(self, fields: Mapping[str, Any], seconds: float) -> None:
        self.phase = ""
        self.checkpoint = {**fields, "at": seconds}

    def _take_checkpoint_failed(self, fields: Mapping[str, Any], seconds: float) -> None:
        self.phase = ""
        self._note(seconds, f"Warning: checkpoint failed: {fields['text']}", "warning")

    def _take_worker_started(self, fields: Mapping[str, Any], seconds: float) -> None:
        if fields.get("incarnation"):
            self._note(seconds, f"worker {fields['worker']} restarted", "notice")

    def _take_worker_lost(self, fields: Mapping[str, Any], seconds: float) -> None:
        self._note(seconds, f"Warning: worker {fields['worker']} lost: {fields['text']}", "warning")

    def _take_stopping(self, fields: Mapping[str, Any], seconds: float) -> None:
        self.stopping = True
        self._note(seconds, fields["text"], "warning")

    def _take_run(self, fields: Mapping[str, Any], _seconds: float) -> None:
        self.run_folder = fields.get("run") or self.run_folder

    def _take_finished(self, fields: Mapping[str, Any], _seconds: float) -> None:
        self.phase = ""
        self.finished = fields
        self.run_folder = fields.get("run") or self.run_folder

    def _note(self, seconds: float, text: str, kind: str) -> None:
        self.notices.append((seconds, text, kind))

    def _add_to_curve(self, steps: float | None, value: float | None) -> None:
        if steps is not None and value is not None and math.isfinite(value):
            self.curve.add(steps, value)


COUNTED = {  # stop field -> (counter of a progress event, what it counts)
    "timesteps_total": ("env_steps", "env steps"),
    "training_iteration": ("training_iteration", "iterations"),
    "episodes_total": ("episodes", "episodes"),
    "info/num_updates": ("updates", "updates"),
}
SECONDS = "time_total_s"
MEASURED_S = 5.0  # an estimate needs this long


_HANDLERS: dict[str, Callable[[RunView, Mapping[str, Any], float], None]] = {
    "phase": RunView._take_phase,
    "notice": RunView._take_notice,
    "warning": RunView._take_warning,
    "diagnosis": RunView._take_diagnosis,
    "bottleneck": RunView._take_bottleneck,
    "learner": RunView._take_learner,
    "progress": RunView._take_progress,
    "result": RunView._take_result,
    "history": RunView._take_history,
    "evaluation": RunView._take_evaluation,
    "best": RunView._take_best,
    "estimates": RunView._take_estimates,
    "goal": RunView._take_goal,
    "checkpoint": RunView._take_checkpoint,
    "checkpoint_failed": RunView._take_checkpoint_failed,
    "worker_started": RunView._take_worker_started,
    "worker_lost": RunView._take_worker_lost,
    "stopping": RunView._take_stopping,
    "run": RunView._take_run,
    "finished": RunView._take_finished,
}
"""Kind of an event → the method of a view that takes it in."""


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


def nearest_limit(view: RunView, seconds: float) -> Budget | None:
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
