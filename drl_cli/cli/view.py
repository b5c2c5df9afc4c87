"""What is known about the run that is going on: events in, plain attributes out.

The screen and the plain lines both read it; it draws nothing. Rewards are raw returns of episodes; times are seconds
since the process started.
"""

from collections import deque
from dataclasses import dataclass, field

CURVE_POINTS = 1_000  # more than any screen has columns
NOTICES = 6


class Curve:
    """A value over time in bounded memory: points are means of ``stride`` values, and the stride doubles when full."""

    def __init__(self, limit=CURVE_POINTS):
        self.points = []
        self._limit = limit
        self._stride = 1
        self._pending = []

    def add(self, value):
        """Add the next value of an evenly sampled series."""
        self._pending.append(value)
        if len(self._pending) < self._stride:
            return
        self.points.append(sum(self._pending) / len(self._pending))
        self._pending = []
        if len(self.points) >= self._limit:
            pairs = zip(self.points[::2], self.points[1::2], strict=False)
            self.points = [(a + b) / 2 for a, b in pairs]
            self._stride *= 2


@dataclass
class RunView:
    """The state of one run, as far as its events tell.

    algorithm, env, target, checkpoint_freq: known before it starts; target is the reward at which it stops, or None.
    progress: the newest ``progress`` fields. curve: episode_reward_mean over time. phase: what takes time just now,
    empty when nothing does. notices: the last lines, as (seconds, text, kind).
    """

    algorithm: str = ""
    env: str = ""
    target: float | None = None
    checkpoint_freq: int = 0
    run_folder: str = ""
    progress: dict = field(default_factory=dict)
    curve: Curve = field(default_factory=Curve)
    phase: str = ""
    notices: deque = field(default_factory=lambda: deque(maxlen=NOTICES))
    iteration: int = 0
    evaluation: dict | None = None
    estimates: dict | None = None
    custom_metrics: dict = field(default_factory=dict)
    best: float | None = None
    is_scored: bool = False  # whether best means greedy evaluations, as it does in best.json
    checkpoint: dict | None = None
    stopping: bool = False
    finished: dict | None = None

    def take(self, kind, fields, seconds):
        """Take one event in; ``seconds`` is when it came. Unknown kinds change nothing."""
        handler = getattr(self, f"_take_{kind}", None)
        if handler:
            handler(fields, seconds)

    @property
    def reward(self):
        """The newest mean reward of training episodes, or None."""
        return self.progress.get("episode_reward_mean")

    @property
    def only_reads(self):
        """Whether all that is learnt from was recorded: no episodes are played but those of evaluations."""
        return bool(self.progress.get("only_reads"))

    def next_checkpoint(self):
        """The iteration of the next periodic checkpoint, or None when only the best and the last are kept."""
        if not self.checkpoint_freq:
            return None
        return (self.iteration // self.checkpoint_freq + 1) * self.checkpoint_freq

    def _take_phase(self, fields, seconds):
        self.phase = fields["text"]
        if not self.progress:  # the story of the start; later phases come round again and again
            self._note(seconds, fields["text"], "phase")

    def _take_notice(self, fields, seconds):
        self._note(seconds, fields["text"], "notice")

    def _take_warning(self, fields, seconds):
        self._note(seconds, f"Warning: {fields['text']}", "warning")

    def _take_diagnosis(self, fields, seconds):
        self._note(seconds, fields["text"], "warning")

    def _take_bottleneck(self, fields, _seconds):
        self.progress = {**self.progress, "bottleneck": fields["text"]}

    def _take_progress(self, fields, _seconds):
        self.phase = ""
        self.progress = {**self.progress, **fields}
        self.iteration = fields.get("training_iteration") or self.iteration
        if fields.get("episode_reward_mean") is not None:
            self.curve.add(fields["episode_reward_mean"])
        self._see_best(fields.get("episode_reward_mean"), from_training=True)

    def _take_result(self, fields, _seconds):
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
        self._see_best(result.get("episode_reward_mean"), from_training=True)

    def _take_evaluation(self, fields, seconds):
        self.phase = ""
        value = fields.get("episode_reward_mean")
        if not self.is_scored:
            self.best, self.is_scored = None, True
        self.evaluation = {**fields, "seconds": seconds}
        if self.only_reads and value is not None:
            self.curve.add(value)
        self._see_best(value, from_training=False)

    def _take_estimates(self, fields, _seconds):
        self.estimates = fields

    def _take_best_before(self, fields, _seconds):
        self.best, self.is_scored = fields["value"], True

    def _take_goal(self, fields, seconds):
        fresh = fields.get("confirmed")
        sure = "" if fresh is None else f", confirmed by {fresh:.1f} over fresh episodes"
        self._note(seconds, f"target {fields['target']:g} reached: {fields['value']:.1f}{sure}", "goal")

    def _take_checkpoint(self, fields, seconds):
        self.phase = ""
        self.checkpoint = {**fields, "at": seconds}

    def _take_checkpoint_failed(self, fields, seconds):
        self.phase = ""
        self._note(seconds, f"Warning: checkpoint failed: {fields['text']}", "warning")

    def _take_worker_started(self, fields, seconds):
        if fields.get("incarnation"):
            self._note(seconds, f"worker {fields['worker']} started again", "notice")

    def _take_worker_lost(self, fields, seconds):
        self._note(seconds, f"Warning: worker {fields['worker']} lost: {fields['text']}", "warning")

    def _take_stopping(self, fields, seconds):
        self.stopping = True
        self._note(seconds, fields["text"], "warning")

    def _take_run(self, fields, _seconds):
        self.run_folder = fields.get("run") or self.run_folder

    def _take_finished(self, fields, _seconds):
        self.phase = ""
        self.finished = fields
        self.run_folder = fields.get("run") or self.run_folder

    def _note(self, seconds, text, kind):
        self.notices.append((seconds, text, kind))

    def _see_best(self, value, from_training):
        if value is None or (from_training and self.is_scored):
            return
        self.best = value if self.best is None else max(self.best, value)
