"""Archives that somebody made to do harm, or that were damaged on their way: each is refused, and nothing is left behind."""

import gzip
import hashlib
import io
import json
import re
import stat
import tarfile
import zipfile

import pytest
from checkpoint_maker import save

from drl_cli.errors import CheckpointError
from drl_cli.runs import pack, unpack

BODY = b"hello"


def _entry(data=BODY):
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _manifest(listed, **more):
    data = {"format": "drl-archive-1", "kind": "run", "name": "run", "drl": "0.1.0", "files": listed}
    return json.dumps(data | more).encode()


def _tar(path, members):
    """Write [(TarInfo or name, bytes)] as they are given, whatever that may be."""
    with tarfile.open(path, "w:gz", format=tarfile.GNU_FORMAT) as archive:
        for entry, data in members:
            entry = tarfile.TarInfo(entry) if isinstance(entry, str) else entry
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path


def _zip(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for entry, data in members:
            archive.writestr(entry, data)
    return path


MAKERS = pytest.mark.parametrize("make", [_tar, _zip])


def refusal(path, tmp_path):
    """Unpack and verify ``path``: both must refuse it in the same words, which are returned, and leave nothing."""
    with pytest.raises(CheckpointError) as unpacked:
        unpack.unpack(path, tmp_path / "target" / "inner")
    with pytest.raises(CheckpointError) as verified:
        unpack.verify(path)
    assert not (tmp_path / "target" / "inner").exists()
    assert not (tmp_path / "evil").exists()
    assert str(unpacked.value) == str(verified.value)
    return str(unpacked.value)


@MAKERS
@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "run/../../evil",
        "/tmp/evil",
        "//evil",
        "run//evil",
        "run/./evil",
        "run/..",
        "run/",
        "run",
        "evil",
        "other/evil",
        "run/.bashrc",
        "run/.git/config",
        "run/a\\..\\..\\evil",
        "run/a\nb",
        "run/a\u202eb",
        "run/" + "x" * 300,
        "run/" + "d/" * 20 + "x",
    ],
)
def test_name_that_is_no_plain_path_below_the_folder_is_refused(make, name, tmp_path):
    path = make(tmp_path / "a", [(pack.MANIFEST, _manifest({name: _entry()})), (name, BODY)])
    assert re.search(r"which is not (below run|the plain path of a file in a folder)", refusal(path, tmp_path))


@MAKERS
@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/abs", ".hidden", "a\\b", "a\0b"])
def test_folder_of_another_kind_of_name_is_refused(make, name, tmp_path):
    listed = {f"{name}/x": _entry()}
    path = make(tmp_path / "a", [(pack.MANIFEST, _manifest(listed, name=name)), ("run/x", BODY)])
    assert re.search("which is not the plain path of a file in a folder", refusal(path, tmp_path))


@MAKERS
def test_file_that_the_manifest_does_not_list_is_refused(make, tmp_path):
    members = [(pack.MANIFEST, _manifest({"run/x": _entry()})), ("run/x", BODY), ("../evil", BODY)]
    assert re.search(
        r"holds '../evil', which its manifest does not list, or twice", refusal(make(tmp_path / "a", members), tmp_path)
    )


@MAKERS
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_file_that_comes_twice_is_refused(make, tmp_path):
    members = [(pack.MANIFEST, _manifest({"run/x": _entry()})), ("run/x", BODY), ("run/x", b"other")]
    assert re.search("does not list, or twice", refusal(make(tmp_path / "a", members), tmp_path))


@MAKERS
def test_file_that_is_missing_is_named(make, tmp_path):
    members = [(pack.MANIFEST, _manifest({"run/x": _entry(), "run/y": _entry()})), ("run/x", BODY)]
    assert re.search("lacks 'run/y', which its manifest lists", refusal(make(tmp_path / "a", members), tmp_path))


@MAKERS
def test_file_of_another_content_is_named(make, tmp_path):
    members = [(pack.MANIFEST, _manifest({"run/x": _entry()})), ("run/x", b"hallo")]
    assert re.search("run/x: SHA-256 differs from the manifest", refusal(make(tmp_path / "a", members), tmp_path))


@MAKERS
def test_file_of_another_size_is_named(make, tmp_path):
    members = [(pack.MANIFEST, _manifest({"run/x": _entry()})), ("run/x", BODY * 10)]
    assert re.search("run/x: has 50 bytes, the manifest says 5", refusal(make(tmp_path / "a", members), tmp_path))


