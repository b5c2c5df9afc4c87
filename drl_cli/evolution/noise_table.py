"""The noise of evolution strategies: what direction a number stands for, the same for worker and learner.

Only numbers travel between workers and learner. A policy of up to ``KEYED`` weights draws its direction from a generator that
is keyed by (seed, round, index): 5 ns a number. Larger ones take a slice of a table at a keyed place (Salimans et al. 2017,
section 2.1); ``SharedTable`` holds it once per node, a file that its processes map into their memory.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from drl_cli.errors import ResourcesExhausted
from drl_cli.randomness import generator

if TYPE_CHECKING:
    from drl_cli.evolution.keys import EvolutionKeys

KEYED = 10_000  # weights
PER_WEIGHT = 64  # numbers of a table for each weight
_CHUNK = 2**20


def table_size(weights: int, asked: int | None) -> int:
    """Return the numbers that a table needs for a policy of so many ``weights``: ``asked``, or by itself; 0 for none."""
    if asked is not None:
        return asked
    return 0 if weights <= KEYED else PER_WEIGHT * weights


def make(config: EvolutionKeys, weights: int) -> KeyedNoise | TableNoise:
    """Return the noise for policies of so many ``weights``: KeyedNoise or TableNoise; close it when it is no longer used."""
    size, seed = table_size(weights, config.noise_size), config.seed
    if seed is None:
        raise ValueError("a run has a seed before its noise is made")
    if not size:
        return KeyedNoise(seed, weights)
    return TableNoise(seed, weights, SharedTable(seed, size))


class KeyedNoise:
    """Directions from a generator."""

    def __init__(self, seed: int, weights: int) -> None:
        """``seed``: of the run; ``weights``: how many numbers a direction has."""
        self._seed, self._weights = seed, weights

    def direction(self, number: int, index: int) -> np.ndarray:
        """Return the direction ``index`` of round ``number``: standard normals, float32 [weights]."""
        return generator(self._seed, "noise", number, index).standard_normal(self._weights, dtype=np.float32)

    def close(self) -> None:
        """Nothing to release."""


class TableNoise:
    """Directions from a table."""

    def __init__(self, seed: int, weights: int, table: SharedTable) -> None:
        """``table``: SharedTable, or whatever has ``numbers`` and ``close``."""
        self._seed, self._weights, self._table = seed, weights, table

    def direction(self, number: int, index: int) -> np.ndarray:
        """As ``KeyedNoise.direction``; a view of the table, not to be written to."""
        last = len(self._table.numbers) - self._weights
        start = int(generator(self._seed, "noise", number, index).integers(0, last + 1))
        return self._table.numbers[start : start + self._weights]

    def close(self) -> None:
        """Release the table."""
        self._table.close()


class SharedTable:
    """``size`` standard normals, float32 and read-only, in a file that all processes of a node map.

    The first process writes it. Each user holds a shared lock on it, which the kernel takes back when a process dies; the
    last one, or the next to come after one that was killed, removes it.
    """

    def __init__(self, seed: int, size: int, folder: str | None = None) -> None:
        """``folder``: where the file lies; None: memory of this machine (/dev/shm), else the temporary folder."""
        self._folder = folder or _private_folder()
        self._path = os.path.join(self._folder, f"noise-{seed}-{size}.f32")
        with self._alone():
            self._remove_leftovers()
            self._file = self._open(seed, size)
            fcntl.flock(self._file, fcntl.LOCK_SH)
        self.numbers = np.memmap(self._file, np.float32, "r", shape=(size,))

    def _open(self, seed: int, size: int) -> BinaryIO:
        try:
            if not os.path.exists(self._path) or os.path.getsize(self._path) != 4 * size:
                self._write(seed, size)
            return open(self._path, "rb")
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            raise ResourcesExhausted(
                f"The noise table of {4 * size / 2**20:,.0f} MiB cannot be kept in {self._folder}: {error.strerror}. Lower "
                "noise_size, or take a smaller policy."
            ) from error

    def _write(self, seed: int, size: int) -> None:
        rng = generator(seed, "noise")
        with open(self._path, "wb") as file:
            os.posix_fallocate(
                file.fileno(), 0, 4 * size
            )  # a full memory file system ends a writer to a map by a signal
            for start in range(0, size, _CHUNK):
                file.write(rng.standard_normal(min(_CHUNK, size - start), dtype=np.float32).data)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        with open(os.path.join(self._folder, "lock"), "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _remove_leftovers(self) -> None:
        for name in os.listdir(self._folder):
            if name.startswith("noise-"):
                _remove_unused(os.path.join(self._folder, name))

    def close(self) -> None:
        """Release it; removes the file when no other process uses it. Safe to call twice."""
        if self._file is None:
            return
        with self._alone():
            fcntl.flock(self._file, fcntl.LOCK_UN)  # the map has a copy of the descriptor, which would keep the lock
            self._file.close()
            self._file = None
            _remove_unused(self._path)


def _remove_unused(path: str) -> None:
    """Remove the table at ``path`` unless a process holds it."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)


def _private_folder() -> str:
    """Make and return a folder that only this user can enter, so that no other user can write to the tables."""
    parent = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()
    path = os.path.join(parent, f"drl-noise-{os.getuid()}")
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        return tempfile.mkdtemp(prefix="drl-noise-", dir=parent)  # of this process alone, but safe
    return path
