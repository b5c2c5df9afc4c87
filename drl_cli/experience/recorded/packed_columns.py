"""RLlib's packed columns: the base64 of an lz4 frame of a pickle of an ndarray. Used by ``decode`` and ``write``.

They are read without unpickling (``pickled_arrays``), and no more is ever unpacked than the rows of a batch can hold. What is
written is the same for the same array: protocol 3 under NumPy 1's names, which every RLlib reads.
"""

from __future__ import annotations

import base64
import binascii
import struct
from typing import TYPE_CHECKING

import lz4.frame

from drl_cli.experience.recorded.pickled_arrays import array_in

if TYPE_CHECKING:
    import numpy as np

_HEAD = b"\x80\x03cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85C\x01b\x87R(K\x01"
_TYPE = b"cnumpy\ndtype\nX\x02\x00\x00\x00%b\x89\x88\x87R(K\x03X\x01\x00\x00\x00%bNNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
_MOST = 2**32 - 1  # bytes that such an instruction can count


def packed(array: np.ndarray) -> str:
    """Return ``array`` (numbers, any shape) as the text of a packed column."""
    data = array.tobytes()
    if len(data) > _MOST:
        raise ValueError(f"an array of {len(data)} bytes cannot be packed")
    order = b"|" if array.itemsize == 1 else b"<"
    little = array.dtype.newbyteorder("<").str[1:].encode()
    sizes = b"(" + b"".join(b"J" + struct.pack("<i", size) for size in array.shape) + b"t"
    described = _TYPE % (little, order) + b"\x89B" + struct.pack("<I", len(data)) + data + b"tb."
    return base64.b64encode(lz4.frame.compress(_HEAD + sizes + described)).decode("ascii")


def unpacked(text: str, most: int) -> np.ndarray:
    """Return the array in ``text`` (str), read-only. Raises ValueError for all else, or for more than ``most`` bytes."""
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError("is a string, and no packed column (base64)") from error
    data = _decompressed(data, most)
    if data[:1] != b"\x80":
        raise ValueError(
            "is packed in another way than as a pickle: RLlib before 0.8.1 did it with pyarrow. Record with "
            "output_compress_columns []"
        )
    return array_in(data)


def _decompressed(data: bytes, most: int) -> bytes:
    """Return the bytes of one lz4 frame, of which no more than ``most`` are ever made."""
    frame = lz4.frame.LZ4FrameDecompressor()
    try:
        found = frame.decompress(data, max_length=most + 1)
    except RuntimeError as error:
        raise ValueError("is no packed column (lz4)") from error
    if len(found) > most:
        raise ValueError(f"more than {most} bytes when unpacked, which is more than its rows can hold")
    if not frame.eof:
        raise ValueError("the packed column is cut short")
    if frame.unused_data:
        raise ValueError("there is data after the packed column")
    return found
