"""The best checkpoint of a run and the file that names it, ``best.json``. User: ``runs.checkpoint_policy``.

The best is the evaluation with the highest mean (the confirmed one where there is one), or without evaluations the highest
``episode_reward_mean`` of training; ties go to the newer.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from drl_cli import checkpoints, events
from drl_cli.config.result_names import EVALUATION_REWARD, TRAINING_REWARD
from drl_cli.errors import CheckpointError, RunFolderError
from drl_cli.runs import retention
from drl_cli.runs.run_folder import RunFolder, now

RECORD = "best.json"
BEST_EVERY = 10  # iterations between two saves of a best that is only a mean of training episodes


class MadeFor(enum.Enum):
    """Why the checkpoint that is the best exists, which decides what happens to it once a better one is saved."""

    BEST_ONLY = "only for being the best: removed when there is a better one"
    OWN_REASON = "periodic, final, or kept for good: stays, as far as ``keep_checkpoints_num`` allows"


class BestCheckpoint:
    """``path`` of the best checkpoint so far and its score ``value``, or None.

    ``ahead``: the iteration of a best that is later than the checkpoint which a resumed run continues from, else None: the name
    of that iteration's checkpoint is taken.
    """

    def __init__(
        self, folder: RunFolder, is_evaluated: bool, started_at: int, tidy: Callable[[Callable], None]
    ) -> None:
        """``is_evaluated``: the run has evaluations, and these are compared.

        ``started_at``: the iteration that the run starts from, -1 for none; evaluations up to it are not compared.
        ``tidy`` calls a function that removes something, and reports what it raises.
        """
        self._folder, self._is_evaluated, self._started_at, self._tidy = folder, is_evaluated, started_at, tidy
        self.path: Path | None = None
        self.value: float | None = None
        self.ahead: int | None = None
        self._iteration: int | None = None
        self._made_for = MadeFor.OWN_REASON
        self._compared: tuple | None = None  # the evaluation that was last compared: (iteration, confirmed mean)

    def take_over(self, saved_at: int | None) -> None:
        """Continue from the best.json of the run that is resumed from its checkpoint of iteration ``saved_at``."""
        try:
            name = retention.best_name(self._folder.path)  # a plain name, so that nothing outside can be meant
            data = self._folder.read(RECORD) or {}
            value, number = data.get("value"), data.get("training_iteration")
            fits = data.get("metric") == (EVALUATION_REWARD if self._is_evaluated else TRAINING_REWARD)
            if name is None or not fits or not isinstance(value, (int, float)) or not isinstance(number, int):
                return
            self.path = checkpoints.load(self._folder.path / name).path
        except (CheckpointError, RunFolderError) as error:
            events.report("warning", text=f"the best checkpoint so far cannot be used: {error}")
            return
        self.value, self._iteration = value, number
        self._made_for = MadeFor.BEST_ONLY if data.get("only_best") is True else MadeFor.OWN_REASON
        _report_best(data)
        if saved_at is not None and number > saved_at:
            self.ahead = number

    def is_improved_by(self, result: Mapping[str, Any]) -> bool:
        """Whether ``result`` brings a new score that is at least as good as the best so far; each evaluation counts once."""
        if self._is_evaluated:
            value = self._new_evaluation(result.get("evaluation") or {})
        elif self._iteration is not None and 0 <= result["training_iteration"] - self._iteration < BEST_EVERY:
            return False
        else:
            value = result.get(TRAINING_REWARD)
        return value is not None and (self.value is None or value >= self.value)

    def _new_evaluation(self, evaluation: Mapping[str, Any]) -> float | None:
        """Return the score of an evaluation that was not compared before, else None."""
        number = evaluation.get("training_iteration")
        # One from before the start comes along with the results: its weights are not here to be saved.
        if number is None or number <= self._started_at:
            return None
        identity = (number, evaluation.get("confirmed_reward_mean"))
        if identity == self._compared:
            return None
        self._compared = identity
        return evaluation_score(evaluation)

    def compare_again(self) -> None:
        """Let the newest evaluation count once more: its checkpoint could not be written."""
        self._compared = None

    def is_final_better(self, result: Mapping[str, Any]) -> bool:
        """Whether the last checkpoint of the run, which holds the state after ``result``, becomes the best one."""
        value = result.get(TRAINING_REWARD)
        better = not self._is_evaluated and value is not None and (self.value is None or value >= self.value)
        return better or self.path is None or self.ahead == result["training_iteration"]

    def record(
        self, path: Path, scored: Mapping[str, Any], metric: str, made_for: MadeFor, kept: Collection[Path]
    ) -> None:
        """Write that ``path`` is the best from now on, and remove the one before if it was made only for that.

        ``scored``: the result or evaluation that holds its score; ``kept``: checkpoints that stay in any case.
        """
        value = evaluation_score(scored) if metric == EVALUATION_REWARD else scored.get(TRAINING_REWARD)
        is_only_best = made_for is MadeFor.BEST_ONLY
        data = {"checkpoint": path.name, "metric": metric, "value": value, "only_best": is_only_best, "time": now()}
        data.update({name: scored.get(name) for name in ("training_iteration", "timesteps_total")})
        try:
            self._folder.write(RECORD, data)
        except OSError as error:
            text = f"{RECORD} cannot be written ({error.strerror}): it still names the one before"
            events.report("warning", text=text)
            return
        previous = self.path
        if self._made_for is MadeFor.BEST_ONLY and previous is not None and previous not in (path, *kept):
            self._tidy(lambda: retention.remove(previous))
        self.path, self.value, self._iteration = path, value, scored.get("training_iteration")
        self._made_for, self.ahead = made_for, None
        _report_best(data)

    def keep(self, path: Path) -> None:
        """Note that the checkpoint ``path`` stays for good, whether it is the best or not."""
        if self._made_for is MadeFor.BEST_ONLY and self.path == path:
            self._made_for = MadeFor.OWN_REASON
            self._tidy(self._write_that_it_stays)

    def _write_that_it_stays(self) -> None:
        self._folder.write(RECORD, (self._folder.read(RECORD) or {}) | {"only_best": False})


def evaluation_score(evaluation: Mapping[str, Any]) -> float | None:
    """Return the mean that ranks an evaluation: that of its fresh, confirming episodes where there are any."""
    confirmed = evaluation.get("confirmed_reward_mean")
    return evaluation.get("episode_reward_mean") if confirmed is None else confirmed


def _report_best(data: Mapping[str, Any]) -> None:
    """Report the content of best.json."""
    names = ("checkpoint", "metric", "value", "training_iteration", "timesteps_total")
    events.report("best", **{name: data.get(name) for name in names})
