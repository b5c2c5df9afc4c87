"""One save: a temporary folder that becomes a checkpoint by a rename, or nothing.

User: ``runtime.driver``. Owners of state write their files into ``writer.folder`` (``write_arrays``, ``write_json``),
maybe from other processes of this machine; then ``commit`` seals them.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import drl_cli.checkpoints.files as files
from drl_cli import process


class Writer:
    """A checkpoint in the making; as a context manager it is aborted unless it was committed.

    ``folder`` is the temporary folder (mode 0700). Raises OSError in every method (disk full, no permission).
    """

    def __init__(self, run_folder: Path | str, number: int, check: Callable[[], object] = lambda: None) -> None:
        """Make ``<run_folder>/.tmp-<number>-<pid>-<8 hex>``; ``number`` is the training iteration.

        ``check`` is called again and again while files are hashed; what it raises ends the save.
        """
        self.run_folder = Path(run_folder)
        self._check = check
        self.number = int(number)
        self.folder = self.run_folder / f".tmp-{self.number:06d}-{os.getpid()}-{secrets.token_hex(4)}"
        os.mkdir(self.folder, 0o700)
        self._open = True
        process.temporary_folders.append(str(self.folder))

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._open:
            self.abort()

    def abort(self) -> None:
        """Remove the temporary folder and what is in it."""
        self._close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _close(self) -> None:
        self._open = False
        process.temporary_folders[:] = [path for path in process.temporary_folders if path != str(self.folder)]

    def commit(self, facts: Mapping[str, Any], optional: Iterable[str] = ("replay",)) -> Path:
        """Seal the files written so far and return the path of the finished checkpoint.

        ``facts`` is plain data for the manifest; ``optional`` names the parts that may be dropped later. A checkpoint
        of the same number gives way (the best of an iteration, saved without its replay, to the whole one).
        Raises ValueError when a file is not one a checkpoint may have, or the facts are no strict JSON or too large.
        """
        listing = self._hash_files()
        manifest = files.json_bytes(
            {
                "format": files.FORMAT,
                "number": self.number,
                "facts": facts,
                "files": listing,
                "optional": sorted(set(optional) & {entry["part"] for entry in listing.values()}),
            }
        )
        if len(manifest) > files.MAX_MANIFEST:
            raise ValueError(f"the manifest would have {len(manifest)} bytes ({files.MAX_MANIFEST} allowed)")
        files.write_new(self.folder / files.MANIFEST, [manifest])
        files.write_new(self.folder / files.COMMIT, [commit_text(manifest)])
        os.chmod(self.folder, 0o777 & ~_umask())
        files.sync_folder(self.folder)
        target = self._move()
        self._close()
        return target

    def _hash_files(self) -> dict[str, files.FileEntry]:
        listing = {}
        for name in sorted(os.listdir(self.folder)):
            if not files.DATA_FILE.fullmatch(name):
                raise ValueError(f"{name} is not a file that a checkpoint may have")
            # Our own folder: a failure here is the disk's (OSError), not a damaged checkpoint.
            fd = os.open(self.folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with os.fdopen(fd, "rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                listing[name] = {"size": size, "sha256": files.hash_of(file, self._check), "part": files.part_of(name)}
        return listing

    def _move(self) -> Path:
        target = self.run_folder / f"checkpoint_{self.number:06d}"
        aside = None
        if target.exists():
            # A rename cannot replace a folder that is not empty. remove_leftovers puts it back if we die in between.
            aside = self.folder.with_name(self.folder.name.replace(".tmp-", ".old-"))
            os.rename(target, aside)
        try:
            os.rename(self.folder, target)
        except OSError:
            if aside is not None:
                os.rename(aside, target)
            raise
        files.sync_folder(self.run_folder)
        if aside is not None:
            shutil.rmtree(aside, ignore_errors=True)
        return target


def commit_text(manifest: bytes) -> bytes:
    """Return the only content that COMMIT may have beside these bytes of manifest.json."""
    return f"{hashlib.sha256(manifest).hexdigest()} {len(manifest)} {files.MANIFEST}\n".encode("ascii")


def dropped_text(manifest: bytes) -> bytes:
    """Return the only content that the marker of a dropped replay may have beside these bytes of manifest.json."""
    return b"replay dropped on purpose " + commit_text(manifest)


def _umask() -> int:
    value = os.umask(0o077)
    os.umask(value)
    return value
