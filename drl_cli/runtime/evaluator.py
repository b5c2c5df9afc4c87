"""Evaluations inside a run: greedy episodes of a snapshot, and their confirmation when they reach the goal.

A snapshot is the weights of one moment: pushed to the parameter server to be scored, and held as the learner's whole
state, so that the checkpoint of the best evaluation holds exactly what was scored while training goes on.

Where recorded episodes judge the policy too (``input_evaluation``), the same snapshot is first estimated from them.

With ``evaluation_duration_unit: timesteps`` episodes are played in rounds of so many as a tester steps side by side, until
they have ``evaluation_num_episodes`` env steps.

An evaluation at the goal is confirmed by ``evaluation_confirm_episodes`` fresh episodes of the same snapshot; when their
mean is at the goal too, the goal is reached.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from drl_cli import events, process
from drl_cli.actors.part_records import ScoredEpisode
from drl_cli.config.episode_metrics import summary
from drl_cli.config.result_names import EVALUATION_REWARD, NUMBER_FIELDS, Goal
from drl_cli.config.sections.common import CommonKeys
from drl_cli.config.sections.estimates import methods
from drl_cli.contracts import Call
from drl_cli.randomness import number
from drl_cli.runtime.run_state import RunMoment

ROUND = 16  # episodes of a round: what a tester steps side by side (actors.tester)
NUMBERS = {  # of an evaluation's result, and of how the goal was reached
    *(field.removeprefix("evaluation/") for field in NUMBER_FIELDS if field.startswith("evaluation/")),
    *("training_iteration", "timesteps_total", "num_updates", "target", "value", "confirmed", "seconds"),
}
ESTIMATES = "off_policy_estimator"  # what recorded episodes say, beside the scores of a snapshot


class Snapshot:
    """The learner's state at one moment, the plain data that belongs to it, and its scores."""

    def __init__(self, version: int, arrays: Mapping[str, np.ndarray], moment: RunMoment) -> None:
        """``moment``: the counters at the moment of ``version`` and ``arrays``."""
        self.version, self.arrays, self.moment = version, arrays, moment
        self.counters = moment["counters"]
        self.result: dict[str, Any] | None = None  # the dict `evaluation` of a result, once it has been scored


class Stage(enum.Enum):
    """Where an evaluation is.

    ``begin`` goes from IDLE to ESTIMATING, or to PLAYING; ESTIMATING is followed by PLAYING, that by further rounds of PLAYING,
    by CONFIRMING or by IDLE, CONFIRMING by IDLE; ``abandon`` goes to IDLE.
    """

    IDLE = "idle"
    ESTIMATING = "recorded episodes are weighed"
    PLAYING = "episodes are played"
    CONFIRMING = "fresh episodes are played, since the first ones reached the goal"


