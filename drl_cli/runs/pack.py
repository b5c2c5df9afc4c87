"""A checkpoint, or a whole run, as one file to hand on: the same content gives the same bytes, with a manifest of hashes.

Used by ``drl checkpoint pack``; ``runs.unpack`` reads it back. An archive holds, in this order::

    drl-archive.json            {"format": "drl-archive-1", "kind": "checkpoint" | "run", "name", "drl", "files": {path: …}}
    NAME/…                      the files of the manifest ("size", "sha256"), by name

Replays are left out by default; the marker of a dropped replay takes their place, so that such a checkpoint
is whole. What is hidden (locks, unfinished saves) or no plain file is left out and said.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, TypedDict

from drl_cli.checkpoints import archive_files, files, reader
from drl_cli.checkpoints.files import refuse
from drl_cli.checkpoints.writer import dropped_text
from drl_cli.errors import InputError, full_or, reason_of
from drl_cli.runs import retention
from drl_cli.runs.run_folder import is_locked, read_record, remove_leftovers
from drl_cli.version import __version__

FORMAT = "drl-archive-1"
MANIFEST = "drl-archive.json"
KINDS = ("checkpoint", "run")


Sources = Mapping[str, Path | bytes]
"""What goes into an archive: the file to read, or the bytes, by name."""


class PackedEntry(TypedDict):
    """What the manifest of an archive says of a file."""

    size: int
    sha256: str


class Packed(NamedTuple):
    """``path`` of the archive, ``kind`` of what is in it, its ``name``, number of ``files``, ``size`` unpacked and ``packed``;
    ``left_out``: [(path, why)].
    """

    path: Path
    kind: str
    name: str
    files: int
    size: int
    packed: int
    left_out: list[tuple[Path, str]]


def _subject_of(path: Path | str) -> tuple[str, Path]:
    """Return ("run", folder) for a run folder, else ("checkpoint", folder) for what ``retention.find`` makes of ``path``."""
    path = Path(path).expanduser()
    if path.is_dir() and read_record(path / "params.json") is not None:
        return "run", path.absolute()
    return "checkpoint", retention.find(path).absolute()


def pack(path: Path | str, out: Path | str, with_replay: bool = False) -> Packed:
    """Pack the run or checkpoint that ``path`` means into the new file ``out`` (.tar.gz, .tgz, .zip) and return Packed.

    Everything is verified before. Raises CheckpointError (damage, a run in progress), InputError (``out``), OSError; nothing
    is left then.
    """
    out = Path(out).expanduser()
    check_place(out)
    kind, folder = _subject_of(path)
    if not archive_files.is_plain(folder.name):
        raise InputError(
            f"{folder}: an archive is named after its folder, whose name must be printable and not hidden."
        )
    contents, left_out = _of_checkpoint(folder, with_replay) if kind == "checkpoint" else _of_run(folder, with_replay)
    for content in contents.values():
        if isinstance(content, Path):
            archive_files.check_size(out, str(content), content.stat().st_size)
    listing = {f"{folder.name}/{name}": _entry(content) for name, content in sorted(contents.items())}
    manifest = {"format": FORMAT, "kind": kind, "name": folder.name, "drl": __version__, "files": listing}
    remove_leftovers(out.parent, out.name)
    aside = out.with_name(f".tmp-{out.name}-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with open(aside, "xb") as file:
            with contextlib.closing(archive_files.writer(out, file)) as archive:
                _write(archive, files.json_bytes(manifest), listing, contents, folder.name)
            file.flush()
            os.fsync(file.fileno())
        _put(aside, out)
        packed = out.stat().st_size
    except OSError as error:
        text = f"{out}: the archive cannot be written ({reason_of(error)}). Choose another folder for it with -o."
        raise full_or(error, InputError)(text) from error
    finally:
        with contextlib.suppress(OSError):  # on a disk that can only be read there is nothing to remove
            aside.unlink(missing_ok=True)
    return Packed(out, kind, folder.name, len(listing), sum(e["size"] for e in listing.values()), packed, left_out)


def check_place(out: Path) -> None:
    """Raise InputError where an archive cannot become ``out``: its name, its folder, something that is there."""
    if not archive_files.is_archive(out):
        raise InputError(f"{out}: give an archive a name that ends in .tar.gz or .zip.")
    if os.path.lexists(out):
        raise InputError(f"{out}: it already exists, and nothing is overwritten. Choose another name.")
    if not out.parent.is_dir():
        raise InputError(f"{out.parent}: there is no such folder.")


def _of_checkpoint(folder: Path, with_replay: bool) -> tuple[dict[str, Path | bytes], list[tuple[Path, str]]]:
    """Return ({name: path, or bytes}, what is left out) of a verified checkpoint."""
    found = reader.load(folder, optional=with_replay)
    is_dropped = found.has("replay") and not with_replay
    kept = [name for name, entry in found.listing.items() if not (is_dropped and entry["part"] == "replay")]
    contents: dict[str, Path | bytes] = {name: folder / name for name in (*kept, files.MANIFEST, files.COMMIT)}
    if is_dropped:
        contents[files.DROPPED] = dropped_text(files.read_small(folder / files.MANIFEST, files.MAX_MANIFEST))
    elif (folder / files.DROPPED).exists():
        contents[files.DROPPED] = folder / files.DROPPED
    left_out = [
        (folder / name, "a replay buffer; --with-replay includes it") for name in found.listing if name not in contents
    ]
    return contents, left_out


def _of_run(folder: Path, with_replay: bool) -> tuple[dict[str, Path | bytes], list[tuple[Path, str]]]:
    """Return ({name: path, or bytes}, what is left out) of a run that is over."""
    if is_locked(folder):
        raise refuse(folder, "is a running run, whose files change. Wait until it ends, or pack one of its checkpoints")
    contents, left_out = {}, []
    for _, path in retention.numbers(folder):
        inner, without = _of_checkpoint(path, with_replay)
        contents |= {f"{path.name}/{name}": content for name, content in inner.items()}
        left_out += without
    done = {path for _, path in retention.numbers(folder)}
    for place, folders, names in os.walk(folder):
        here = Path(place)
        for path in [here / name for name in folders]:
            why = None if path in done else _unfit_folder(path)
            if path in done or why:
                folders.remove(path.name)
            left_out += [(path, why)] if why else []
        for path in [here / name for name in names]:
            why = _unfit(path)
            if why is None:
                contents[path.relative_to(folder).as_posix()] = path
            elif path != folder / ".lock":
                left_out.append((path, why))
    return contents, sorted(left_out)


def _unfit_folder(path: Path) -> str | None:
    """Why a folder of a run does not go into an archive, or None."""
    return "a link" if path.is_symlink() else None if archive_files.is_plain(path.name) else "hidden"


def _unfit(path: Path) -> str | None:
    """Why a file of a run does not go into an archive, or None."""
    if path.name.startswith("."):
        return "hidden"
    if path.is_symlink():
        return "a link"
    if not path.is_file():
        return "no plain file"
    return None if archive_files.is_plain(path.name) else "a name that is not valid on every system"


def _entry(content: Path | bytes) -> PackedEntry:
    if isinstance(content, bytes):
        return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    with files.open_regular(content) as file:
        return {"size": os.fstat(file.fileno()).st_size, "sha256": files.hash_of(file)}


def _write(
    archive: archive_files.TarWriter | archive_files.ZipWriter,
    manifest: bytes,
    listing: Mapping[str, PackedEntry],
    contents: Sources,
    top: str,
) -> None:
    archive.add(MANIFEST, len(manifest), [manifest])
    for name, entry in listing.items():
        content = contents[name.removeprefix(f"{top}/")]
        chunks = [content] if isinstance(content, bytes) else archive_files.chunks_of(content, entry["size"])
        archive.add(name, entry["size"], chunks)


def _put(aside: Path, out: Path) -> None:
    """Give the finished file its name, which must not be taken."""
    try:
        os.link(aside, out)
    except FileExistsError as error:
        raise InputError(f"{out}: it was created meanwhile; nothing is overwritten.") from error
    except OSError:  # a file system without hard links
        check_place(out)
        os.rename(aside, out)
    files.sync_folder(out.parent)
