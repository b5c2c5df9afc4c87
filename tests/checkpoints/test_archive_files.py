"""The two formats of archives, entry by entry: sizes at the borders of blocks, what their headers say, and their limits."""

import functools
import gzip
import io
import stat
import tarfile
import zipfile

import pytest

from drl_cli.checkpoints import archive_files
from drl_cli.errors import CheckpointError, InputError

BOTH = pytest.mark.parametrize("ending", [".tar.gz", ".zip"])


def written(path, contents):
    """Write {name: bytes} as an archive of the kind that the name ``path`` says, and return the path."""
    with open(path, "wb") as file:
        archive = archive_files.writer(path, file)
        for name, data in contents.items():
            archive.add(name, len(data), [data[:100], data[100:]])
        archive.close()
    return path


def read(path, count=10_000):
    """Return {name: bytes} of an archive."""
    return {each.name: b"".join(iter(functools.partial(each.read, count), b"")) for each in archive_files.entries(path)}


@BOTH
def test_entries_of_any_size_come_back_in_order(tmp_path, ending):
    contents = {f"run/{size}": bytes(i % 251 for i in range(size)) for size in (0, 1, 511, 512, 513, 1024)}
    path = written(tmp_path / f"a{ending}", contents)
    assert read(path) == contents and list(read(path)) == list(contents)
    assert read(path, count=7) == contents


@BOTH
def test_entry_that_is_not_read_to_its_end_is_an_error_of_the_program(tmp_path, ending):
    path = written(tmp_path / f"a{ending}", {"one": b"12345", "two": b""})
    found = archive_files.entries(path)
    assert next(found).read(4) == b"1234"
    if ending == ".zip":  # whose entries stand by themselves
        assert next(found).name == "two"
    else:
        with pytest.raises(ValueError, match="one was not read to its end"):
            next(found)


def test_tar_says_no_time_no_owner_and_mode_0644_and_is_a_whole_number_of_blocks(tmp_path):
    path = written(tmp_path / "a.tgz", {"run/x": b"hello"})
    with tarfile.open(path) as archive:
        entry = archive.getmember("run/x")
    assert (entry.mtime, entry.uid, entry.gid, entry.uname, entry.mode) == (0, 0, 0, "", 0o644)
    whole = gzip.decompress(path.read_bytes())
    assert len(whole) == 4 * 512 and whole[512 + 5 :] == bytes(
        512 - 5 + 2 * 512
    )  # header, content, the end of two blocks
    assert path.read_bytes()[4:8] == bytes(4)  # gzip's own time


def test_zip_says_1980_and_a_regular_file_of_mode_0644(tmp_path):
    path = written(tmp_path / "a.zip", {"run/x": b"hello" * 100})
    with zipfile.ZipFile(path) as archive:
        entry = archive.getinfo("run/x")
    assert entry.date_time == (1980, 1, 1, 0, 0, 0)
    assert (entry.create_system, entry.external_attr >> 16) == (
        3,
        stat.S_IFREG | 0o644,
    )  # 3: Unix, whose modes these are
    assert entry.compress_type == zipfile.ZIP_DEFLATED and entry.compress_size < 100 < entry.file_size == 500


@BOTH
def test_most_entries_are_read_and_one_more_is_refused(tmp_path, monkeypatch, ending):
    monkeypatch.setattr(archive_files, "MAX_ENTRIES", 3)
    assert len(read(written(tmp_path / f"a{ending}", dict.fromkeys("abc", b"1")))) == 3
    with pytest.raises(CheckpointError, match="holds more than 3 files"):
        read(written(tmp_path / f"b{ending}", dict.fromkeys("abcd", b"1")))


def test_largest_file_of_a_tar_has_eleven_octal_digits():
    archive = archive_files.TarWriter(io.BytesIO())
    archive.add("x", 0o77777777777, [])  # its header is all that is written of it here
    with pytest.raises(InputError, match="holds files of up to 8,589,934,591"):
        archive.add("x", 0o100000000000, [])


def test_name_that_is_too_long_for_a_tar_is_refused_with_the_other_format(tmp_path):
    with pytest.raises(InputError, match="the name is too long for a .tar.gz: pack a .zip"):
        written(tmp_path / "a.tar.gz", {"x" * 101: b""})
    assert list(read(written(tmp_path / "a.zip", {"x" * 101: b""}))) == ["x" * 101]


@pytest.mark.parametrize("size", [0, 1, 2**20, 2**20 + 1])
def test_chunks_of_a_file_are_its_bytes(tmp_path, size):
    (tmp_path / "x").write_bytes(bytes(i % 251 for i in range(size)))
    chunks = list(archive_files.chunks_of(tmp_path / "x", size))
    assert b"".join(chunks) == (tmp_path / "x").read_bytes() and max(map(len, chunks), default=0) <= 2**20


@pytest.mark.parametrize("size", [4, 6])
def test_chunks_of_a_file_that_is_longer_or_shorter_by_now_are_refused(tmp_path, size):
    (tmp_path / "x").write_bytes(b"12345")
    with pytest.raises(CheckpointError, match="has changed while it was packed"):
        list(archive_files.chunks_of(tmp_path / "x", size))


@pytest.mark.parametrize(
    ("part", "is_plain"),
    [
        *[("x" * 255, True), ("x" * 256, False), ("é" * 127, True), ("é" * 128, False)],
        *[("", False), (".x", False), ("a/b", False), ("a\\b", False), ("a\n", False), ("a.b c", True)],
    ],
)
def test_name_of_a_plain_file_is_visible_and_of_255_bytes_at_most(part, is_plain):
    assert archive_files.is_plain(part) is is_plain


def test_zip_that_is_encrypted_is_refused(tmp_path):
    path = written(tmp_path / "a.zip", {"x": b"hello"})
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1  # the flags in the directory
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match="holds 'x', encrypted or packed in a way that drl does not write"):
        read(path)
