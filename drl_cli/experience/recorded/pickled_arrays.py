"""A plain ndarray out of its pickle, without unpickling. Used by ``packed_columns``.

A pickle is a program that may call anything. What is here runs none: it follows the few instructions that every pickle of a
plain ndarray is made of (protocols 3 to 5, NumPy 1 and 2), where a name stands for one of four known things and is never
looked up, and refuses all others. Source: the instruction set as documented in Python's ``pickletools``; NumPy's
``ndarray.__reduce__`` and ``__reduce_ex__``.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

MAX_STEPS = 200  # instructions; a plain array takes about 50
MAX_AXES = 8
MAX_TEXT = 64  # characters of a name
_RECONSTRUCT, _FROMBUFFER, _NDARRAY, _DTYPE = "_reconstruct", "_frombuffer", "ndarray", "dtype"
_NAMES = {
    ("numpy", "ndarray"): _NDARRAY,
    ("numpy", "dtype"): _DTYPE,
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy.core.numeric", "_frombuffer"): _FROMBUFFER,
    ("numpy._core.numeric", "_frombuffer"): _FROMBUFFER,
}
_TYPES = {"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"}
_MARK = object()


class _Named:
    """One of the four things that a name may stand for."""

    def __init__(self, name: str) -> None:
        self.name = name


class _Type:
    """A dtype: its code, and its order of bytes once that is said."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.order: Any = "|"

    def made(self) -> np.dtype:
        """Return the ``numpy.dtype``."""
        return np.dtype(self.code).newbyteorder(self.order)


class _Shell:
    """An ndarray before and after it was filled."""

    array: np.ndarray | None = None


def array_in(data: bytes) -> np.ndarray:
    """Return the array that the pickle ``data`` (bytes) holds, a read-only view of it. Raises ValueError for all else."""
    return _Machine(data).array()


