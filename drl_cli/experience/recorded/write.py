"""Files of recorded experience: lines as RLlib's JsonWriter writes them, in files that are rotated by size.

Users: ``actors.recorder``, ``analysis.rollout_files``. A line is there whole or not at all: what a full disk cuts short is
taken away again. Source: RLlib 1.13 (``offline/json_writer.py``): names of files, one batch a line, packed columns.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import json
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from drl_cli.errors import CheckpointError, RunFolderError, full_or, reason_of
from drl_cli.experience.recorded.packed_columns import packed

_PREFIX = re.compile(r"output-\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d(-\d{1,4})?_worker-\d{1,9}")


def line(columns: Mapping[str, np.ndarray], compress: Sequence[str] = ()) -> bytes:
    """Return a batch, {column: array [T, …]}, as one line of bytes; the columns named in ``compress`` are packed."""
    return _line({"type": "SampleBatch", **_plain(columns, compress)})


def line_of_policies(
    batches: Mapping[str, Mapping[str, np.ndarray]], count: int, compress: Sequence[str] = ()
) -> bytes:
    """Return the batches of several policies, {policy id: {column: array [T, …]}}, as one line; ``count``: env steps."""
    policies = {name: _plain(columns, compress) for name, columns in batches.items()}
    return _line({"type": "MultiAgentBatch", "count": count, "policy_batches": policies})


def _plain(columns: Mapping[str, np.ndarray], compress: Sequence[str]) -> dict[str, Any]:
    return {name: packed(array) if name in compress else array.tolist() for name, array in columns.items()}


def _line(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"


def prepare(folder: str) -> None:
    """Make ``folder`` and write a little into it. Raises RunFolderError or ResourcesExhausted where that fails."""
    try:
        os.makedirs(folder, exist_ok=True)
        probe = os.path.join(folder, f".probe-{secrets.token_hex(4)}")
        with open(probe, "xb") as file:
            file.write(b"probe\n" * 1000)
        os.unlink(probe)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        text = f"output: {folder} cannot be written ({reason_of(error)}). Name another folder, or logdir."
        raise full_or(error, RunFolderError)(text) from error


class LineFile:
    """A file that lines are appended to, each whole or not at all."""

    def __init__(self, path: Path | str, flags: int) -> None:
        """``flags``: those of ``os.open`` beside writing, creating and appending. Raises OSError."""
        self.path, self.size = path, 0  # bytes written
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | flags, 0o644)

    def write(self, data: bytes) -> None:
        """Append the line ``data`` (bytes). Raises OSError, after which all earlier lines are whole."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            with contextlib.suppress(OSError):  # the disk refuses that too: readers skip a torn last line
                os.ftruncate(self._file, self.size)
            raise
        self.size += len(data)

    def close(self) -> None:
        """Close it."""
        os.close(self._file)


class OutputFiles:
    """The files of one worker in a folder: ``output-<time>_worker-<index>_<part>.json``, the first with its first line."""

    def __init__(self, folder: str, worker: int, most: int) -> None:
        """``most``: bytes that a file has at most, unless a single line has more."""
        self._folder, self._worker, self._most = folder, worker, most
        self._prefix: str | None = None  # of the names of this worker's files, None before the first line
        self._part = -1
        self._file: LineFile | None = None
        self._size = 0

    @property
    def path(self) -> str:
        """The file that the newest line went to, the folder before the first."""
        return self._named(self._prefix, self._part) if self._prefix else self._folder

    def write(self, data: bytes) -> None:
        """Append the line ``data`` (bytes). Raises OSError, after which all earlier lines are whole."""
        if self._file is None or (self._size and self._size + len(data) > self._most):
            self._file = self._next_file()
        self._file.write(data)
        self._size = self._file.size

    def _next_file(self) -> LineFile:
        """Close the file that is open, and return the next one."""
        self.close()
        os.makedirs(self._folder, exist_ok=True)
        self._size = 0
        if self._prefix is None:
            self._prefix, file = self._begun()
            self._part = 0
            return file
        self._part += 1
        return LineFile(self._named(self._prefix, self._part), os.O_EXCL)

    def _begun(self) -> tuple[str, LineFile]:
        """A prefix that no other files have, and the first file with it."""
        stamp = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        for attempt in range(1000):
            again = f"-{attempt}" if attempt else ""
            prefix = f"output-{stamp}{again}_worker-{self._worker}"
            with contextlib.suppress(FileExistsError):  # another run was first: the next prefix is tried
                return prefix, LineFile(self._named(prefix, 0), os.O_EXCL)
        raise FileExistsError(errno.EEXIST, "too many files of this second")

    def _named(self, prefix: str | None, part: int) -> str:
        return os.path.join(self._folder, f"{prefix}_{part}.json")

    def state(self) -> dict[str, Any]:
        """Return how far the files are, as plain data."""
        return {"prefix": self._prefix, "part": self._part, "bytes": self._size}

    def cut_back(self, state: Mapping[str, Any]) -> None:
        """Take away what was written after ``state``, since the steps after it are taken again, and begin a new file."""
        prefix, part, size = state["prefix"], state["part"], state["bytes"]
        if prefix is None:
            return
        fits = isinstance(prefix, str) and _PREFIX.fullmatch(prefix) and type(part) is int and type(size) is int
        if not fits or part < 0 or size < 0:  # a checkpoint may be anybody's: no other files than ours are touched
            raise CheckpointError("The state of a recording in the checkpoint names no file of a recording.")
        with contextlib.suppress(OSError):  # the folder may be another machine's, or gone
            file = os.open(self._named(prefix, part), os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if os.fstat(file).st_size > size:
                    os.ftruncate(file, size)
            finally:
                os.close(file)
            while os.path.exists(self._named(prefix, part + 1)):
                part += 1
                os.unlink(self._named(prefix, part))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def probabilities(logp: np.ndarray | None) -> dict[str, np.ndarray]:
    """Return the columns action_prob and action_logp of log-probabilities [T], {} for None or where one is not finite."""
    if logp is None or not np.isfinite(logp).all():
        return {}
    # A density may be beyond every number; JSON knows no infinity.
    return {"action_prob": np.exp(np.minimum(logp, 700.0)), "action_logp": logp}


def shifted(array: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Return ``array`` [T, …] one step later: ``before`` stands first, the last one falls away."""
    return np.concatenate([before[None], array])[: len(array)]
