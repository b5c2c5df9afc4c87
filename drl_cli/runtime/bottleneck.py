"""What a run waits for, from measured times: which part is idle, why, and which key would change that.

Used by the Driver, several times a second; a window of some seconds is judged at a time. A *share* is the part of that
window in which a part was at work: the learner by the seconds that its calls took, the workers by the seconds of their own
clocks (the mean over them), evaluations and checkpoints where they hold everything else up. Nothing is sampled or guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from drl_cli import events

WINDOW_S = 5.0
REPEATED_S = 60.0  # before a hold-up that came and went is reported again
IDLE, BUSY = 0.4, 0.6  # shares: idle for so much of the time, at work for so much
SHOWN = 0.03  # a smaller share goes into the others
HOLDS_UP = 0.3  # share of the time that an evaluation or a checkpoint may take


class Shares(NamedTuple):
    """Shares of one window, 0 to 1. ``evaluations`` is 0 where they take place beside everything else."""

    learner: float
    workers: float
    evaluations: float = 0.0
    checkpoints: float = 0.0
    acting: float = 0.0  # of the workers' time, what the policy took; the rest is the environment's


class Setting(NamedTuple):
    """``loop``: last part of its module's name; ``workers``: num_workers; ``cores``: that this process may use.

    ``reads``: workers read files, and none samples; ``is_served``: external simulators sample.
    """

    loop: str
    workers: int
    cores: int
    reads: bool = False
    is_served: bool = False


class HoldUp(NamedTuple):
    """``kind``: what holds the run up; ``text``: the line for a screen."""

    kind: str
    text: str


def judge(shares: Shares, setting: Setting) -> HoldUp:
    """Return the HoldUp on the Shares of a window."""
    if setting.loop in ("sync", "decentralized") and max(shares.checkpoints, shares.evaluations) < HOLDS_UP:
        return _in_turn(shares, setting)
    if shares.checkpoints >= HOLDS_UP:
        text = f"checkpoints take {_percent(shares.checkpoints)} of the time; raise checkpoint_freq"
        return HoldUp("checkpoints", text)
    if shares.evaluations >= HOLDS_UP:
        text = f"evaluations take {_percent(shares.evaluations)} of the time; raise evaluation_interval"
        return HoldUp("evaluations", text)
    if setting.loop == "evolution":
        return _evolution(shares, setting)
    return _side_by_side(shares, setting)


def _side_by_side(shares: Shares, setting: Setting) -> HoldUp:
    """Workers and learner run beside one another: the one that is idle waits for the other."""
    idle = _percent(1 - shares.learner)
    if setting.reads:  # that readers wait is as it should be
        text = f"learner idle {idle}: reading is slow; {_more_workers(setting)}"
        slow = 1 - shares.learner >= IDLE and shares.workers >= BUSY
        return HoldUp("reading", text) if slow else _balanced(shares)
    if 1 - shares.learner >= IDLE and shares.workers >= BUSY:
        starved = {"replay": "replay starved", "stream": "queue empty"}.get(setting.loop, "no gradients")
        return HoldUp("sampling", f"learner idle {idle}: {starved}; {_sample_faster(shares, setting)}")
    if 1 - shares.workers >= IDLE and shares.learner >= BUSY:
        asks = {"replay": "lower training_intensity", "stream": "lower num_sgd_iter"}.get(setting.loop, "fewer do")
        return HoldUp("learning", f"workers idle {_percent(1 - shares.workers)}: the learner sets the pace; {asks}")
    if 1 - shares.learner >= IDLE and 1 - shares.workers >= IDLE:
        text = f"learner idle {idle}, workers {_percent(1 - shares.workers)}: the way between them"
        return HoldUp("driver", f"{text}; raise rollout_fragment_length")
    return _balanced(shares)


def _in_turn(shares: Shares, setting: Setting) -> HoldUp:
    """Workers and learner take turns: the largest part of the time is what could be shortened, and all parts add up."""
    parts = {
        "sampling": shares.workers,
        "learning": shares.learner,
        "evaluations": shares.evaluations,
        "checkpoints": shares.checkpoints,
    }
    if shares.workers >= 2 * shares.learner and shares.workers >= IDLE:
        return HoldUp("sampling", f"{_parted(parts)}; {_sample_faster(shares, setting)}")
    if shares.learner >= 2 * shares.workers and shares.learner >= IDLE:
        return HoldUp("learning", f"{_parted(parts)}; fewer passes or larger minibatches take less")
    if shares.workers + shares.learner < BUSY:
        between = 1.0 - sum(parts.values())
        if max(shares.evaluations, shares.checkpoints) <= between:
            batch = "train_batch_size and " if setting.loop == "sync" else ""
            return HoldUp("driver", f"{_parted(parts)}; raise {batch}rollout_fragment_length")
        if shares.evaluations >= shares.checkpoints:
            return HoldUp("evaluations", f"{_parted(parts)}; raise evaluation_interval")
        return HoldUp("checkpoints", f"{_parted(parts)}; raise checkpoint_freq")
    return HoldUp("balanced", f"balanced: {_parted(parts)}")


def _parted(parts: dict[str, float]) -> str:
    """Return the shares in percent, the largest first, and as "other" what is left of the time: they add up to 100."""
    shown = {name: round(100 * share) for name, share in parts.items() if share >= SHOWN}
    over = sum(shown.values()) - 100
    if over > 0:  # clocks of several processes
        shown = {name: round(100 * value / (100 + over)) for name, value in shown.items()}
    shown = dict(sorted(shown.items(), key=lambda part: -part[1]))
    other = 100 - sum(shown.values())
    if other >= 1:
        shown["other"] = other
    return ", ".join(f"{name} {value} %" for name, value in shown.items())


def _evolution(shares: Shares, setting: Setting) -> HoldUp:
    if shares.workers >= BUSY:
        return HoldUp("sampling", f"episodes take {_percent(shares.workers)} of the time; {_more_workers(setting)}")
    if shares.learner >= IDLE:
        return HoldUp("learning", f"steps take {_percent(shares.learner)} of the time; raise the directions of a step")
    text = f"workers idle {_percent(1 - shares.workers)}: waiting for the last episodes of each step"
    return HoldUp("stragglers", f"{text}; lower num_envs_per_worker")


def _balanced(shares: Shares) -> HoldUp:
    return HoldUp("balanced", f"balanced: learner {_percent(shares.learner)} busy, workers {_percent(shares.workers)}")


def _sample_faster(shares: Shares, setting: Setting) -> str:
    if shares.acting >= BUSY:
        return "raise num_envs_per_worker"  # one forward pass for more of them
    return _more_workers(setting)


def _more_workers(setting: Setting) -> str:
    if setting.is_served:
        return "start more simulators"
    if setting.workers < setting.cores:
        return "raise num_workers" if setting.workers else "set num_workers"
    return f"all {setting.cores} cores sample already"


def _percent(share: float) -> str:
    return f"{100 * min(1.0, max(0.0, share)):.0f} %"


class Bottleneck:
    """Measures windows of a run; ``text`` is the line of the newest hold-up, empty before the first."""

    def __init__(self, setting: Setting) -> None:
        """``setting``: a Setting."""
        self._setting = setting
        self._mark = None  # (time, totals) at the beginning of the window
        self._before = None  # kind of the hold-up before
        self._reported = {}  # kind -> when it was reported
        self.hold_up, self.shares = HoldUp("", ""), Shares(0.0, 0.0)

    @property
    def text(self) -> str:
        """The line of the newest hold-up."""
        return self.hold_up.text

    def look(self, now: float, totals: Mapping[str, float] | None, workers: int) -> None:
        """Judge the window when it is over.

        ``totals``: seconds so far, {"learn", "sample", "policy", "evaluate", "save"}; those of sampling over all workers;
        None while there is nothing to judge yet, as before the first update. ``workers``: how many sample.
        """
        if totals is None:
            self._mark = None
            return
        if self._mark is None:
            self._mark = (now, dict(totals))
            return
        began, before = self._mark
        passed = now - began
        if passed < WINDOW_S:
            return
        spent = {name: value - before[name] for name, value in totals.items()}
        self._mark = (now, dict(totals))
        self.shares = Shares(
            learner=spent["learn"] / passed,
            workers=spent["sample"] / passed / max(1, workers),
            evaluations=spent["evaluate"] / passed,
            checkpoints=spent["save"] / passed,
            acting=spent["policy"] / spent["sample"] if spent["sample"] > 0 else 0.0,
        )
        self.hold_up = judge(self.shares, self._setting)
        self._report(now)

    def _report(self, now: float) -> None:
        """Report a hold-up that has lasted for two windows, and was not reported just before."""
        kind, before = self.hold_up.kind, self._before
        self._before = kind
        if kind != before or now - self._reported.get(kind, -REPEATED_S) < REPEATED_S or self._is_newest(kind):
            return
        self._reported[kind] = now
        shares = {name: round(value, 3) for name, value in self.shares._asdict().items()}
        events.report("bottleneck", name=kind, text=self.hold_up.text, shares=shares)

    def _is_newest(self, kind: str) -> bool:
        """Whether ``kind`` is what was reported last: it is known."""
        return bool(self._reported) and max(self._reported, key=lambda kind: self._reported[kind]) == kind
