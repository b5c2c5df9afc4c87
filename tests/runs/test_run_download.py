"""Runs and checkpoints fetched from a storage: whole, verified, once."""

import json

import pytest
import stores
from checkpoint_maker import read_everything, save

from drl_cli import checkpoints
from drl_cli.checkpoints.writer import commit_text
from drl_cli.errors import CheckpointError, RunFolderError, StorageError
from drl_cli.runs import retention, run_download

NAME = "SAC_Pendulum-v1_0_2026-01-02_03-04-05_0123abcd"
RUN = f"s3://bucket/runs/default/{NAME}"


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """The folder behind s3://bucket/runs, with a run of three checkpoints, of which 20 is the best."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    run = tmp_path / "store" / "default" / NAME
    (run / "experience").mkdir(parents=True)
    (run / "videos").mkdir()
    (run / "params.json").write_text("{}")
    (run / "experience" / "out.json").write_text("line\n")
    (run / "videos" / "film.mp4").write_text("pictures")
    (run / "best.json").write_text(json.dumps({"checkpoint": "checkpoint_000020"}))
    save(run, 10, replay=True)
    save(run, 20, replay=False)
    save(run, 30, replay=True)
    retention.drop_replay(run / "checkpoint_000010")
    return run


@pytest.fixture
def opener(stored):
    """Opens URIs below s3://bucket/runs; ``opener.opened`` lists the Storages."""

    def open_storage(uri):
        folder = stored.parents[1] / uri.removeprefix("s3://bucket/runs").strip("/")
        opened.append(stores.local(folder, uri))
        return opened[-1]

    opened = open_storage.opened = []
    return open_storage


