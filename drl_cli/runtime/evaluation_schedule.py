"""When a run is evaluated, whether training waits for the scores, and what becomes of testers that are lost.

Used by ``runtime.driver``. ``runtime.evaluator`` runs one evaluation.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from drl_cli import events
from drl_cli.actors.part_records import ScoredEpisode
from drl_cli.config.result_names import Goal
from drl_cli.config.sections.deterministic import is_deterministic
from drl_cli.contracts import Cluster, Handle
from drl_cli.errors import Overdue
from drl_cli.runtime import assembly
from drl_cli.runtime.assembly import RunSetup
from drl_cli.runtime.cluster import PartFailed, PartLost
from drl_cli.runtime.evaluator import Scoring, Snapshot
from drl_cli.runtime.loop_kinds import Loop
from drl_cli.runtime.run_clock import REST_S, Deadline
from drl_cli.runtime.testers import ManyTesters
from drl_cli.schedules import value_at

SCORES_EVERY_S = 0.02  # between two looks for scores that are waited for
PATIENCE_S = 1.2  # after a stop with an evaluation of a run without workers
ATTEMPTS = 3  # of making a tester that dies, or whose environment breaks


class EvaluationSchedule:
    """The evaluations of one run, one at a time; ``scoring`` holds the newest."""

    def __init__(
        self,
        setup: RunSetup,
        cluster: Cluster,
        server: Handle,
        deadline: Deadline,
        goal: Goal | None,
        report_progress: Callable[[], None],
    ) -> None:
        """``goal``: confirmed by fresh episodes; ``report_progress()`` is called while scores are waited for."""
        self._setup, self._cluster, self._server, self._deadline = setup, cluster, server, deadline
        self._goal, self._report_progress = goal, report_progress
        self.scoring = Scoring(self._make_tester, setup.config, setup.seed, goal)
        self._tester: Handle | ManyTesters | None = None
        self._lost = 0  # testers in a row
        # In a deterministic run scores count from the end of the next iteration on, however soon they come.
        self.is_deferred = is_deterministic(setup.config)
        self._snapshot: Snapshot | None = None  # that is scored meanwhile
        self.lr_factor = 1.0  # of the learning rates, by ``lr_factor_by_return``

    def _make_tester(self) -> Handle | ManyTesters:
        if self._tester is None:
            self._tester = assembly.make_tester(self._setup, self._cluster, self._server)
        return self._tester

    def handles(self) -> tuple[Handle, ...]:
        """Return the testers that there are."""
        if self._tester is None:
            return ()
        return self._tester.handles if isinstance(self._tester, ManyTesters) else (self._tester,)

    def is_due(self, iteration: int, loop: Loop) -> bool:
        """Return whether to begin one after ``iteration``."""
        interval = self._setup.config.evaluation_interval
        due = interval and (iteration % interval == 0 or self._looks_solved(loop)) and loop.ledger.updates > 0
        return bool(due) and not self.scoring.is_busy and self._lost < ATTEMPTS and self._deadline.since() is None

    def _looks_solved(self, loop: Loop) -> bool:
        """Whether training episodes are at the goal before any evaluation, so that the first one comes at once."""
        goal = None if self._goal is None else self._goal.reward
        if goal is None or self.scoring.count > 0:
            return False
        mean = loop.ledger.meters.reward_mean()
        return mean is not None and mean >= goal

    def has_new_factor(self) -> bool:
        """Set ``lr_factor`` to what the highest evaluation so far asks for; return whether it has changed."""
        points, highest, before = self._setup.config.lr_factor_by_return, self.scoring.highest, self.lr_factor
        if points is not None and highest is not None:
            self.lr_factor = value_at(points, highest)
        return self.lr_factor != before

    def begin(self, snapshot: Snapshot, is_stopping: Callable[[], bool]) -> None:
        """Score ``snapshot``; without Ray, or with ``evaluation_parallel_to_training: false``, training waits for it.

        In a deterministic run it goes on until ``close_deferred``.
        """
        if not self._cluster.is_remote:
            self._deadline.rest_s = PATIENCE_S  # it can be given up without a loss
        self.scoring.begin(snapshot)
        if self.is_deferred:
            self._snapshot = snapshot
        elif not self._cluster.is_remote or self._setup.config.evaluation_parallel_to_training is False:
            self.wait(is_stopping)
        self._deadline.rest_s = REST_S

    def take_served(self, iteration: int, loop: Loop, snapshot: Callable[[], Snapshot]) -> None:
        """Make an evaluation of the episodes that clients of a policy server have played to be scored, once they suffice.

        ``snapshot()`` returns that of the present weights.
        """
        config, ledger = self._setup.config, loop.ledger
        interval, scored = config.evaluation_interval, ledger.meters.scored
        if not interval or iteration % interval or not ledger.updates:
            return
        if len(scored) >= config.evaluation_num_episodes:
            episodes = [ScoredEpisode(reward, length, seed=0, terminated=False) for reward, length in scored]
            scored.clear()
            self.scoring.take(snapshot(), episodes)

    def close_deferred(self, is_stopping: Callable[[], bool]) -> None:
        """At the end of an iteration of a deterministic run: wait for the evaluation that began with it.

        Where its tester is lost, the same episodes are played by another one.
        """
        snapshot, self._snapshot = self._snapshot, None
        if snapshot is None:
            return
        self.wait(is_stopping)
        while self.scoring.newest is not snapshot and 0 < self._lost < ATTEMPTS and not is_stopping():
            self.begin_again(snapshot, is_stopping)
            self.wait(is_stopping)
        self._snapshot = None

    def begin_again(self, snapshot: Snapshot, is_stopping: Callable[[], bool]) -> None:
        """Begin the last evaluation once more, of weights that are those of ``snapshot``."""
        self.scoring.count -= 1
        self.begin(snapshot, is_stopping)

    def wait(self, is_stopping: Callable[[], bool]) -> None:
        """Train no further until the evaluation is over, or a stop was requested."""
        while self.scoring.is_busy and not (self._cluster.is_remote and is_stopping()):
            self.poll()
            self._report_progress()
            if self._cluster.is_remote and self.scoring.is_busy:
                time.sleep(SCORES_EVERY_S)

    def poll(self) -> None:
        """Deal with what the tester has finished, or with its loss."""
        try:
            if self.scoring.poll():
                self._lost = 0
        except Overdue:
            self.scoring.abandon()
            events.report("warning", text="The stop cut an evaluation short: it does not count.")
        except (PartLost, PartFailed) as lost:
            self._replace_tester(lost)

    def _replace_tester(self, lost: PartLost | PartFailed) -> None:
        self._lost += 1
        self.scoring.abandon()
        for handle in self.handles() if isinstance(self._tester, ManyTesters) else ():
            self._cluster.kill(handle)  # the others of several: their episodes are of no use any more
        self._tester = None
        events.report("worker_lost", worker="tester", incarnation=self._lost - 1, text=str(lost))
        if self._lost == ATTEMPTS:
            events.report(
                "warning",
                text=f"The tester was lost {ATTEMPTS} times in a row: this run goes on without evaluations, and a stop or a "
                "best checkpoint that depends on them will not come.",
            )
