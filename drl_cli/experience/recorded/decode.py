"""Columns of recorded steps as arrays that fit an environment: checked, converted, or refused with file and line.

Used by ``rllib_batches``, ``json_lines`` and ``minari_dataset``. A column is a list of numbers, RLlib's packed string, a list
of packed rows, or an array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from drl_cli.errors import ExperienceError
from drl_cli.experience.recorded.packed_columns import unpacked

if TYPE_CHECKING:
    from drl_cli.experience.recorded.pieces import Layout

MAX_ROWS = 4_000_000  # of one line
ROOM = 65_536  # bytes that a packed column may be longer than its numbers: what stands around them


class Reader:
    """Turns the values of one line into arrays; ``where`` ("file:line") stands in its errors."""

    def __init__(self, layout: Layout, where: str) -> None:
        """``layout``: Layout."""
        self.layout, self.where = layout, where

    def refuse(self, text: str) -> NoReturn:
        """Raise the ExperienceError that says ``text`` of this line."""
        raise ExperienceError(f"{self.where}: {text}")

    def numbers(self, value: Any, name: str, rows: int | None = None, width: int = 1) -> np.ndarray:
        """Return a column as a numeric array of at least one axis, ``rows`` long where that is known.

        ``width``: numbers of a row, which bounds what a packed column may hold.
        """
        most = (MAX_ROWS if rows is None else rows) * max(1, width) * 8 + ROOM
        try:
            array = _array(value, most)
        except (ValueError, TypeError, OverflowError, RecursionError, MemoryError) as error:
            self.refuse(f"{name}: {str(error)[:160] or type(error).__name__}.")
        if array.dtype.kind not in "biuf" or array.ndim == 0:
            self.refuse(f"{name}: is not a list of numbers.")
        if len(array) > MAX_ROWS:
            self.refuse(f"{name}: {len(array)} rows; at most {MAX_ROWS} in a line.")
        if rows is not None and len(array) != rows:
            self.refuse(f"{name}: {len(array)} rows, where rewards have {rows}.")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            self.refuse(f"{name}: holds a number that is not finite.")
        return array

    def scalars(self, value: Any, name: str, rows: int | None = None) -> np.ndarray:
        """Return a column of one number a row, [T]; a trailing axis of one is dropped."""
        array = self.numbers(value, name, rows)
        array = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
        if array.ndim != 1:
            self.refuse(f"{name}: rows of shape {array.shape[1:]}; one number per row is expected.")
        return array

    def whole(self, value: Any, name: str, rows: int | None) -> np.ndarray:
        """Return a column of whole numbers, int64 [T]."""
        array = self.scalars(value, name, rows)
        if array.dtype.kind == "f" and (array != np.floor(array)).any():
            self.refuse(f"{name}: holds a number that is not whole.")
        return array.astype(np.int64)

    def flags(self, value: Any, name: str, rows: int | None) -> np.ndarray:
        """Return a column of truths, bool [T]: true and false, or 1 and 0."""
        array = self.scalars(value, name, rows)
        if array.dtype.kind != "b" and not np.isin(array, (0, 1)).all():
            self.refuse(f"{name}: holds values other than true and false.")
        return array.astype(bool)

    def rewards(self, value: Any, name: str, rows: int | None = None) -> np.ndarray:
        """Return rewards, float32 [T]."""
        return self.as_float32(self.scalars(value, name, rows), name)

    def as_float32(self, array: np.ndarray, name: str) -> np.ndarray:
        """Return ``array`` in float32. Refuses what it cannot hold."""
        with np.errstate(over="ignore"):
            array = array.astype(np.float32)
        if not np.isfinite(array).all():
            self.refuse(f"{name}: holds a number that float32 cannot hold.")
        return array

    def observations(self, value: Any, name: str, rows: int | None = None) -> np.ndarray:
        """Return observations [T, *obs_shape] in the layout's dtype.

        Whole numbers for an observation space that is a vector of n numbers become one-hot; of stacked frames the newest is
        taken; axes of one may be missing or too many.
        """
        layout = self.layout
        shape = tuple(layout.obs_shape)
        width = int(np.prod(shape)) * layout.frames
        array = self.numbers(value, name, rows, width)
        found = array.shape[1:]
        if found == () and len(shape) == 1 and shape[0] > 1 and array.dtype.kind in "iu":
            return self._one_hot(array, name, shape[0])
        stacked = (*shape[:-1], shape[-1] * layout.frames)
        if layout.frames > 1 and found == stacked:
            array = array[..., -shape[-1] :]
        elif found != shape:
            if _plain(found) != _plain(shape):
                self.refuse(f"{name}: rows of shape {found}; the environment's observations are {shape}.")
            array = array.reshape(len(array), *shape)
        return self._bytes(array, name) if layout.obs_dtype == "uint8" else self.as_float32(array, name)

    def _one_hot(self, array: np.ndarray, name: str, count: int) -> np.ndarray:
        self._within(array, name, 0, count - 1)
        return (array[:, None] == np.arange(count)).astype(np.float32)

    def _bytes(self, array: np.ndarray, name: str) -> np.ndarray:
        if array.dtype == np.uint8:
            return array
        self._within(array, name, 0, 255)
        if array.dtype.kind == "f" and (array != np.floor(array)).any():
            self.refuse(f"{name}: the environment's observations are bytes from 0 to 255; found numbers between them.")
        return array.astype(np.uint8)

    def _within(self, array: np.ndarray, name: str, low: float, high: float) -> None:
        if array.size and (array.min() < low or array.max() > high):
            self.refuse(f"{name}: numbers from {array.min()} to {array.max()}; allowed are {low} to {high}.")

    def actions(self, value: Any, name: str, rows: int | None = None, start: Any = 0) -> np.ndarray:
        """Return actions [T, …]: float32 in the environment's units of a Box, else int32 counted from 0.

        ``start``: from where the file counts them, a number or one for each choice. Refuses choices that there are not.
        """
        layout = self.layout
        shape = layout.action_shape
        array = self.numbers(value, name, rows, int(np.prod(shape)))
        found = array.shape[1:]
        if found != shape:
            if _plain(found) != _plain(shape):
                self.refuse(
                    f"{name}: rows of shape {found}; the environment's actions are {shape or 'one number each'}."
                )
            array = array.reshape(len(array), *shape)
        if layout.parts:
            return self._composite(array, name)
        return self._box(array, name) if layout.is_box else self._choices(array, name, start)

    def _composite(self, array: np.ndarray, name: str) -> np.ndarray:
        """Return actions of a Dict or Tuple space: vectors float32 [T, A], whose choices a file counts from 0."""
        if self.layout.normalized:
            self.refuse(
                f"{name}: actions_in_input_normalized is for Box actions; the environment's are a Dict or Tuple."
            )
        array = self.as_float32(array, name)
        for part, at in self.layout.parts:
            own = array[:, at]
            if part["kind"] != "Box":
                counts = np.asarray({"Discrete": part.get("n"), "MultiDiscrete": part.get("nvec")}.get(part["kind"], 2))
                if ((own < 0) | (own >= counts) | (own != np.floor(own))).any():
                    self.refuse(f"{name}: numbers {at.start} to {at.stop - 1} hold a choice that there is not.")
        return array

    def _box(self, array: np.ndarray, name: str) -> np.ndarray:
        array = self.as_float32(array, name)
        if not self.layout.normalized:
            return array
        low, high = self.layout.bounds()
        return (low + (array + 1) * (high - low) / 2).astype(np.float32)

    def _choices(self, array: np.ndarray, name: str, start: Any) -> np.ndarray:
        if array.dtype.kind == "f" and (array != np.floor(array)).any():
            self.refuse(f"{name}: holds a number that is no whole one; the environment's actions are choices.")
        action = self.layout.action
        counts = np.asarray({"Discrete": action.get("n"), "MultiDiscrete": action.get("nvec")}.get(action["kind"], 2))
        if array.dtype.kind == "f":
            array = np.clip(array, -(2.0**40), 2.0**40)  # larger ones have no int64
        array = array.astype(np.int64) - np.asarray(start, np.int64)
        if array.size and ((array < 0) | (array >= counts)).any():
            bad = array[(array < 0) | (array >= counts)].flat[0]
            self.refuse(f"{name}: holds the choice {bad}; there are {counts.tolist()}, counted from 0.")
        return array.astype(np.int32)


def _plain(shape: Sequence[int]) -> tuple[int, ...]:
    """A shape without its axes of one."""
    return tuple(size for size in shape if size != 1)


def _array(value: Any, most: int) -> np.ndarray:
    if isinstance(value, str):
        return unpacked(value, most)
    if isinstance(value, np.ndarray):
        return value
    if not isinstance(value, list):
        raise ValueError("is no list")
    if value and isinstance(value[0], str):
        rows = []
        for text in value:
            if not isinstance(text, str):
                raise ValueError("packed and plain rows stand side by side")
            rows.append(unpacked(text, most))
            most -= rows[-1].nbytes
        return np.stack(rows)
    if _holds_text(value):  # NumPy would make every number as long as the longest text
        raise ValueError("is not a list of numbers")
    return np.asarray(value)


def _holds_text(value: list[Any]) -> bool:
    kinds = set(map(type, value))
    return str in kinds or (list in kinds and any(_holds_text(inner) for inner in value if type(inner) is list))
