"""Whether checkpoints, runs and archives are whole: every hash, every header, and that the weights fit their policy.

Used by ``drl checkpoint verify``. What is damaged is told and the rest looked at; nothing is changed. Needs neither TensorFlow
nor Ray.
"""

import os
from pathlib import Path
from typing import NamedTuple

from drl_cli import checkpoint
from drl_cli.acting.policy import policy_from_checkpoint
from drl_cli.checkpoint import unpacking
from drl_cli.checkpoint.archive_files import is_archive
from drl_cli.checkpoint.files import FOLDER
from drl_cli.checkpoint.run_folder import is_locked
from drl_cli.errors import CheckpointError


class Verdict(NamedTuple):
    """``path``; ``damage``: None, or what is wrong, the file's name first; ``files`` and ``size`` of what is whole, in bytes;
    ``note``: what else is worth a word, or None.
    """

    path: Path
    damage: str | None
    files: int = 0
    size: int = 0
    note: str | None = None


def places(path, every=False):
    """Return the checkpoints (and archives) that ``path`` means: itself, or all of a run.

    ``every``: also all of the run that a checkpoint lies in, and all of the runs in a folder. Raises CheckpointError where
    there is none.
    """
    path = Path(path).expanduser()
    if path.is_file() and is_archive(path):
        return [path]
    if path.is_dir() and _checkpoints(path):
        return _checkpoints(path)
    if every and path.is_dir() and not FOLDER.fullmatch(path.name):
        found = sorted(
            one for run in path.rglob("checkpoint_*") if run.is_dir() for one in [run] if FOLDER.fullmatch(run.name)
        )
        if found:
            return found
    if path.is_dir() and not every:
        _refuse_runs(path)
    found = checkpoint.find(path)
    return (_checkpoints(found.absolute().parent) or [found]) if every else [found]


def _checkpoints(folder):
    return [path for _, path in checkpoint.numbers(folder)]


def _refuse_runs(path):
    try:
        with os.scandir(path) as entries:
            runs = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False) and _checkpoints(entry.path)]
    except OSError:
        return
    if runs:
        raise CheckpointError(f"{path}: holds {len(runs)} runs. Name one of them, or look at all of them with --all.")


def verify(path):
    """Look at one checkpoint folder or archive and return its Verdict; the replay is hashed too."""
    path = Path(path)
    try:
        return _archive(path) if path.is_file() else _checkpoint(path)
    except CheckpointError as error:
        return Verdict(path, str(error))
    except OSError as error:
        return Verdict(path, f"{error.filename or path}: cannot be read ({error.strerror})")


def _archive(path):
    contents = unpacking.verify(path)
    return Verdict(path, None, contents.files, contents.size, f"{contents.kind} {contents.name}")


def _checkpoint(path):
    found = checkpoint.load(path, optional=True)
    for name in found.listing:
        stem, _, kind = name.rpartition(".")
        if kind == "safetensors":
            found.listed(stem)
        else:
            found.json(stem)
    policy_from_checkpoint(found)
    size = sum(entry["size"] for entry in found.listing.values())
    dropped = "its replay was dropped" if (path / "replay.dropped").exists() else None
    return Verdict(path, None, len(found.listing), size, dropped)


def best_damage(run):
    """Return what is wrong with the best.json of a run folder, or None: it names a checkpoint that is there."""
    try:
        name = checkpoint.best_name(run)
    except CheckpointError as error:
        return str(error)
    if name is None or (Path(run) / name).is_dir() or is_locked(run):  # a run that goes on may be about to replace it
        return None
    return f"{Path(run) / 'best.json'}: names {name}, which is not there. Play the newest with --latest"
