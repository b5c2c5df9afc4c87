"""Which checkpoints a run makes and keeps: periodic, best, final; and what happens when the disk is full.

User: ``experiments.run``. Only the newest whole checkpoint keeps its replay, and a checkpoint that was made only for being the
best goes when a better one is there (``runs.best_checkpoint``). A save that fails is tried again after 1, 2, 4, … 30 minutes;
earlier checkpoints are never touched for it.
"""

from __future__ import annotations

import dataclasses
import enum
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from drl_cli import events
from drl_cli.checkpoints import Checkpoint
from drl_cli.config.result_names import EVALUATION_REWARD, TRAINING_REWARD, flatten
from drl_cli.errors import CheckpointError, Overdue, ResourcesExhausted, RunFolderError
from drl_cli.runs import retention
from drl_cli.runs.best_checkpoint import BestCheckpoint, MadeFor
from drl_cli.runs.run_folder import RunFolder

RETRY_SECONDS, MAX_RETRY_SECONDS = 60.0, 1800.0


@dataclasses.dataclass(frozen=True)
class CheckpointSettings:
    """What was asked for: a checkpoint every ``freq`` iterations (0: none), the ``keep`` best ones of which stay (None: all).

    ``score``: the result field that ranks them, with the prefix ``min-`` where less is better. ``is_evaluated``: the run has
    evaluations, and its best checkpoint is the best of them.
    """

    freq: int
    keep: int | None
    score: str
    is_evaluated: bool


class OpenedRun(Protocol):
    """An open run, see ``experiments.open_run.Opening``."""

    folder: RunFolder
    start: Checkpoint | None  # the checkpoint that the run starts from
    exact: bool  # whether it continues the run of that checkpoint
    rows: list[dict[str, Any]]  # the results of the run so far


class Saver(Protocol):
    """What can save the state of a run, see ``runtime.driver.Trainer``: each returns the path of the new checkpoint."""

    def save(self, run_folder: Path, reason: str = "periodic") -> Path:
        """Save the present state."""
        ...

    def save_evaluated(self, run_folder: Path) -> Path:
        """Save the weights that the newest evaluation scored."""
        ...


class Periodic(enum.Enum):
    """Whether the checkpoints of ``checkpoint_freq`` are on schedule."""

    ON_SCHEDULE = "the last one that was due is written"
    OVERDUE = "one was due and could not be written: it is made as soon as that is possible"


