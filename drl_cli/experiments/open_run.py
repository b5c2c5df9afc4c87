"""From a spec to an open run folder: a new one, a new one that starts from a checkpoint, or that of a run that is resumed.

User: ``experiments.run``.
"""

import dataclasses
import os
import shlex
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drl_cli import checkpoints, events
from drl_cli.algorithms import table
from drl_cli.config.env_names import displayed
from drl_cli.config.plain_data import plain
from drl_cli.config.sections.replay import BufferKeys
from drl_cli.errors import CheckpointError, ConfigError, DrlError, RunFolderError, StorageError, full_or
from drl_cli.experiments import next_steps, resume, run_records
from drl_cli.experiments.spec import ExperimentSpec
from drl_cli.runs import loggers, retention, run_folder
from drl_cli.runs.run_upload import RunUpload
from drl_cli.runs.stop_rules import StopRules
from drl_cli.runtime import run_restore

RECORD = "provenance.json"
"""The file of a run's folder that says where each value was given: {"from": {dotted key: place}}."""


@dataclasses.dataclass
class Opening:
    """An open run: its locked folder, the checkpoint to start from and where the logs continue.

    ``start``: that checkpoint, or None. ``exact``: the run goes on as if it had not stopped. ``joined_at``:
    timesteps_total where the curves join, or None. ``rows``: the result rows up to there. ``notices``: lines for the user.
    ``over``: why there is nothing left to train, and what to type to train on, or None. ``upload``: the copy of the folder
    in ``storage_path``, or None.
    """

    folder: run_folder.RunFolder
    start: checkpoints.Checkpoint | None = None
    exact: bool = False
    joined_at: int | None = None
    rows: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    notices: list[str] = dataclasses.field(default_factory=list)
    over: str | None = None
    upload: RunUpload | None = None


def open_run(spec: ExperimentSpec) -> Opening:
    """Open the run of ``spec`` and write its params.json and versions.json.

    Raises RunFolderError, CheckpointError, ConfigError (settings that a resumed run may not change), StorageError (a new run's
    copy cannot be written).
    """
    if spec.resume:
        return _resume(spec, spec.resume)
    # Read before the folder is made, so that a bad checkpoint leaves no empty run behind.
    found = checkpoints.load(retention.find(spec.restore), optional=True) if spec.restore else None
    if found:
        run_restore.check_fits(table.find(spec.run), spec.config, spec.env_facts, found)
    opening = Opening(
        run_folder.create(spec.local_dir, spec.name, spec.run, displayed(spec.env, spec.config.env_config), spec.trial),
        found,
    )
    try:
        _write(opening.folder, "params.json", run_records.params(spec))
        _write(opening.folder, "versions.json", run_records.versions(spec))
        _write(opening.folder, RECORD, {"from": spec.origins})
        opening.upload = _upload(spec, opening)
    except (StorageError, ConfigError):
        opening.folder.close()
        shutil.rmtree(opening.folder.path, ignore_errors=True)  # nothing but the records of a run that did not start
        raise
    except DrlError:
        opening.folder.close()
        raise
    if found:
        opening.notices.append(f"starting from {found.path} (iteration {found.number})")
    return opening


def _upload(spec: ExperimentSpec, opening: Opening) -> RunUpload | None:
    """Return the copy of the run, with its first records; what is wrong with the storage of a resumed run is a notice."""
    if spec.storage_path is None:
        return None
    upload = RunUpload(opening.folder.path, spec.storage_path)
    if upload.is_itself:
        raise ConfigError(
            f"storage_path: {spec.storage_path} is the folder of the results. Omit it, or name another place"
        )
    try:
        upload.check(("params.json", "versions.json", RECORD))
    except StorageError as error:
        if not opening.exact:
            raise
        opening.notices.append(f"storage_path: {error}. Tried again after the next checkpoint")
    return upload


def _resume(spec: ExperimentSpec, path: Path) -> Opening:
    folder = run_folder.reopen(path)
    try:
        opening = _continued(spec, folder)
        opening.upload = _upload(spec, opening)
        return opening
    except BaseException:
        folder.close()
        raise


def _continued(spec: ExperimentSpec, folder: run_folder.RunFolder) -> Opening:
    check_unchanged(folder, spec)
    found, skipped = _newest(folder.path, spec)
    rows = loggers.read_rows(folder.path)
    trained = [row for row in rows if row["training_iteration"] <= found.number]
    over = _over(folder, spec, trained[-1]) if trained else None
    if over:
        return Opening(folder, found, True, rows=trained, over=over)
    last = loggers.join(folder.path, found.number)
    _write(folder, "params.json", run_records.params(spec))
    versions = folder.read("versions.json") or run_records.versions(spec)
    versions["resumed"] = [*versions.get("resumed", []), {**run_records.versions(spec), "iteration": found.number}]
    _write(folder, "versions.json", versions)
    before = (folder.read(RECORD) or {}).get("from")
    _write(folder, RECORD, {"from": joined_origins(before, spec.origins)})
    # A best without its replay is expected; only damage is reported.
    damaged = [reason for _, reason in skipped if not reason.endswith(("has no replay", "has no state"))]
    notices = [f"skipped a checkpoint: {reason}" for reason in damaged]
    lost = max((row["training_iteration"] for row in rows), default=found.number) - found.number
    behind = f"; {lost} iterations after it are lost" if lost > 0 else ""
    notices.append(f"resuming {folder.path.name} from {found.path.name}{behind}")
    return Opening(folder, found, True, (last or {}).get("timesteps_total"), trained, notices)


