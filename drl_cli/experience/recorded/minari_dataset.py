"""Pieces from a Minari dataset: one episode after the other out of its HDF5 file. Used by ``read``.

The file is read with h5py alone; Minari itself is only needed to download. Nothing in it is unpickled, and no link out of the
file is followed. Observations of other spaces than a Box are flattened as gymnasium's ``flatten`` does it. Source: the layout
that Minari 0.4 to 0.5 writes (``episode_<i>`` with observations [T + 1], actions, rewards, terminations, truncations [T]).

Deviation: episodes come in an order that is drawn for each pass, since many datasets are sorted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from drl_cli.errors import ExperienceError
from drl_cli.experience.recorded.decode import Reader
from drl_cli.experience.recorded.pieces import Piece

if TYPE_CHECKING:
    from drl_cli.experience.recorded.input_files import InputFile
    from drl_cli.experience.recorded.pieces import Layout

MAX_BYTES = 512 * 2**20  # of one episode's column
MAX_METADATA = 2**22
MAX_DEPTH = 8  # of observations made of observations
_PREFIX = "episode_"


class MinariDataset:
    """An iterator of Pieces over one dataset."""

    def __init__(
        self, file: InputFile, layout: Layout, mark: Mapping[str, int] | None, rng: np.random.Generator
    ) -> None:
        """``file``: as ``input_files.find`` returns it; ``mark``: where to begin; ``rng``: draws the order of the episodes."""
        mark = {"episode": 0, "given": 0} if mark is None else mark
        self._path, self._layout = file.path, layout
        self.notes = []
        try:
            self._file: Any = h5py.File(file.path, "r")
            self._spaces = _spaces(self._file, file.path)
            numbers = sorted(int(name[len(_PREFIX) :]) for name in self._file if str(name)[len(_PREFIX) :].isdigit())
        except (OSError, RuntimeError, KeyError, ValueError) as error:
            raise ExperienceError(f"{file.path}: is no Minari dataset ({str(error)[:120]}).") from error
        self._order = [numbers[i] for i in rng.permutation(len(numbers))]
        self._at, self._given = mark["episode"], mark["given"]
        if min(self._at, self._given) < 0:
            raise ValueError("a place before the file's beginning")
        self._waiting = self._episode()[self._given :] if self._at < len(self._order) else []

    def __iter__(self) -> MinariDataset:
        return self

    def __next__(self) -> Piece:
        while not self._waiting:
            self._at, self._given = self._at + 1, 0
            if self._at >= len(self._order):
                raise StopIteration
            self._waiting = self._episode()
        self._given += 1
        return self._waiting.pop(0)

    def mark(self) -> dict[str, int]:
        """Return where the next piece comes from, as plain data."""
        return {"episode": self._at, "given": self._given}

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _episode(self) -> list[Piece]:
        """The pieces of the episode that is next: one, unless it says that it ended before its last step."""
        number = self._order[self._at]
        reader = Reader(self._layout, f"{self._path}:{_PREFIX}{number}")
        try:
            return self._pieces(self._file[f"{_PREFIX}{number}"], number, reader)
        except (OSError, RuntimeError, KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            reader.refuse(f"is no episode of a Minari dataset ({str(error)[:120]}).")

    def _pieces(self, group: Any, number: int, reader: Reader) -> list[Piece]:
        layout = self._layout
        reward = reader.rewards(_column(group, "rewards"), "rewards")
        steps = len(reward)
        if not steps:
            return []
        ends = [reader.flags(_column(group, name), name, steps) for name in ("terminations", "truncations")]
        obs = reader.observations(_observations(group, self._spaces.get("observation"), reader), "observations")
        if len(obs) != steps + 1:
            reader.refuse(f"observations: {len(obs)} rows for {steps} steps; one more than steps is expected.")
        start = 0 if layout.is_box else layout.action.get("start", 0)
        action = reader.actions(_column(group, "actions"), "actions", steps, start)
        cuts = [*(np.flatnonzero((ends[0] | ends[1])[:-1]) + 1).tolist(), steps]
        found, first = [], 0
        for end in cuts:
            rows, last = slice(first, end), end - 1
            how = bool(ends[0][last]), bool(ends[1][last])
            named = number if len(cuts) == 1 else f"{number}.{len(found)}"
            found.append(Piece(obs[rows], action[rows], reward[rows], *how, obs[end], None, 0, named, reader.where))
            first = end
        return found


def _spaces(file: Any, path: Path) -> dict[str, Any]:
    """Return {"observation": the described space} from the metadata, {} where there is none."""
    beside = path.parent / "metadata.json"
    text = file.attrs.get("observation_space")
    if beside.is_file():
        if beside.stat().st_size > MAX_METADATA:
            raise ValueError("its metadata.json is too large")
        metadata = json.loads(beside.read_text(encoding="utf-8"))
        text = metadata.get("observation_space") if isinstance(metadata, dict) else None
    try:
        space = json.loads(text) if isinstance(text, str) and len(text) <= MAX_METADATA else None
    except RecursionError as error:
        raise ValueError("its observation space is nested too deeply") from error
    return {"observation": space} if isinstance(space, dict) else {}


def _column(group: Any, name: str) -> np.ndarray:
    """Return a dataset of numbers that lies in the file itself, as an array."""
    if not isinstance(group, h5py.Group) or not isinstance(group.get(name, getlink=True), h5py.HardLink):
        raise ValueError(f"{name} is missing, or a link to elsewhere")
    found: Any = group[name]
    if not isinstance(found, h5py.Dataset) or found.external or found.is_virtual:
        raise ValueError(f"{name} does not lie in the file itself")
    if found.dtype.kind not in "biuf" or found.ndim == 0:
        raise ValueError(f"{name} is not a list of numbers")
    if (found.size or 0) * max(8, found.dtype.itemsize) > MAX_BYTES:
        raise ValueError(f"{name} has {found.size} numbers, too many for one episode")
    return found[()]


def _observations(group: Any, space: Any, reader: Reader) -> np.ndarray:
    """Return the observations [T + 1, …] as the environment of the layout gives them."""
    if space is None or space.get("type") == "Box":
        found = group.get("observations")
        if space and isinstance(found, h5py.Dataset) and found.ndim < 3 <= len(space.get("shape", ())) + 1:
            reader.refuse(
                "its images are stored as JPEG, which is not read. Make the dataset with jpeg_encoding=False."
            )
        return _column(group, "observations")
    return _flat(group, "observations", space)


def _flat(group: Any, name: str, space: Any, depth: int = 0) -> np.ndarray:
    """Return what gymnasium's ``flatten`` makes of the observations ``name`` of ``space``, float32 [T + 1, n]."""
    kind = space.get("type")
    if kind in ("Dict", "Tuple"):
        if depth == MAX_DEPTH or not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise ValueError(f"{name} is missing, a link to elsewhere, or nested too deeply")
        inner = space["subspaces"]
        named = inner.items() if kind == "Dict" else ((f"_index_{i}", part) for i, part in enumerate(inner))
        return np.concatenate([_flat(group[name], key, part, depth + 1) for key, part in named], axis=1)
    array = _column(group, name)
    rows = len(array)
    if kind in ("Box", "MultiBinary"):
        return array.reshape(rows, -1).astype(np.float32)
    if kind == "Discrete":
        return _one_hot(array.reshape(rows), space["n"], space.get("start", 0))
    if kind == "MultiDiscrete":
        counts = np.ravel(space["nvec"])
        starts, array = np.broadcast_to(space.get("start", 0), counts.shape), array.reshape(rows, len(counts))
        parts = zip(counts, starts, strict=True)
        return np.concatenate([_one_hot(array[:, i], n, start) for i, (n, start) in enumerate(parts)], axis=1)
    raise ValueError(f"observations of the space {str(kind)[:40]} cannot be made numbers")


def _one_hot(array: np.ndarray, count: Any, start: Any) -> np.ndarray:
    values = array.astype(np.int64) - int(start)
    if values.min() < 0 or values.max() >= count:
        raise ValueError(f"an observation is none of the {count} there are")
    if len(values) * int(count) > MAX_BYTES:
        raise ValueError(f"a choice of {count} is too large for an observation")
    return (values[:, None] == np.arange(int(count))).astype(np.float32)