@MAKERS
def test_file_that_is_also_a_folder_is_refused(make, tmp_path):
    listed = {"run/x": _entry(), "run/x/y": _entry()}
    members = [(pack.MANIFEST, _manifest(listed)), ("run/x", BODY), ("run/x/y", BODY)]
    assert re.search("lists 'run/x' as a file and as a folder", refusal(make(tmp_path / "a", members), tmp_path))


@MAKERS
def test_claim_of_more_than_an_archive_can_hold_is_refused_before_anything_is_written(make, tmp_path):
    bomb = {"size": 2**39, "sha256": "0" * 64}
    assert re.search(
        "claims 549,755,813,888 bytes",
        refusal(make(tmp_path / "a", [(pack.MANIFEST, _manifest({"run/x": bomb}))]), tmp_path),
    )


@MAKERS
def test_more_than_the_disk_has_room_for_is_refused(make, tmp_path, monkeypatch):
    path = make(tmp_path / "a", [(pack.MANIFEST, _manifest({"run/x": _entry()})), ("run/x", BODY)])
    monkeypatch.setattr(unpack.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 4}))
    with pytest.raises(CheckpointError, match="unpacks to 5 bytes; .* has room for 4"):
        unpack.unpack(path, tmp_path / "target")


def test_manifest_without_end_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(unpack, "MAX_MANIFEST", 1000)
    path = _tar(tmp_path / "a", [(pack.MANIFEST, b" " * 1001)])
    assert re.search("has a manifest of 1,001 bytes, more than the 1,000 that are allowed", refusal(path, tmp_path))


@MAKERS
def test_folder_that_is_there_is_not_touched(make, tmp_path):
    path = make(tmp_path / "a", [(pack.MANIFEST, _manifest({"run/x": _entry()})), ("run/x", BODY)])
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "x").write_bytes(b"mine")
    with pytest.raises(CheckpointError, match="run: already exists, and nothing is overwritten"):
        unpack.unpack(path, tmp_path)
    assert (tmp_path / "run" / "x").read_bytes() == b"mine"
    assert sorted(place.name for place in tmp_path.iterdir()) == ["a", "run"]


@MAKERS
@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"format": "drl-archive-2"}, "It may be of a newer version"),
        ({"kind": "program"}, "its keys or its kind"),
        ({"more": 1}, "its keys or its kind"),
        ({"files": {}}, "lists 0 files"),
        ({"files": []}, "its keys or their types"),
        ({"name": 3}, "its keys or their types"),
        ({"files": {"run/x": {"size": -1, "sha256": "0" * 64}}}, "its entry for 'run/x' is malformed"),
        ({"files": {"run/x": {"size": True, "sha256": "0" * 64}}}, "its entry for 'run/x' is malformed"),
        ({"files": {"run/x": {"size": 1, "sha256": "0" * 63 + "G"}}}, "its entry for 'run/x' is malformed"),
    ],
)
def test_manifest_of_another_form_is_refused(make, change, text, tmp_path):
    assert re.search(
        text, refusal(make(tmp_path / "a", [(pack.MANIFEST, _manifest({"run/x": _entry()}, **change))]), tmp_path)
    )


LINKS = {
    "a symbolic link": tarfile.SYMTYPE,
    "a hard link": tarfile.LNKTYPE,
    "a device": tarfile.CHRTYPE,
    "a pipe": tarfile.FIFOTYPE,
    "a folder": tarfile.DIRTYPE,
}


@pytest.mark.parametrize("kind", LINKS)
def test_tar_entry_that_is_no_file_is_refused(kind, tmp_path):
    entry = tarfile.TarInfo("run/x")
    entry.type, entry.linkname = LINKS[kind], "/etc/passwd"
    path = _tar(tmp_path / "a", [(pack.MANIFEST, _manifest({"run/x": _entry()})), (entry, b"")])
    assert re.search(f"holds 'run/x', {kind}; only files may be in it", refusal(path, tmp_path))


def test_extended_tar_header_is_refused(tmp_path):
    entry = tarfile.TarInfo("PaxHeader")
    entry.type = tarfile.XHDTYPE
    path = _tar(tmp_path / "a", [(pack.MANIFEST, _manifest({"run/x": _entry()})), (entry, b"30 path=/etc/cron.d/evil")])
    assert re.search("an entry of a kind that drl does not write", refusal(path, tmp_path))


