"""Driver: the five parts of a run, assembled from a row of the table, and driven iteration by iteration.

``start`` makes the parts, ``train`` closes one iteration and returns its result, ``save`` and ``restore`` move the whole
state of the run to and from a checkpoint, ``close`` ends everything. The command line, the tests and the Python door
drive the same object; fault tests hand it a cluster of their own.
"""

import time

from drl_cli import events, process
from drl_cli.algorithms import table
from drl_cli.config.sections.iteration import min_iter_seconds
from drl_cli.config.sections.offline import reads_only
from drl_cli.envs import callbacks
from drl_cli.envs.preprocessors import frames_of
from drl_cli.errors import CheckpointError, Overdue
from drl_cli.extras import load
from drl_cli.policies import custom_models
from drl_cli.policies.numpy_policy import DEFAULT_POLICY
from drl_cli.runtime import assembly, machine, run_state
from drl_cli.runtime.bottleneck import Bottleneck, Setting
from drl_cli.runtime.cluster import PartFailed, PartLost
from drl_cli.runtime.deadline import REST_S, Deadline
from drl_cli.runtime.evaluator import ESTIMATES, Scoring, Snapshot

PROGRESS_EVERY_S = 0.25
EDGE_MASS = 0.25  # share of C51's target mass on its two outermost atoms that is worth a warning
SCORES_EVERY_S = 0.02  # between two looks for scores that are waited for
PATIENCE_S = 1.2  # of a stop with the running iteration of a run without workers, or its evaluation
ATTEMPTS = 3  # of making a tester that dies, or whose environment breaks


