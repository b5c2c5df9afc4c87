import json
import os
import struct
import tracemalloc

import lz4.block
import numpy as np
import pytest
import safetensors.numpy

from drl_cli.checkpoints import arrays
from drl_cli.checkpoints.arrays import read_arrays, write_arrays
from drl_cli.checkpoints.files import hash_of
from drl_cli.errors import CheckpointError

KINDS = ("bool", "uint8", "int32", "int64", "float32", "float64")


def facts_of(path):
    with open(path, "rb") as file:
        return path.stat().st_size, hash_of(file)


def read(path, names=None):
    return read_arrays(path, *facts_of(path), names)


def put(path, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (7,), (300, 5, 2), (1, 400_000)])
def test_arrays_round_trip_keeps_names_dtypes_shapes_and_bits(tmp_path, compress, shape):
    rng = np.random.default_rng(1)
    arrays = {kind: np.asarray(rng.integers(0, 2, shape)).astype(kind) for kind in KINDS}
    write_arrays(tmp_path / "weights.safetensors", arrays, compress=compress)
    back = read(tmp_path / "weights.safetensors")
    assert list(back) == list(KINDS)
    for kind in KINDS:
        assert back[kind].dtype == np.dtype(kind) and back[kind].shape == shape
        assert back[kind].tobytes() == arrays[kind].tobytes()


def test_arrays_without_compression_open_with_the_safetensors_package(tmp_path):
    arrays = {"b": np.array([True, False, True]), "a": np.arange(6, dtype=np.float32).reshape(2, 3)}
    write_arrays(tmp_path / "weights.safetensors", arrays)
    theirs = safetensors.numpy.load_file(tmp_path / "weights.safetensors")
    assert theirs["a"].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert theirs["b"].tolist() == [True, False, True]


def test_arrays_with_compression_are_valid_safetensors_of_bytes(tmp_path):
    write_arrays(tmp_path / "replay-0.safetensors", {"obs": np.zeros((1000, 8), np.float32)}, compress=True)
    assert (tmp_path / "replay-0.safetensors").stat().st_size < 1000
    theirs = safetensors.numpy.load_file(tmp_path / "replay-0.safetensors")
    assert theirs["obs"].dtype == np.uint8
    assert lz4.block.decompress(theirs["obs"].tobytes(), uncompressed_size=32_000) == bytes(32_000)


def test_arrays_written_by_the_safetensors_package_are_read(tmp_path):
    path = tmp_path / "weights.safetensors"
    safetensors.numpy.save_file({"x": np.array([1, 2], np.int64)}, path, metadata={"format": "np"})
    assert read(path)["x"].tolist() == [1, 2]


def test_arrays_names_reads_only_those_asked_for(tmp_path):
    write_arrays(tmp_path / "w.safetensors", {"a": np.ones(2, np.float32), "b": np.zeros(3, np.float32)})
    assert list(read(tmp_path / "w.safetensors", ["b"])) == ["b"]
    with pytest.raises(CheckpointError, match="has no array named 'c'"):
        read(tmp_path / "w.safetensors", ["c"])


def test_arrays_not_contiguous_is_stored_in_c_order(tmp_path):
    write_arrays(tmp_path / "w.safetensors", {"t": np.arange(6, dtype=np.int32).reshape(2, 3).T})
    assert read(tmp_path / "w.safetensors")["t"].tolist() == [[0, 3], [1, 4], [2, 5]]


@pytest.mark.parametrize("array", [np.array(["x"]), np.array([None]), np.zeros(2, np.complex64), np.zeros(2, ">f4")])
def test_arrays_of_other_dtypes_are_refused_before_a_file_exists(tmp_path, array):
    with pytest.raises(ValueError, match="cannot be stored"):
        write_arrays(tmp_path / "w.safetensors", {"x": array})
    assert list(tmp_path.iterdir()) == []


