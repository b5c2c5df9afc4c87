"""A search from its record to its outcome: the points are run, the best trained again, a file written. Imports no Ray itself.

User: the command ``drl train``. The record beside the runs holds everything, so that a search can be resumed.
"""

import contextlib
import dataclasses
import math
import os
import signal
from pathlib import Path

from drl_cli import events, process
from drl_cli.checkpoints import replace_file
from drl_cli.errors import CriterionMissed, InputError, RunFailed, full_or
from drl_cli.experiments import search_choices
from drl_cli.experiments.search_data import WriteData
from drl_cli.runs import loggers
from drl_cli.search import record_upload, trial_ranks
from drl_cli.search.search_record import OVER, EarlierRows, Record, Row, TrialRecord, Work
from drl_cli.search.trial import row_of
from drl_cli.stop_request import StopCondition

ENDED = "ended with the search"


@dataclasses.dataclass(frozen=True)
class SearchOutcome:
    """How a search ended: ``state`` "finished" or "interrupted", ``exit_code``, ``written``, the path of a file or None.

    ``text``: which criteria were missed, or how many trials failed; the others run to their end all the same.
    """

    state: str
    exit_code: int
    written: Path | None = None
    text: str = ""


def run(record: Record, stop_request: StopCondition, command: str) -> SearchOutcome:
    """Run a search to its end; returns the SearchOutcome.

    ``record``: of a new search or of one that is resumed; ``command``: the line for the header of the file.
    Raises InputError when nothing can be started, StorageError where ``storage_path`` cannot be written, ClusterUnavailable
    when Ray cannot start.
    """
    with record.held(), contextlib.ExitStack() as stack:
        stack.callback(stop_request.before_exit(lambda number, _is_late: _cut_off(record, 128 + number)))
        uploads = record_upload.begun(record)
        if uploads is None:
            return _run(record, stop_request, command)
        stack.callback(uploads.close)
        try:
            return _run(record, stop_request, command)
        finally:
            uploads.finish()


def _run(record: Record, stop_request: StopCondition, command: str) -> SearchOutcome:
    data = record.data
    if missing := search_choices.missing_package(data["search"]):
        raise InputError(missing)  # before Ray starts
    process.prepare_ray()
    from drl_cli.runtime.ray_cluster import RayCluster
    from drl_cli.search import tune_runner

    tune_runner.environment()
    points = [trial["point"] for trial in record.trials.values()]
    needs = [point.get("bundles", []) for point in points] or [data["bundles"]]
    most = max(sum(bundle.get("CPU", 0) for bundle in bundles) for bundles in needs)
    address = data["ray"].get("address")
    events.report("phase", text=f"joining Ray at {address}" if address else "starting Ray")
    with stop_request.starting():
        cluster = RayCluster(data["ray"], max(len(os.sched_getaffinity(0)), math.ceil(most)))
    try:
        if not data["ray"].get("queue_trials"):  # with it, what is not there yet is waited for
            tune_runner.check_resources(points)
        tune_runner.check_folder(record.path)
        _fit(record, stop_request, rescored=False)
        written = None
        if data["write"] and not stop_request:
            written = _write_best(record, data["write"], stop_request, command)
        return _ended(record, stop_request, written)
    finally:
        cluster.close()
        if stop_request:
            record.interrupt(_code(stop_request), ENDED)


def _fit(record: Record, stop_request: StopCondition, rescored: bool) -> None:
    """Run the trials that are not over: of the search itself, or with ``rescored`` those that are trained again."""
    data, points = record.data, record.unfinished(rescored)
    searching = [trial for trial in record.trials.values() if "rescore" not in trial["point"]]
    new = max(0, data["num_trials"] - len(searching)) if data["search"] and not rescored else 0
    if not points and not new:
        return
    for point in points:
        trial = record.trials[point["trial"]]
        trial["state"], trial["text"] = "pending", None
        events.report("trial", trial=point["trial"], **record.trials[point["trial"]])
    record.write("running")
    events.report("phase", text="training the best again" if rescored else "starting trials")
    rows = EarlierRows({}, {})
    for number, trial in record.trials.items() if not rescored else ():
        (rows.over if trial["state"] in OVER else rows.live)[number] = _rows(trial, data["metric"])
    over = [trial for trial in searching if trial["state"] in OVER]
    observed = [(trial["point"]["values"], trial_ranks.score_of(data, trial.get("result"))) for trial in over]
    work = Work(points, new, rows, observed, rescored)
    from drl_cli.search import tune_runner

    tune_runner.fit(data, work, record, stop_request)


def _rows(trial: TrialRecord, metric: str) -> list[Row]:
    folder = trial.get("run_folder")
    return [row_of(row, metric) for row in loggers.read_rows(folder)] if folder else []


def _write_best(record: Record, file: WriteData, stop_request: StopCondition, command: str) -> Path | None:
    """Train the best trials again on fresh seeds and write the file; returns its path, None when the search was stopped."""
    data = record.data
    if not any("rescore" in trial["point"] for trial in record.trials.values()):
        first = 1 + max(record.trials)
        for point in trial_ranks.rescoring_points(data, record.trials, first):
            record.change(point["trial"], point=point, state="pending")
            events.report("trial", trial=point["trial"], **record.trials[point["trial"]])
    _fit(record, stop_request, rescored=True)
    if stop_request:
        return None
    if not trial_ranks.rescored(data, record.trials):
        events.report("warning", text="none of the best trials could be retrained: no file is written")
        return None
    path = Path(file["path"])
    text = trial_ranks.file_text(data, record.trials, command)
    try:
        replace_file(path, text.encode("utf-8"))
    except OSError as error:
        text = f"{path}: cannot be written ({error.strerror}); the search is in {record.path}"
        raise full_or(error, InputError)(text) from error
    return path


def _cut_off(record: Record, code: int) -> None:
    """Record a search whose process is about to exit; the processes of its trials are killed, so that they write no more."""
    process.kill_descendants()
    for number in record.interrupt(code, ENDED):
        events.report("trial", trial=number, **record.trials[number])


def _code(stop_request: StopCondition) -> int:
    return stop_request.exit_code or 128 + signal.SIGINT


def _ended(record: Record, stop_request: StopCondition, written: Path | None) -> SearchOutcome:
    if stop_request:
        return SearchOutcome("interrupted", _code(stop_request))
    record.write("finished")
    states = [trial["state"] for trial in record.trials.values()]
    good = any(state in ("finished", "stopped") for state in states)
    failed = states.count("failed")
    if failed or not good or (record.data["write"] and written is None):
        text = f"{failed} of {len(states)} trials failed" if failed else ""
        return SearchOutcome("finished", RunFailed.exit_code, written, text if good else "no trial finished")
    missed = trial_ranks.missed(record.data, record.trials)
    return SearchOutcome("finished", CriterionMissed.exit_code if missed else 0, written, "; ".join(missed))
