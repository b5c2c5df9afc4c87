"""One experiment from its spec to its outcome: the loop around the driver's ``train()``.

Users: the command ``drl train``, the Python Trainer, the trials of a search. Opens the run folder, logs every iteration, keeps
checkpoints, stops by rule, goal or signal, and always closes what it opened. TensorFlow and Ray are loaded with the driver's
parts.
"""

import contextlib
import dataclasses
import functools
import logging
import signal
import threading
import time
import traceback
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from drl_cli import events, plugins
from drl_cli.errors import CheckpointError, CriterionMissed, DrlError, ResourcesExhausted, RunFailed, machine_failure
from drl_cli.experiments import next_steps, run_records
from drl_cli.experiments.env_watch import EnvCallWatch
from drl_cli.experiments.open_run import Opening, open_run, report_notices
from drl_cli.experiments.spec import ExperimentSpec
from drl_cli.runs import retention
from drl_cli.runs.checkpoint_policy import CheckpointPolicy, CheckpointSettings
from drl_cli.runs.diagnosis import Diagnosis, StallWatch
from drl_cli.runs.journal import Journal
from drl_cli.runs.loggers import Loggers
from drl_cli.runs.run_history import situation
from drl_cli.runs.run_upload import Uploads
from drl_cli.runs.stop_rules import Stopper, unmet_criteria, unmet_requirements
from drl_cli.runtime import driver
from drl_cli.stop_request import StopCondition, StopRequest

Result = dict[str, Any]
"""The nested result of an iteration, with RLlib's field names."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a run ended.

    ``state`` "finished", "interrupted" or "failed"; ``text`` why; ``exit_code`` of the command; ``run_folder``;
    ``final`` and ``best`` checkpoints (paths or None); ``result``, the last nested result dict or None; ``error``, the DrlError
    that a run failed with.
    """

    state: str
    text: str
    exit_code: int
    run_folder: Path
    final: Path | None = None
    best: Path | None = None
    result: Result | None = None
    error: DrlError | None = None


@dataclasses.dataclass(frozen=True)
class Moment:
    """A run between two iterations.

    ``result`` of the last one, None before the first; ``save(for_good=False)`` writes a checkpoint and returns its path, None
    when the disk refused (see ``runs.checkpoint_policy``); ``driver``: of ``runtime.driver``; ``run_folder``: its path.
    """

    result: Result | None
    save: Callable[..., Path | None]
    driver: Any
    run_folder: Path


Steps = Generator[Moment, None, Outcome]


