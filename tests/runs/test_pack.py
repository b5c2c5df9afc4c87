import errno
import fcntl
import hashlib
import json
import os
import zipfile

import numpy as np
import pytest
from checkpoint_maker import read_everything, save

from drl_cli import checkpoints
from drl_cli.checkpoints import archive_files
from drl_cli.errors import CheckpointError, InputError, ResourcesExhausted
from drl_cli.runs import pack, retention, unpack

BOTH = pytest.mark.parametrize("ending", [".tar.gz", ".zip"])


@pytest.fixture
def run(tmp_path):
    """A run folder with two checkpoints, the newer one with a replay, and the files of a run."""
    folder = tmp_path / "SAC_Pendulum-v1_1"
    (folder / "videos").mkdir(parents=True)
    save(folder, 10, replay=False)
    save(folder, 20)
    (folder / "params.json").write_text('{"run": "SAC", "env": "Pendulum-v1", "config": {}}')
    (folder / "best.json").write_text('{"checkpoint": "checkpoint_000010"}')
    (folder / "videos" / "a.mp4").write_bytes(b"film")
    return folder


@BOTH
def test_checkpoint_comes_back_as_it_was_with_its_replay(run, tmp_path, ending):
    path = run / "checkpoint_000020"
    done = pack.pack(path, tmp_path / f"a{ending}", with_replay=True)
    assert (done.kind, done.name, done.files, done.left_out) == ("checkpoint", "checkpoint_000020", 6, [])
    found, contents = unpack.unpack(tmp_path / f"a{ending}", tmp_path / "new")
    assert found == tmp_path / "new" / "checkpoint_000020"
    before, after = read_everything(path), read_everything(found)
    assert after["state"] == before["state"]
    np.testing.assert_array_equal(after["replay-0"]["obs"], before["replay-0"]["obs"])
    assert contents.size == sum(file.stat().st_size for file in path.iterdir())


@BOTH
def test_replay_is_left_out_unless_asked_for_and_the_checkpoint_is_whole(run, tmp_path, ending):
    done = pack.pack(run / "checkpoint_000020", tmp_path / f"a{ending}")
    assert done.left_out == [
        (run / "checkpoint_000020" / "replay-0.safetensors", "a replay buffer; --with-replay includes it")
    ]
    found = checkpoints.load(unpack.unpack(tmp_path / f"a{ending}", tmp_path / "new")[0], optional=True)
    assert (found.has("replay"), found.has("weights")) == (False, True)
    again = pack.pack(found.path, tmp_path / f"b{ending}")  # the marker of the dropped replay travels on
    assert again.left_out == [] and (tmp_path / f"a{ending}").read_bytes() == (tmp_path / f"b{ending}").read_bytes()


@BOTH
def test_whole_run_comes_back(run, tmp_path, ending):
    done = pack.pack(run, tmp_path / f"run{ending}", with_replay=True)
    found, contents = unpack.unpack(tmp_path / f"run{ending}", tmp_path / "new")
    assert (contents.kind, done.files) == ("run", 14)
    names = sorted(path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file())
    assert sorted(path.relative_to(found).as_posix() for path in found.rglob("*") if path.is_file()) == names
    assert (found / "videos" / "a.mp4").read_bytes() == b"film"
    assert retention.find(found).name == "checkpoint_000010"


@BOTH
def test_same_content_gives_the_same_bytes_whenever_and_wherever(run, tmp_path, ending):
    pack.pack(run, tmp_path / f"one{ending}")
    for path in run.rglob("*"):
        os.utime(path, (10**9, 10**9))
        path.chmod(0o700)
    pack.pack(run, tmp_path / f"other{ending}")
    one, other = ((tmp_path / f"{name}{ending}").read_bytes() for name in ("one", "other"))
    assert hashlib.sha256(one).hexdigest() == hashlib.sha256(other).hexdigest()


def test_hidden_files_links_and_pipes_are_left_out_and_said(run, tmp_path):
    (run / ".tmp-000030-1-aaaaaaaa").mkdir()
    (run / ".lock").touch()
    (run / "passwords").symlink_to("/etc/passwd")
    (run / "elsewhere").symlink_to("/etc")
    os.mkfifo(run / "pipe")
    done = pack.pack(run, tmp_path / "a.zip", with_replay=True)
    assert [(path.name, why) for path, why in done.left_out] == [
        (".tmp-000030-1-aaaaaaaa", "hidden"),
        ("elsewhere", "a link"),
        ("passwords", "a link"),
        ("pipe", "no plain file"),
    ]
    assert [name for name in zipfile.ZipFile(tmp_path / "a.zip").namelist() if "checkpoint" not in name] == [
        "drl-archive.json",
        *(f"{run.name}/{name}" for name in ("best.json", "params.json", "videos/a.mp4")),
    ]


