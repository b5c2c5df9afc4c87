"""Runs and checkpoints of a storage, fetched to this machine: to be played and scored from a cache, or to be resumed.

Users: ``cli`` (every command that takes a checkpoint), ``experiments``, ``api``. The cache is ``$XDG_CACHE_HOME/drl/storage``
(``~/.cache`` without that variable): a folder per run, with the checkpoints that were asked for. A checkpoint whose COMMIT is
the storage's is not fetched again. Names in a storage are checked before they become paths, and a checkpoint is in its place
only after its hashes were verified. One without COMMIT is not there.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal

import drl_cli.checkpoints.files as files
from drl_cli import events
from drl_cli.checkpoints.reader import load
from drl_cli.checkpoints.writer import commit_text, dropped_text
from drl_cli.config import storage_uri
from drl_cli.errors import CheckpointError, RunFolderError, StorageError
from drl_cli.runs import retention, run_names, storage
from drl_cli.runs.run_folder import MAX_RECORD
from drl_cli.runs.run_upload import BEST
from drl_cli.runs.storage import Storage

Opener = Callable[[str], Storage]
Wanted = Literal["weights", "records", "whole"]
RECORDS = "params.json"
LEFT_OUT = ("videos",)  # folders of a run that it does not need to go on


def cache_folder() -> Path:
    """Return the folder that runs are fetched to."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "drl" / "storage"


def cached(uri: str, wanted: Wanted = "weights", open_storage: Opener = storage.opened) -> Path:
    """Return the folder of this machine that stands for ``uri``: a checkpoint, a file in one, or a run.

    ``wanted``: "weights" fetches a checkpoint without its replay, of a run the best and the newest; "records" only the records
    of a run, such as result.json, also where ``uri`` names one of its checkpoints (the folder returned is the run's); "whole"
    all checkpoints of a run, its records and recordings. Raises StorageError,
    CheckpointError, RunFolderError.
    """
    whole = wanted == "whole"
    store, name = _located(uri, open_storage)
    folder = cache_folder() / hashlib.sha256(store.uri.encode()).hexdigest()[:12] / _last_name(store)
    with _local(folder):
        folder.mkdir(parents=True, exist_ok=True)
    if name and wanted != "records":
        return _checkpoint(store, name, folder, whole)
    names = _expect_run(store)
    with _local(folder):
        best = _best(store, folder)
        if wanted != "weights":
            _records(store, folder, deep=whole)
    if wanted != "records":
        newest = _whole_ones(store, names)
        for one in newest if whole else _each(best, *newest[:1]):
            _checkpoint(store, one, folder, whole)
    return folder


def placed(path: Path | str) -> Path | str:
    """Return a path as it is, and for a URI where its weights were fetched to. Raises as ``cached``."""
    return cached(path) if isinstance(path, str) and storage_uri.is_uri(path) else path


def runs_below(uri: str, open_storage: Opener = storage.opened, depth: int = 2) -> list[str]:
    """Return the URIs of the runs that ``uri`` means: itself, or all below it, an experiment or a ``storage_path``.

    A checkpoint, or what holds no run, is returned as it is. Raises StorageError.
    """
    store, name = _located(uri, open_storage)
    entries = {} if name else store.entries()
    folders = [one for one in sorted(entries) if entries[one].size is None and not one.startswith(".")]
    if name or RECORDS in entries or depth == 0:
        return [uri]
    below = [run for one in folders for run in runs_below(store.place(one), open_storage, depth - 1)]
    return [run for run in below if run_names.RUN_FOLDER.fullmatch(storage_uri.split(run)[1])] or [uri]


def has_checkpoint(uri: str, open_storage: Opener = storage.opened) -> bool:
    """Whether the storage has a run at ``uri`` with a checkpoint whose copy was finished. Raises StorageError."""
    store = open_storage(uri)
    names = list(store.entries())
    return RECORDS in names and bool(_whole_ones(store, names))


