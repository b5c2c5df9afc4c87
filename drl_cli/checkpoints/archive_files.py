"""One file that holds many: deterministic .tar.gz and .zip, written in order and read in order, one entry at a time.

Used by ``runs.pack`` and ``runs.unpack``. Written: plain files only, no owner, no time, mode 0644, so that the same content
gives the same bytes. Read: of a zip, entries that are stored or deflated; of a tar, plain files, whose headers are read here
block by block. ``tarfile`` with its ``data`` filter cannot do that: it judges an entry only after it has read it, with all its
extended headers. Measured with Python 3.11: an archive of 0.5 MB with one long name takes 1 GB of memory, a pax header renames
the entry that follows it, and an archive whose second header is damaged ends silently before it. Names are not judged here.
Sources: POSIX.1-1988 ustar; PKWARE's APPNOTE.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from drl_cli.checkpoints.files import BLOCK, open_regular, refuse
from drl_cli.errors import InputError

TAR, ZIP = (".tar.gz", ".tgz"), (".zip",)
ENDINGS = (*TAR, *ZIP)
TAR_BLOCK = 512
MAX_TAR_FILE = 8**11 - 1  # bytes: what the eleven octal digits of a header say
MAX_ENTRIES = 100_000
MAX_NAME = 255  # bytes of the name of a file
LEVEL = 6  # of deflate
_KINDS = {
    tarfile.LNKTYPE: "a hard link",
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a pipe",
    tarfile.DIRTYPE: "a folder",
}
_STRANGE = "an entry of a kind that drl does not write"


def is_archive(path: Path | str) -> bool:
    """Whether a file's name says that it is one."""
    return str(path).lower().endswith(ENDINGS)


def is_plain(part: str) -> bool:
    """Whether ``part`` is the name of one file or folder that every archive may hold: not hidden, no path, printable."""
    fits = part and not part.startswith(".") and part.isprintable() and not set(part) & set("/\\")
    return bool(fits) and len(part.encode("utf-8", "replace")) <= MAX_NAME


def check_size(path: Path | str, name: str, size: int) -> None:
    """Raise InputError where an archive of the kind that ``path`` names cannot hold a file of ``size`` bytes."""
    if size > MAX_TAR_FILE and str(path).lower().endswith(TAR):
        raise InputError(f"{name} has {size:,} bytes, a .tar.gz holds files of up to {MAX_TAR_FILE:,}: pack a .zip.")


class Entry(NamedTuple):
    """A file in an archive: ``read(count)`` gives bytes of it, fewer only at its end."""

    name: str
    size: int
    read: Callable[[int], bytes]


class TarWriter:
    """Writes entries into an open binary file as .tar.gz."""

    def __init__(self, file: BinaryIO) -> None:
        self._gzip = gzip.GzipFile(filename="", mode="wb", compresslevel=LEVEL, fileobj=file, mtime=0)

    def add(self, name: str, size: int, chunks: Iterable[bytes]) -> None:
        """Write an entry of ``size`` bytes, which ``chunks`` yields. Raises InputError for one that a tar cannot hold."""
        check_size(".tar.gz", name, size)
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = size, 0o644
        try:
            self._gzip.write(entry.tobuf(tarfile.USTAR_FORMAT, "utf-8", "strict"))
        except ValueError as error:
            raise InputError(f"{name}: the name is too long for a .tar.gz: pack a .zip.") from error
        for chunk in chunks:
            self._gzip.write(chunk)
        self._gzip.write(bytes(-size % TAR_BLOCK))

    def close(self) -> None:
        """Write the end."""
        self._gzip.write(bytes(2 * TAR_BLOCK))
        self._gzip.close()


class ZipWriter:
    """Writes entries into an open binary file as .zip."""

    def __init__(self, file: BinaryIO) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL)

    def add(self, name: str, size: int, chunks: Iterable[bytes]) -> None:
        """Write an entry of ``size`` bytes, which ``chunks`` yields."""
        entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
        entry.compress_type, entry.create_system, entry.file_size = zipfile.ZIP_DEFLATED, 3, size
        entry.external_attr = (stat.S_IFREG | 0o644) << 16
        with self._zip.open(entry, "w") as target:
            for chunk in chunks:
                target.write(chunk)

    def close(self) -> None:
        """Write the end."""
        self._zip.close()


def writer(path: Path | str, file: BinaryIO) -> TarWriter | ZipWriter:
    """Return what writes into the open ``file`` in the format that the name ``path`` asks for. Raises InputError."""
    if not is_archive(path):
        raise InputError(f"{path}: give an archive a name that ends in .tar.gz or .zip.")
    return (ZipWriter if str(path).lower().endswith(ZIP) else TarWriter)(file)