def test_damaged_checkpoint_is_not_packed(run, tmp_path):
    state = run / "checkpoint_000010" / "state.json"
    state.write_bytes(state.read_bytes().replace(b"10", b"11"))
    with pytest.raises(CheckpointError, match=r"checkpoint_000010/state.json: SHA-256 differs"):
        pack.pack(run, tmp_path / "a.zip")
    assert sorted(path.name for path in tmp_path.iterdir()) == [run.name]


def test_run_that_goes_on_is_not_packed_but_its_checkpoints_are(run, tmp_path):
    with open(run / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(CheckpointError, match="is a running run, whose files change"):
            pack.pack(run, tmp_path / "a.zip")
        assert pack.pack(run / "checkpoint_000010", tmp_path / "a.zip").files == 5


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.rar", "give an archive a name that ends in .tar.gz or .zip"),
        ("there.zip", "it already exists, and nothing is overwritten"),
        ("nowhere/a.zip", "there is no such folder"),
    ],
)
def test_place_where_an_archive_cannot_go_is_refused(run, tmp_path, name, text):
    (tmp_path / "there.zip").write_bytes(b"mine")
    with pytest.raises(InputError, match=text):
        pack.pack(run, tmp_path / name)
    assert (tmp_path / "there.zip").read_bytes() == b"mine"


def test_full_disk_leaves_nothing_behind(run, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(archive_files.ZipWriter, "add", full)
    with pytest.raises(ResourcesExhausted, match="No space left"):
        pack.pack(run, tmp_path / "a.zip")
    assert sorted(path.name for path in tmp_path.iterdir()) == [run.name]


def test_file_that_changes_while_it_is_packed_is_noticed(tmp_path):
    (tmp_path / "file").write_bytes(b"12345")
    with pytest.raises(CheckpointError, match="has changed while it was packed"):
        list(archive_files.chunks_of(tmp_path / "file", 4))


def test_file_too_large_for_a_tar_is_refused_with_the_other_format(tmp_path):
    with (
        open(tmp_path / "a", "wb") as file,
        pytest.raises(InputError, match="holds files of up to 8,589,934,591: pack a .zip"),
    ):
        archive_files.TarWriter(file).add("name", 2**33, [])


def test_any_program_can_list_and_unpack_what_was_packed(run, tmp_path):
    import tarfile

    pack.pack(run / "checkpoint_000010", tmp_path / "a.tar.gz")
    with tarfile.open(tmp_path / "a.tar.gz") as archive:
        manifest = json.load(archive.extractfile("drl-archive.json"))
        assert archive.getnames() == ["drl-archive.json", *manifest["files"]]
        state = archive.extractfile("checkpoint_000010/state.json").read()
    assert hashlib.sha256(state).hexdigest() == manifest["files"]["checkpoint_000010/state.json"]["sha256"]
    assert (manifest["format"], manifest["kind"]) == ("drl-archive-1", "checkpoint")


@pytest.mark.parametrize(("number", "kind"), [(errno.ENOSPC, ResourcesExhausted), (errno.EACCES, InputError)])
def test_archive_that_cannot_be_written_is_refused_with_its_name(run, tmp_path, monkeypatch, number, kind):
    def sync(fd):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", sync)
    with pytest.raises(kind, match="a.zip: the archive cannot be written") as caught:
        pack.pack(run, tmp_path / "a.zip")
    assert type(caught.value) is kind and list(tmp_path.iterdir()) == [run]


@pytest.mark.parametrize(("number", "kind"), [(errno.ENOSPC, ResourcesExhausted), (errno.EACCES, CheckpointError)])
def test_folder_into_which_nothing_can_be_unpacked_is_refused_with_its_name(run, tmp_path, monkeypatch, number, kind):
    pack.pack(run, tmp_path / "a.zip")

    def mkdir(path, mode=0o777):
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(os, "mkdir", mkdir)
    with pytest.raises(kind, match="new: cannot be written") as caught:
        unpack.unpack(tmp_path / "a.zip", tmp_path / "new")
    assert type(caught.value) is kind