def names(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_checkpoint_is_fetched_without_its_replay_and_loads(stored, opener):
    path = run_download.cached(f"{RUN}/checkpoint_000030", open_storage=opener)
    found = checkpoints.load(path, optional=True)
    assert (found.number, found.has("replay")) == (30, False)
    assert (found.arrays("weights")["steps"], path.name) == (30, "checkpoint_000030")


def test_file_in_a_checkpoint_means_the_checkpoint(opener):
    assert run_download.cached(f"{RUN}/checkpoint_000010/COMMIT", open_storage=opener).name == "checkpoint_000010"


def test_run_is_fetched_as_its_best_and_its_newest_checkpoint(opener):
    path = run_download.cached(RUN, open_storage=opener)
    assert [number for number, _ in retention.numbers(path)] == [20, 30]
    assert retention.find(path).name == "checkpoint_000020"
    assert retention.find(path, latest=True).name == "checkpoint_000030"


def test_whole_run_has_all_checkpoints_as_the_storage_has_them(stored, opener):
    path = run_download.cached(RUN, "whole", open_storage=opener)
    expected = [name for name in names(stored) if not name.startswith("videos")]
    assert names(path) == expected
    assert read_everything(path / "checkpoint_000030").keys() == {"weights", "workers", "replay-0", "state"}


def test_records_come_without_checkpoints_and_recordings(opener):
    assert names(run_download.cached(RUN, "records", open_storage=opener)) == ["best.json", "params.json"]


def test_records_of_a_checkpoint_are_those_of_its_run(opener):
    path = run_download.cached(f"{RUN}/checkpoint_000010", "records", open_storage=opener)
    assert path.name == NAME and names(path) == ["best.json", "params.json"]


def test_what_is_in_the_cache_is_not_fetched_again(opener):
    run_download.cached(f"{RUN}/checkpoint_000030", open_storage=opener)
    run_download.cached(f"{RUN}/checkpoint_000030", open_storage=opener)
    assert opener.opened[0].moved > 0 and opener.opened[1].moved == 0


def test_damaged_cache_is_fetched_again(opener):
    path = run_download.cached(f"{RUN}/checkpoint_000030", open_storage=opener)
    (path / "weights.safetensors").write_bytes(b"")
    assert checkpoints.load(run_download.cached(f"{RUN}/checkpoint_000030", open_storage=opener)).number == 30


def test_checkpoint_without_commit_is_not_there(stored, opener):
    (stored / "checkpoint_000030" / "COMMIT").unlink()
    with pytest.raises(
        CheckpointError, match=rf"^{RUN}/checkpoint_000030: COMMIT is missing: its copy was not finished"
    ):
        run_download.cached(f"{RUN}/checkpoint_000030", open_storage=opener)
    path = run_download.cached(RUN, open_storage=opener)
    assert retention.find(path, latest=True).name == "checkpoint_000020"


def test_checkpoint_damaged_in_the_storage_is_refused_with_its_uri_and_leaves_nothing(stored, opener):
    file = stored / "checkpoint_000030" / "weights.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    with pytest.raises(CheckpointError, match=rf"^{RUN}/checkpoint_000030/weights.safetensors: SHA-256 differs"):
        run_download.cached(f"{RUN}/checkpoint_000030", open_storage=opener)
    assert names(run_download.cache_folder()) == []


def test_manifest_that_names_a_path_outside_is_refused(stored, opener):
    path = stored / "checkpoint_000030"
    manifest = path.joinpath("manifest.json").read_bytes().replace(b'"state.json"', b'"../../x.json"')
    path.joinpath("manifest.json").write_bytes(manifest)
    path.joinpath("COMMIT").write_bytes(commit_text(manifest))
    with pytest.raises(CheckpointError, match="its files are not those of a checkpoint"):
        run_download.cached(f"{RUN}/checkpoint_000030", open_storage=opener)


@pytest.mark.parametrize(
    ("uri", "error", "said"),
    [
        (f"{RUN}/checkpoint_000040", CheckpointError, "there is no such checkpoint. There are checkpoint_000010, "),
        ("s3://bucket/runs/default", StorageError, rf"is no run. Below it: {NAME}. Name one of its runs"),
        ("s3://bucket/runs/other", StorageError, "there is no run or checkpoint"),
        ("ftp://host/x", StorageError, "ftp:// is not a storage"),
        ("s3://key:hunter2@bucket/x", StorageError, "none with a password is accepted"),
    ],
)
def test_uri_that_names_nothing_is_one_line(opener, uri, error, said):
    with pytest.raises(error, match=said) as caught:
        run_download.cached(uri, open_storage=opener)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("above", ["s3://bucket/runs", "s3://bucket/runs/default", RUN])
def test_runs_of_a_storage_are_found_below_it(stored, opener, above):
    (stored.parent / "search").mkdir()
    assert run_download.runs_below(above, opener) == [RUN]


def test_storage_without_runs_is_left_as_it_was_named(opener):
    assert run_download.runs_below("s3://bucket/runs/other", opener) == ["s3://bucket/runs/other"]


def test_resumed_run_comes_with_best_newest_records_and_recordings(stored, opener, tmp_path):
    folder, root = run_download.resumable(RUN, tmp_path / "results", opener)
    assert (folder, root) == (tmp_path / "results" / "default" / NAME, "s3://bucket/runs")
    assert [number for number, _ in retention.numbers(folder)] == [20, 30]
    assert checkpoints.load(folder / "checkpoint_000030", optional=True).has("replay")
    assert (folder / "experience" / "out.json").read_text() == "line\n" and not (folder / "videos").exists()


def test_best_after_the_newest_whole_checkpoint_does_not_cost_its_replay(stored, opener, tmp_path):
    save(stored, 40, replay=False)
    folder, _ = run_download.resumable(RUN, tmp_path / "results", opener)
    assert [number for number, _ in retention.numbers(folder)] == [20, 30, 40]
    assert retention.newest_valid(folder, parts=("state", "replay"))[0].number == 30


def test_run_that_is_here_already_goes_on_as_it_is(opener, tmp_path):
    folder, _ = run_download.resumable(RUN, tmp_path / "results", opener)
    save(folder, 50)
    assert run_download.resumable(RUN, tmp_path / "results", opener)[0] == folder
    assert [number for number, _ in retention.numbers(folder)] == [20, 30, 50]


def test_run_that_is_older_here_than_in_the_storage_is_not_overwritten(stored, opener, tmp_path):
    run_download.resumable(RUN, tmp_path / "results", opener)
    save(stored, 50)
    with pytest.raises(RunFolderError, match=r"has a later checkpoint \(checkpoint_000050\). Move that folder away"):
        run_download.resumable(RUN, tmp_path / "results", opener)


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        (f"{RUN}/checkpoint_000030", "is a checkpoint. A run is resumed by its folder"),
        ("s3://bucket/runs/default", "is no run"),
    ],
)
def test_what_is_no_run_cannot_be_resumed(opener, tmp_path, uri, said):
    with pytest.raises(StorageError, match=said):
        run_download.resumable(uri, tmp_path / "results", opener)


def test_run_without_a_finished_copy_of_a_checkpoint_cannot_be_resumed(stored, opener, tmp_path):
    for path in stored.glob("checkpoint_*/COMMIT"):
        path.unlink()
    with pytest.raises(StorageError, match="holds no checkpoint to go on from whose copy was finished"):
        run_download.resumable(RUN, tmp_path / "results", opener)
    assert not (tmp_path / "results" / "default").exists()
