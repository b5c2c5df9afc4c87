"""An archive of ``runs.pack`` back to a folder, or only checked: it may come from anywhere.

Used by ``drl checkpoint unpack`` and ``verify``. Nothing is trusted: what an archive may hold is what its manifest lists,
which is read first and bounded; every name is a plain relative path below the one folder; sizes are bounded by what the archive
can hold, by ``MAX_TOTAL`` and by the disk; hashes are compared while files are written; checkpoints are verified as any other.
All of it goes into a new folder aside, which is renamed when it is whole and removed when it is not: nothing is overwritten.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from drl_cli.checkpoints import archive_files, files, reader
from drl_cli.checkpoints.files import refuse
from drl_cli.errors import CheckpointError, DrlError, full_or, reason_of
from drl_cli.runs import pack, retention
from drl_cli.runs.run_folder import remove_leftovers

MAX_MANIFEST = 32 * 2**20  # bytes
MAX_TOTAL = 2**40  # bytes unpacked
MAX_RATIO = 1100  # deflate shrinks to 1/1032 at most, so a larger claim is a bomb
MAX_PATH, MAX_DEPTH = 1000, 16  # characters, folders
_SLACK = 2**16  # bytes
_HASH = re.compile(r"[0-9a-f]{64}")


class Contents(NamedTuple):
    """``kind`` ("checkpoint", "run"), ``name``, number of ``files``, ``size`` of all of them in bytes."""

    kind: str
    name: str
    files: int
    size: int


def verify(path: Path | str) -> Contents:
    """Read an archive to its end without writing anything; returns its Contents. Raises CheckpointError that names the file.

    Sizes and hashes of all files are compared with its manifest's; checkpoints in it are verified when they are unpacked.
    """
    manifest, pending = None, {}
    for entry in archive_files.entries(path):
        if manifest is None:
            manifest = _manifest(path, entry)
            pending = dict(manifest["files"])
            continue
        for _ in _checked(path, entry, pending):
            pass
    return _done(path, manifest, pending)


def unpack(path: Path | str, folder: Path | str = ".") -> tuple[Path, Contents]:
    """Unpack an archive into ``folder`` (made where it is not there) and return (the new folder in it, Contents).

    Raises CheckpointError (hostile, damaged, not ours, something of its name is there), OSError; nothing is left then.
    """
    folder = Path(folder).expanduser()
    made = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise CheckpointError(f"{folder}: is not a folder. Name another one with -o.") from error
    except OSError as error:
        raise _cannot_write(folder, error) from error
    remove_leftovers(folder, "unpack")
    aside = folder / f".tmp-unpack-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        os.mkdir(aside, 0o700)
        contents = _unpack(path, aside, folder)
        target = folder / contents.name
        _check_free(target)
        os.rename(aside / contents.name, target)
        files.sync_folder(folder)
        return target, contents
    except OSError as error:
        raise _cannot_write(folder, error) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        if made and not any(folder.iterdir()):
            folder.rmdir()


def _cannot_write(folder: Path, error: OSError) -> DrlError:
    text = f"{folder}: cannot be written ({reason_of(error)}). Name another folder with -o."
    return full_or(error, CheckpointError)(text)


def _unpack(path: Path | str, aside: Path, folder: Path) -> Contents:
    manifest, pending = None, {}
    for entry in archive_files.entries(path):
        if manifest is None:
            manifest = _manifest(path, entry)
            pending = dict(manifest["files"])
            _check_free(folder / manifest["name"])
            _check_disk(path, manifest, folder)
            continue
        target = aside / entry.name
        chunks = _checked(path, entry, pending)
        first = next(chunks)  # nothing is made before the name was found to be in the manifest
        target.parent.mkdir(parents=True, exist_ok=True)
        files.write_new(target, _chain(first, chunks))
    contents = _done(path, manifest, pending)
    top = aside / contents.name
    for checkpoint in [top] if contents.kind == "checkpoint" else [found for _, found in retention.numbers(top)]:
        reader.load(checkpoint, optional=True)
    return contents


def _chain(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _manifest(path: Path | str, first: archive_files.Entry) -> dict[str, Any]:
    """Read and check the first entry."""
    name, size, read = first
    if name != pack.MANIFEST:
        raise refuse(
            path, f"is not an archive of drl checkpoint pack (it begins with {name[:80]!r}). Unpack it by other means"
        )
    if size > MAX_MANIFEST:
        raise refuse(path, f"has a manifest of {size:,} bytes, more than the {MAX_MANIFEST:,} that are allowed")
    data = read(size)
    if len(data) != size:
        raise refuse(path, "is damaged (it ends too early)")
    read(1)  # where a zip compares its own checksum
    where = f"{path}: {pack.MANIFEST}"
    manifest = files.parse_json(data, where)
    keys = {"format": str, "kind": str, "name": str, "drl": str, "files": dict}
    if not isinstance(manifest, dict) or any(type(manifest.get(key)) is not kind for key, kind in keys.items()):
        raise refuse(where, "its keys or their types are not those of a manifest")
    if manifest["format"] != pack.FORMAT:
        text = f"has the format {manifest['format'][:40]!r}, this drl reads {pack.FORMAT}"
        raise refuse(where, f"{text}. It may be of a newer version: upgrade drl to use it")
    if set(manifest) != set(keys) or manifest["kind"] not in pack.KINDS:
        raise refuse(where, "its keys or its kind are not those of a manifest")
    _check_listing(path, where, manifest)
    return manifest


def _check_listing(path: Path | str, where: str, manifest: dict[str, Any]) -> None:
    top, listed = manifest["name"], manifest["files"]
    _check_part(where, top, top)
    if not 0 < len(listed) <= archive_files.MAX_ENTRIES:
        raise refuse(where, f"lists {len(listed):,} files")
    for name, entry in listed.items():
        first, *inner = name.split("/")
        if first != top or not inner:
            raise refuse(where, f"lists {name[:80]!r}, which is not below {top}")
        for part in inner:
            _check_part(where, part, name)
        whole = isinstance(entry, dict) and set(entry) == {"size", "sha256"} and type(entry["size"]) is int
        if (
            not whole
            or entry["size"] < 0
            or not isinstance(entry["sha256"], str)
            or not _HASH.fullmatch(entry["sha256"])
        ):
            raise refuse(where, f"its entry for {name[:80]!r} is malformed")
    folders = {name.rpartition("/")[0] for name in listed}
    parents = {folder[:at] for folder in folders for at in range(len(folder) + 1) if folder[at : at + 1] in ("", "/")}
    if parents & set(listed):
        raise refuse(where, f"lists {min(parents & set(listed))[:80]!r} as a file and as a folder")
    total, most = sum(entry["size"] for entry in listed.values()), os.stat(path).st_size * MAX_RATIO + _SLACK
    if total > min(most, MAX_TOTAL):
        raise refuse(where, f"claims {total:,} bytes, more than such an archive can hold")


def _check_part(where: str, part: str, name: str) -> None:
    """Raise CheckpointError unless ``part`` of the path ``name`` is the plain name of a file or folder."""
    if not archive_files.is_plain(part) or len(name) > MAX_PATH or name.count("/") > MAX_DEPTH:
        raise refuse(where, f"names {name[:80]!r}, which is not the plain path of a file in a folder")


def _checked(path: Path | str, entry: archive_files.Entry, pending: dict[str, Any]) -> Iterator[bytes]:
    """Yield the bytes of an entry that the manifest lists (at least one chunk); CheckpointError where they are others."""
    name, size, read = entry
    listed = pending.pop(name, None)
    if listed is None:
        raise refuse(path, f"holds {name[:80]!r}, which its manifest does not list, or twice")
    where = f"{path}: {name}"
    if size != listed["size"]:
        raise refuse(where, f"has {size:,} bytes, the manifest says {listed['size']:,} (damaged or modified)")
    digest, left = hashlib.sha256(), size
    while left:
        data = read(min(files.BLOCK, left))
        if not data:
            raise refuse(where, "ends too early")
        left -= len(data)
        digest.update(data)
        yield data
    if read(1):
        raise refuse(where, "is longer than declared")
    if digest.hexdigest() != listed["sha256"]:
        raise refuse(where, "SHA-256 differs from the manifest (damaged or modified)")
    yield b""


def _done(path: Path | str, manifest: dict[str, Any] | None, pending: dict[str, Any]) -> Contents:
    if manifest is None:
        raise refuse(path, "is empty")
    if pending:
        raise refuse(path, f"lacks {min(pending)[:80]!r}, which its manifest lists")
    sizes = [entry["size"] for entry in manifest["files"].values()]
    return Contents(manifest["kind"], manifest["name"], len(sizes), sum(sizes))


def _check_free(target: Path) -> None:
    if os.path.lexists(target):
        raise refuse(target, "already exists, and nothing is overwritten. Name another folder with -o")


def _check_disk(path: Path | str, manifest: dict[str, Any], folder: Path) -> None:
    needed, free = sum(entry["size"] for entry in manifest["files"].values()), shutil.disk_usage(folder).free
    if needed > free:
        raise refuse(path, f"unpacks to {needed:,} bytes; {folder} has room for {free:,}")
