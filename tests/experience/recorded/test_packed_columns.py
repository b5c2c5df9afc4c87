"""Packed columns: what RLlib's versions wrote is read, what is written is what they read, everything else is refused."""

import base64

import lz4.frame
import numpy as np
import pytest
from recorded import HOSTILE, NUMBERS, PACKED

from drl_cli.experience.recorded.packed_columns import packed, unpacked

DTYPES = [
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
]


def as_packed(pickle):
    return base64.b64encode(lz4.frame.compress(pickle)).decode("ascii")


def array_pickle(code=b"f4", order=b"<", shape=b"K\x02\x85", data=b"C\x08" + bytes(8), tail=b"tb."):
    """The pickle of an ndarray of protocol 3, part by part."""
    dtype = b"cnumpy\ndtype\nX\x02\x00\x00\x00" + code + b"\x89\x88\x87R(K\x03X\x01\x00\x00\x00" + order
    head = b"\x80\x03cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85C\x01b\x87R(K\x01"
    return head + shape + dtype + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89" + data + tail


@pytest.mark.parametrize("version", PACKED)
def test_unpacked_column_of_each_protocol_is_the_array(version):
    array = unpacked(PACKED[version], 1000)
    assert (array.dtype, array.tolist()) == (np.float32, NUMBERS)


def test_packed_array_has_the_bytes_of_protocol_3():
    told = lz4.frame.decompress(base64.b64decode(packed(np.array([1.0, -2.0], np.float32))))
    assert told == array_pickle(shape=b"(J\x02\x00\x00\x00t", data=b"B\x08\x00\x00\x00\x00\x00\x80?\x00\x00\x00\xc0")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3,), (0, 4), (2, 3, 2), ()])
def test_packed_array_unpacks_to_itself(dtype, shape):
    array = (np.arange(int(np.prod(shape))) % 2).astype(dtype).reshape(shape)
    back = unpacked(packed(array), 1000)
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert np.array_equal(back, array)


def test_packed_array_of_the_other_order_of_bytes_unpacks_to_its_numbers():
    pickle = array_pickle(order=b">", data=b"C\x08" + np.array([1.5, -2.0], ">f4").tobytes())
    assert unpacked(as_packed(pickle), 1000).tolist() == [1.5, -2.0]


def test_packed_array_in_columns_unpacks_in_their_order():
    array = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(3, 2))
    assert unpacked(packed(array), 1000).tolist() == array.tolist()


@pytest.mark.parametrize("what", HOSTILE)
def test_unpacked_column_that_is_no_plain_array_is_refused(what):
    with pytest.raises(ValueError, match="plain array|only numbers|no part of an array|not run"):
        unpacked(HOSTILE[what], 10**6)


def test_refused_call_is_named_and_not_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"asks for posix\.system, and is not run"):
        unpacked(HOSTILE["a call of os.system"], 10**6)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("pickle", "what"),
    [
        (array_pickle(data=b"C\x09" + bytes(9)), "9 bytes for an array"),
        (array_pickle(shape=b"J\xff\xff\xff\xff\x85"), "of the shape"),
        (array_pickle(shape=b"(" + b"K\x01" * 9 + b"t"), "of the shape"),
        (array_pickle(shape=b"X\x01\x00\x00\x00a\x85"), "of the shape"),
        (array_pickle(code=b"O8"), "only numbers"),
        (array_pickle(order=b"?"), "no plain number"),
        (array_pickle(data=b"K\x01"), "no bytes"),
        (array_pickle(tail=b"tb.."), "after the array"),
        (array_pickle(tail=b"tb"), "cut short"),
        (array_pickle(tail=b"t."), "holds no array|after the array"),
        (array_pickle(tail=b"tbN."), "after the array"),
        (b"\x80\x03N.", "holds no array"),
        (b"\x80\x03.", "after the array"),
        (b"\x80\x03" + b"N" * 300 + b".", "something other"),
        (b"\x80\x03cnumpy.core.multiarray\nscalar\n.", r"multiarray\.scalar"),
        (b"\x80\x03cbuiltins\neval\n.", r"builtins\.eval"),
        (b"\x80\x03c" + b"a" * 100 + b"\nb\n.", "without an end"),
        (b"\x80\x03ccopyreg\n_reconstructor\n.", "copyreg"),
        (b"\x80\x04\x8c\x05numpy\x8c\x06matrix\x93.", r"numpy\.matrix"),
        (b"\x80\x04NN\x93.", "not run"),
        (b"\x80\x03R.", "instructions are invalid"),
        (b"\x80\x03t.", "instructions are invalid"),
        (b"\x80\x03\x87.", "instructions are invalid"),
        (b"\x80\x03h\x07.", "instructions are invalid"),
        (b"\x80\x03q\x00.", "instructions are invalid"),
        (b"\x80\x03K\x00q\x05.", "instructions are invalid"),
        (b"\x80\x03cnumpy\nndarray\n)R.", "no part of an array"),
        (b"\x80\x03cnumpy\ndtype\n)R.", "only numbers"),
        (b"\x80\x03B\xff\xff\xff\xff.", "cut short"),
        (b"\x80\x04\x8e" + b"\xff" * 8 + b".", "cut short"),
        (b"\x80\x03\x8a\x09" + bytes(9) + b".", "beyond all arrays"),
        (b"\x80\x03ios\nsystem\n.", "instruction 69"),  # INST
        (b"\x80\x02\x82\x01.", "instruction 82"),  # EXT1
        (b"\x80\x03Q.", "instruction 51"),  # BINPERSID
        (b"\x80\x05\x97.", "instruction 97"),  # NEXT_BUFFER
        (b"(i", "pyarrow"),
    ],
)
def test_unpacked_column_of_other_instructions_is_refused(pickle, what):
    with pytest.raises(ValueError, match=what):
        unpacked(as_packed(pickle), 10**6)


def test_every_damaged_byte_is_refused_or_gives_numbers():
    whole = lz4.frame.decompress(base64.b64decode(PACKED["protocol 4"]))
    for at in range(len(whole)):
        for value in (0, 0x2E, 0x52, 0x63, 0xFF, whole[at] ^ 1):
            damaged = whole[:at] + bytes([value]) + whole[at + 1 :]
            try:
                array = unpacked(as_packed(damaged), 1000)
            except ValueError:
                continue
            assert array.dtype.kind in "biuf" and array.nbytes == 24


def test_column_that_unpacks_to_too_much_is_refused_without_unpacking_it():
    bomb = as_packed(bytes(2**28))
    with pytest.raises(ValueError, match="more than 1000 bytes"):
        unpacked(bomb, 1000)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("not base64!", "base64"),
        ("ü", "base64"),
        ("", "cut short|lz4"),
        ("QUJDREVGR0hJSktM", "lz4"),
        (PACKED["protocol 5"][:80], "cut short|base64"),
        (base64.b64encode(base64.b64decode(PACKED["protocol 5"]) + b"more").decode(), "after the packed column"),
    ],
)
def test_text_that_is_no_packed_column_is_refused(text, what):
    with pytest.raises(ValueError, match=what):
        unpacked(text, 1000)