@pytest.mark.parametrize("mode", [stat.S_IFLNK | 0o777, stat.S_IFCHR, stat.S_IFIFO])
def test_zip_entry_that_is_no_file_is_refused(mode, tmp_path):
    entry = zipfile.ZipInfo("run/x")
    entry.create_system, entry.external_attr = 3, mode << 16
    path = _zip(tmp_path / "a", [(pack.MANIFEST, _manifest({"run/x": _entry()})), (entry, BODY)])
    assert re.search("holds 'run/x', (a symbolic link|no plain file); only files may be in it", refusal(path, tmp_path))


def test_zip_entry_packed_by_another_method_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr(pack.MANIFEST, _manifest({"run/x": _entry()}))
    assert re.search("packed in a way that drl does not write", refusal(tmp_path / "a", tmp_path))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "is neither a .tar.gz nor a .zip"),
        (b"\x7fELF program", "is neither a .tar.gz nor a .zip"),
        (b"\x1f\x8b\x08 nonsense", "is damaged"),
        (b"PK\x03\x04 nonsense", "is damaged"),
        (gzip.compress(b"x" * 100, mtime=0), r"is damaged \(it ends too early\)"),
        (gzip.compress(b"x" * 1024, mtime=0), r"is damaged \(a header"),
        (gzip.compress(bytes(1024), mtime=0), "is empty"),
    ],
)
def test_file_that_is_no_archive_is_refused(content, text, tmp_path):
    (tmp_path / "a").write_bytes(content)
    assert re.search(text, refusal(tmp_path / "a", tmp_path))


@MAKERS
def test_archive_of_another_program_is_told_from_ours(make, tmp_path):
    assert re.search(
        "is not an archive of drl checkpoint pack", refusal(make(tmp_path / "a", [("README", BODY)]), tmp_path)
    )


@pytest.mark.parametrize("ending", [".tar.gz", ".zip"])
def test_archive_that_was_cut_off_anywhere_is_refused(tmp_path, ending):
    save(tmp_path, 10, replay=False)
    whole = pack.pack(tmp_path / "checkpoint_000010", tmp_path / f"whole{ending}").path.read_bytes()
    bad = tmp_path / "bad"
    for at in range(20, len(whole) - 60, 97):
        bad.write_bytes(whole[:at])
        with pytest.raises(CheckpointError):
            unpack.verify(bad)


@pytest.mark.parametrize("ending", [".tar.gz", ".zip"])
def test_archive_of_which_a_byte_was_changed_is_refused_or_gives_the_same_files(tmp_path, ending):
    save(tmp_path, 10, replay=False)
    whole = pack.pack(tmp_path / "checkpoint_000010", tmp_path / f"whole{ending}").path.read_bytes()
    expected = {path.name: path.read_bytes() for path in (tmp_path / "checkpoint_000010").iterdir()}
    accepted = 0
    for at in range(0, len(whole), 41):
        (tmp_path / "bad").write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        try:
            found, _ = unpack.unpack(tmp_path / "bad", tmp_path / f"target{at}")
        except CheckpointError:
            continue
        accepted += 1  # a byte that says nothing: a date in a zip's directory, gzip's own time
        assert {path.name: path.read_bytes() for path in found.iterdir()} == expected
    assert accepted <= 12


def test_damaged_checkpoint_in_a_whole_archive_is_refused(tmp_path):
    body = json.dumps({"format": 1}).encode()
    listed = {"checkpoint_000010/manifest.json": _entry(body), "checkpoint_000010/COMMIT": _entry(b"no")}
    members = [
        (pack.MANIFEST, _manifest(listed, kind="checkpoint", name="checkpoint_000010")),
        ("checkpoint_000010/manifest.json", body),
        ("checkpoint_000010/COMMIT", b"no"),
    ]
    with pytest.raises(CheckpointError, match="COMMIT: does not fit manifest.json"):
        unpack.unpack(_tar(tmp_path / "a", members), tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_link_in_place_of_an_archive_is_refused(tmp_path):
    (tmp_path / "a.zip").symlink_to(tmp_path / "b.zip")
    assert re.search("is a symbolic link", refusal(tmp_path / "a.zip", tmp_path))
