"""Files of a checkpoint: which names exist, and how they are written, opened, hashed and parsed without trust.

Users: the other files of this room; ``replace_file`` and ``parse_json`` also the loggers and the run folder.
Writing goes through ``os`` calls one by one, so that a test can break each of them. Reading opens without following
links and without blocking, wants a regular file of the expected size, hashes before it parses, and turns every failure
into ``CheckpointError``.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterable
from io import FileIO
from pathlib import Path
from typing import Any, NoReturn, TypedDict

import numpy as np

from drl_cli.errors import CheckpointError

FORMAT = 1  # raised when a reader of the old format could not read the new one
MANIFEST = "manifest.json"
COMMIT = "COMMIT"
DROPPED = "replay.dropped"
DATA_FILE = re.compile(r"(?:weights|workers|replay-[0-9]{1,3})\.safetensors|(?:state|replay-[0-9]{1,3})\.json")
FOLDER = re.compile(r"checkpoint_([0-9]{6,12})")
MAX_MANIFEST = 1_000_000  # bytes
MAX_JSON = 64 * 2**20  # bytes of state.json: statistics and random states of some thousand environments
BLOCK = 2**20  # bytes read or written at a time
SYNC_EVERY = 64 * BLOCK  # bytes: one fsync of gigabytes cannot be interrupted


# What fsync of a folder answers where there is no such thing (CIFS, some FUSE): a power cut may take the newest checkpoint
# there, which ``drl doctor`` says; refusing to save would take all of them.
NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


class FileEntry(TypedDict):
    """What a manifest says of a data file."""

    size: int
    sha256: str
    part: str


def refuse(path: object, reason: str) -> CheckpointError:
    """Return the CheckpointError that names the file and the reason, in one line."""
    return CheckpointError(f"{path}: {reason}")


def part_of(name: str) -> str:
    """Return the part that a data file belongs to: ``replay-0.safetensors`` → ``replay``."""
    return Path(name).stem.partition("-")[0]


def write_new(
    path: Path | str, chunks: Iterable[bytes | memoryview], check: Callable[[], object] = lambda: None
) -> None:
    """Create ``path`` (which must not exist, not even as a link), write the chunks of bytes in order, and fsync it.

    ``check`` is called again and again; what it raises ends the writing. Raises OSError (disk full, no permission);
    FileExistsError when something is there already.
    """
    unsynced = 0
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        for chunk in chunks:
            view = memoryview(chunk)
            while view:
                written = os.write(fd, view[: 16 * BLOCK])
                view, unsynced = view[written:], unsynced + written
                if unsynced >= SYNC_EVERY:
                    os.fdatasync(fd)
                    unsynced = 0
                check()
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_folder(path: Path | str) -> None:
    """Make the names in a folder durable, where its disk can do so. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in NO_FOLDER_SYNC:
            raise
    finally:
        os.close(fd)


def replace_file(path: Path | str, data: bytes) -> None:
    """Put ``data`` (bytes) in the place of ``path`` so that a reader sees the old or the new content, never a mix.

    Raises OSError; the old file is then as it was.
    """
    path = Path(path)
    temporary = path.with_name(f".tmp-{path.name}-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        write_new(temporary, [data])
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def json_bytes(data: Any) -> bytes:
    """Return strict JSON (no NaN; sorted, indented, ASCII) of plain data and NumPy scalars.

    Raises ValueError for a number that is not finite, TypeError for anything that is not plain data.
    """
    text = json.dumps(data, allow_nan=False, sort_keys=True, indent=1, default=_plain)
    return text.encode("ascii") + b"\n"


def _plain(value: object) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a {type(value).__name__} cannot be stored as JSON")


def write_json(path: Path | str, data: Any) -> None:
    """Create ``path`` with strict JSON (see ``json_bytes``) and fsync it; raises OSError, ValueError, TypeError."""
    write_new(path, [json_bytes(data)])


def open_regular(path: Path | str) -> FileIO:
    """Open an existing regular file for reading (unbuffered binary); anything else is a CheckpointError."""
    try:
        # O_NONBLOCK: opening a FIFO without a writer would wait for ever.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise refuse(path, "the file is missing") from error
    except OSError as error:
        reason = "is a symbolic link" if os.path.islink(path) else f"cannot be opened ({error.strerror})"
        raise refuse(path, reason) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise refuse(path, "is not a regular file")
    return os.fdopen(fd, "rb", buffering=0)


def expect_size(file: FileIO, path: Path | str, size: int) -> None:
    """Raise CheckpointError unless the open file has exactly ``size`` bytes."""
    found = os.fstat(file.fileno()).st_size
    if found != size:
        raise refuse(path, f"has {found} bytes, the manifest says {size} (damaged or modified)")


def expect_hash(file: FileIO, path: Path | str, sha256: str) -> None:
    """Raise CheckpointError unless the open file has this SHA-256 from here to its end; then go back to its start."""
    try:
        found = hash_of(file)
        file.seek(0)
    except OSError as error:
        raise refuse(path, f"cannot be read ({error.strerror})") from error
    if found != sha256:
        raise refuse(path, "SHA-256 differs from the manifest (damaged or modified)")


def hash_of(file: FileIO, check: Callable[[], object] = lambda: None) -> str:
    """Return the SHA-256 (hex) of an open file from its present position; a block of memory at a time.

    ``check`` is called after each.
    """
    digest = hashlib.sha256()
    while block := file.read(BLOCK):
        digest.update(block)
        check()
    return digest.hexdigest()


def read_exactly(file: FileIO, path: object, count: int) -> bytearray:
    """Read ``count`` bytes from an open file; CheckpointError when it ends before."""
    data = bytearray(count)
    view = memoryview(data)
    while view:
        try:
            got = file.readinto(view)
        except OSError as error:
            raise refuse(path, f"cannot be read ({error.strerror})") from error
        if not got:
            raise refuse(path, "ends too early")
        view = view[got:]
    return data


def read_small(path: Path | str, limit: int) -> bytes:
    """Return the bytes of a regular file of at most ``limit`` bytes; CheckpointError otherwise."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise refuse(path, f"has {size} bytes, more than the {limit} that are allowed")
        return bytes(read_exactly(file, path, size))


def parse_json(data: bytes | bytearray, path: object) -> Any:
    """Return the value of strict JSON: UTF-8, no NaN or infinity, no key twice, not too deep; else CheckpointError."""
    try:
        return json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_float=_finite,
        )
    except RecursionError as error:
        raise refuse(path, "is nested too deeply") from error
    except ValueError as error:
        raise refuse(path, f"is not strict JSON ({error})") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        seen = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise ValueError(f"the key {twice[:80]!r} appears twice")
    return data


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large for a number")
    return value
