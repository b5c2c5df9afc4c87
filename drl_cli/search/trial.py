"""One trial of a search inside the process that Ray gives it: a run like any other, an iteration at a time. No Ray here.

Used by ``search.tune_trainable``. The run writes the files of a single run into a folder of its own, whose name contains the
search's id and the trial's number; by that name a trial finds its run again after its process was killed, and resumes it. A
trial that takes over a copy of another one (PBT) starts a new folder from that one's checkpoint.
"""

import dataclasses
import json
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from drl_cli.config.result_names import flatten, is_number_field
from drl_cli.errors import CheckpointError, RunFailed
from drl_cli.experiments import run, search_spec
from drl_cli.experiments.run import Moment, Outcome, Steps
from drl_cli.experiments.search_data import Point, SearchData
from drl_cli.experiments.spec import ExperimentSpec
from drl_cli.runs import loggers, retention
from drl_cli.runs.run_folder import read_record
from drl_cli.stop_request import StopCondition

POLL_S = 0.25  # between two checks for the stop file
POINTER = "checkpoint.json"
STOPPED = "interrupted"

Row = dict[str, Any]
"""Numbers of a result by field, flat; and where a trial ends its ``run_folder``, ``done``, ``state`` and ``text``."""


class TrialStopRequest(StopCondition):
    """Becomes true when the trial is ended from outside, or when the file ``path`` exists: the whole search stops."""

    def __init__(self, path: Path | str) -> None:
        super().__init__()
        self._path = Path(path)
        self._looked = 0.0

    def __bool__(self) -> bool:
        return self.ending is not None or self.is_stopped()

    def is_stopped(self) -> bool:
        """Whether the whole search stops."""
        if self.signal is None and time.monotonic() - self._looked > POLL_S:
            self._looked = time.monotonic()
            if self._path.exists():
                self.signal = signal.SIGINT
                self.ending = self.ending or (STOPPED, "stopped with the search")
        return self.signal is not None


