"""One trial of a search inside the process that Ray gives it: a run like any other, an iteration at a time. No Ray here.

Used by ``search.tune_trainable``. The run writes the files of a single run into a folder of its own, whose name holds
the search's id and the trial's number; by that name a trial finds its run again after its process was killed, and goes
on in it. A trial that
takes over a copy of another one (PBT) starts a new folder from that one's checkpoint.
"""

import dataclasses
import json
import time
from pathlib import Path

from drl_cli.config.result_names import flatten, is_number_field
from drl_cli.errors import CheckpointError, RunFailed
from drl_cli.extras import load
from drl_cli.runs import loggers, retention
from drl_cli.runs.run_folder import read_record

POLL_S = 0.25  # between two looks at whether the search shall stop
POINTER = "checkpoint.json"
STOPPED = "interrupted"


class Request:
    """Becomes true when the trial is ended from outside, or the file ``path`` is there: the whole search shall stop."""

    def __init__(self, path):
        self.ending = None
        self.exit_code = 0
        self._path = Path(path)
        self._looked = 0.0

    def __bool__(self):
        return self.ending is not None or self.is_stopped()

    def is_stopped(self):
        """Whether the whole search shall stop."""
        if self.exit_code == 0 and time.monotonic() - self._looked > POLL_S:
            self._looked = time.monotonic()
            if self._path.exists():
                self.exit_code = 130
                self.ending = self.ending or (STOPPED, "stopped with the search")
        return self.exit_code != 0


class TrialRun:
    """The run of one point. ``step`` trains an iteration, ``save`` and ``copy_from`` move it, ``end`` closes it."""

    def __init__(self, data, point, makers, stop_file):
        """``data`` and ``point`` are the search's; ``makers``: dotted names of dict(spec=…, steps=…)."""
        self._data, self._point, self._makers = data, point, makers
        self._request = Request(stop_file)
        self._spec = self._steps = self._moment = self._source = None
        self._row = {data["metric"]: float("nan")}

    def step(self):
        """Train one iteration and return its row: numbers by field, and ``run_folder``, ``done``, ``state``, ``text``.

        Raises RunFailed with the run's own words when it failed, and InputError when it cannot be opened.
        """
        if self._steps is None:
            if self._request.is_stopped():
                return {**self._row, "done": True, "state": STOPPED, "text": "not started"}
            over = self._open()
            if over:
                return over
        try:
            self._moment = next(self._steps)
        except StopIteration as end:
            return self._over(end.value)
        self._row = row_of(self._moment.result, self._data["metric"])
        self._row["run_folder"] = str(self._folder() or "")
        if self._moment.result["done"] or self._request.is_stopped():
            return self._over(self._exhaust())
        return dict(self._row)

    def save(self, folder):
        """Write a checkpoint of the run, and into ``folder`` where it is; close the run. Raises RunFailed.

        Tune saves what it pauses, and does not say so: another process may be the one that goes on.
        """
        path = self._moment.save() if self._moment else None
        if path is None:
            raise RunFailed(f"trial {self._point['trial']}: no checkpoint could be written")
        pointer = {"trial": self._point["trial"], "path": str(path)}
        Path(folder, POINTER).write_text(json.dumps(pointer), encoding="ascii")
        self.end((STOPPED, "paused by the scheduler"))

    def copy_from(self, folder):
        """Go on from the checkpoint that ``folder`` names: another trial's is copied into a new run at the next step."""
        pointer = json.loads(Path(folder, POINTER).read_text(encoding="ascii"))
        if pointer["trial"] != self._point["trial"]:
            self._source = Path(pointer["path"])

    def end(self, ending=("finished", "ended by the scheduler")):
        """Save and close the run, if one is open."""
        if self._steps is not None:
            self._request.ending = self._request.ending or ending
            self._exhaust()
            self._request.ending = None

    def _open(self):
        """Open the run; returns the row of one that was over already."""
        spec = load(self._makers["spec"])(self._data, self._point)
        self._spec = spec
        found = self._folder()
        if self._source:
            spec = dataclasses.replace(spec, restore=self._source)
        elif found:
            status = read_record(found / "status.json") or {}
            rows = loggers.read_rows(found)
            if status.get("state") == "finished" and rows and rows[-1].get("done"):
                row = row_of(rows[-1], self._data["metric"])
                return {**row, "run_folder": str(found), "done": True, "state": "finished", "text": status.get("text")}
            spec = _going_on(spec, found)
        self._source = None
        self._steps = load(self._makers["steps"])(spec, self._request)
        return None

    def _folder(self):
        """Return the newest folder of this trial's runs, or None."""
        parent = self._spec.local_dir / self._spec.name
        # The time in the name sorts; of two in one second the later one was made later.
        found = sorted(
            parent.glob(f"*_{self._spec.trial}_*"), key=lambda path: (path.name[-28:-9], path.stat().st_mtime)
        )
        return found[-1] if found else None

    def _exhaust(self):
        """Let the run come to its end and return its Outcome."""
        steps, self._steps = self._steps, None
        try:
            while True:
                self._moment = next(steps)
        except StopIteration as end:
            return end.value
        finally:
            self._moment = None

    def _over(self, outcome):
        self._steps = None
        if outcome.state == "failed":
            raise RunFailed(outcome.text.partition("\n")[0])
        told = {"run_folder": str(outcome.run_folder), "state": outcome.state, "text": outcome.text}
        told |= {"best": str(outcome.best or ""), "exit_code": outcome.exit_code}
        return {**self._row, **told, "done": True}


def row_of(result, metric):
    """Return the numbers of a nested result by field, flat; the metric is NaN where it is not known yet."""
    flat = flatten(result)
    row = {name: value for name, value in flat.items() if is_number_field(name) and isinstance(value, (int, float))}
    return {metric: float("nan"), **row}


def _going_on(spec, folder):
    """Return ``spec`` so that it goes on in ``folder``, from its checkpoint in a new one if the settings have changed since.

    Without a checkpoint it starts anew.
    """
    try:
        newest = retention.newest_valid(folder, parts=("state",))[0]
    except CheckpointError:
        return spec
    before = (read_record(folder / "params.json") or {}).get("config")
    now = json.loads(json.dumps(spec.config.model_dump(mode="json", by_alias=True)))
    if before == now:
        return dataclasses.replace(spec, resume=folder)
    return dataclasses.replace(spec, restore=newest.path)
