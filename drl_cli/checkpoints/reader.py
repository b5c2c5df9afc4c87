"""Reading a checkpoint without trusting it.

Users: ``runtime.driver`` (restore), ``policies.numpy_policy`` (play), ``experiments`` (resume), the commands that take a path.
Order: COMMIT against manifest.json, then the manifest's own form, then the folder's content against its list, then size
and SHA-256 of every file. Nothing outside the folder is opened and no name from a file is turned into a path unchecked.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypedDict, cast

import numpy as np

import drl_cli.checkpoints.facts as facts
import drl_cli.checkpoints.files as files
from drl_cli.checkpoints.arrays import ListedArray, listed, read_arrays
from drl_cli.checkpoints.files import FileEntry, refuse
from drl_cli.checkpoints.writer import commit_text, dropped_text

PICKLES = (".pkl", ".pickle", ".tune_metadata", ".pt", ".joblib")


class Manifest(TypedDict):
    """The content of manifest.json."""

    format: int
    number: int
    facts: dict[str, Any]
    files: dict[str, FileEntry]
    optional: list[str]


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint: its folder, its number (training iteration) and the facts of its manifest."""

    path: Path
    number: int
    facts: dict[str, Any]
    listing: dict[str, FileEntry] = dataclasses.field(repr=False)  # the files that are there

    def require_facts(self) -> dict[str, Any]:
        """Return the facts after checking that none is missing that acting and resuming need. Raises CheckpointError."""
        facts.require(self.facts, self.path / files.MANIFEST)
        return self.facts

    def has(self, part: str) -> bool:
        """Whether the part ("weights", "state", "workers", "replay") is there; a dropped one is not."""
        return any(entry["part"] == part for entry in self.listing.values())

    def files(self, part: str) -> list[str]:
        """Return the stems of the part's files, sorted: ``["replay-0", "replay-1"]``."""
        return sorted({Path(name).stem for name, entry in self.listing.items() if entry["part"] == part})

    def arrays(self, stem: str, names: Iterable[str] | None = None, finite: bool = False) -> dict[str, np.ndarray]:
        """Return ``{name: array}`` of ``<stem>.safetensors``, shapes and dtypes as stored, size and hash checked again.

        ``names`` limits which are read; ``finite`` refuses NaN and infinity. Raises CheckpointError.
        """
        path, entry = self._entry(f"{stem}.safetensors")
        arrays = read_arrays(path, entry["size"], entry["sha256"], names)
        for name, array in arrays.items() if finite else ():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise refuse(path, f"{name} holds values that are not finite")
        return arrays

    def listed(self, stem: str) -> dict[str, ListedArray]:
        """Return ``{name: (dtype, shape, bytes in the file)}`` of ``<stem>.safetensors``, from its header alone."""
        path, entry = self._entry(f"{stem}.safetensors")
        return listed(path, entry["size"])

    def json(self, stem: str) -> Any:
        """Return the content of ``<stem>.json``, size and hash checked again. Raises CheckpointError."""
        path, entry = self._entry(f"{stem}.json")
        with files.open_regular(path) as file:
            files.expect_size(file, path, entry["size"])
            files.expect_hash(file, path, entry["sha256"])
            if entry["size"] > files.MAX_JSON:
                raise refuse(path, f"has {entry['size']} bytes, more than the {files.MAX_JSON} that are allowed")
            return files.parse_json(files.read_exactly(file, path, entry["size"]), path)

    def _entry(self, name: str) -> tuple[Path, FileEntry]:
        if name not in self.listing:
            raise refuse(self.path, f"this checkpoint has no {name}")
        return self.path / name, self.listing[name]