class TrialRun:
    """The run of one point. ``step`` trains an iteration, ``save`` and ``copy_from`` move it, ``end`` closes it."""

    def __init__(
        self,
        data: SearchData,
        point: Point,
        stop_file: Path | str,
        spec_of: Callable[[SearchData, Point], ExperimentSpec] = search_spec.spec_of,
        stepwise: Callable[..., Steps] = run.stepwise,
    ) -> None:
        """``data`` and ``point`` are the search's; ``spec_of`` and ``stepwise`` stand in for the real ones in tests."""
        self._data, self._point, self._spec_of, self._stepwise = data, point, spec_of, stepwise
        self._request = TrialStopRequest(stop_file)
        self._spec: ExperimentSpec | None = None
        self._steps: Steps | None = None
        self._moment: Moment | None = None
        self._source: Path | None = None  # the checkpoint to start from, of another trial
        self._row: Row = {data["metric"]: float("nan")}

    def step(self) -> Row:
        """Train one iteration and return its row.

        Raises RunFailed with the message of a run that failed, and InputError when it cannot be opened.
        """
        if self._steps is None:
            if self._request.is_stopped():
                return {**self._row, "done": True, "state": STOPPED, "text": "not started"}
            spec = self._spec = self._spec_of(self._data, self._point)
            if (row := self._finished_before()) is not None:
                return row
            self._steps = self._opened(spec)
        try:
            self._moment = next(self._steps)
        except StopIteration as end:
            return self._over(end.value)
        result = self._moment.result or {}
        self._row = row_of(result, self._data["metric"])
        self._row["run_folder"] = str(self._folder() or "")
        if result["done"] or self._request.is_stopped():
            return self._over(self._exhaust(self._steps))
        return dict(self._row)

    def save(self, folder: Path | str) -> None:
        """Write a checkpoint of the run, and into ``folder`` where it is; close the run. Raises RunFailed.

        Tune saves a trial that it pauses, and another process may be the one that continues it.
        """
        path = self._moment.save() if self._moment else None
        if path is None:
            raise RunFailed(f"trial {self._point['trial']}: no checkpoint could be written")
        pointer = {"trial": self._point["trial"], "path": str(path)}
        Path(folder, POINTER).write_text(json.dumps(pointer), encoding="ascii")
        self.end((STOPPED, "paused by the scheduler"))

    def copy_from(self, folder: Path | str) -> None:
        """Continue from the checkpoint that ``folder`` names; from another trial's the next step starts a new run."""
        pointer = json.loads(Path(folder, POINTER).read_text(encoding="ascii"))
        if pointer["trial"] != self._point["trial"]:
            self._source = Path(pointer["path"])

    def end(self, ending: tuple[str, str] = ("finished", "ended by the scheduler")) -> None:
        """Save and close the run, if one is open."""
        if self._steps is not None:
            self._request.ending = self._request.ending or ending
            self._exhaust(self._steps)
            self._request.ending = None

    def _finished_before(self) -> Row | None:
        """Return the last row of a run of this trial that was finished in an earlier session, or None."""
        found = None if self._source else self._folder()
        if found is None:
            return None
        status = read_record(found / "status.json") or {}
        rows = loggers.read_rows(found)
        if status.get("state") != "finished" or not rows or not rows[-1].get("done"):
            return None
        row = row_of(rows[-1], self._data["metric"])
        return {**row, "run_folder": str(found), "done": True, "state": "finished", "text": status.get("text")}

    def _opened(self, spec: ExperimentSpec) -> Steps:
        """Open the run: from another trial's checkpoint, from where this one was, or anew."""
        found = self._folder()
        if self._source:
            spec = dataclasses.replace(spec, restore=self._source)
        elif found:
            spec = _resumed(spec, found)
        self._source = None
        return self._stepwise(spec, self._request)

    def _folder(self) -> Path | None:
        """Return the newest folder of this trial's runs, or None."""
        if self._spec is None:
            return None
        parent = self._spec.local_dir / self._spec.name
        # The time in the name sorts; of two in one second the later one was made later.
        found = sorted(
            parent.glob(f"*_{self._spec.trial}_*"), key=lambda path: (path.name[-28:-9], path.stat().st_mtime)
        )
        return found[-1] if found else None

    def _exhaust(self, steps: Steps) -> Outcome:
        """Run the steps to their end and return the Outcome."""
        self._steps = None
        try:
            while True:
                self._moment = next(steps)
        except StopIteration as end:
            return end.value
        finally:
            self._moment = None

    def _over(self, outcome: Outcome) -> Row:
        self._steps = None
        if outcome.state == "failed":
            raise RunFailed(outcome.text.partition("\n")[0])
        ending = {"run_folder": str(outcome.run_folder), "state": outcome.state, "text": outcome.text}
        ending |= {"best": str(outcome.best or ""), "exit_code": outcome.exit_code}
        return {**self._row, **ending, "done": True}


def row_of(result: Mapping[str, Any], metric: str) -> Row:
    """Return the numbers of a nested result by field, flat; the metric is NaN where it is not known yet."""
    flat = flatten(result)
    row = {name: value for name, value in flat.items() if is_number_field(name) and isinstance(value, (int, float))}
    return {metric: float("nan"), **row}


def _resumed(spec: ExperimentSpec, folder: Path) -> ExperimentSpec:
    """Return ``spec`` so that it resumes in ``folder``, or in a new folder from its checkpoint where the settings have changed.

    Without a checkpoint it starts anew.
    """
    try:
        newest = retention.newest_valid(folder, parts=("state",))[0]
    except CheckpointError:  # nothing was saved: the trial begins anew
        return spec
    before = (read_record(folder / "params.json") or {}).get("config")
    now = json.loads(json.dumps(spec.config.model_dump(mode="json", by_alias=True)))
    if before == now:
        return dataclasses.replace(spec, resume=folder)
    return dataclasses.replace(spec, restore=newest.path)