def resumable(
    uri: str, local_dir: Path, open_storage: Opener = storage.opened, is_over: bool = False
) -> tuple[Path, str]:
    """Return (the folder of a run in which it goes on, the ``storage_path`` that ``uri`` is below).

    The run is fetched to ``local_dir``: its records and recordings, its best checkpoint, the newest, and the newest with a
    replay. ``is_over``: it does not go on, so that recordings and replays stay where they are, and the newest checkpoint too
    where there is a best. One that is there already stays, unless the storage has a later checkpoint. Raises StorageError,
    CheckpointError, RunFolderError.
    """
    store, name = _located(uri, open_storage)
    if name:
        raise StorageError(f"{uri}: is a checkpoint. A run is resumed by its folder: {store.uri}")
    names = _expect_run(store)
    above, run = storage_uri.split(store.uri)
    root, experiment = storage_uri.split(above)
    if not run_names.RUN_FOLDER.fullmatch(run) or run_names.misfit(experiment):
        raise StorageError(f"{uri}: is not STORAGE_PATH/EXPERIMENT/RUN, as runs are copied. Name the run's folder")
    whole = _whole_ones(store, names)
    if not whole or RECORDS not in names:
        raise StorageError(f"{uri}: holds no checkpoint to go on from{'' if whole else ' whose copy was finished'}")
    target = local_dir / experiment / run
    if target.exists():
        here = [number for number, _ in retention.numbers(target)]
        if here and here[-1] >= retention.number_of(whole[0]):
            events.report("notice", text=f"{target} is as new as {store.uri}: it is not fetched")
            return target, root
        raise RunFolderError(
            f"{target}: is there, and {store.uri} has a later checkpoint ({whole[0]}). Move that folder away, or choose "
            "another place with --local-dir"
        )
    with _local(target), _made(target) as folder:
        best = _best(store, folder)
        for one in [best or whole[0]] if is_over else _each(best, whole[0], *_with_replay(store, whole)):
            _checkpoint(store, one, folder, not is_over)
        _records(store, folder, deep=not is_over)
    return target, root


def _located(uri: str, open_storage: Opener) -> tuple[Storage, str]:
    """Return the Storage of a run, and the name of the checkpoint that ``uri`` names, empty for the run."""
    try:
        uri = storage_uri.checked(uri)
    except ValueError as error:
        raise StorageError(str(error)) from error
    above, name = storage_uri.split(uri)
    if files.DATA_FILE.fullmatch(name) or name in (files.MANIFEST, files.COMMIT):
        uri = above
        above, name = storage_uri.split(uri)
    if files.FOLDER.fullmatch(name):
        return open_storage(above), name
    return open_storage(uri), ""


def _last_name(store: Storage) -> str:
    return run_names.clean(storage_uri.split(store.uri)[1])


def _expect_run(store: Storage) -> list[str]:
    """Return what a run's folder holds. Raises StorageError with the runs below it where it is none."""
    entries = store.entries()
    if RECORDS in entries or any(map(files.FOLDER.fullmatch, entries)):
        return list(entries)
    folders = [name for name, entry in entries.items() if entry.size is None]
    if folders:
        raise StorageError(f"{store.uri}: is no run. Below it: {', '.join(sorted(folders)[-5:])}. Name one of its runs")
    raise StorageError(f"{store.uri}: there is no run or checkpoint")


def _whole_ones(store: Storage, names: Iterable[str]) -> list[str]:
    """Return the names of the checkpoints that have a COMMIT, the newest first."""
    found = sorted((name for name in names if files.FOLDER.fullmatch(name)), key=retention.number_of, reverse=True)
    return [name for name in found if store.entry(name, files.COMMIT)]


def _with_replay(store: Storage, names: Iterable[str]) -> list[str]:
    """Return the newest of the checkpoints ``names`` that holds a replay, [] where none does."""
    for name in names:
        parts = [entry["part"] for entry in _manifest(store, name)[1].values()]
        if "replay" in parts and store.entry(name, files.DROPPED) is None:
            return [name]
    return []


def _best(store: Storage, folder: Path) -> str | None:
    """Fetch best.json and return the checkpoint that it names, if that is there."""
    data = store.read(BEST, limit=files.MAX_MANIFEST)
    path = folder / BEST
    if data is None:
        path.unlink(missing_ok=True)
        return None
    files.replace_file(path, data)
    name = retention.best_name(folder)
    if name is None or store.entry(name, files.COMMIT) is None:
        path.unlink()
        return None
    return name