class Scoring:
    """Runs one evaluation at a time through the tester."""

    def __init__(self, tester: Callable[[], Any], config: CommonKeys, seed: int, goal: Goal | None = None) -> None:
        """``tester()`` returns the tester's handle, made when first needed."""
        self._tester, self._config, self._seed, self._goal = tester, config, seed, goal
        self._stage = Stage.IDLE
        self._call: Call | None = None
        self._snapshot: Snapshot | None = None
        self._first: dict[str, Any] = {}  # the summary of the first episodes
        self._played: list[ScoredEpisode] = []  # of earlier rounds of this evaluation
        self._estimates: dict[str, Any] | None = None  # of the running evaluation
        self._began = 0.0
        self._said_why = self._said_cut = False
        self.count = 0  # evaluations begun
        self.newest: Snapshot | None = None  # the last one that has been scored
        self.newest_result: dict[str, Any] | None = None  # its scores; known after a restore too
        self.touched: dict[str, Any] | None = None
        self._highest: float | None = None  # of the evaluations that are complete
        self.seconds = 0.0

    @property
    def is_busy(self) -> bool:
        """Whether an evaluation is under way."""
        return self._stage is not Stage.IDLE

    @property
    def highest(self) -> float | None:
        """The highest mean return of an evaluation so far, of its fresh episodes where it had any; None before the first.

        While these are played it counts by its first ones.
        """
        return _higher(self._highest, self._first if self._stage is Stage.CONFIRMING else {})

    def begin(self, snapshot: Snapshot) -> None:
        """Score ``snapshot`` on fresh seeds."""
        self.count += 1
        self._snapshot, self._first, self._estimates, self._played = snapshot, {}, None, []
        if methods(self._config):
            self._start(Stage.ESTIMATING, "estimate", snapshot.counters["timesteps_total"])
        else:
            self._play_first()

    def take(self, snapshot: Snapshot, episodes: Sequence[ScoredEpisode]) -> None:
        """Count ``episodes`` that clients of a policy server have played as an evaluation of ``snapshot``; none confirm it."""
        self.count += 1
        self._snapshot, self._estimates, self._first = snapshot, None, self._summed(episodes)
        self._complete(None)

    def _play_first(self) -> None:
        self._play(Stage.PLAYING, "tester", ROUND if self._counts_steps else self._config.evaluation_num_episodes)

    @property
    def _counts_steps(self) -> bool:
        return self._config.evaluation_duration_unit == "timesteps"

    def _play(self, stage: Stage, role: str, episodes: int, first: int = 0) -> None:
        """Play ``episodes``; their seeds follow from ``role`` and from how many came before, ``first``."""
        seeds = [number(self._seed, role, self.count, index) for index in range(first, first + episodes)]
        method = "evaluate_otherwise" if self._config.custom_eval_function else "evaluate"
        self._start(stage, method, seeds)

    def _start(self, stage: Stage, method: str, argument: int | list[int]) -> None:
        self._began = time.perf_counter()
        self._call = self._tester().call(method, self._running.version, argument)
        self._stage = stage

    @property
    def _running(self) -> Snapshot:
        if self._snapshot is None:
            raise RuntimeError("no evaluation has been begun")
        return self._snapshot

    def poll(self) -> bool:
        """Deal with what the tester has finished; returns True when an evaluation has just been completed."""
        if self._call is None or not self._call.done():
            return False
        call, stage = self._call, self._stage
        self.abandon()
        found = call.result()
        self.seconds += time.perf_counter() - self._began
        if stage is Stage.ESTIMATING:
            self._note(found)
            self._play_first()
            return False
        if stage is Stage.CONFIRMING:
            return self._complete(self._confirmed(found))
        return self._take_first(found)

    def _take_first(self, found: Any) -> bool:
        """Deal with the first episodes, or with one round of them."""
        if self._config.custom_eval_function:
            self._first = found
        else:
            self._played += found
            steps = sum(episode.length for episode in self._played)
            if self._counts_steps and steps < self._config.evaluation_num_episodes:
                self._play(Stage.PLAYING, "tester", ROUND, len(self._played))
                return False
            self._first = self._summed(self._played)
        if self._needs_confirmation():
            self._play(Stage.CONFIRMING, "confirm", self._config.evaluation_confirm_episodes)
            return False
        return self._complete(None)

    def _confirmed(self, found: Any) -> dict[str, Any]:
        """Return the summary of the fresh episodes; what a function of the user's returned is one already."""
        if self._config.custom_eval_function:
            return {"episodes_this_iter": self._config.evaluation_confirm_episodes} | found
        return self._summed(found)

    def _summed(self, episodes: Sequence[ScoredEpisode]) -> dict[str, Any]:
        """Return the summary of ``episodes``; report once that some of them were cut."""
        cut = [episode.length for episode in episodes if episode.is_cut]
        if cut and not self._said_cut:
            self._said_cut = True
            text = (
                f"{len(cut)} of {len(episodes)} episodes of an evaluation were cut after {max(cut):,} steps; their returns "
                "count as they stood. evaluation_max_steps sets after how many."
            )
            events.report("warning", text=text)
        return summary(episodes)

    def _note(self, estimates: dict[str, Any]) -> None:
        """Keep ``estimates`` for the result, or report, once, why there are none."""
        if "text" not in estimates:
            self._estimates = estimates
        elif not self._said_why:
            self._said_why = True
            events.report("warning", text=f"The policy is not judged by recorded episodes: {estimates['text']}")

    def _needs_confirmation(self) -> bool:
        if self._goal is None or self._config.evaluation_confirm_episodes <= 0 or self.touched is not None:
            return False
        return self._goal.is_reached(self._first)

    def _complete(self, confirming: dict[str, Any] | None) -> bool:
        snapshot, result = self._running, dict(self._first)
        for name in ("training_iteration", "timesteps_total", "num_updates"):
            result[name] = snapshot.counters[name]
        result["confirmed_reward_mean"] = self._goal.score(confirming) if confirming and self._goal else None
        result["confirmed_episodes"] = confirming["episodes_this_iter"] if confirming else None
        if self._estimates is not None:
            result[ESTIMATES] = self._estimates
        snapshot.result = result
        self.newest, self.newest_result = snapshot, result
        self._highest = _higher(self._highest, self._first if confirming is None else confirming)
        if self._goal is not None and self.touched is None and self._goal.is_reached(confirming or result):
            self._touch(self._goal, result)
        return True

    def _touch(self, goal: Goal, result: Mapping[str, Any]) -> None:
        self.touched = {
            "metric": goal.field,
            "target": goal.threshold,
            "value": goal.score(result),
            "confirmed": result["confirmed_reward_mean"],
            "seconds": process.seconds_since_start(),
            "timesteps_total": result["timesteps_total"],
            "num_updates": result["num_updates"],
        }

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {
            "count": self.count,
            "newest": self.newest_result,
            "touched": self.touched,
            "highest": self._highest,
            "is_busy": self.is_busy,
        }

    def load(self, facts: Mapping[str, Any], exact: bool) -> None:
        """Continue from ``state``.

        Only the same run (``exact``) has been as high, and, with the same goal, has touched it already. Raises
        TypeError where ``facts`` has another form.
        """
        for name in ("newest", "touched"):
            _check_scores(f"scoring.{name}", facts[name])
        self.count, self.newest_result = facts["count"], facts["newest"]
        highest = facts.get("highest", (facts["newest"] or {}).get("episode_reward_mean"))
        if not isinstance(highest, int | float | None):
            raise TypeError(f"scoring.highest is {str(highest)[:40]!r}, and no number")
        self._highest = highest if exact else None
        touched = {"metric": EVALUATION_REWARD} | (facts["touched"] or {})  # an older checkpoint names no metric
        if exact and facts["touched"] and (touched["metric"], touched["target"]) == self._goal:
            self.touched = touched

    def abandon(self) -> None:
        """Forget the evaluation that is under way."""
        self._stage, self._call = Stage.IDLE, None


def _higher(before: float | None, summed: Mapping[str, Any]) -> float | None:
    """Return the higher one of ``before`` and the mean return in the summary of some episodes; None where there is neither."""
    found = (before, summed.get("episode_reward_mean"))
    return max((mean for mean in found if mean is not None), default=None)


def _check_scores(name: str, stored: Any) -> None:
    """Raise TypeError unless ``stored`` is None or has only numbers, and None, where an evaluation's result has numbers."""
    if not isinstance(stored, dict | None):
        raise TypeError(f"{name} is {str(stored)[:40]!r}, and no dict")
    for field, value in (stored or {}).items():
        if field in NUMBERS and not isinstance(value, int | float | None):
            raise TypeError(f"{name}.{field} is {str(value)[:40]!r}, and no number")
