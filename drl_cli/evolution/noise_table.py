"""The noise of evolution strategies: perturbation directions, identical for worker and learner.

Workers and learner exchange only the indices of directions. For a policy of up to ``MAX_KEYED`` weights a direction is drawn
from a generator keyed by (seed, round, index), at 5 ns per number. For larger ones it is a slice of a noise table at a keyed
offset (Salimans et al. 2017, section 2.1); ``SharedTable`` keeps the table once per node, in a memory-mapped file.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from drl_cli.errors import ResourcesExhausted
from drl_cli.node_memory import locked, parent, private_folder, remove_unused
from drl_cli.randomness import generator

if TYPE_CHECKING:
    from drl_cli.evolution.keys import EvolutionKeys

MAX_KEYED = 10_000  # weights
PER_WEIGHT = 64  # numbers in a table per weight
_CHUNK = 2**20


def table_size(weights: int, asked: int | None) -> int:
    """Return the size of the noise table for a policy of ``weights`` weights, in numbers; 0: no table.

    ``asked``: the size given in the config; None: chosen by the number of weights.
    """
    if asked is not None:
        return asked
    return 0 if weights <= MAX_KEYED else PER_WEIGHT * weights


def make(config: EvolutionKeys, weights: int) -> KeyedNoise | TableNoise:
    """Return the noise for policies of ``weights`` weights; the caller closes it.

    Raises ValueError if the config has no seed yet.
    """
    size, seed = table_size(weights, config.noise_size), config.seed
    if seed is None:
        raise ValueError("the seed of the run must be set before its noise is created")
    if not size:
        return KeyedNoise(seed, weights)
    return TableNoise(seed, weights, SharedTable(seed, size))


class KeyedNoise:
    """Directions drawn from a generator."""

    def __init__(self, seed: int, weights: int) -> None:
        """``seed``: seed of the run; ``weights``: length of a direction."""
        self._seed, self._weights = seed, weights

    def direction(self, round_number: int, index: int) -> np.ndarray:
        """Return direction ``index`` of a round: standard normals, float32 [weights]."""
        return generator(self._seed, "noise", round_number, index).standard_normal(self._weights, dtype=np.float32)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


class TableNoise:
    """Directions that are slices of a table."""

    def __init__(self, seed: int, weights: int, table: SharedTable) -> None:
        """``seed``: seed of the run; ``weights``: length of a direction; ``table``: closed by ``close``."""
        self._seed, self._weights, self._table = seed, weights, table

    def direction(self, round_number: int, index: int) -> np.ndarray:
        """Return direction ``index`` of a round, float32 [weights]: a read-only view of the table."""
        last = len(self._table.numbers) - self._weights
        start = int(generator(self._seed, "noise", round_number, index).integers(0, last + 1))
        return self._table.numbers[start : start + self._weights]

    def close(self) -> None:
        """Release the table."""
        self._table.close()


class SharedTable:
    """``size`` standard normals, float32 and read-only, in a file that all processes of a node map into memory.

    The first process writes the file. Every process that uses it holds a shared lock, which the kernel releases if the process
    dies. The last process removes the file; after a kill, the next one to create a table does.
    """

    def __init__(self, seed: int, size: int, folder: str | None = None) -> None:
        """``folder``: folder of the file; None: /dev/shm if it is writable, otherwise the temporary folder.

        Raises ResourcesExhausted if there is no room for the table.
        """
        self._folder = folder or _folder()
        self._path = os.path.join(self._folder, f"noise-{seed}-{size}.f32")
        with locked(self._folder):
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
                f"The noise table of {4 * size / 2**20:,.0f} MiB cannot be stored in {self._folder}: {error.strerror}. Lower "
                "noise_size, or use a smaller policy."
            ) from error

    def _write(self, seed: int, size: int) -> None:
        rng = generator(seed, "noise")
        with open(self._path, "wb") as file:
            # Space is allocated first: on a full memory file system, writing through a map raises SIGBUS.
            os.posix_fallocate(file.fileno(), 0, 4 * size)
            for start in range(0, size, _CHUNK):
                file.write(rng.standard_normal(min(_CHUNK, size - start), dtype=np.float32).data)

    def _remove_leftovers(self) -> None:
        for name in os.listdir(self._folder):
            if name.startswith("noise-"):
                remove_unused(os.path.join(self._folder, name))

    def close(self) -> None:
        """Release the table, and remove the file if no other process uses it. May be called twice."""
        if self._file is None:
            return
        with locked(self._folder):
            fcntl.flock(self._file, fcntl.LOCK_UN)  # the map duplicates the descriptor, which would keep the lock
            self._file.close()
            self._file = None
            remove_unused(self._path)


def _folder() -> str:
    try:
        return private_folder("noise")
    except PermissionError:  # another user made it
        return tempfile.mkdtemp(prefix="drl-noise-", dir=parent())  # not shared with other processes, but safe