def entries(path: Path | str) -> Iterator[Entry]:
    """Yield every Entry in order.

    One must be read to its end before the next one is taken. Raises CheckpointError for anything that is no plain
    file, and for damage.
    """
    with open_regular(path) as file, _refusing_damage(path):
        begin = file.read(4)
        file.seek(0)
        if begin[:2] == b"\x1f\x8b":
            yield from _tar_entries(path, file)
        elif begin == b"PK\x03\x04":
            yield from _zip_entries(path, file)
        else:
            raise refuse(path, "is neither a .tar.gz nor a .zip")


@contextlib.contextmanager
def _refusing_damage(path: Path | str) -> Iterator[None]:
    """Turn what the libraries raise for damaged data into the CheckpointError that names the file."""
    try:
        yield
    # OSError, struct.error, UnicodeError: a zip whose directory names places before the file, or names that are no UTF-8
    except (
        EOFError,
        OSError,
        struct.error,
        UnicodeError,
        zlib.error,
        zipfile.BadZipFile,
        NotImplementedError,
    ) as error:
        raise refuse(path, f"is damaged ({str(error)[:120] or type(error).__name__})") from error


class _Read:
    """``read`` of an Entry: damage is found when its bytes are read."""

    def __init__(self, path: Path | str, read: Callable[[int], bytes]) -> None:
        self._path, self._read = path, read

    def __call__(self, count: int) -> bytes:
        with _refusing_damage(self._path):
            return self._read(count)


def _tar_entries(path: Path | str, file: BinaryIO) -> Iterator[Entry]:
    with gzip.GzipFile(fileobj=file, mode="rb") as stream:
        for _ in range(MAX_ENTRIES + 1):
            block = _whole(stream, TAR_BLOCK, path)
            if block == bytes(TAR_BLOCK):
                return
            try:
                entry = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
            except (tarfile.HeaderError, ValueError) as error:
                raise refuse(path, f"is damaged (a header: {str(error)[:80]})") from error
            if entry.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
                raise refuse(
                    path, f"holds {_shown(entry.name)}, {_KINDS.get(entry.type, _STRANGE)}; only files may be in it"
                )
            if entry.size < 0:
                raise refuse(path, f"is damaged ({_shown(entry.name)} has a size below 0)")
            source = _Limited(stream, entry.size)
            yield Entry(entry.name, entry.size, _Read(path, source.read))
            if source.left:
                raise ValueError(f"{entry.name} was not read to its end")
            _whole(stream, -entry.size % TAR_BLOCK, path)
        raise refuse(path, f"holds more than {MAX_ENTRIES:,} files")


class _Limited:
    """The next ``size`` bytes of a stream."""

    def __init__(self, stream: gzip.GzipFile, size: int) -> None:
        self._stream, self.left = stream, size

    def read(self, count: int) -> bytes:
        """Return ``count`` bytes, fewer only where these end."""
        data = self._stream.read(min(count, self.left))
        self.left -= len(data)
        return data


def _whole(stream: gzip.GzipFile, count: int, path: Path | str) -> bytes:
    data = stream.read(count)
    if len(data) != count:
        raise refuse(path, "is damaged (it ends too early)")
    return data


def _zip_entries(path: Path | str, file: BinaryIO) -> Iterator[Entry]:
    with zipfile.ZipFile(file) as archive:
        listed = archive.infolist()
        if len(listed) > MAX_ENTRIES:
            raise refuse(path, f"holds more than {MAX_ENTRIES:,} files")
        for entry in listed:
            kind = stat.S_IFMT(entry.external_attr >> 16)
            is_folder = entry.filename.endswith("/")  # is_dir fails where there is no name
            if is_folder or kind not in (0, stat.S_IFREG):
                what = "a symbolic link" if kind == stat.S_IFLNK else "a folder" if is_folder else "no plain file"
                raise refuse(path, f"holds {_shown(entry.filename)}, {what}; only files may be in it")
            if entry.flag_bits & 0x1 or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise refuse(
                    path, f"holds {_shown(entry.filename)}, encrypted or packed in a way that drl does not write"
                )
            with archive.open(entry) as source:
                yield Entry(entry.filename, entry.file_size, _Read(path, source.read))


def _shown(name: str) -> str:
    return repr(name[:80])


def chunks_of(path: Path | str, size: int) -> Iterator[bytes]:
    """Yield the ``size`` bytes of a regular file by blocks. Raises CheckpointError where it has become shorter or longer."""
    with open_regular(path) as file:
        left = size
        while left:
            data = file.read(min(BLOCK, left))
            if not data:
                raise refuse(path, "has changed while it was packed")
            left -= len(data)
            yield data
        if os.fstat(file.fileno()).st_size != size:
            raise refuse(Path(path), "has changed while it was packed")
