"""Named arrays ⇄ one safetensors file, optionally with LZ4 blocks.

Users: the owners of state (learner, workers, replay) write with ``write_arrays``; ``Checkpoint.arrays`` reads.
Source: the safetensors format, https://github.com/huggingface/safetensors (8 bytes header length, JSON header, data).

The container is written and read here rather than by the safetensors package (0.8), which opens paths by itself (it follows
links, overwrites, does not fsync), wants all bytes in memory at once, and accepts headers of 50 MB, a name that appears twice
and keys that it does not know; any safetensors reader can open the files (a test does). A compressed array is stored as a U8
tensor of its LZ4 blocks one after the other; dtype, shape and block sizes are in the JSON under the metadata key ``lz4``.
Writing keeps at most one compressed copy in memory, reading at most one block beside the result; every size is checked against
the file before memory is taken.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Iterable, Mapping
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

import lz4.block
import numpy as np

from drl_cli.checkpoints.files import (
    BLOCK,
    expect_hash,
    expect_size,
    open_regular,
    parse_json,
    read_exactly,
    refuse,
    write_new,
)

DTYPES = {"BOOL": "|b1", "U8": "|u1", "I32": "<i4", "I64": "<i8", "F32": "<f4", "F64": "<f8"}
CODES = {np.dtype(text): code for code, text in DTYPES.items()}
MAX_HEADER = 8 * 2**20  # bytes; safetensors itself allows 100 MB
MAX_DIMENSIONS = 16
MAX_RATIO = 256  # LZ4 cannot shrink further than about 255:1, so a larger claim is a bomb


class ListedArray(NamedTuple):
    """An array of a file: dtype and shape of the array, and the bytes that it takes in the file."""

    dtype: str
    shape: tuple[int, ...]
    size: int


def write_arrays(
    path: Path | str,
    arrays: Mapping[str, np.ndarray],
    compress: bool = False,
    check: Callable[[], object] = lambda: None,
) -> None:
    """Create the safetensors file ``path`` with ``{name: array}`` and fsync it.

    Arrays are bool, uint8, int32, int64, float32 or float64 of any shape (ValueError otherwise). ``compress`` stores
    LZ4 blocks: worth it for a replay, whose unused rows are zeros. ``check`` is called again and again; what it raises ends
    the writing. Raises OSError.
    """
    header, packed, payload = {}, {}, {}
    for name, array in arrays.items():
        array = np.asarray(array)
        code = CODES.get(array.dtype)
        if code is None or name == "__metadata__":
            raise ValueError(f"{path}: array {name!r} of {array.dtype} cannot be stored (only {', '.join(DTYPES)})")
        shape = list(array.shape)
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        pieces: list[bytes | memoryview] = [data.data]
        if compress:
            pieces = []
            for start in range(0, data.size, BLOCK):
                check()
                pieces.append(lz4.block.compress(data[start : start + BLOCK], store_size=False))
            packed[name] = {"dtype": code, "shape": shape, "block": BLOCK, "sizes": [len(piece) for piece in pieces]}
            code, shape = "U8", [sum(packed[name]["sizes"])]
        header[name] = {"dtype": code, "shape": shape}
        payload[name] = pieces
    order = _lay_out(header)
    if packed:
        header["__metadata__"] = {"lz4": json.dumps(packed, separators=(",", ":"))}
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER:
        raise ValueError(f"{path}: {len(arrays)} arrays need a header of {len(text)} bytes ({MAX_HEADER} allowed)")
    chunks = [struct.pack("<Q", len(text)) + text, *(piece for name in order for piece in payload[name])]
    write_new(path, chunks, check)


def _lay_out(header: dict[str, dict[str, Any]]) -> list[str]:
    """Give every tensor its offsets, wide items first so that each is aligned; returns the names in that order."""
    order = sorted(header, key=lambda name: -np.dtype(DTYPES[header[name]["dtype"]]).itemsize)
    begin = 0
    for name in order:
        end = begin + _bytes(header[name]["dtype"], header[name]["shape"])
        header[name]["data_offsets"] = [begin, end]
        begin = end
    return order


def _bytes(code: str, shape: Iterable[int]) -> int:
    return math.prod(shape) * np.dtype(DTYPES[code]).itemsize


def read_arrays(path: Path, size: int, sha256: str, names: Iterable[str] | None = None) -> dict[str, np.ndarray]:
    """Return ``{name: array}`` of a safetensors file that must have this size and SHA-256, in the order of its header.

    ``names`` limits which are read. Raises CheckpointError for damage, a malformed header, or a name that is not there.
    """
    with open_regular(path) as file:
        expect_size(file, path, size)
        expect_hash(file, path, sha256)
        start, header, packed = _read_header(file, path, size)
        wanted = list(header) if names is None else list(names)
        missing = sorted(set(wanted) - set(header))
        if missing:
            raise refuse(path, f"has no array named {missing[0]!r}")
        return {name: _read_array(file, f"{path}: {name}", start, header[name], packed.get(name)) for name in wanted}


def listed(path: Path, size: int) -> dict[str, ListedArray]:
    """Return ``{name: (dtype, shape, bytes in the file)}`` of a safetensors file of this size, from its header alone.

    Raises CheckpointError for a malformed header; the content is not looked at.
    """
    with open_regular(path) as file:
        expect_size(file, path, size)
        _, header, packed = _read_header(file, path, size)
    found = {}
    for name, entry in header.items():
        held = packed.get(name, entry)
        begin, end = entry["data_offsets"]
        found[name] = ListedArray(np.dtype(DTYPES[held["dtype"]]).name, tuple(held["shape"]), end - begin)
    return found


def _read_array(
    file: FileIO, where: str, start: int, entry: Mapping[str, Any], packing: Mapping[str, Any] | None
) -> np.ndarray:
    file.seek(start + entry["data_offsets"][0])
    target = packing or entry
    array = np.empty(target["shape"], DTYPES[target["dtype"]])
    flat = array.reshape(-1).view(np.uint8)
    if packing is None:
        view = flat.data
        while view:
            got = file.readinto(view)
            if not got:
                raise refuse(where, "ends too early")
            view = view[got:]
        return array
    for index, length in enumerate(packing["sizes"]):
        out = flat[index * packing["block"] : (index + 1) * packing["block"]]
        if out.size > MAX_RATIO * length:
            raise refuse(where, "an LZ4 block claims more than it can hold")
        try:
            data = lz4.block.decompress(read_exactly(file, where, length), uncompressed_size=out.size)
        except lz4.block.LZ4BlockError as error:
            raise refuse(where, "an LZ4 block is damaged") from error
        if len(data) != out.size:
            raise refuse(where, "an LZ4 block has the wrong length")
        out[:] = np.frombuffer(data, np.uint8)
    return array


def _read_header(file: FileIO, path: Path, size: int) -> tuple[int, dict[str, Any], dict[str, Any]]:
    """Return where the data begins, the checked entries of the header, and those of the compressed arrays."""
    if size < 8:
        raise refuse(path, "is too short for a safetensors file")
    (length,) = struct.unpack("<Q", read_exactly(file, path, 8))
    if length > min(MAX_HEADER, size - 8):
        raise refuse(path, f"claims a header of {length} bytes")
    header = parse_json(read_exactly(file, path, length), f"{path}: header")
    if not isinstance(header, dict):
        raise refuse(path, "its header is not an object")
    metadata = header.pop("__metadata__", {})
    for name, entry in header.items():
        _check_entry(entry, f"{path}: {name}")
    _check_offsets(header, path, size - 8 - length)
    return 8 + length, header, _read_packing(metadata, header, path)


def _check_shape(entry: Mapping[str, Any], where: str) -> None:
    shape, code = entry.get("shape"), entry.get("dtype")
    if not isinstance(code, str) or code not in DTYPES:
        raise refuse(where, f"dtype {str(code)[:20]!r} is none of {', '.join(DTYPES)}")
    whole = isinstance(shape, list) and len(shape) <= MAX_DIMENSIONS and all(_is_count(n) for n in shape)
    if not whole:
        raise refuse(where, "its shape is malformed")


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**48


def _check_entry(entry: Any, where: str) -> None:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise refuse(where, "its header entry is malformed")
    _check_shape(entry, where)
    offsets = entry["data_offsets"]
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(_is_count(n) for n in offsets):
        raise refuse(where, "its offsets are malformed")
    if offsets[1] - offsets[0] != _bytes(entry["dtype"], entry["shape"]):
        raise refuse(where, "its offsets do not fit its shape and dtype")


def _check_offsets(header: Mapping[str, Any], path: Path, available: int) -> None:
    """Tensors must fill the data without overlap or hole, so that their sum is bounded by the file."""
    position = 0
    for begin, end in sorted(entry["data_offsets"] for entry in header.values()):
        if begin != position:
            raise refuse(path, "tensors overlap or leave a hole")
        position = end
    if position != available:
        raise refuse(path, f"tensors take {position} bytes, the file has {available}")


def _read_packing(metadata: Any, header: Mapping[str, Any], path: Path) -> dict[str, Any]:
    if not isinstance(metadata, dict):
        raise refuse(path, "its metadata is malformed")
    text = metadata.get("lz4", "{}")
    packed = parse_json(text.encode("utf-8", "replace"), f"{path}: metadata") if isinstance(text, str) else None
    if not isinstance(packed, dict) or set(packed) - set(header):
        raise refuse(path, "its LZ4 metadata is malformed")
    for name, entry in packed.items():
        _check_packing(entry, header[name], f"{path}: {name}")
    return packed


def _check_packing(entry: Any, tensor: Mapping[str, Any], where: str) -> None:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "block", "sizes"}:
        raise refuse(where, "its LZ4 entry is malformed")
    _check_shape(entry, where)
    sizes, block = entry["sizes"], entry["block"]
    counts = isinstance(sizes, list) and all(_is_count(n) for n in sizes)
    whole = counts and _is_count(block) and 0 < block <= 16 * BLOCK
    if not whole or tensor["dtype"] != "U8" or tensor["shape"] != [sum(sizes)]:
        raise refuse(where, "its LZ4 blocks do not fill its tensor")
    raw = _bytes(entry["dtype"], entry["shape"])
    if len(sizes) != -(-raw // block) or raw > MAX_RATIO * sum(sizes):
        raise refuse(where, "its LZ4 blocks do not fit its shape")