class _Machine:
    """Follows the instructions in ``data``."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = memoryview(data), 0
        self._stack, self._memo = [], []

    def array(self) -> np.ndarray:
        """Return the array that they make."""
        for _ in range(MAX_STEPS):
            code = bytes(self._take(1))
            if code == b".":
                return self._result()
            step = _STEPS.get(code)
            if step is None:
                raise ValueError(f"holds something other than a plain array of numbers (instruction {code.hex()})")
            step(self)
        raise ValueError("holds something other than one plain array of numbers")

    def _result(self) -> np.ndarray:
        if self._at != len(self._data) or len(self._stack) != 1:
            raise ValueError("there is data after the array")
        shell = self._pop()
        if not isinstance(shell, _Shell) or shell.array is None:
            raise ValueError("holds no array")
        return shell.array

    def _take(self, count: int) -> memoryview:
        end = self._at + count
        if end > len(self._data):
            raise ValueError("the packed array is cut short")
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _pop(self) -> Any:
        if not self._stack:
            raise ValueError("its instructions are invalid")
        return self._stack.pop()

    def push(self, value: object) -> None:
        """An instruction that is a value."""
        self._stack.append(value)

    def push_number(self, form: str) -> None:
        """A number that follows."""
        self._stack.append(self._number(form))

    def push_bytes(self, form: str) -> None:
        """Bytes that follow their count."""
        self._stack.append(self._take(self._number(form)))

    def push_text(self, form: str) -> None:
        """A string preceded by its length."""
        self._stack.append(self._text(self._take(min(self._number(form), MAX_TEXT + 1))))

    def push_long(self) -> None:
        """A number of any length that follows its count: the dimension of an array at most."""
        count = self._number("<B")
        if count > 8:
            raise ValueError("a number beyond all arrays")
        self._stack.append(int.from_bytes(self._take(count), "little", signed=True))

    def skip(self, form: str) -> None:
        """What says nothing here: a version, the length of a frame."""
        self._number(form)

    def named(self) -> None:
        """A name, in two lines."""
        self._name(self._line(), self._line())

    def named_by_stack(self) -> None:
        """A name, from two strings."""
        name, module = self._pop(), self._pop()
        self._name(module, name)

    def _line(self) -> str:
        rest = bytes(self._data[self._at : self._at + MAX_TEXT + 1])
        line, end, _ = rest.partition(b"\n")
        if not end:
            raise ValueError("a name without an end")
        self._at += len(line) + 1
        return self._text(line)

    def _text(self, raw: Any) -> str:
        if len(raw) > MAX_TEXT:
            raise ValueError("a name that is longer than all known ones")
        return bytes(raw).decode("ascii", "replace")

    def _name(self, module: object, name: object) -> None:
        known = _NAMES.get((module, name)) if isinstance(module, str) and isinstance(name, str) else None
        if known is None:
            raise ValueError(
                f"asks for {str(module)[:60]}.{str(name)[:60]}, and is not run; only plain arrays are read"
            )
        self._stack.append(_Named(known))

    def remember(self) -> None:
        """Note what is on top under the next number."""
        if not self._stack:
            raise ValueError("its instructions are invalid")
        self._memo.append(self._stack[-1])

    def remember_as(self, form: str) -> None:
        """Note what is on top under a number, which is the next one in what Python writes."""
        if self._number(form) != len(self._memo):
            raise ValueError("its instructions are invalid")
        self.remember()

    def recall(self, form: str) -> None:
        """What was noted under a number."""
        number = self._number(form)
        if number >= len(self._memo):
            raise ValueError("its instructions are invalid")
        self._stack.append(self._memo[number])

    def tuple_of(self, count: int) -> None:
        """A tuple of what is on top."""
        if len(self._stack) < count:
            raise ValueError("its instructions are invalid")
        found = tuple(self._stack[len(self._stack) - count :])
        del self._stack[len(self._stack) - count :]
        self._stack.append(found)

    def tuple_from_mark(self) -> None:
        """A tuple of all above the mark."""
        marks = [at for at, value in enumerate(self._stack) if value is _MARK]
        if not marks:
            raise ValueError("its instructions are invalid")
        found = tuple(self._stack[marks[-1] + 1 :])
        del self._stack[marks[-1] :]
        self._stack.append(found)

    def make(self) -> None:
        """What a name and its arguments stand for."""
        arguments, named = self._pop(), self._pop()
        if not isinstance(named, _Named) or not isinstance(arguments, tuple):
            raise ValueError("calls something that is no part of an array")
        if named.name == _RECONSTRUCT:
            self._stack.append(_Shell())
        elif named.name == _DTYPE:
            self._stack.append(_Type(_code(arguments)))
        elif named.name == _FROMBUFFER and len(arguments) == 4 and arguments[3] in ("C", "F"):
            shell = _Shell()
            shell.array = _filled(arguments[0], arguments[1], arguments[2], arguments[3])
            self._stack.append(shell)
        else:
            raise ValueError("calls something that is no part of an array")

    def fill(self) -> None:
        """The state of a type or an array (``__setstate__``)."""
        state, made = self._pop(), self._pop()
        if isinstance(made, _Type):
            made.order = _order(state)
        elif isinstance(made, _Shell) and made.array is None and isinstance(state, tuple) and len(state) == 5:
            version, shape, dtype, by_columns, data = state
            if version != 1 or not isinstance(by_columns, bool):
                raise ValueError("an array of an unknown version")
            made.array = _filled(data, dtype, shape, "F" if by_columns else "C")
        else:
            raise ValueError("calls something that is no part of an array")
        self._stack.append(made)


def _code(arguments: tuple) -> str:
    """The type code in the arguments of a dtype."""
    code = arguments[0] if arguments else None
    if not isinstance(code, str) or code not in _TYPES:
        raise ValueError(f"an array of {str(code)[:60]!r}; only numbers are read")
    return code


def _order(state: object) -> str:
    """The order of bytes in the state of a dtype: nothing else may be in it."""
    if not isinstance(state, tuple) or len(state) != 8 or state[1] not in ("<", ">", "|", "="):
        raise ValueError("an array of a type that is no plain number")
    if state[2:5] != (None, None, None):
        raise ValueError("an array of records; only numbers are read")
    return state[1]


def _filled(data: object, dtype: object, shape: object, order: Any) -> np.ndarray:
    """The array of ``shape`` and ``dtype`` that lies in ``data``."""
    if not isinstance(data, memoryview) or not isinstance(dtype, _Type) or not isinstance(shape, tuple):
        raise ValueError("an array whose contents are no bytes")
    if len(shape) > MAX_AXES or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"an array of the shape {str(shape)[:60]}")
    made, count = dtype.made(), 1
    for size in shape:
        count *= size
    if count * made.itemsize != len(data):
        raise ValueError(f"{len(data)} bytes for an array of the shape {str(shape)[:60]}")
    return np.frombuffer(data, made).reshape(shape, order=order)


_STEPS = {
    b"\x80": lambda m: m.skip("<B"),  # PROTO
    b"\x95": lambda m: m.skip("<Q"),  # FRAME
    b"c": _Machine.named,  # GLOBAL
    b"\x93": _Machine.named_by_stack,  # STACK_GLOBAL
    b"\x94": _Machine.remember,  # MEMOIZE
    b"q": lambda m: m.remember_as("<B"),  # BINPUT
    b"r": lambda m: m.remember_as("<I"),  # LONG_BINPUT
    b"h": lambda m: m.recall("<B"),  # BINGET
    b"j": lambda m: m.recall("<I"),  # LONG_BINGET
    b"(": lambda m: m.push(_MARK),  # MARK
    b")": lambda m: m.push(()),  # EMPTY_TUPLE
    b"t": _Machine.tuple_from_mark,  # TUPLE
    b"\x85": lambda m: m.tuple_of(1),  # TUPLE1
    b"\x86": lambda m: m.tuple_of(2),  # TUPLE2
    b"\x87": lambda m: m.tuple_of(3),  # TUPLE3
    b"K": lambda m: m.push_number("<B"),  # BININT1
    b"M": lambda m: m.push_number("<H"),  # BININT2
    b"J": lambda m: m.push_number("<i"),  # BININT
    b"\x8a": _Machine.push_long,  # LONG1
    b"N": lambda m: m.push(None),  # NONE
    b"\x88": lambda m: m.push(True),  # NEWTRUE
    b"\x89": lambda m: m.push(False),  # NEWFALSE
    b"X": lambda m: m.push_text("<I"),  # BINUNICODE
    b"\x8c": lambda m: m.push_text("<B"),  # SHORT_BINUNICODE
    b"C": lambda m: m.push_bytes("<B"),  # SHORT_BINBYTES
    b"B": lambda m: m.push_bytes("<I"),  # BINBYTES
    b"\x8e": lambda m: m.push_bytes("<Q"),  # BINBYTES8
    b"\x96": lambda m: m.push_bytes("<Q"),  # BYTEARRAY8
    b"R": _Machine.make,  # REDUCE
    b"b": _Machine.fill,  # BUILD
}