def run(
    spec: ExperimentSpec,
    stop_request: StopCondition,
    driver_class: Callable[..., Any] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Outcome:
    """Run one ExperimentSpec to its end and return the Outcome.

    ``driver_class`` and ``clock`` (monotonic seconds) are for tests. Raises InputError when the run cannot even be opened; what
    goes wrong later is an Outcome with state "failed", except for bugs, which are logged and raised.
    """
    steps = stepwise(spec, stop_request, driver_class, clock)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def stepwise(
    spec: ExperimentSpec,
    stop_request: StopCondition,
    driver_class: Callable[..., Any] | None = None,
    clock: Callable[[], float] = time.monotonic,
    at_start: bool = False,
) -> Steps:
    """As ``run``, an iteration at a time: a generator that yields a Moment after each and returns the Outcome.

    ``at_start``: there is a Moment before the first iteration too, as soon as all parts are up.
    """
    opening = open_run(spec)
    with contextlib.ExitStack() as stack:
        stack.callback(opening.folder.close)
        uploads = _uploads(spec, opening, stack)
        if opening.over:
            outcome = _already_over(spec, opening, opening.over)
            _ = uploads is None or uploads.finish()  # the copy of a run whose last one failed
            return outcome
        journal = Journal(opening.folder, clock, spec.log_format)
        stack.callback(journal.close)
        report_notices(opening)
        one = _Run(spec, opening, stop_request, clock)
        # What ends the process itself where this loop does not come to it in time.
        stack.callback(stop_request.before_exit(lambda number, is_late: one.cut_off(number, is_late, journal)))
        try:
            outcome = yield from one.run(driver_class or driver.Driver, at_start)
        except Exception as error:
            failure = _failure(error)
            if failure is None:
                one.crashed(journal)
                raise
            outcome = one.failed(failure)
        except KeyboardInterrupt:
            outcome = one.interrupted()
        except GeneratorExit:
            raise
        except BaseException:
            one.crashed(journal)
            raise
        is_copied = uploads is not None and uploads.finish()
        one.report(outcome)
        if uploads is not None and is_copied:
            uploads.last_records()
    return outcome


def _uploads(spec: ExperimentSpec, opening: Opening, stack: contextlib.ExitStack) -> Uploads | None:
    """Return what copies the run to its ``storage_path``, closed by ``stack``; None where it has none."""
    if opening.upload is None:
        return None
    again = next_steps.resume(opening.folder.path, spec)
    uploads = Uploads(opening.upload, lambda: f"To copy what is missing: {again}")
    stack.callback(uploads.close)
    return uploads


def _already_over(spec: ExperimentSpec, opening: Opening, reason: str) -> Outcome:
    """Report a resumed run whose stop rules leave nothing to train, and return its Outcome; its folder stays as it is."""
    report_notices(opening)
    path, last = opening.folder.path, opening.rows[-1]
    best = retention.best_name(path)
    best = path / best if best and (path / best).is_dir() else None
    missed = unmet_criteria(spec.pass_criteria, last) + unmet_requirements(spec.demands, last)
    text = "; ".join([reason, *missed])
    code = CriterionMissed.exit_code if missed else 0
    outcome = Outcome("finished", text, code, path, opening.start and opening.start.path, best, last)
    _report(outcome)
    return outcome


def _failure(error: BaseException | None) -> DrlError | None:
    """Return the DrlError that ``error`` is or stands for, None for a bug."""
    if isinstance(error, DrlError):
        return error
    reason = None if error is None else machine_failure(error)
    return ResourcesExhausted(reason) if reason is not None else None


class _Run:
    """The state of the loop: the last result, the driver and its checkpoints."""

    def __init__(
        self, spec: ExperimentSpec, opening: Opening, stop_request: StopCondition, clock: Callable[[], float]
    ) -> None:
        self._spec, self._opening, self._stop_request, self._clock = spec, opening, stop_request, clock
        self._path = opening.folder.path
        self._result: Result | None = None
        self._driver: Any = None
        self._keeping: CheckpointPolicy | None = None
        self._outcome_known: Outcome | None = None
        self._stuck_in = ""  # the call of an environment that did not return
        self._unreported = threading.Semaphore(1)  # taken by the thread that reports how the run ended

    def run(self, driver_class: Callable[..., Any], at_start: bool) -> Steps:
        """Build the driver, train to the end, save; yields a Moment each iteration and returns the Outcome."""
        spec = self._spec
        start = self._opening.start
        ending = Stopper(spec.stop, spec.config, start.number if start else -1)
        with contextlib.ExitStack() as stack:
            stack.callback(EnvCallWatch(spec.config.env_timeout_s, self._stuck).start())
            self._driver = self._started(driver_class, ending, stack)
            score, is_evaluated = (
                spec.checkpoint_score_attr or "training_iteration",
                bool(spec.config.evaluation_interval),
            )
            wanted = CheckpointSettings(spec.checkpoint_freq or 0, spec.keep_checkpoints_num, score, is_evaluated)
            self._keeping = keeping = CheckpointPolicy(wanted, self._opening, self._driver, self._clock)
            recorded = (run_records.params(spec), spec.loggers, self._opening.exact)
            loggers = Loggers(self._path, self._opening.joined_at, *recorded)
            stack.callback(loggers.close)
            facts = situation(spec.config, spec.env, spec.env_facts, ending.goal.reward if ending.goal else None)
            diagnosis = Diagnosis(facts, self._clock)
            stack.callback(StallWatch(facts.limit is not None, self._clock).start())
            if at_start:
                yield self._moment(keeping)
            reason = None
            while reason is None and not self._stop_request:
                result = self._driver.train()
                reason = self._reason(ending, result)
                self._result = result = {**result, **self._identity(), "done": reason is not None}
                loggers.write(result)
                events.report("result", result=result)
                diagnosis.see(result)
                if reason is not None:
                    ending.report_held()
                keeping.after(result)
                yield self._moment(keeping)
            saved = self._result is None or keeping.final(self._result)
            self._outcome_known = self._ended(reason, saved or keeping.is_overdue)
            return self._outcome_known

    def _started(self, driver_class: Callable[..., Any], ending: Stopper, stack: contextlib.ExitStack) -> Any:
        """Return the driver with all its parts up, restored from the checkpoint to start from."""
        spec, opening, stop_request = self._spec, self._opening, self._stop_request
        shared = {"imports": tuple(spec.imports), "plugins": plugins.registered()}
        env = {**spec.env_facts, **shared, "videos": str(self._path / "videos")}
        options = {"goal": ending.goal, "ray": spec.ray, "folder": self._path}
        options |= {"limits": ending.limits, "thresholds": ending.thresholds}
        with stop_request.starting():
            made = driver_class(spec.run, spec.config, env, options, lambda: bool(stop_request))
            stack.push(functools.partial(self._close, made))
            if opening.start:
                made.restore(opening.start, exact=opening.exact)
            made.start()
        return made

    def _close(self, made: Any, _kind: object, error: BaseException | None, _trace: object) -> None:
        failure = _failure(error)
        if failure is not None:
            self.failed(failure)
        closed = self._stop_request.closing(self._left_open) if self._outcome_known else None
        try:
            made.close()
        finally:
            if closed:
                closed()

    def _stuck(self, text: str) -> None:
        self._stuck_in = f"{self._spec.env}: {text}"
        self._stop_request.end_stuck()
        # Nothing was ended: the program is another's.
        events.report("diagnosis", name="stuck", text=f"Looks stuck: {self._stuck_in}")

    def _left_open(self) -> None:
        text = f"What was open has not closed for {StopRequest.CLOSE_S:g} s: the command ends without it. Does env.close hang?"
        events.report("warning", text=text)

    def _reason(self, ending: Stopper, result: Result) -> str | None:
        """Return why the run ends after ``result``, or None."""
        reason = ending.check(result, self._driver.touched)
        if reason is None and result.get("done") is True:
            return f"on_train_result of the callbacks {self._spec.config.callbacks!r} set done"
        return reason

    def _identity(self) -> Result:
        return {"experiment_id": self._path.name.rpartition("_")[2], "trial_id": self._path.name}

    def _moment(self, keeping: CheckpointPolicy) -> Moment:
        def save(for_good: bool = False) -> Path | None:
            return keeping.now(self._result, for_good)

        return Moment(self._result, save, self._driver, self._path)

    def _ended(self, reason: str | None, saved: bool) -> Outcome:
        if not saved:
            text = "the final checkpoint could not be written"
            state = "interrupted" if reason is None else "finished"
            return self._outcome(state, f"{text}. {self._advice()}", ResourcesExhausted.exit_code)
        if reason is None:
            ending = self._stop_request.ending
            return self._outcome(ending[0], ending[1], 0) if ending else self.interrupted()
        missed = unmet_criteria(self._spec.pass_criteria, self._result)
        missed += unmet_requirements(self._spec.demands, self._result)
        if missed:
            return self._outcome("finished", f"{reason}, but {'; '.join(missed)}", CriterionMissed.exit_code)
        return self._outcome("finished", reason, 0)

    def interrupted(self) -> Outcome:
        """Return the Outcome of a run that a signal ended."""
        code = self._stop_request.exit_code or 128 + signal.SIGINT
        return self._outcome("interrupted", f"stopped by {signal.Signals(code - 128).name}. {self._advice()}", code)

    def cut_off(self, number: int, is_late: bool, journal: Journal) -> int:
        """Record how a run ends whose process is about to exit, whatever it is doing; returns the exit code.

        ``is_late``: the loop did not stop in time; what can be saved without it is saved. Called in another thread than the
        run's.
        """
        if is_late and self._keeping is not None and self._outcome_known is None:
            journal.end(self._cut_off(number, is_late))  # the save may not come to its end
            # What cannot be saved now is lost: the outcome says so already.
            with contextlib.suppress(Exception):
                self._keeping.saved = self._driver.save_at_hand(self._path)
        outcome = self._outcome_known or self._cut_off(number, is_late)
        journal.end(outcome)
        self.report(outcome)
        return outcome.exit_code

    def report(self, outcome: Outcome) -> None:
        """Report how the run ended, unless this was done before: a process that is being ended has two threads that would."""
        if self._unreported.acquire(blocking=False):
            _report(outcome)

    def _cut_off(self, number: int, is_late: bool) -> Outcome:
        keeping = self._keeping
        iteration = (self._result or {}).get("training_iteration")
        saved = keeping and keeping.saved
        if iteration is None:
            lost = f"{'saved ' if saved else ''}before the first iteration was over"
        elif saved and retention.number_of(saved) >= iteration:
            lost = f"saved at iteration {retention.number_of(saved)}"
        else:
            last = f"iteration {retention.number_of(saved)}" if saved else "the start"
            lost = f"what was learnt since {last} was not saved"
        start = self._opening.start if self._opening.exact else None
        last = saved or (keeping and keeping.best) or (start and start.path)
        if self._stuck_in:
            return self._outcome(
                "failed", f"{self._stuck_in}\nThe run ended: {lost}. {self._advice(last)}", RunFailed.exit_code, last
            )
        name = signal.Signals(number).name
        how = f"ended by {name} after {StopRequest.REST_S:g} s" if is_late else f"ended at once by {name}"
        return self._outcome("interrupted", f"{how}: {lost}. {self._advice(last)}", 128 + number, last)

    def failed(self, error: DrlError) -> Outcome:
        """Return the Outcome of a run that an error ended: nothing is saved, since the state may be what is wrong."""
        outcome = self._outcome("failed", f"{error}\n{self._advice()}", error.exit_code)
        self._outcome_known = dataclasses.replace(outcome, error=error)
        return self._outcome_known

    def crashed(self, journal: Journal) -> None:
        """Log the traceback of a bug and record that the run is over."""
        journal.log(logging.ERROR, traceback.format_exc())
        self.report(self._outcome("failed", f"internal error. {self._advice()}", 1))

    def _advice(self, last: Path | None = None) -> str:
        """Return the last good checkpoint (None: looked for) and the command that continues from it."""
        last = last or self._last_good()
        if last is None:
            return "Nothing was saved"
        return f"Last good checkpoint: {last}. Go on with: {next_steps.resume(self._path, self._spec)}"

    def _last_good(self) -> Path | None:
        try:
            return retention.newest_valid(self._path)[0].path
        except CheckpointError:
            # None can be read: there is none, or this process may open no more files. What it wrote itself is there then.
            return self._keeping.saved if self._keeping else None

    def _outcome(self, state: str, text: str, code: int, last: Path | None = None) -> Outcome:
        keeping = self._keeping
        final, best = (keeping.saved, keeping.best) if keeping else (None, None)
        return Outcome(state, text, code, self._path, final or last or self._last_good(), best, self._result)


def _report(outcome: Outcome) -> None:
    paths = {"run": outcome.run_folder, "final": outcome.final, "best": outcome.best}
    folders = {name: path and str(path) for name, path in paths.items()}
    events.report("finished", state=outcome.state, text=outcome.text, exit_code=outcome.exit_code, **folders)
