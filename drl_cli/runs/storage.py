"""A folder of a storage elsewhere, opened through ``pyarrow.fs``: object stores, HDFS, mounted folders.

Users: ``runs.run_upload`` and ``runs.run_download``. pyarrow is imported when the first URI is opened, and not before. Every
failure is one ``StorageError``, in one line, with the URI; credentials are left to the libraries of the stores, which take them
from their usual variables and files. A file is there whole or not at all: object stores write so, elsewhere it is written under
another name and moved.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import posixpath
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import unquote

from drl_cli import extras
from drl_cli.checkpoints.files import BLOCK
from drl_cli.config import storage_uri
from drl_cli.errors import StorageError

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

OBJECT_STORES = ("s3", "gcs", "abfs")
"""Kinds of file systems of pyarrow that have no folders, and write an object whole or not at all."""
RETRY_SECONDS = 60  # of Google's client, whose own limit is 15 minutes
PART = ".part-"  # before the name of a file that is being written
_DENIED = ("credential", "access_denied", "access denied", "forbidden", "accesskeyid", "oauth2", "token", "authenticat")


@dataclasses.dataclass(frozen=True)
class StoredEntry:
    """What is below a folder: ``size`` in bytes, None for a folder; ``changed``: seconds since 1970, 0.0 if unknown."""

    size: int | None
    changed: float


class Storage:
    """``uri`` and its file system; names of files are given as the names on the way to them."""

    def __init__(self, filesystem: FileSystem, root: str, uri: str) -> None:
        """``root``: the path of ``uri`` in ``filesystem``."""
        self.uri, self._filesystem, self._root = uri, filesystem, root
        self.moved = 0  # bytes sent and fetched so far
        self._has_folders = filesystem.type_name not in OBJECT_STORES
        self._made: set[str] = set()  # folders that are known to be there

    def entries(self, *folder: str) -> dict[str, StoredEntry]:
        """Return what is in a folder, {} where there is none. Raises StorageError."""
        fs = extras.require("pyarrow.fs")
        path = self._path(*folder)
        with self._failing(*folder):
            found = self._filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True))
        kinds = {fs.FileType.File: False, fs.FileType.Directory: True}
        return {
            info.base_name: StoredEntry(None if kinds[info.type] else info.size, (info.mtime_ns or 0) / 1e9)
            for info in found
            if info.type in kinds and info.base_name
        }

    def entry(self, *path: str) -> StoredEntry | None:
        """Return what is at ``path``, or None. Raises StorageError."""
        fs = extras.require("pyarrow.fs")
        with self._failing(*path):
            info = self._filesystem.get_file_info(self._path(*path))
        if info.type == fs.FileType.NotFound:
            return None
        return StoredEntry(info.size if info.type == fs.FileType.File else None, (info.mtime_ns or 0) / 1e9)

    def read(self, *path: str, limit: int) -> bytes | None:
        """Return the content of a file of at most ``limit`` bytes, None where there is no file. Raises StorageError."""
        try:
            with self._failing(*path), self._filesystem.open_input_stream(self._path(*path)) as stream:
                data = stream.read(limit + 1)
        except StorageError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise
        if len(data) > limit:
            raise StorageError(f"{self.place(*path)}: has more than the {limit} bytes that are allowed")
        return data

    def write(self, data: bytes, *path: str) -> None:
        """Put a file with ``data`` (bytes) at ``path``. Raises StorageError."""
        with self._new(*path) as stream, self._failing(*path):
            stream.write(data)
        self.moved += len(data)

    def send(self, file: BinaryIO, size: int, *path: str) -> str:
        """Copy the first ``size`` bytes of an open file to ``path`` and return their SHA-256 (hex).

        Raises StorageError, and OSError where ``file`` cannot be read.
        """
        digest = hashlib.sha256()
        with self._new(*path) as stream:
            while size > 0 and (block := file.read(min(BLOCK, size))):
                with self._failing(*path):
                    stream.write(block)
                digest.update(block)
                size -= len(block)
                self.moved += len(block)
        return digest.hexdigest()

    def fetch(self, target: Path, *path: str) -> None:
        """Copy the file at ``path`` to ``target``, a new file of this machine. Raises StorageError, OSError."""
        with open(target, "xb") as file:
            with self._failing(*path):
                stream = self._filesystem.open_input_stream(self._path(*path))
            with stream:
                while True:
                    with self._failing(*path):
                        block = stream.read(BLOCK)
                    if not block:
                        break
                    file.write(block)
                    self.moved += len(block)
            file.flush()
            os.fsync(file.fileno())

    def remove(self, *path: str) -> None:
        """Remove a file, or a folder with all that is in it, if it is there. Raises StorageError."""
        found = self.entry(*path)
        if found is None:
            return
        with self._failing(*path), contextlib.suppress(FileNotFoundError):
            if found.size is None:
                self._filesystem.delete_dir(self._path(*path))
                self._made = {name for name in self._made if not name.startswith(self._path(*path))}
            else:
                self._filesystem.delete_file(self._path(*path))

    def place(self, *path: str) -> str:
        """Return the URI of what is at ``path``."""
        return storage_uri.below(self.uri, *path)

    def _path(self, *path: str) -> str:
        return posixpath.join(self._root, *path)

    @contextlib.contextmanager
    def _new(self, *path: str) -> Iterator[Any]:
        """Yield a stream into a file that is at ``path`` once the block has ended without an error."""
        final = self._path(*path)
        made = final if not self._has_folders else self._path(*path[:-1], PART + path[-1])
        parent = posixpath.dirname(final)
        with self._failing(*path):
            if self._has_folders and parent and parent not in self._made:
                self._filesystem.create_dir(parent, recursive=True)
                self._made.add(parent)
            stream = self._filesystem.open_output_stream(made)
        try:
            yield stream
        except BaseException:
            with contextlib.suppress(Exception):
                stream.close()
            self._made.clear()  # another process may have removed the folder
            raise
        with self._failing(*path):
            stream.close()
            if made != final:
                self._filesystem.move(made, final)

    @contextlib.contextmanager
    def _failing(self, *path: str) -> Iterator[None]:
        """Turn what pyarrow raises into a StorageError."""
        try:
            yield
        except (OSError, ValueError, NotImplementedError, extras.require("pyarrow").ArrowException) as error:
            raise StorageError(f"{self.place(*path)}: {reason(error, self.uri)}") from error


def opened(uri: str) -> Storage:
    """Return the Storage of a URI (see ``config.storage_uri.checked``). Raises StorageError in one line."""
    try:
        uri = storage_uri.checked(uri)
    except ValueError as error:
        raise StorageError(str(error)) from error
    fs = extras.require("pyarrow.fs")
    scheme, _, rest = uri.partition("://")
    if scheme == "file":
        return Storage(fs.LocalFileSystem(), unquote(rest), uri)
    given = uri
    if scheme in ("gs", "gcs") and "retry_limit_seconds=" not in uri:
        given = f"{uri}{'&' if '?' in uri else '?'}retry_limit_seconds={RETRY_SECONDS}"
    try:
        filesystem, root = fs.FileSystem.from_uri(given)
    except (OSError, ValueError, NotImplementedError, extras.require("pyarrow").ArrowException) as error:
        raise StorageError(f"{uri}: {reason(error, uri)}") from error
    return Storage(filesystem, root, uri)


def reason(error: BaseException, uri: str) -> str:
    """Return in one line why a storage refused; where it looks like credentials or a missing library, what to do."""
    text = " ".join(str(error).split())
    text = text if len(text) <= 300 else text[:297] + "…"
    scheme = uri.partition("://")[0]
    if scheme == "hdfs" and "load lib" in text.lower():
        return f"this machine has no Java or no Hadoop ({text[:100]}…). Set JAVA_HOME, HADOOP_HOME and CLASSPATH"
    if scheme != "file" and any(word in text.lower() for word in _DENIED):
        return f"{text.rstrip('.')}. {storage_uri.credentials(scheme)}"
    return text.rstrip(".")
