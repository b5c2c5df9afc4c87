"""Whether checkpoints, runs and archives are intact: every hash, every header, and that the weights fit their policy.

Used by ``drl checkpoint verify``. Damage is reported and the rest still checked; nothing is changed. Needs neither TensorFlow
nor Ray.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from drl_cli import checkpoints
from drl_cli.checkpoints.archive_files import is_archive
from drl_cli.checkpoints.files import DROPPED, FOLDER, MANIFEST
from drl_cli.errors import CheckpointError, InputError
from drl_cli.policies import policy_from_manifest
from drl_cli.runs import retention, unpack
from drl_cli.runs.run_folder import is_locked

if TYPE_CHECKING:
    from drl_cli.checkpoints.reader import Checkpoint


class Verification(NamedTuple):
    """``path``; ``damage``: None, or what is wrong, the file's name first; ``files`` and ``size`` of what is whole, in bytes;
    ``note``: what else is worth a word, or None.
    """

    path: Path
    damage: str | None
    files: int = 0
    size: int = 0
    note: str | None = None


def places(path: Path | str, every: bool = False) -> list[Path]:
    """Return the checkpoints (and archives) that ``path`` means: itself, or all of a run.

    ``every``: also all of the run that a checkpoint lies in, and all of the runs in a folder. Raises CheckpointError where
    there is none.
    """
    path = Path(path).expanduser()
    if path.is_file() and is_archive(path):
        return [path]
    if path.is_dir() and _checkpoints(path):
        return _checkpoints(path)
    if every and path.is_dir():
        # A folder that goes away meanwhile, or may not be read, is passed over.
        inside = (
            Path(place, name) for place, folders, _ in os.walk(path) for name in folders if FOLDER.fullmatch(name)
        )
        found = sorted(inside)
        if found:
            return found
    if path.is_dir() and not every:
        _refuse_folder_of_runs(path)
    found = retention.find(path)
    return (_checkpoints(found.absolute().parent) or [found]) if every else [found]


def _checkpoints(folder: Path) -> list[Path]:
    return [path for _, path in retention.numbers(folder)]


def _refuse_folder_of_runs(path: Path) -> None:
    """Raise CheckpointError for a folder of runs, or of folders of runs: not all of them are meant by chance."""
    runs = {
        found.parent for pattern in ("*/", "*/*/") for found in path.glob(f"{pattern}checkpoint_*") if found.is_dir()
    }
    if runs and not (path / MANIFEST).exists():
        raise CheckpointError(
            f"{path}: holds {len(runs)} run{'s' * (len(runs) > 1)}. Name one, or check all of them with --all."
        )


def verify(path: Path | str) -> Verification:
    """Look at one checkpoint folder or archive and return its Verification; the replay is hashed too."""
    path = Path(path)
    try:
        return _archive(path) if path.is_file() else _checkpoint(path)
    except CheckpointError as error:
        return Verification(path, str(error))
    except OSError as error:
        return Verification(path, f"{error.filename or path}: cannot be read ({error.strerror})")


def _archive(path: Path) -> Verification:
    contents = unpack.verify(path)
    return Verification(path, None, contents.files, contents.size, f"{contents.kind} {contents.name}")


def _checkpoint(path: Path) -> Verification:
    found = checkpoints.load(path, optional=True)
    for name in found.listing:
        stem, _, kind = name.rpartition(".")
        if kind == "safetensors":
            found.listed(stem)
        else:
            found.json(stem)
    notes = ["its replay was dropped"] if (path / DROPPED).exists() else []
    notes += _against_policy(found)
    found.require_facts()
    size = sum(entry["size"] for entry in found.listing.values())
    return Verification(path, None, len(found.listing), size, "; ".join(notes) or None)


def _against_policy(found: Checkpoint) -> list[str]:
    """Raise CheckpointError unless the weights are what every policy needs, finite and of its shapes.

    Returns [] or, where the policy has a custom network that is not registered here, [why its weights were not checked].
    """
    try:
        specs = policy_from_manifest.policy_specs(found.facts)
    except CheckpointError as error:
        raise CheckpointError(f"{found.path / MANIFEST}: {error}") from error
    except InputError as error:
        return [f"its weights were not checked against its policy: {error}"]
    shapes = {
        f"{policy}/{name}": tuple(shape)
        for policy, spec in specs.items()
        for name, shape in spec.weight_shapes().items()
    }
    for name, array in found.arrays("weights", list(shapes), finite=True).items():
        if array.shape != shapes[name] or array.dtype != "float32":
            place = f"{found.path / 'weights.safetensors'}: {name}"
            raise CheckpointError(
                f"{place}: its policy needs float32 {shapes[name]}, found {array.dtype} {array.shape}"
            )
    return []


def best_damage(run: Path) -> str | None:
    """Return what is wrong with the best.json of a run folder, or None: it names a checkpoint that is there."""
    try:
        name = retention.best_name(run)
    except CheckpointError as error:
        return str(error)
    if name is None or (Path(run) / name).is_dir() or is_locked(run):  # a run that goes on may be about to replace it
        return None
    return f"{Path(run) / 'best.json'}: names {name}, which does not exist. Use --latest for the newest"
