"""A search of a storage, fetched to this machine to be resumed: its record, and the runs of its trials.

User: ``drl train --resume=URI``. Every trial's run is copied below ``storage_path`` by itself, the record of the search beside
them (``search.record_upload``). A trial that is not over is fetched as a run that goes on; of one that is over the records and
one checkpoint. Paths in the record are those of the machine that wrote it; they become those of this one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

import drl_cli.checkpoints.files as files
from drl_cli import events
from drl_cli.config import storage_uri
from drl_cli.errors import CheckpointError, RunFolderError, StorageError
from drl_cli.runs import run_download, run_names, storage
from drl_cli.runs.search_folders import ID, MAX_BYTES, OVER, searched
from drl_cli.runs.storage import Storage

Opener = Callable[[str], Storage]


def resumable(uri: str, local_dir: Path, open_storage: Opener = storage.opened) -> Path | None:
    """Return the record of a search with which it goes on below ``local_dir``, or None where ``uri`` names no search.

    ``uri``: of the record, of the experiment's folder (its newest search that is not finished), or that folder's and the id of
    the search. What is here already stays, unless the storage's record is further. Raises StorageError, CheckpointError,
    RunFolderError.
    """
    found = _named(uri, open_storage)
    if found is None:
        return None
    store, name = found
    record = _record(store, name)
    root, experiment = storage_uri.split(store.uri)
    if wrong := run_names.misfit(experiment):
        raise StorageError(f"{store.uri}: {wrong}")
    target = local_dir / experiment / name
    if target.exists():
        if _is_further(record, _parsed(target.read_bytes(), str(target))):
            raise RunFolderError(
                f"{target}: is there, and {store.place(name)} is further. Move that file and the runs of its trials away, or "
                "choose another place with --local-dir"
            )
        events.report("notice", text=f"{target} is as new as {store.place(name)}: it is not fetched")
        return target
    roots = _settle(record, root, local_dir, target.parent)
    for trial in record["trials"].values():
        _trial(trial, roots[trial["point"]["experiment"]], local_dir, open_storage)
    _expect_sources(record)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        files.replace_file(target, files.json_bytes(record))
    except OSError as error:
        raise RunFolderError(f"{target}: cannot be written ({error.strerror or error})") from error
    events.report("notice", text=f"fetched {store.place(name)}")
    return target


def _named(uri: str, open_storage: Opener) -> tuple[Storage, str] | None:
    """Return (the Storage of the experiment's folder, the name of the record) that ``uri`` means, None for no search."""
    try:
        uri = storage_uri.checked(uri)
    except ValueError as error:
        raise StorageError(str(error)) from error
    above, last = storage_uri.split(uri)
    if searched(Path(last)):
        return open_storage(above), last
    if ID.fullmatch(last):
        store = open_storage(above)
        mine = [name for name in store.entries() if searched(Path(name)) == last]
        if mine:
            return store, mine[0]
    store = open_storage(uri)
    names = sorted((name for name in store.entries() if searched(Path(name))), reverse=True)
    for name in names:
        if _record(store, name).get("state") != "finished":
            return store, name
    if names:
        raise StorageError(f"{uri}: its searches are finished ({', '.join(names[:3])}). --resume needs one that is not")
    return None


def _record(store: Storage, name: str) -> dict[str, Any]:
    data = store.read(name, limit=MAX_BYTES)
    if data is None:
        near = sorted(one for one in store.entries() if searched(Path(one)))
        have = f". There are {', '.join(near[-3:])}" if near else ""
        raise StorageError(f"{store.place(name)}: there is no record of a search{have}")
    return _parsed(data, store.place(name))


def _parsed(data: bytes, where: str) -> dict[str, Any]:
    """Return the record that ``data`` is. Raises RunFolderError."""
    try:
        record = files.parse_json(data, where)
        trials = record["trials"].values()
        count = len(record["data"]["experiments"])
        fits = all(isinstance(one["mapping"], dict) for one in record["data"]["experiments"])
        fits = fits and all(0 <= trial["point"]["experiment"] < count and trial["state"] for trial in trials)
    except (CheckpointError, AttributeError, KeyError, TypeError) as error:
        raise RunFolderError(f"{where}: is not the record of a search, or damaged") from error
    if not fits:
        raise RunFolderError(f"{where}: is not the record of a search, or damaged")
    return record


def _is_further(there: dict[str, Any], here: dict[str, Any]) -> bool:
    """Whether a record of the same search has a trial that is further than in the other one."""
    return any(_progress(trial) > _progress(here["trials"].get(number)) for number, trial in there["trials"].items())


def _progress(trial: dict[str, Any] | None) -> tuple[bool, float]:
    if trial is None:
        return False, -1.0
    return trial["state"] in OVER, float((trial.get("result") or {}).get("training_iteration") or 0)


def _settle(record: dict[str, Any], root: str, local_dir: Path, folder: Path) -> list[str]:
    """Set the places of a record to this machine's; returns for each experiment the URI that its runs are below.

    The runs of the first experiment are where its record is, which may have been moved since; so are those of others whose
    ``storage_path`` was the same.
    """
    data, roots = record["data"], []
    first = data["experiments"][0]["mapping"].get("storage_path")
    for experiment in data["experiments"]:
        mapping = experiment["mapping"]
        own = mapping.get("storage_path")
        roots.append(root if own in (None, first) else own)
        mapping |= {"storage_path": roots[-1], "local_dir": str(local_dir)}
    data["folder"] = str(folder)
    written = data.get("write")
    if written and not Path(written["path"]).parent.is_dir():
        written["path"] = str(Path.cwd() / PurePath(written["path"]).name)
        events.report("notice", text=f"--write: {written['path']} is written, since the folder of before is not here")
    return roots


def _trial(trial: dict[str, Any], root: str, local_dir: Path, open_storage: Opener) -> None:
    """Fetch the run of a trial; one of which nothing was saved begins anew, or has no folder any more if it is over."""
    earlier, best = trial.pop("run_folder", None), trial.pop("best", None)
    if not earlier:
        return
    run, experiment = PurePath(earlier).name, PurePath(earlier).parent.name
    uri = storage_uri.below(root, experiment, run)
    if run_names.misfit(experiment) or not run_names.RUN_FOLDER.fullmatch(run) or os.sep in run:
        raise RunFolderError(f"{uri}: is no run's folder, and the record of the search names it")
    is_over = trial["state"] in OVER
    if not run_download.has_checkpoint(uri, open_storage):
        trial["state"] = trial["state"] if is_over else "pending"
        return
    folder, _ = run_download.resumable(uri, local_dir, open_storage, is_over)
    trial["run_folder"] = str(folder)
    if best and (folder / PurePath(best).name).is_dir():
        trial["best"] = str(folder / PurePath(best).name)


def _expect_sources(record: dict[str, Any]) -> None:
    """Raise RunFolderError where a trial that has not begun starts from a checkpoint that this machine does not have."""
    for trial in record["trials"].values():
        source = record["data"]["experiments"][trial["point"]["experiment"]]["mapping"].get("restore")
        begins = trial["state"] not in OVER and not trial.get("run_folder")
        if begins and isinstance(source, str) and not storage_uri.is_uri(source) and not Path(source).exists():
            raise RunFolderError(
                f"restore: trials of the search start from {source}, which is not on this machine. Copy it to that place"
            )