def test_arrays_existing_file_or_link_is_never_written_through(tmp_path):
    (tmp_path / "target").write_bytes(b"mine")
    (tmp_path / "w.safetensors").symlink_to(tmp_path / "target")
    with pytest.raises(FileExistsError):
        write_arrays(tmp_path / "w.safetensors", {})
    assert (tmp_path / "target").read_bytes() == b"mine"


def test_arrays_of_a_million_rows_take_at_most_one_copy(tmp_path):
    rows = np.random.default_rng(0).random((1_000_000, 8), np.float32)  # 32 MB that LZ4 cannot shrink
    tracemalloc.start()
    write_arrays(tmp_path / "replay-0.safetensors", {"obs": rows}, compress=True)
    written = tracemalloc.get_traced_memory()[1]
    facts = facts_of(tmp_path / "replay-0.safetensors")
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    back = read_arrays(tmp_path / "replay-0.safetensors", *facts)
    read_peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert (back["obs"] == rows).all()
    assert written < 1.2 * rows.nbytes
    assert read_peak < 1.2 * rows.nbytes


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ({"x": entry(shape=(10**12,))}, "do not fit its shape"),
        ({"x": entry(shape=(10**12,), offsets=(0, 4 * 10**12))}, "tensors take"),
        ({"x": entry(shape=(-2,))}, "shape is malformed"),
        ({"x": entry(shape=(True, 2))}, "shape is malformed"),
        ({"x": entry(dtype="F16")}, "is none of"),
        ({"x": entry(dtype=["F32"])}, "is none of"),
        ({"x": entry(), "y": entry()}, "overlap"),
        ({"x": entry(shape=(1,), offsets=(4, 8))}, "overlap or leave a hole"),
        ({"x": entry(shape=(1,), offsets=(0, 4))}, "tensors take 4 bytes"),
        ({"x": {"dtype": "F32"}}, "entry is malformed"),
        ({"x": ["dtype", "shape", "data_offsets"]}, "entry is malformed"),
        ({"x": entry() | {"data_offsets": {"0": 0, "8": 8}}}, "offsets are malformed"),
        ({"x": entry(offsets=(0, 8, 8))}, "offsets are malformed"),
        ({"x": entry(offsets=(0,))}, "offsets are malformed"),
        ({"x": entry(offsets=(0, "8"))}, "offsets are malformed"),
        ({"x": entry(shape=(1,) * 17, offsets=(0, 4))}, "shape is malformed"),
        ({"x": entry(shape=(2**48,), offsets=(0, 4 * 2**48))}, "shape is malformed"),
        ({"x": entry(), "__metadata__": []}, "metadata is malformed"),
        ({"x": entry(), "__metadata__": {"lz4": '{"z": {}}'}}, "LZ4 metadata"),
        ([], "not an object"),
        (b'{"x": 1, "y": 2, "y": 3}', "the key 'y' appears twice"),
        (b"[" * 100_000, "nested too deeply"),
        (b"\xff\xfe", "strict JSON"),
    ],
)
def test_arrays_hostile_header_is_refused(tmp_path, header, reason):
    with pytest.raises(CheckpointError, match=reason):
        read(put(tmp_path / "w.safetensors", header, bytes(8)))


def test_arrays_header_longer_than_the_file_is_refused(tmp_path):
    (tmp_path / "w.safetensors").write_bytes(struct.pack("<Q", 2**60) + b"{}")
    with pytest.raises(CheckpointError, match="claims a header of 1152921504606846976 bytes"):
        read(tmp_path / "w.safetensors")


@pytest.mark.parametrize("length", range(8))
def test_header_is_padded_so_that_data_begin_at_a_multiple_of_eight(tmp_path, length):
    write_arrays(tmp_path / "w.safetensors", {"x" * (length + 1): np.ones(2)})
    (found,) = struct.unpack("<Q", (tmp_path / "w.safetensors").read_bytes()[:8])
    assert found % 8 == 0 and (tmp_path / "w.safetensors").stat().st_size == 8 + found + 16


