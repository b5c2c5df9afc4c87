"""One experiment from its spec to its outcome: the loop around ``Trainer.train()``.

Users: the command ``drl train``, the Python door, the trials of a search. Opens the run folder, logs every iteration, keeps
checkpoints, stops by rule, goal or signal, and always closes what it opened. TensorFlow and Ray are loaded with the Trainer.
"""

import contextlib
import dataclasses
import errno
import logging
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from drl_cli import events, plugins
from drl_cli.errors import CheckpointError, CriterionMissed, DrlError, ResourcesExhausted
from drl_cli.experiments import next_steps
from drl_cli.experiments.open_run import open_run, report_notices
from drl_cli.extras import load
from drl_cli.runs import demands, records, retention
from drl_cli.runs.checkpoint_policy import Keeping
from drl_cli.runs.diagnosis import Diagnosis, Listening, situation
from drl_cli.runs.goal_hold import Ending
from drl_cli.runs.journal import Journal
from drl_cli.runs.loggers import Loggers
from drl_cli.runs.stop_rules import unmet

TRAINER = "drl_cli.runtime.driver:Driver"
EXHAUSTED = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM)


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
    result: dict | None = None
    error: DrlError | None = None


def run(spec, stop_request, trainer_class=None, clock=time.monotonic):
    """Run one ExperimentSpec to its end and return the Outcome.

    ``stop_request`` is true as soon as the run shall stop (``process.StopRequest``). ``trainer_class`` and ``clock``
    (monotonic seconds) are for tests. Raises InputError when the run cannot even be opened; what goes wrong later is an
    Outcome with state "failed", except for bugs, which are logged and raised.
    """
    steps = stepwise(spec, stop_request, trainer_class, clock)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


@dataclasses.dataclass(frozen=True)
class Moment:
    """A run between two iterations.

    ``result`` of the last one, None before the first; ``save(for_good=False)`` writes a checkpoint and returns its path, None
    when the disk refused (see ``keeping``); ``trainer``: the ``runtime.driver.Driver``; ``run_folder``: its path.
    """

    result: dict | None
    save: Callable
    trainer: object
    run_folder: Path


def stepwise(spec, stop_request, trainer_class=None, clock=time.monotonic, at_start=False):
    """As ``run``, an iteration at a time: a generator that yields a Moment after each and returns the Outcome.

    ``at_start``: there is a Moment before the first iteration too, as soon as all parts are up.
    ``stop_request.ending`` (state, text), where there is one, is how the run ends when the request has come true.
    """
    opening = open_run(spec)
    with contextlib.ExitStack() as stack:
        stack.callback(opening.folder.close)
        if opening.over:
            return _already_over(spec, opening)
        journal = Journal(opening.folder, clock, spec.log_format)
        stack.callback(journal.close)
        report_notices(opening)
        drive = _Drive(spec, opening, stop_request, clock)
        before_exit = getattr(stop_request, "before_exit", None)
        if before_exit:  # a request that ends the process itself where this loop does not come to it in time
            stack.callback(before_exit(lambda number, is_late: drive.cut_off(number, is_late, journal)))
        try:
            outcome = yield from drive.run(trainer_class or load(TRAINER), at_start)
        except DrlError as error:
            outcome = drive.failed(error)
        except OSError as error:
            if error.errno not in EXHAUSTED:
                drive.crashed(journal)
                raise
            outcome = drive.failed(ResourcesExhausted(f"this machine ran out of something: {error}"))
        except KeyboardInterrupt:
            outcome = drive.interrupted()
        except GeneratorExit:
            raise
        except MemoryError:
            outcome = drive.failed(ResourcesExhausted("this machine ran out of memory"))
        except BaseException:
            drive.crashed(journal)
            raise
        _report(outcome)
    return outcome


def _already_over(spec, opening):
    """Report a resumed run that its stop rules leave nothing to train, and return its Outcome; its folder stays as it is."""
    report_notices(opening)
    path, last = opening.folder.path, opening.rows[-1]
    best = retention.best_name(path)
    best = path / best if best and (path / best).is_dir() else None
    missed = unmet(spec.pass_criteria, last) + demands.missed(spec.demands, last)
    text = "; ".join([opening.over, *missed])
    code = CriterionMissed.exit_code if missed else 0
    outcome = Outcome("finished", text, code, path, opening.start.path, best, last)
    _report(outcome)
    return outcome