def _records(store: Storage, folder: Path, *inside: str, deep: bool = True) -> None:
    """Fetch the files of a run beside its checkpoints and best.json; ``deep``: those in folders too."""
    for name, entry in store.entries(*inside).items():
        target = folder.joinpath(*inside, name)
        if name.startswith(".") or os.sep in name or (not inside and (name == BEST or files.FOLDER.fullmatch(name))):
            continue
        if entry.size is None:
            if deep and name not in LEFT_OUT:
                target.mkdir(exist_ok=True)
                _records(store, folder, *inside, name)
        elif name == RECORDS and entry.size > MAX_RECORD:
            raise StorageError(f"{store.place(*inside, name)}: has more than the {MAX_RECORD} bytes that are allowed")
        else:
            target.unlink(missing_ok=True)
            store.fetch(target, *inside, name)


def _manifest(store: Storage, name: str) -> tuple[tuple[bytes, bytes], dict[str, files.FileEntry]]:
    """Return ((COMMIT, manifest.json), the files that it lists) of a checkpoint. Raises CheckpointError, StorageError."""
    commit = store.read(name, files.COMMIT, limit=1000)
    manifest = store.read(name, files.MANIFEST, limit=files.MAX_MANIFEST)
    where = store.place(name)
    if commit is None or manifest is None:
        near = [one for one in store.entries() if files.FOLDER.fullmatch(one)] if manifest is None else []
        have = f". There are {', '.join(sorted(near)[-5:])}" if near else ""
        why = (
            f"there is no such checkpoint{have}" if manifest is None else "COMMIT is missing: its copy was not finished"
        )
        raise files.refuse(where, why)
    if commit != commit_text(manifest):
        raise files.refuse(
            f"{where}/{files.COMMIT}", f"does not fit {files.MANIFEST} (one of them is damaged or modified)"
        )
    data = files.parse_json(manifest, f"{where}/{files.MANIFEST}")
    listing = data.get("files") if isinstance(data, dict) else None
    if not isinstance(listing, dict) or not all(map(files.DATA_FILE.fullmatch, listing)):
        raise files.refuse(f"{where}/{files.MANIFEST}", "its files are not those of a checkpoint")
    return (commit, manifest), listing


def _checkpoint(store: Storage, name: str, folder: Path, with_replay: bool) -> Path:
    """Fetch a checkpoint into the folder of a run, unless it is there; returns its path."""
    (commit, manifest), listing = _manifest(store, name)
    target = folder / name
    if _is_there(target, commit, with_replay):
        return target
    dropped = store.read(name, files.DROPPED, limit=1000)
    replay = [one for one in listing if files.part_of(one) == "replay"]
    if replay and not with_replay:
        dropped = dropped_text(manifest)
    with _local(target), _made(target) as made:
        for one in listing:
            if dropped is None or one not in replay:
                store.fetch(made / one, name, one)
        for one, data in ((files.DROPPED, dropped), (files.MANIFEST, manifest), (files.COMMIT, commit)):
            if data is not None:
                files.write_new(made / one, [data])
        try:
            load(made, optional=True)
        except CheckpointError as error:
            raise CheckpointError(str(error).replace(str(made), store.place(name))) from error
    events.report("notice", text=f"fetched {store.place(name)}")
    return target


def _is_there(path: Path, commit: bytes, with_replay: bool) -> bool:
    """Whether ``path`` is the whole checkpoint of this COMMIT, with its replay if that is wanted."""
    try:
        if files.read_small(path / files.COMMIT, 1000) != commit:
            return False
        load(path, optional=True)
    except CheckpointError:
        return False
    return not with_replay or not (path / files.DROPPED).exists()


@contextlib.contextmanager
def _made(target: Path) -> Iterator[Path]:
    """Yield a new folder that takes the place of ``target`` when the block has ended without an error."""
    target.parent.mkdir(parents=True, exist_ok=True)
    made = target.with_name(f".tmp-{target.name[-40:]}-{os.getpid()}-{secrets.token_hex(4)}")
    made.mkdir()
    try:
        yield made
        if target.exists():
            shutil.rmtree(target)
        os.rename(made, target)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


@contextlib.contextmanager
def _local(path: Path) -> Iterator[None]:
    """Turn what this machine's own disk refuses into a RunFolderError."""
    try:
        yield
    except OSError as error:
        raise RunFolderError(f"{path}: cannot be written ({error.strerror or error})") from error


def _each(*names: str | None) -> list[str]:
    """Return the names, each once, without None."""
    found: list[str] = []
    for name in names:
        if name is not None and name not in found:
            found.append(name)
    return found