class Retry:
    """The waiting time after a save that failed: 1, 2, 4, … 30 minutes, and from the start after one that worked."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.succeeded()

    @property
    def is_waiting(self) -> bool:
        """Whether it is too early for another save."""
        return self._at is not None and self._clock() < self._at

    def succeeded(self) -> None:
        """Begin anew."""
        self._at: float | None = None
        self._delay = RETRY_SECONDS

    def failed(self) -> float:
        """Wait from now on; returns for how many seconds."""
        delay, self._delay = self._delay, min(2 * self._delay, MAX_RETRY_SECONDS)
        self._at = self._clock() + delay
        return delay


class CheckpointPolicy:
    """The checkpoints of one run: ``saved`` is the newest whole one that this process has written or resumed from, or None."""

    def __init__(
        self,
        settings: CheckpointSettings,
        opening: OpenedRun,
        trainer: Saver,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``clock`` returns monotonic seconds."""
        self._folder, self._trainer, self._clock = opening.folder, trainer, clock
        self._settings = settings
        self._values: dict[int, Any] = {}  # iteration → what checkpoints are ranked by
        for row in opening.rows:
            self._note_value(row)
        start = opening.start
        self._protected = [start.path] if start else []
        self.saved = start.path if start and opening.exact else None
        self._saved_at = start.number if start and opening.exact else None
        started_at = start.number if start else -1
        self._best = BestCheckpoint(opening.folder, settings.is_evaluated, started_at, self._quietly)
        if opening.exact:
            self._best.take_over(self._saved_at)
        self._periodic = Periodic.ON_SCHEDULE
        self._retry = Retry(clock)
        self._is_warned = False
        self.is_overdue = False  # nothing could be saved in the time that a stop leaves

    @property
    def best(self) -> Path | None:
        """The path of the best checkpoint."""
        return self._best.path

    def after(self, result: Mapping[str, Any]) -> None:
        """Save, prune and drop what is due after one iteration (``result`` is its nested result dict)."""
        number = result["training_iteration"]
        self._note_value(result)
        if self._settings.freq > 0 and number % self._settings.freq == 0:
            self._periodic = Periodic.OVERDUE
        if self._retry.is_waiting:
            return
        is_better = self._best.is_improved_by(result)
        # A best that is later than where the run was resumed has the name of its iteration: save one iteration later.
        is_taken = number == self._best.ahead and not is_better
        if self._periodic is Periodic.OVERDUE and not is_taken and self._save_whole(result, "periodic"):
            self._periodic = Periodic.ON_SCHEDULE
        if is_better:
            self._save_best(result)

    def now(self, result: Mapping[str, Any] | None, for_good: bool = False) -> Path | None:
        """Save the state after ``result`` whether it is due or not; returns its path.

        None when the disk refused, and before the first iteration.

        ``for_good``: it is kept, whatever comes later.
        """
        if result is None:
            return None
        if self._saved_at != result["training_iteration"] and not self._save_whole(result, "periodic"):
            return None
        if for_good and self.saved is not None:
            self._protected.append(self.saved)
            self._best.keep(self.saved)
        return self.saved

    def final(self, result: Mapping[str, Any]) -> bool:
        """Save the last state of the run; returns False when it could not be written."""
        number = result["training_iteration"]
        if self._saved_at != number and not self._save_whole(result, "final"):
            return False
        if self.saved is None or retention.number_of(self.saved) != number:
            return True  # an earlier state, all that was at hand: this result is not its own
        if self._best.is_final_better(result):
            self._best.record(self.saved, result, TRAINING_REWARD, MadeFor.OWN_REASON, self._kept)
        return True

    @property
    def _kept(self) -> list[Path]:
        return [*self._protected, *([self.saved] if self.saved else [])]

    def _note_value(self, result: Mapping[str, Any]) -> None:
        self._values[result["training_iteration"]] = flatten(result).get(self._settings.score.removeprefix("min-"))

    def _save_best(self, result: Mapping[str, Any]) -> None:
        """Save what became the best with ``result``, unless it was saved for another reason, and record it."""
        scored = result["evaluation"] if self._settings.is_evaluated else result
        metric = EVALUATION_REWARD if self._settings.is_evaluated else TRAINING_REWARD
        number = scored["training_iteration"]
        made_for = MadeFor.OWN_REASON if self._saved_at == number else MadeFor.BEST_ONLY
        if made_for is MadeFor.OWN_REASON:
            path = self.saved
        elif self._settings.is_evaluated:
            path = self._save(self._trainer.save_evaluated, number, "best")
        else:
            path = self.saved if self._save_whole(result, "best") else None
        if path is None:
            self._best.compare_again()
        else:
            self._best.record(path, scored, metric, made_for, self._kept)

    def _save_whole(self, result: Mapping[str, Any], reason: str) -> bool:
        number = result["training_iteration"]
        path = self._save(lambda folder: self._trainer.save(folder, reason), number, reason)
        if path is None:
            return False
        self.saved, self._saved_at = path, number
        self._tidy(path)
        return True

    def _save(self, save: Callable[[Path], Path], number: int, reason: str) -> Path | None:
        """Call ``save(run_folder)``, report it, and return the path, or None when the disk refused."""
        began = self._clock()
        try:
            path = save(self._folder.path)
        except (OSError, ResourcesExhausted) as error:  # the latter: of a part that writes its own file, as the replay
            delay = self._retry.failed()
            again = f"trying again in {delay / 60:g} min" if reason != "final" else "earlier ones are untouched"
            why = (error.strerror if isinstance(error, OSError) else None) or error
            text = f"checkpoint {number} could not be written ({why}); {again}"
            events.report("checkpoint_failed", path=str(self._folder.path / f"checkpoint_{number:06d}"), text=text)
            return None
        except Overdue as overdue:
            if not self.is_overdue:  # the periodic and the final one of a last iteration fail alike
                events.report("warning", text=str(overdue))
            self.is_overdue = True
            return None
        self._retry.succeeded()
        events.report(
            "checkpoint",
            path=str(path),
            training_iteration=retention.number_of(path),
            reason=reason,
            seconds=self._clock() - began,
            replay=any(path.glob("replay-*.safetensors")),
        )
        return path

    def _tidy(self, newest: Path) -> None:
        """Drop the replays of all but the newest checkpoint that has one, and prune."""
        has_one = any(newest.glob("replay-*.safetensors"))
        for _, path in retention.numbers(self._folder.path):
            if has_one and path != newest and any(path.glob("replay-*.safetensors")):
                self._quietly(lambda path=path: retention.drop_replay(path))
        keep, spared = self._settings.keep, [*self._protected, newest]
        if keep is not None:
            self._quietly(lambda: retention.prune(self._folder.path, keep, spared, self._settings.score, self._values))

    def _quietly(self, tidy: Callable[[], object]) -> None:
        """Call ``tidy``; an old checkpoint that cannot be removed is only worth a warning, once."""
        try:
            tidy()
        except (OSError, CheckpointError, RunFolderError) as error:
            if not self._is_warned:
                events.report("warning", text=f"old checkpoints could not be removed: {error}")
            self._is_warned = True