class _Drive:
    """The state of the loop: the last result, the trainer and its checkpoints."""

    def __init__(self, spec, opening, stop_request, clock):
        self._spec, self._opening, self._stop_request, self._clock = spec, opening, stop_request, clock
        self._path = opening.folder.path
        self._result = None
        self._keeping = self._trainer = None
        self._outcome_known = None

    def run(self, trainer_class, at_start):
        """Build the trainer, train to the end, save; yields a Moment each iteration and returns the Outcome."""
        spec = self._spec
        start = self._opening.start
        ending = Ending(spec.stop, spec.config, start.number if start else -1)
        with contextlib.ExitStack() as stack:
            shared = {"imports": tuple(spec.imports), "plugins": plugins.registered()}
            env = {**spec.env_facts, **shared, "videos": str(self._path / "videos")}
            options = {"goal": ending.goal, "ray": spec.ray, "folder": self._path, "limits": ending.limits}
            with getattr(self._stop_request, "starting", contextlib.nullcontext)():
                trainer = trainer_class(spec.run, spec.config, env, options, lambda: bool(self._stop_request))
                stack.callback(trainer.close)
                if start:
                    trainer.restore(start, exact=self._opening.exact)
                trainer.start()
                self._install_signals()
            self._trainer = trainer
            self._keeping = Keeping(spec, self._opening, trainer, self._clock)
            told = (records.params(spec), spec.loggers, self._opening.exact)
            loggers = Loggers(self._path, self._opening.joined_at, *told)
            stack.callback(loggers.close)
            self._diagnosis = Diagnosis(situation(spec, ending.goal), self._clock)
            stack.callback(events.subscribe(self._diagnosis.hear))
            stack.callback(Listening(self._diagnosis).start())
            if at_start:
                yield self._moment(trainer)
            reason = yield from self._loop(trainer, ending, loggers)
            saved = self._result is None or self._keeping.final(self._result)
            self._outcome_known = self._ended(reason, saved or self._keeping.is_overdue)
            return self._outcome_known

    def _install_signals(self):
        # Ray replaces the SIGTERM handler while it starts; a request without ``install`` is a test's or Tune's.
        install = getattr(self._stop_request, "install", None)
        if install:
            install()
            self._stop_request.is_saving = lambda: getattr(self._trainer, "is_writing", False)

    def _loop(self, trainer, ending, loggers):
        """Train until a reason to stop comes up; returns it, or None after a signal."""
        while not self._stop_request:
            result = trainer.train()
            reason = ending.check(result, trainer.touched)
            if reason is None and result.get("done") is True:
                reason = f"on_train_result of the callbacks {self._spec.config.callbacks!r} set done"
            identity = {"experiment_id": self._path.name.rpartition("_")[2], "trial_id": self._path.name}
            self._result = {**result, **identity, "done": reason is not None}
            loggers.write(self._result)
            events.report("result", result=self._result)
            self._diagnosis.see(self._result)
            if reason is not None:
                ending.report_held()
            self._keeping.after(self._result)
            yield self._moment(trainer)
            if reason is not None:
                return reason
        return None

    def _moment(self, trainer):
        def save(for_good=False):
            return self._keeping.now(self._result, for_good)

        return Moment(self._result, save, trainer, self._path)

    def _ended(self, reason, saved):
        if not saved:
            text = "the final checkpoint could not be written"
            state = "interrupted" if reason is None else "finished"
            return self._outcome(state, f"{text}. {self._advice()}", ResourcesExhausted.exit_code)
        if reason is None:
            told = getattr(self._stop_request, "ending", None)
            return self._outcome(*told, 0) if told else self.interrupted()
        missed = unmet(self._spec.pass_criteria, self._result) + demands.missed(self._spec.demands, self._result)
        if missed:
            return self._outcome("finished", f"{reason}, but {'; '.join(missed)}", CriterionMissed.exit_code)
        return self._outcome("finished", reason, 0)

    def interrupted(self):
        """Return the Outcome of a run that a signal ended."""
        code = getattr(self._stop_request, "exit_code", 0) or 128 + signal.SIGINT
        return self._outcome("interrupted", f"stopped by {signal.Signals(code - 128).name}. {self._advice()}", code)

    def cut_off(self, number, is_late, journal):
        """Record how a run ends whose process is about to end, whatever it is doing; returns the exit code.

        ``is_late``: it did not come to rest; what can be saved without it is saved. Called in another thread than the run's.
        """
        if is_late and self._trainer is not None and self._outcome_known is None:
            with contextlib.suppress(Exception):
                self._keeping.saved = self._trainer.save_at_hand(self._path)
        outcome = self._outcome_known or self._cut_off(number, is_late)
        journal.end(outcome)
        _report(outcome)
        return outcome.exit_code

    def _cut_off(self, number, is_late):
        name, keeping = signal.Signals(number).name, self._keeping
        iteration = (self._result or {}).get("training_iteration")
        saved = keeping and keeping.saved
        if iteration is None:
            lost = "before the first iteration was over"
        elif saved and retention.number_of(saved) >= iteration:
            lost = f"saved at iteration {retention.number_of(saved)}"
        else:
            last = f"iteration {retention.number_of(saved)}" if saved else "the start"
            lost = f"what was learnt since {last} was not saved"
        start = self._opening.start if self._opening.exact else None
        last = saved or (keeping and keeping.best) or (start and start.path)
        how = f"ended by {name} after {self._stop_request.REST_S:g} s" if is_late else f"ended at once by {name}"
        return self._outcome("interrupted", f"{how}: {lost}. {self._advice(last)}", 128 + number, last)

    def failed(self, error):
        """Return the Outcome of a run that an error ended: nothing is saved, since the state may be what is wrong."""
        outcome = self._outcome("failed", f"{error}\n{self._advice()}", error.exit_code)
        self._outcome_known = dataclasses.replace(outcome, error=error)
        return self._outcome_known

    def crashed(self, journal):
        """Log the traceback of a bug and tell the records that the run is over."""
        journal.log(logging.ERROR, traceback.format_exc())
        _report(self._outcome("failed", f"internal error. {self._advice()}", 1))

    def _advice(self, last=None):
        """What to do next, with the last good checkpoint (None: looked for) and the command that goes on from it."""
        last = last or self._last_good()
        if last is None:
            return "Nothing was saved"
        return f"Last good checkpoint: {last}. Go on with: {next_steps.resume(self._path, self._spec)}"

    def _last_good(self):
        try:
            return retention.newest_valid(self._path)[0].path
        except CheckpointError:
            return None

    def _outcome(self, state, text, code, last=None):
        keeping = self._keeping
        final, best = (keeping.saved, keeping.best) if keeping else (None, None)
        return Outcome(state, text, code, self._path, final or last or self._last_good(), best, self._result)


def _report(outcome):
    paths = {"run": outcome.run_folder, "final": outcome.final, "best": outcome.best}
    told = {name: path and str(path) for name, path in paths.items()}
    events.report("finished", state=outcome.state, text=outcome.text, exit_code=outcome.exit_code, **told)