def load(path: Path | str, optional: bool = False) -> Checkpoint:
    """Verify the checkpoint folder ``path`` and return it as a ``Checkpoint``.

    Checks COMMIT, the manifest and the types of its facts, that exactly the listed files are there, and size and SHA-256 of
    each; of optional parts (the replay) only presence and size unless ``optional``, since ``arrays`` checks the hash before it
    reads.
    Raises CheckpointError.
    """
    path = Path(path)
    names = _listing_of(path)
    _explain_foreign(path, names)
    manifest = files.read_small(path / files.MANIFEST, files.MAX_MANIFEST)
    if files.read_small(path / files.COMMIT, 1000) != commit_text(manifest):
        raise refuse(path / files.COMMIT, f"does not fit {files.MANIFEST} (one of them is damaged or modified)")
    data = _parse_manifest(manifest, path)
    listing = data["files"]
    dropped = files.DROPPED in names and "replay" in data["optional"]
    if dropped and files.read_small(path / files.DROPPED, 1000) != dropped_text(manifest):
        raise refuse(path / files.DROPPED, "does not fit this checkpoint (damaged or modified)")
    extra = names - set(listing) - {files.MANIFEST, files.COMMIT} - ({files.DROPPED} if dropped else set())
    if extra:
        raise refuse(path / min(extra), "is not in the manifest (added or renamed)")
    present = {name: entry for name, entry in listing.items() if not (dropped and entry["part"] == "replay")}
    for name, entry in present.items():
        with files.open_regular(path / name) as file:
            files.expect_size(file, path / name, entry["size"])
            if optional or entry["part"] not in data["optional"]:
                files.expect_hash(file, path / name, entry["sha256"])
    return Checkpoint(path, data["number"], data["facts"], present)


def _listing_of(path: Path) -> set[str]:
    try:
        return set(os.listdir(path))
    except FileNotFoundError as error:
        raise refuse(path, "there is no such folder") from error
    except NotADirectoryError as error:
        raise refuse(path, "is not a folder, so it is no checkpoint") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise refuse(path, f"cannot be read ({error})") from error


def _explain_foreign(path: Path, names: set[str]) -> None:
    """Raise CheckpointError for a folder that is no finished checkpoint of drl, with what its names show that it is."""
    if files.MANIFEST in names and files.COMMIT in names:
        return
    if files.MANIFEST in names:
        raise refuse(path / files.COMMIT, "the file is missing, so the save was never finished")
    if files.COMMIT in names:
        raise refuse(path / files.MANIFEST, "the file is missing")
    pickles = sorted(n for n in names if n.endswith(PICKLES) or n.startswith("checkpoint-"))
    if pickles:
        why = "RLlib's pickled data; loading it can execute arbitrary code, so drl does not"
        raise refuse(path, f"is not a drl checkpoint: {pickles[0]} is {why}. Train anew, or export the weights there")
    raise refuse(path, f"is not a drl checkpoint ({files.MANIFEST} is missing)")


def _parse_manifest(manifest: bytes, path: Path) -> Manifest:
    where = path / files.MANIFEST
    data = files.parse_json(manifest, where)
    number = data.get("format") if isinstance(data, dict) else None
    if type(number) is not int or number < 1:
        raise refuse(where, "is not a manifest of drl")
    if number > files.FORMAT:
        text = f"has format {number}, this drl reads up to {files.FORMAT}"
        raise refuse(where, f"{text}. It was written by a newer version: upgrade drl to use it")
    forms = {"format": int, "number": int, "facts": dict, "files": dict, "optional": list}
    if set(data) != set(forms) or any(type(data[key]) is not form for key, form in forms.items()):
        raise refuse(where, "its keys or their types are not those of a manifest")
    if data["number"] < 0 or any(part != "replay" for part in data["optional"]):
        raise refuse(where, "its number or its optional parts are out of range")
    for name, entry in data["files"].items():
        _check_file_entry(name, entry, where)
    facts.check(data["facts"], where)
    named = files.FOLDER.fullmatch(path.name)
    if named and int(named[1]) != data["number"]:
        raise refuse(path, f"the folder was renamed: its manifest says number {data['number']}")
    return cast(Manifest, data)


def _check_file_entry(name: str, entry: Any, where: Path | str) -> None:
    if not files.DATA_FILE.fullmatch(name):
        raise refuse(where, f"lists {name[:80]!r}, which is not a file that a checkpoint may have")
    whole = isinstance(entry, dict) and set(entry) == {"size", "sha256", "part"}
    if not whole or type(entry["size"]) is not int or entry["size"] < 0 or not isinstance(entry["sha256"], str):
        raise refuse(where, f"its entry for {name} is malformed")
    if entry["part"] != files.part_of(name):
        raise refuse(where, f"{name} cannot belong to the part {str(entry['part'])[:40]!r}")
