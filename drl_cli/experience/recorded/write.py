"""Files of recorded experience: lines as RLlib's JsonWriter writes them, in files that are rotated by size.

Users: ``actors.recorder``, ``analysis.rollout_files``. A line is there whole or not at all: what a full disk cuts short is
taken away again. Source: RLlib 1.13 (``offline/json_writer.py``): names of files, one batch a line, packed columns.
"""

import contextlib
import datetime
import errno
import json
import os
import re
import secrets

import numpy as np

from drl_cli.errors import CheckpointError, ResourcesExhausted, RunFolderError
from drl_cli.experience.recorded.packed_columns import packed

_PREFIX = re.compile(r"output-\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d(-\d{1,4})?_worker-\d{1,9}")


def line(columns, compress=()):
    """Return a batch, {column: array [T, …]}, as one line of bytes; the columns named in ``compress`` are packed."""
    data = {"type": "SampleBatch"}
    for name, array in columns.items():
        data[name] = packed(array) if name in compress else array.tolist()
    return json.dumps(data, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"


def prepare(folder):
    """Make ``folder`` and write a little into it. Raises RunFolderError or ResourcesExhausted where that fails."""
    try:
        os.makedirs(folder, exist_ok=True)
        probe = os.path.join(folder, f".probe-{secrets.token_hex(4)}")
        with open(probe, "xb") as file:
            file.write(b"probe\n" * 1000)
        os.unlink(probe)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        text = f"output: {folder} cannot be written ({reason}). Name another folder, or logdir."
        raise (ResourcesExhausted if is_full(error) else RunFolderError)(text) from error


class LineFile:
    """A file that lines are appended to, each whole or not at all."""

    def __init__(self, path, flags):
        """``flags``: those of ``os.open`` beside writing, creating and appending. Raises OSError."""
        self.path, self.size = path, 0  # bytes written
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | flags, 0o644)

    def write(self, data):
        """Append the line ``data`` (bytes). Raises OSError, after which all earlier lines are whole."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self.size)
            raise
        self.size += len(data)

    def close(self):
        """Close it."""
        os.close(self._file)


class Output:
    """The files of one worker in a folder: ``output-<time>_worker-<index>_<part>.json``, the first with its first line."""

    def __init__(self, folder, worker, most):
        """``most``: bytes that a file has at most, unless a single line has more."""
        self._folder, self._worker, self._most = folder, worker, most
        self._prefix, self._part = None, -1
        self._file, self._size = None, 0

    @property
    def path(self):
        """The file that the newest line went to, the folder before the first."""
        return self._named(self._prefix, self._part) if self._prefix else self._folder

    def write(self, data):
        """Append the line ``data`` (bytes). Raises OSError, after which all earlier lines are whole."""
        if self._file is None or (self._size and self._size + len(data) > self._most):
            self._open_next()
        self._file.write(data)
        self._size = self._file.size

    def _open_next(self):
        self.close()
        os.makedirs(self._folder, exist_ok=True)
        if self._prefix is None:
            self._prefix, self._file = self._begun()
            self._part = 0
        else:
            self._part += 1
            self._file = LineFile(self._named(self._prefix, self._part), os.O_EXCL)
        self._size = 0

    def _begun(self):
        """A prefix that nobody else's files have, and the first file with it."""
        stamp = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        for attempt in range(1000):
            again = f"-{attempt}" if attempt else ""
            prefix = f"output-{stamp}{again}_worker-{self._worker}"
            with contextlib.suppress(FileExistsError):
                return prefix, LineFile(self._named(prefix, 0), os.O_EXCL)
        raise FileExistsError(errno.EEXIST, "too many files of this second")

    def _named(self, prefix, part):
        return os.path.join(self._folder, f"{prefix}_{part}.json")

    def state(self):
        """Return how far the files are, as plain data."""
        return {"prefix": self._prefix, "part": self._part, "bytes": self._size}

    def cut_back(self, state):
        """Take away what was written behind ``state``, since the steps behind it are taken again, and begin a new file."""
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

    def close(self):
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def is_full(error):
    """Whether an OSError says that there is no room left."""
    return getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)


def probabilities(logp):
    """Return the columns action_prob and action_logp of log-probabilities [T], {} for None or where one is not finite."""
    if logp is None or not np.isfinite(logp).all():
        return {}
    # A density may be beyond every number; JSON knows no infinity.
    return {"action_prob": np.exp(np.minimum(logp, 700.0)), "action_logp": logp}


def shifted(array, before):
    """Return ``array`` [T, …] one step later: ``before`` stands first, the last one falls away."""
    return np.concatenate([before[None], array])[: len(array)]