def test_header_of_eight_mebibytes_is_the_longest_that_is_read(tmp_path):
    for more, reason in ((0, "is not strict JSON"), (1, "claims a header of 8388609 bytes")):
        (tmp_path / "w.safetensors").write_bytes(struct.pack("<Q", 8 * 2**20 + more))
        os.truncate(tmp_path / "w.safetensors", 9 * 2**20)
        with pytest.raises(CheckpointError, match=reason):
            read(tmp_path / "w.safetensors")


def test_header_that_fills_its_limit_is_written_and_a_longer_one_is_refused(tmp_path, monkeypatch):
    write_arrays(tmp_path / "w.safetensors", {"x": np.ones(2)})
    (length,) = struct.unpack("<Q", (tmp_path / "w.safetensors").read_bytes()[:8])
    monkeypatch.setattr(arrays, "MAX_HEADER", length)
    write_arrays(tmp_path / "full.safetensors", {"x": np.ones(2)})
    assert read(tmp_path / "full.safetensors")["x"].tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match=f"need a header of {length + 8} bytes \\({length} allowed\\)"):
        write_arrays(tmp_path / "long.safetensors", {"x" * 9: np.ones(2)})


@pytest.mark.parametrize("content", [b"", b"1234567", bytes(8)])
def test_file_of_eight_bytes_or_fewer_is_no_safetensors_file(tmp_path, content):
    (tmp_path / "w.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match="is not strict JSON" if len(content) == 8 else "is too short for"):
        read(tmp_path / "w.safetensors")


def test_listed_arrays_have_their_own_dtype_and_shape_and_the_bytes_that_they_take(tmp_path):
    held = {"a": np.ones(3), "b": np.zeros((1000, 2), np.int32)}
    for compress in (False, True):
        path = tmp_path / f"{compress}.safetensors"
        write_arrays(path, held, compress=compress)
        found = arrays.listed(path, path.stat().st_size)
        assert [(array.dtype, array.shape) for array in found.values()] == [("float64", (3,)), ("int32", (1000, 2))]
        assert found["b"].size < 100 if compress else (found["a"].size, found["b"].size) == (24, 8000)


def test_blocks_of_sixteen_mebibytes_are_read(tmp_path):
    data = np.arange(200, dtype=np.int32)
    block = lz4.block.compress(data.tobytes(), store_size=False)
    packed = {"x": {"dtype": "I32", "shape": [200], "block": 2**24, "sizes": [len(block)]}}
    header = {"x": entry("U8", (len(block),), (0, len(block))), "__metadata__": {"lz4": json.dumps(packed)}}
    assert read(put(tmp_path / "w.safetensors", header, block))["x"].tolist() == data.tolist()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"shape": [10**9]}, "do not fit its shape"),
        ({"shape": [4000]}, "claims more than it can hold|damaged|wrong length|do not fit"),
        ({"shape": [100]}, "damaged|wrong length"),
        ({"block": 0}, "do not fill"),
        ({"block": -1}, "do not fill"),
        ({"block": 2**24 + 1}, "do not fill"),
        ({"sizes": {}}, "do not fill"),
        ({"sizes": [1]}, "do not fill"),
        ({"dtype": "F64"}, "damaged|wrong length"),
        ({"more": 1}, "LZ4 entry is malformed"),
    ],
)
def test_arrays_hostile_compression_is_refused(tmp_path, change, reason):
    block = lz4.block.compress(np.arange(200, dtype=np.int32).tobytes(), store_size=False)
    packed = {"x": {"dtype": "I32", "shape": [200], "block": 2**20, "sizes": [len(block)], **change}}
    header = {"x": entry("U8", (len(block),), (0, len(block))), "__metadata__": {"lz4": json.dumps(packed)}}
    with pytest.raises(CheckpointError, match=reason):
        read(put(tmp_path / "w.safetensors", header, block))