class Driver:
    """One run of one algorithm on one environment."""

    def __init__(self, algorithm, config, env, options=None, stop_requested=None, cluster=None):
        """``config``: the algorithm's config with its seed set; ``env``: dict(id, asked, env_config, spaces, imports).

        ``options``: dict(goal: target of evaluation/episode_reward_mean or None, ray: dict for RayCluster, folder: the run's
        for ``output: logdir``, or None; limits: dict(time_total_s, time_since_restore) of seconds after which it should end).
        ``stop_requested``: callable that becomes true when the run should end soon. ``cluster``: to be used instead of
        one that ``start`` makes.
        """
        self.row, self.config, self.env = table.find(algorithm), config, env
        self._options = {"goal": None, "ray": {}, "folder": None, "limits": {}} | (options or {})
        self._stop_requested = stop_requested or (lambda: False)
        self._deadline = Deadline(self._stop_requested, self._options["limits"], self._seconds)
        self._cluster = cluster
        self.iteration = 0
        self._since = {"time": 0.0, "steps": 0, "iterations": 0}  # at the last restore
        self._time_total = 0.0
        self._restored = None  # the checkpoint to continue from once the parts are up
        self._saved = None  # (run folder, iteration, path) of the last save
        self.parts = None
        self.hooks = callbacks.make(config)  # the driver's object of callbacks, None without any
        self._testers_lost = 0
        self._edges_warned = False
        self._busy_before = None
        self._iteration_began = None  # while one is running
        self.held = []  # of a slow learner, see ``saving.hold``
        self.is_overdue = False  # it had to end before all came to rest: what is saved is what was at hand
        self.is_writing = False  # a checkpoint
        self._saving_s = 0.0  # in which everything stood still
        loop = table.loop_name(self.row)
        self._bottleneck = Bottleneck(Setting(loop, config.num_workers, machine.cores(), reads_only(config)))

    # -- life ---------------------------------------------------------------------------------------------------

    def start(self):
        """Make the parts. Sampling and loading TensorFlow go on in the background when this returns."""
        self._began = time.monotonic()
        output = assembly.recording_folder(self.config, self._options["folder"])
        spaces = self.env["spaces"] | {"frames": frames_of(self.env.get("preprocessing"))}
        self.spec = load(self.row.nets).policy_spec(self.config, spaces)
        custom_models.try_out(self.spec)
        self._cluster = self._cluster or assembly.open_cluster(
            self.config, self._options["ray"], self.row.tensorflow, self.spec.sees_images
        )
        self.parts = assembly.make_parts(self.row, self.config, self.env, self.spec, self._cluster, output)
        self.loop = self.parts.loop
        self.scoring = Scoring(self._make_tester, self.config, self.config.seed, self._options["goal"])
        self._tester = None
        self.loop.start()
        self.parts.pool.start(run_state.restore_counters(self, *self._restored) if self._restored else {})
        if self._restored is not None:
            run_state.restore(self, *self._restored)
        self._start_seconds = time.monotonic() - self._began
        self._cluster.check = self._deadline.check
        self._last_progress, self._progress_marks = 0.0, (time.monotonic(), self.loop.sampled, self.loop.updates)

    def _make_tester(self):
        if self._tester is None:
            self._tester = assembly.make_tester(self.config, self.env, self.spec, self._cluster, self.parts.server)
        return self._tester

    def close(self):
        """End all parts, and the cluster if it is ours. Safe to call at any time, also twice."""
        if self._cluster is not None:
            self._cluster.close()

    # -- training -----------------------------------------------------------------------------------------------

    def train(self):
        """Run one iteration and return its result (nested plain data, RLlib's field names).

        It ends when ``timesteps_per_iteration`` env steps, ``min_train_timesteps_per_iteration`` steps that were learnt from
        and ``min_iter_time_s`` have passed, early when a stop was
        requested (inline, where iterations must stay repeatable, only if this one goes on for ``PATIENCE_S`` more) or when
        the goal has just been confirmed.
        """
        began = self._iteration_began = time.monotonic()
        first = self.loop.sampled
        try:
            self._sample_and_learn()
        except Overdue:
            self._is_cut_short()
        self.iteration += 1
        if not self.is_overdue:
            run_state.hold(self)
            self._evaluate_when_due()
        seconds = time.monotonic() - began
        self._iteration_began = None
        self._time_total += seconds
        result = self._result(seconds, self.loop.sampled - first)
        if self.hooks:
            self.hooks.train_result(result)
        return result

    def _sample_and_learn(self):
        """Do what an iteration does until it is long enough, or has to end."""
        began, loop, touched = self._iteration_began, self.loop, self.scoring.touched
        first, trained = loop.sampled, loop.trained()
        while self._is_short(loop.sampled - first, loop.trained() - trained, time.monotonic() - began):
            loop.step()
            self._poll_scoring()
            self._progress()
            if self.scoring.touched is not touched or self._must_stop_now():
                break
        if not self._cluster.is_remote:
            # Between iterations an inline run stands still: what a checkpoint holds is all there is.
            loop.quiesce()
            if loop.is_learning:
                loop.meters.version = self.parts.learner.call("push").result()

    def _is_short(self, steps, trained, seconds):
        """Whether an iteration of so many env steps, steps learnt from and seconds must go on."""
        config = self.config
        is_long = (
            steps >= max(1, config.timesteps_per_iteration) and trained >= config.min_train_timesteps_per_iteration
        )
        return not is_long or seconds < min_iter_seconds(config)

    def _must_stop_now(self):
        """Whether a stop was requested, and the running iteration must not be waited for."""
        since = self._deadline.since()
        if since is None or (since < PATIENCE_S and not self._cluster.is_remote):
            return False
        if not self._cluster.is_remote:
            text = "The stop cut an iteration short: a resumed run goes on from here, but not bit for bit."
            events.report("warning", text=text)
        return True

    def _seconds(self):
        """Return what stop rules count, {field: seconds}, at this moment."""
        running = time.monotonic() - self._iteration_began if self._iteration_began is not None else 0.0
        total = self._time_total + running
        return {"time_total_s": total, "time_since_restore": total - self._since["time"]}

    def _is_cut_short(self):
        self.is_overdue = self._cluster.is_hurried = True
        text = f"Not all came to rest within {REST_S:g} s of the stop: what was not learnt from by then is lost."
        events.report("warning", text=text)

    def adopt(self, state, exact):
        """Continue the counters of a checkpoint's ``state``; only with ``exact`` a goal that was touched stays so."""
        counters = state["counters"]
        self.iteration, self._time_total = counters["training_iteration"], counters["time_total_s"]
        self._since = {"time": self._time_total, "steps": counters["timesteps_total"], "iterations": self.iteration}
        self.loop.meters.version = state["version"]
        self.scoring.load(state["scoring"], exact)

    def scored_result(self):
        """Return the nested dict of the newest evaluation, None before the first."""
        return self.scoring.newest_result

    def _evaluate_when_due(self):
        interval = self.config.evaluation_interval
        due = interval and (self.iteration % interval == 0 or self._looks_solved()) and self.loop.updates > 0
        if not due or self.scoring.is_busy or self._testers_lost >= ATTEMPTS or self._deadline.since() is not None:
            return
        self.loop.settle()
        version, arrays = self.parts.learner.call("publish").result()
        self.loop.meters.version = version
        if not self._cluster.is_remote:
            self._deadline.rest_s = PATIENCE_S  # it can be given up without a loss
        self.scoring.begin(Snapshot(version, arrays, run_state.moment(self)))
        if not self._cluster.is_remote or self.config.evaluation_parallel_to_training is False:
            self._await_scoring()
        self._deadline.rest_s = REST_S

    def _looks_solved(self):
        """Whether training episodes are at the goal before any evaluation, so that the first one comes at once."""
        goal, mean = self._options["goal"], self.loop.meters.reward_mean()
        return goal is not None and self.scoring.count == 0 and mean is not None and mean >= goal

    def _await_scoring(self):
        """Train no further until the evaluation is over, or a stop was requested."""
        while self.scoring.is_busy and not (self._cluster.is_remote and self._stop_requested()):
            self._poll_scoring()
            self._progress()
            if self._cluster.is_remote and self.scoring.is_busy:
                time.sleep(SCORES_EVERY_S)

    def _poll_scoring(self):
        try:
            self.scoring.poll()
        except Overdue:
            self.scoring.abandon()
            events.report("warning", text="The stop cut an evaluation short: it does not count.")
        except (PartLost, PartFailed) as lost:
            self._testers_lost += 1
            self.scoring.abandon()
            for handle in getattr(self._tester, "handles", ()):
                self._cluster.kill(handle)  # the others of several; they play for nobody any more
            self._tester = None
            events.report("worker_lost", worker="tester", incarnation=self._testers_lost - 1, text=str(lost))
            if self._testers_lost == ATTEMPTS:
                events.report(
                    "warning",
                    text=f"The tester was lost {ATTEMPTS} times: this run goes on without evaluations, and a stop or a best "
                    "checkpoint that depends on them will not come.",
                )

    @property
    def touched(self):
        """What is known of the touch (see ``runtime.evaluator``), None before it."""
        return self.scoring.touched

    def counters(self):
        """Return the counters that name a moment of the run."""
        return {
            "training_iteration": self.iteration,
            "timesteps_total": self.loop.sampled,
            "episodes_total": self.loop.meters.episodes,
            "num_updates": self.loop.updates,
            "time_total_s": self._time_total,
        }

    # -- results ------------------------------------------------------------------------------------------------

    def _result(self, seconds, steps):
        closed = self.loop.meters.close_iteration()
        learner, lag, timers = closed.pop("learner"), closed.pop("weight_lag_mean"), closed.pop("timers")
        exploration = closed.pop("exploration")
        self._warn_of_edges(learner.get("edge_mass"))
        trained, sampled = self.loop.trained(), self.loop.sampled
        idle = max(0.0, seconds - timers["learn_s"]) if self.loop.is_learning else None
        wait = {"start_s": self._start_seconds, "prepare_s": self.loop.meters.prepare_seconds, "wait_s": idle}
        result = self.counters() | closed
        del result["num_updates"]
        result |= {
            "timesteps_this_iter": steps,
            "time_this_iter_s": seconds,
            "time_since_restore": self._time_total - self._since["time"],
            "timesteps_since_restore": sampled - self._since["steps"],
            "iterations_since_restore": self.iteration - self._since["iterations"],
            **machine.identity(is_local=not self._options["ray"].get("address")),
            "num_healthy_workers": self.parts.pool.healthy,
            "num_restarts": self.parts.pool.restarts,
            "transitions_lost": self.parts.pool.fragments_lost * assembly.fragment_steps(self.config),
            "bad_transitions": self.loop.meters.bad_transitions,
            **self._scores(),
            "timers": timers | wait | {"evaluate_s": self.scoring.seconds},
            "perf": self._perf(),
            "done": False,
        }
        result["info"] = {
            "num_steps_sampled": sampled,
            "num_steps_trained": trained,
            "num_updates": self.loop.updates,
            "num_target_updates": load(self.row.nets).target_updates(self.config, self.loop.updates),
            "weight_version": self.loop.meters.version,
            "weight_lag_mean": lag,
            "exploration": exploration,
            "learner": {DEFAULT_POLICY: learner},
        } | self.loop.info()
        return result

    def _scores(self):
        """The newest evaluation, and what recorded episodes say of the same weights; no empty column before the first."""
        scored = dict(self.scored_result() or {})
        estimates = scored.pop(ESTIMATES, {})
        return {"evaluation": scored} | ({ESTIMATES: estimates} if estimates else {})

    def _warn_of_edges(self, mass):
        if mass is None or mass <= EDGE_MASS or self._edges_warned:
            return
        self._edges_warned = True
        events.report(
            "warning",
            text=f"{100 * mass:.0f} % of the returns' mass sits on the outermost atoms: v_min {self.config.v_min:g} and v_max "
            f"{self.config.v_max:g} are too narrow for this environment's discounted returns. Widen them.",
        )

    def _perf(self):
        if not self.config.log_sys_usage:
            return {"cpu_util_percent": None, "ram_util_percent": None}
        cpu, memory, self._busy_before = process.use_of_machine(self._busy_before)
        return {"cpu_util_percent": cpu, "ram_util_percent": memory}

    def _progress(self):
        now = time.monotonic()
        if now - self._last_progress < PROGRESS_EVERY_S:
            return
        self._last_progress = now
        since, steps, updates = self._progress_marks
        elapsed = max(now - since, 1e-9)
        if elapsed >= 2.0:
            self._progress_marks = (now, self.loop.sampled, self.loop.updates)
        meters = self.loop.meters
        self._bottleneck.look(now, self._spent(), self.parts.pool.healthy)
        events.report(
            "progress",
            seconds=now - self._began,
            env_steps=self.loop.sampled,
            env_steps_per_s=(self.loop.sampled - steps) / elapsed,
            updates=self.loop.updates,
            updates_per_s=(self.loop.updates - updates) / elapsed,
            episodes=meters.episodes,
            episode_reward_mean=meters.reward_mean(),
            replay_size=self.loop.stored,
            replay_capacity=getattr(self.config, "buffer_size", None),  # a key of algorithms with a replay
            weight_version=meters.version,
            weight_lag=meters.lag,
            waiting=self.loop.waiting(),
            bottleneck=self._bottleneck.text,
            training_iteration=self.iteration,
            workers=self.parts.pool.healthy if self.config.num_workers else 0,  # 0: the only one is in this process
            read=meters.read and meters.read.info(),
            only_reads=reads_only(self.config),
            learner="learning" if self.loop.is_learning else self._loading(),
        )

    def _loading(self):
        """What the learner is at before it says more (event ``learner``), which in a process of its own it cannot."""
        if self.config.learner_actor:
            return "starting in a process of its own"
        return "loading TensorFlow" if self.row.tensorflow else "starting"

    def _spent(self):
        """Return the seconds that went into each thing so far, None before the first update."""
        if not self.loop.meters.has_learnt:
            return None
        # Beside Ray actors an evaluation holds nothing up.
        evaluate = 0.0 if self._cluster.is_remote else self.scoring.seconds
        return self.loop.meters.spent | {"evaluate": evaluate, "save": self._saving_s}

    # -- checkpoints --------------------------------------------------------------------------------------------

    def save(self, run_folder, reason="periodic"):
        """Write a checkpoint of the present moment, for ``reason`` ("periodic", "best", "final"); returns its path."""
        if self._saved is not None and self._saved[:2] == (run_folder, self.iteration) and self._saved[2].exists():
            return self._saved[2]
        began, self.is_writing = time.monotonic(), True
        try:
            path = self._save(run_folder)
        finally:
            self.is_writing = False
        self._saving_s += time.monotonic() - began
        self._saved = (run_folder, self.iteration, path)
        return path

    def _save(self, run_folder):
        if not self.is_overdue:
            try:
                return run_state.save(self, run_folder)
            except Overdue:
                self._is_cut_short()
        return run_state.save_at_hand(self, run_folder)

    def save_evaluated(self, run_folder):
        """Write a checkpoint of the weights that the newest evaluation scored; returns its path.

        Its number is that evaluation's iteration. It holds no replay, unless that moment is still the present one.
        """
        snapshot = self.scoring.newest
        if snapshot.counters["training_iteration"] == self.iteration and not self._cluster.is_remote:
            return self.save(run_folder, "best")
        return run_state.save_snapshot(self, run_folder, snapshot)

    def restore(self, ckpt, exact):
        """Continue from ``ckpt`` (a ``checkpoint.Checkpoint``); before ``start``.

        ``exact``: the running episodes too, as ``--resume`` needs them. Raises CheckpointError when it does not fit.
        """
        run_state.check_fits(self, ckpt)
        if self.parts is not None:
            raise CheckpointError("A checkpoint must be restored before the run has started.")
        self._restored = (ckpt, exact)