def joined_origins(before: Mapping[str, str] | None, origins: Mapping[str, str]) -> dict[str, str]:
    """Return the origins of a resumed run: those that it recorded, and the flags that were typed this time."""
    typed = {key: place for key, place in origins.items() if place.startswith("-")}
    return {**(before or {}), **typed}


def _over(folder: run_folder.RunFolder, spec: ExperimentSpec, last: dict[str, Any]) -> str | None:
    """Return why the stop rules of ``spec`` leave nothing to train after the row ``last``, or None."""
    reason = StopRules(spec.stop, spec.config.evaluation_confirm_episodes or 0).check(last)
    if reason is None:
        unchanged = (folder.read("params.json") or {}).get("stop") == dict(spec.stop)
        if not (unchanged and last.get("done") is True):
            return None
        reason = str((folder.read("status.json") or {}).get("text") or "its last result has done: true")
    field = next((name for name in spec.stop if reason.startswith(name)), None)
    text = f"{reason} already, so nothing was trained. To train on"
    if field is None:
        return f"{text}, in a new run: drl train --restore {shlex.quote(str(folder.path))}"
    return f"{text}, raise it: {next_steps.resume(folder.path, spec, '--stop', f'{field}=N')}"


def _newest(path: Path, spec: ExperimentSpec) -> tuple[checkpoints.Checkpoint, list[tuple[Path, str]]]:
    """Return the newest checkpoint that holds all there is to go on from, and those that were skipped, as (path, reason).

    The best may be newer but without its replay.
    """
    if isinstance(spec.config, BufferKeys) and spec.config.store_buffer_in_checkpoints:
        try:
            return retention.newest_valid(path, parts=("state", "replay"))
        except CheckpointError:
            # An algorithm without a replay, or a run that did not store it until now.
            return retention.newest_valid(path, parts=("state",))
    return retention.newest_valid(path, parts=("state",))


def check_unchanged(folder: run_folder.RunFolder, spec: ExperimentSpec) -> None:
    """Raise ConfigError that shows both values unless the run was started with this algorithm, env and config.

    Secrets, which are not recorded, are not compared.
    """
    old = folder.read("params.json") or {}
    new = run_records.params(spec)
    pairs = [(name, old.get(name), new[name]) for name in ("run", "env")]
    was, now = old.get("config"), new["config"]
    if not isinstance(was, dict):
        raise RunFolderError(f"{folder.path / 'params.json'}: holds no config")
    # A key that was recorded by neither run, or only by a newer version than the run's, is at its default then.
    fresh = type(spec.config).model_validate({}).model_dump(mode="json", by_alias=True)
    for key in sorted(set(was) | set(now)):
        if key not in resume.CHANGEABLE:
            recorded = resume.completed(was.get(key, fresh.get(key)), fresh.get(key), now.get(key))
            pairs.append((f"config.{key}", recorded, now.get(key)))
    differing = [f"\n  {name}: {a!r} → {b!r}" for name, a, b in pairs if a != b]
    if differing:
        raise ConfigError(
            f"{folder.path}: a resumed run keeps its settings, these differ:{''.join(differing[:10])}\n"
            f"Leave them out, or start a new run from its checkpoint with --restore {folder.path}"
        )


def _write(folder: run_folder.RunFolder, name: str, data: Mapping[str, Any]) -> None:
    try:
        folder.write(name, plain(data))
    except OSError as error:
        text = f"{folder.path / name}: cannot be written ({error.strerror})"
        raise full_or(error, RunFolderError)(text) from error


def report_notices(opening: Opening) -> None:
    """Report where the run is and what was found while it was opened."""
    events.report("run", run=str(opening.folder.path))
    for text in opening.notices:
        events.report("notice", text=text)
    if opening.exact and opening.start:
        events.report("history", **_history(opening, opening.start))


def _history(opening: Opening, start: checkpoints.Checkpoint) -> dict[str, Any]:
    """Return the fields of the event ``history`` of a resumed run."""
    rows, now = opening.rows, time.time()
    last = rows[-1] if rows else {}
    number = (last.get("evaluation") or {}).get("training_iteration")
    scored = next((row for row in rows if (row.get("evaluation") or {}).get("training_iteration") == number), last)
    ages = {
        "evaluation": max(0.0, now - (scored.get("timestamp") or now)),
        "checkpoint": max(0.0, now - os.stat(start.path).st_mtime),
    }
    try:
        best = opening.folder.read("best.json")
    except RunFolderError:
        best = None  # runs.checkpoint_policy, which takes the best over, reports what is wrong with it
    return {
        "best": best if isinstance(best, dict) and isinstance(best.get("value"), (int, float)) else None,
        "rewards": [[row.get("timesteps_total"), _reward(row)] for row in rows],
        "result": last,
        "checkpoint": {"path": str(start.path), "training_iteration": start.number, "reason": "resumed"},
        "seconds_ago": ages,
    }


def _reward(row: Mapping[str, Any]) -> float | None:
    """The mean reward of training episodes of a row, of evaluated ones where none are played but those."""
    trained = row.get("episode_reward_mean")
    return (row.get("evaluation") or {}).get("episode_reward_mean") if trained is None else trained
