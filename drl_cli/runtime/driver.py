"""Driver: the five parts of a run, assembled from a row of the table, and driven iteration by iteration.

``start`` makes the parts, ``train`` closes one iteration and returns its result, ``save`` and ``restore`` move the whole
state of the run to and from a checkpoint, ``close`` ends everything. The command line, the tests and the Python Trainer
drive the same object; fault tests hand it a cluster of their own.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, cast

from drl_cli import checkpoints, events
from drl_cli.algorithms import table
from drl_cli.config.result_names import Goal
from drl_cli.config.sections.common import CommonKeys, min_iter_seconds
from drl_cli.config.sections.deterministic import is_deterministic
from drl_cli.config.sections.served_input import is_served
from drl_cli.contracts import Cluster, Handle
from drl_cli.envs import callbacks
from drl_cli.errors import CheckpointError, Overdue
from drl_cli.policies import custom_distributions, custom_models
from drl_cli.runtime import assembly, run_restore, run_state, worker_files
from drl_cli.runtime.assembly import Parts
from drl_cli.runtime.curriculum import Curriculum
from drl_cli.runtime.evaluation_schedule import EvaluationSchedule
from drl_cli.runtime.evaluator import Scoring, Snapshot
from drl_cli.runtime.iteration_result import IterationResult, Results
from drl_cli.runtime.loop_kinds import Loop
from drl_cli.runtime.loops.replay import ReplayLoop
from drl_cli.runtime.pool import Standing
from drl_cli.runtime.progress import Progress
from drl_cli.runtime.run_clock import REST_S, SAVE_S, Deadline, RunClock, reached
from drl_cli.runtime.run_restore import Restore
from drl_cli.runtime.run_state import Counters, RunMoment, RunState, StatesAtHand
from drl_cli.runtime.worker_set import WorkerSet

PATIENCE_S = 1.2  # after a stop with the running iteration of a run without workers
SLOW_S = 1.0  # a call of the learner that takes so long may be waited for in vain when the run is to end


class Options(TypedDict, total=False):
    """What a run is given beside its config."""

    goal: Goal | None  # confirmed by fresh episodes of an evaluation
    ray: Mapping[str, Any]  # for RayCluster
    folder: Path | None  # the run's, for ``output: logdir``
    limits: Mapping[str, float]  # {time_total_s, time_since_restore: seconds} after which it should end
    thresholds: Mapping[str, float]  # {timesteps_total, ..., episode_reward_mean}: from there no clock counts


class _Saved(NamedTuple):
    """The last checkpoint that was written."""

    run_folder: Path
    iteration: int
    path: Path


class Driver:
    """One run of one algorithm on one environment."""

    def __init__(
        self,
        algorithm: str,
        config: CommonKeys,
        env: Mapping[str, Any],
        options: Options | None = None,
        stop_requested: Callable[[], bool] | None = None,
        cluster: Cluster | None = None,
    ) -> None:
        """``config``: the algorithm's config with its seed set; ``env``: dict(id, asked, env_config, spaces, imports).

        ``stop_requested()`` becomes true when the run should end soon. ``cluster``: to be used instead of one that ``start``
        makes.
        """
        self.row, self.config, self.env = table.find(algorithm), config, dict(env)
        self._options: Options = options or {}
        self._stop_requested = stop_requested or (lambda: False)
        self.clock = RunClock()
        self._deadline = Deadline(self._stop_requested, self._options.get("limits") or {}, self.clock.passed)
        self._cluster = cluster
        self._restore: Restore | None = None  # to continue from once the parts are up
        self._saved: _Saved | None = None
        self._at_hand = StatesAtHand()  # of a slow learner
        self.hooks = callbacks.make(config)  # the driver's object of callbacks, None without any
        self.workers = WorkerSet(lambda: self.parts.pool.handles())
        self.curriculum = Curriculum(self.row, config, self.env, self.workers, self._with_environments)
        self._has_started = False
        self.is_overdue = False  # it had to end before all came to rest: only states at hand are saved
        self._saving_s = 0.0  # in which everything stood still

    # -- life ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Make the parts. Sampling and loading TensorFlow go on in the background when this returns."""
        began, self._has_started = time.monotonic(), True
        ray, goal = self._options.get("ray") or {}, self._options.get("goal")
        output = worker_files.recording_folder(self.config, self._options.get("folder"))
        self.setup = setup = assembly.setup_of(self.row, self.config, self.env)
        for spec in setup.specs.values():
            custom_models.try_out(spec)
            custom_distributions.try_out(spec)
        if self._cluster is None:
            here = assembly.learns_here(self.row, self.config)
            self._cluster = assembly.open_cluster(self.config, ray, self.row.tensorflow, setup.spec.sees_images, here)
        cluster = self._cluster
        self.parts: Parts = assembly.make_parts(setup, cluster, output)
        self.loop: Loop = self.parts.loop
        self.evaluations = EvaluationSchedule(
            setup, cluster, self.parts.server, self._deadline, goal, self._report_progress
        )
        self.loop.start()
        self._start_parts()
        self._results = Results(setup, time.monotonic() - began, is_local=not ray.get("address"))
        cluster.check = self._deadline.check
        self._progress = Progress(setup, self.loop, self.parts.pool, began)

    def _start_parts(self) -> None:
        """Start the workers, and continue from the checkpoint, if there is one."""
        restore = self._restore
        if restore is None:
            self.parts.pool.start({}, self._standing)
            run_restore.report_carry_over(self.setup)
            return
        with restore.refusing_misfits():
            was_scored = self.evaluations.is_deferred and restore.takes_back_scored()
            restore.check_form({**self.moment(), "scoring": self.scoring.state()})
            self.load(restore.state, restore.is_exact, restore.has_replay(self.parts.replay))
            incarnations = restore.incarnations(self.setup, self.parts)
        self.parts.pool.start(incarnations, self._standing)
        with restore.refusing_misfits():
            restore.load_parts(self.setup, self.parts)
        self._scale_rates()
        if was_scored:
            self.evaluations.begin_again(self._snapshot(), self._stop_requested)

    def _standing(self, worker: int) -> Standing:
        """Where the run stands when ``worker`` is made, or its successor."""
        behind = self.loop.pace.behind(worker) if isinstance(self.loop, ReplayLoop) else 0
        return Standing(self.loop.sampled, behind)

    def close(self) -> None:
        """End all parts, and the cluster if it is ours. Safe to call at any time, also twice."""
        if self._cluster is not None:
            self._cluster.close()

    # -- training -----------------------------------------------------------------------------------------------

    @property
    def iteration(self) -> int:
        """Iterations trained so far, those before a restored checkpoint counted."""
        return self.clock.iteration

    def train(self) -> IterationResult:
        """Run one iteration and return its result (nested plain data, RLlib's field names).

        It ends when ``timesteps_per_iteration`` env steps, ``min_train_timesteps_per_iteration`` steps that were learnt from
        and ``min_iter_time_s`` have passed (its clock does not count once a stop rule is reached), early when a stop was
        requested (inline, where iterations must stay repeatable, only if this one goes on for ``PATIENCE_S`` more) or when
        the goal has just been confirmed.
        """
        self.clock.begin_iteration()
        first = self.loop.sampled
        try:
            self._sample_and_learn()
        except Overdue:
            self._is_cut_short()
        self.clock.iteration += 1
        if not self.is_overdue:
            if self.loop.ledger.meters.slowest > SLOW_S and not self.config.learner_actor:
                self._at_hand.ask(self.parts.learner, self.moment())
            self._evaluate_when_due()
        seconds = self.clock.end_iteration()
        steps = self.loop.sampled - first
        result = self._results.close(self.loop, self.parts.pool, self.clock, self.scoring, (seconds, steps))
        if self.hooks:
            fields = cast("dict[str, Any]", result)  # to which it may add
            self.hooks.train_result(fields, trainer=self, workers=self.workers)
        self.curriculum.advance(result)
        if self.curriculum.task:
            result["info"]["env_task"] = self.curriculum.task[0]
        if self.config.lr_factor_by_return is not None:
            result["info"]["lr_factor"] = self.evaluations.lr_factor
        return result

    def _with_environments(self) -> list[Handle]:
        return [*self.parts.pool.handles().values(), *self.evaluations.handles()]

    def get_task(self) -> Any:
        """Return the task of the environments, see ``runtime.curriculum``."""
        return self.curriculum.get_task()

    def set_task(self, task: Any) -> None:
        """Set the task of all environments, and keep it in checkpoints. For callbacks. Raises InputError, PluginFailed."""
        self.curriculum.set_task(task)

    def _sample_and_learn(self) -> None:
        """Do what an iteration does until it is long enough, or has to end."""
        loop, touched = self.loop, self.touched
        first, trained = loop.sampled, loop.trained()
        while self._is_short(loop.sampled - first, loop.trained() - trained, self.clock.running_s()):
            loop.step()
            if not self.evaluations.is_deferred:
                self.evaluations.poll()
                self._scale_rates()
            self._report_progress()
            if self.touched is not touched or self._must_stop_now():
                break
        if self._in_order:
            # Between iterations such a run stands still: what a checkpoint holds is all there is.
            loop.quiesce()
            if loop.is_learning:
                loop.ledger.pushed(self.parts.learner.call("push").result())

    def _is_short(self, steps: int, trained: int, seconds: float) -> bool:
        """Whether an iteration of so many env steps, steps learnt from and seconds must go on."""
        config = self.config
        if steps < max(1, config.timesteps_per_iteration) or trained < config.min_train_timesteps_per_iteration:
            return True
        return seconds < min_iter_seconds(config) and not reached(self._options.get("thresholds") or {}, self.loop)

    def _must_stop_now(self) -> bool:
        """Whether a stop was requested, and the running iteration must not be waited for."""
        since = self._deadline.since()
        if since is None or (since < PATIENCE_S and self._in_order):
            return False
        if self._in_order:
            text = "The stop cut an iteration short: a resumed run goes on from here, but not bit for bit."
            events.report("warning", text=text)
        return True

    @property
    def _is_remote(self) -> bool:
        return self._cluster is not None and self._cluster.is_remote

    @property
    def _in_order(self) -> bool:  # whether timing must decide nothing
        return not self._is_remote or is_deterministic(self.config)

    def _is_cut_short(self) -> None:
        self.is_overdue = True
        if self._cluster is not None:
            self._cluster.is_hurried = True
        text = f"Not all came to rest within {REST_S:g} s of the stop: what was not learnt from by then is lost."
        events.report("warning", text=text)

    def _report_progress(self) -> None:
        # Next to Ray actors an evaluation holds nothing up.
        evaluate_s = 0.0 if self._is_remote else self.scoring.seconds
        self._progress.report(self.clock.iteration, evaluate_s, self._saving_s)

    # -- evaluations --------------------------------------------------------------------------------------------

    @property
    def scoring(self) -> Scoring:
        """The evaluation that is under way, and the newest one."""
        return self.evaluations.scoring

    @property
    def touched(self) -> dict[str, Any] | None:
        """When and with which scores the goal was reached (see ``runtime.evaluator``), None before."""
        return self.scoring.touched

    def scored_result(self) -> dict[str, Any] | None:
        """Return the nested dict of the newest evaluation, None before the first."""
        return self.scoring.newest_result

    def _evaluate_when_due(self) -> None:
        self.evaluations.close_deferred(self._stop_requested)
        if is_served(self.config):
            self.evaluations.take_served(self.clock.iteration, self.loop, self._snapshot)
        elif self.evaluations.is_due(self.clock.iteration, self.loop):
            self.evaluations.begin(self._snapshot(), self._stop_requested)
        self._scale_rates()

    def _scale_rates(self) -> None:
        if self.evaluations.has_new_factor():
            self.parts.learner.call("scale_rates", self.evaluations.lr_factor)

    def _snapshot(self) -> Snapshot:
        self.loop.settle()
        version, arrays = self.parts.learner.call("publish").result()
        self.loop.ledger.pushed(version)
        return Snapshot(version, arrays, self.moment())

    # -- checkpoints --------------------------------------------------------------------------------------------

    def counters(self) -> Counters:
        """Return the counters that name a moment of the run."""
        ledger = self.loop.ledger
        return {
            "training_iteration": self.clock.iteration,
            "timesteps_total": self.loop.sampled,
            "episodes_total": ledger.meters.episodes,
            "num_updates": ledger.updates,
            "time_total_s": self.clock.total_s,
        }

    def moment(self) -> RunMoment:
        """Return the plain data that belongs to what the learner holds at present."""
        return {"counters": self.counters(), "loop": self.loop.state(), "version": self.loop.ledger.version}

    def state(self, moment: RunMoment | None = None) -> RunState:
        """Return what a checkpoint keeps of the driver, at present or with what was taken at a ``moment`` before."""
        incarnations = {str(index): number for index, number in self.parts.pool.incarnations().items()}
        present = moment or self.moment()
        state: RunState = {
            "counters": present["counters"],
            "loop": present["loop"],
            "version": present["version"],
            "scoring": self.scoring.state(),
            "incarnations": incarnations,
        }
        if self.hooks:
            state["callbacks"] = self.hooks.state()
        if self.curriculum.task:
            state["task"] = self.curriculum.task
        return state

    def load(self, state: Mapping[str, Any], exact: bool, with_replay: bool) -> None:
        """Continue from ``state``; only with ``exact`` a goal that was reached stays so, and callbacks go on."""
        self.clock.load(state["counters"])
        self.loop.ledger.pushed(state["version"])
        self.scoring.load(state["scoring"], exact)
        if exact and self.hooks:
            self.hooks.load(state.get("callbacks"))
        if exact:
            self.curriculum.load(state.get("task"))
        self.loop.load(state["loop"], with_replay)

    def save(self, run_folder: Path, reason: str = "periodic") -> Path:
        """Write a checkpoint of the present moment, for ``reason`` ("periodic", "best", "final"); returns its path."""
        saved = self._saved
        if saved is not None and saved[:2] == (run_folder, self.iteration) and saved.path.exists():
            return saved.path
        began = time.monotonic()
        path = self._save(run_folder)
        self._saving_s += time.monotonic() - began
        self._saved = _Saved(run_folder, self.iteration, path)
        return path

    def _save(self, run_folder: Path) -> Path:
        if not self.is_overdue:
            try:
                self.loop.quiesce()
            except Overdue:
                self._is_cut_short()
            else:
                with contextlib.suppress(Overdue):
                    present = (self.state(), self.scored_result())
                    return run_state.save(self.setup, self.parts, run_folder, *present, self._deadline.check_save)
                text = f"The replay was not written within {SAVE_S:g} s of the stop: a resumed run fills it anew."
                events.report("warning", text=text)
        return self.save_at_hand(run_folder)

    def save_at_hand(self, run_folder: Path) -> Path:
        """Write a checkpoint of the newest state of the learner that can be had without waiting; returns its path.

        It holds no replay and no running episodes. Raises Overdue where no state is newer than what is saved. May be called
        from another thread than the run's.
        """
        known, newest = self._at_hand.known(), self.scoring.newest
        if newest is not None:
            known.append((newest.arrays, newest.moment))
        if self.loop.is_learning and not self.config.learner_actor:
            known += run_state.at_once(self.parts.learner, self.moment)
        if not self.loop.ledger.updates:
            raise Overdue("Nothing is saved: nothing was learnt yet.")
        arrays, moment = run_state.newest(known, run_folder)
        return run_state.save_learner(self.setup, run_folder, arrays, self.state(moment), self.scored_result())

    def save_evaluated(self, run_folder: Path) -> Path:
        """Write a checkpoint of the weights that the newest evaluation scored; returns its path.

        Its number is that evaluation's iteration. It holds no replay, unless that moment is still the present one.
        """
        snapshot = self.scoring.newest
        if snapshot is None:
            raise CheckpointError("Nothing has been evaluated yet.")
        if snapshot.counters["training_iteration"] == self.iteration and self._in_order:
            return self.save(run_folder, "best")
        state = self.state(snapshot.moment)
        return run_state.save_learner(self.setup, run_folder, snapshot.arrays, state, snapshot.result)

    def restore(self, ckpt: checkpoints.Checkpoint, exact: bool) -> None:
        """Continue from ``ckpt``; before ``start``.

        ``exact``: the running episodes too, as ``--resume`` needs them. Raises CheckpointError when it does not fit.
        """
        run_restore.check_fits(self.row, self.config, self.env, ckpt)
        if self._has_started:
            raise CheckpointError("A checkpoint must be restored before the run has started.")
        self._restore = Restore(ckpt, exact)
