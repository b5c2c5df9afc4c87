"""Searches fetched from a storage to be resumed: the record with this machine's paths, and the runs of its trials."""

import json

import pytest
import stores
from checkpoint_maker import save

from drl_cli.errors import RunFolderError, StorageError
from drl_cli.runs import retention, search_download

ROOT = "s3://bucket/runs"
RECORD = "search_2026-01-02_03-04-05_abc12.json"
OLD = "/home/elsewhere/ray_results"


def run_name(number):
    return f"PPO_CartPole-v1_abc12_{number:05d}_2026-01-02_03-04-0{number}_0123abc{number}"


def trial(number, state, iteration=None):
    """Return what a record of another machine holds of a trial; one without ``iteration`` has no run."""
    found = {"point": {"trial": number, "experiment": 0, "values": {"lr": 0.1}, "seed": 7}, "state": state}
    if iteration is not None:
        found["run_folder"] = f"{OLD}/default/{run_name(number)}"
        found["best"] = f"{found['run_folder']}/checkpoint_000010"
        found["result"] = {"training_iteration": iteration}
    return found


def record(*trials, state="interrupted", write=None, **mapping):
    mapping = {"run": "PPO", "local_dir": OLD, "storage_path": ROOT, **mapping}
    data = {"experiments": [{"name": "default", "mapping": mapping}], "folder": f"{OLD}/default", "write": write}
    trials = {str(number): one for number, one in enumerate(trials)}
    return json.dumps({"format": 1, "state": state, "data": data, "trials": trials})


@pytest.fixture
def stored(tmp_path):
    """The folder behind s3://bucket/runs/default: a trial that is over, one that was interrupted, one that saved nothing."""
    folder = tmp_path / "store" / "default"
    for number in (0, 1):
        run = folder / run_name(number)
        run.mkdir(parents=True)
        (run / "params.json").write_text("{}")
        (run / "result.json").write_text('{"training_iteration": 1}\n')
        (run / "best.json").write_text(json.dumps({"checkpoint": "checkpoint_000010"}))
        save(run, 10, replay=False)
        save(run, 20, replay=True)
    (folder / run_name(2)).mkdir()
    (folder / run_name(2) / "params.json").write_text("{}")
    trials = (trial(0, "finished", 20), trial(1, "running", 20), trial(2, "running", 1), trial(3, "pending"))
    (folder / RECORD).write_text(record(*trials))
    return folder


@pytest.fixture
def opener(stored):
    return lambda uri: stores.local(stored.parent / uri.removeprefix(ROOT).strip("/"), uri)


def fetched(uri, tmp_path, opener):
    path = search_download.resumable(uri, tmp_path / "here", opener)
    return path, path and json.loads(path.read_text())


@pytest.mark.parametrize("inside", [f"/default/{RECORD}", "/default", "/default/abc12"])
def test_search_is_found_by_its_record_its_experiment_and_its_id(tmp_path, opener, inside):
    path, _ = fetched(ROOT + inside, tmp_path, opener)
    assert path == tmp_path / "here" / "default" / RECORD


def test_paths_of_the_record_become_those_of_this_machine(tmp_path, opener):
    path, found = fetched(f"{ROOT}/default", tmp_path, opener)
    assert OLD not in path.read_text()
    assert found["data"]["folder"] == str(tmp_path / "here" / "default")
    mapping = found["data"]["experiments"][0]["mapping"]
    assert (mapping["local_dir"], mapping["storage_path"]) == (str(tmp_path / "here"), ROOT)
    run = tmp_path / "here" / "default" / run_name(1)
    assert found["trials"]["1"]["run_folder"] == str(run)
    assert found["trials"]["1"]["best"] == str(run / "checkpoint_000010")


def test_trial_that_goes_on_has_its_replay_and_one_that_is_over_its_best_checkpoint(tmp_path, opener):
    fetched(f"{ROOT}/default", tmp_path, opener)
    here = tmp_path / "here" / "default"
    assert [number for number, _ in retention.numbers(here / run_name(0))] == [10]
    assert [number for number, _ in retention.numbers(here / run_name(1))] == [10, 20]
    assert not (here / run_name(1) / "checkpoint_000020" / "DROPPED").exists()
    assert (here / run_name(0) / "result.json").is_file()


def test_trial_without_a_finished_checkpoint_begins_anew(tmp_path, opener):
    _, found = fetched(f"{ROOT}/default", tmp_path, opener)
    assert found["trials"]["2"]["state"] == "pending" and "run_folder" not in found["trials"]["2"]


def test_runs_are_looked_for_where_the_record_is_now(tmp_path, stored, opener):
    (stored / RECORD).write_text(record(trial(1, "running", 20), storage_path="s3://before/runs"))
    _, found = fetched(f"{ROOT}/default", tmp_path, opener)
    assert found["data"]["experiments"][0]["mapping"]["storage_path"] == ROOT
    assert found["trials"]["0"]["run_folder"] == str(tmp_path / "here" / "default" / run_name(1))


def test_search_that_is_here_already_stays_unless_the_storage_is_further(tmp_path, stored, opener):
    path, _ = fetched(f"{ROOT}/default", tmp_path, opener)
    before = path.read_bytes()
    assert fetched(f"{ROOT}/default", tmp_path, opener)[0] == path and path.read_bytes() == before
    (stored / RECORD).write_text(record(trial(0, "finished", 20), trial(1, "finished", 30)))
    with pytest.raises(RunFolderError, match="is further. Move that file and the runs of its trials away"):
        fetched(f"{ROOT}/default", tmp_path, opener)


def test_uri_of_a_run_is_no_search(tmp_path, opener):
    assert fetched(f"{ROOT}/default/{run_name(0)}", tmp_path, opener) == (None, None)


def test_experiment_whose_searches_are_finished_is_refused_with_their_names(tmp_path, stored, opener):
    (stored / RECORD).write_text(record(trial(0, "finished", 20), state="finished"))
    with pytest.raises(StorageError, match=rf"its searches are finished \({RECORD}\)"):
        fetched(f"{ROOT}/default", tmp_path, opener)


def test_record_that_is_not_there_is_refused_with_those_that_are(tmp_path, opener):
    with pytest.raises(StorageError, match=f"there is no record of a search. There are {RECORD}$"):
        fetched(f"{ROOT}/default/{RECORD.replace('abc12', 'abc13')}", tmp_path, opener)


@pytest.mark.parametrize("text", ["[]", '{"data": {}}', "{", '{"data": {"experiments": []}, "trials": {"0": {}}}'])
def test_file_that_is_no_record_is_refused(tmp_path, stored, opener, text):
    (stored / RECORD).write_text(text)
    with pytest.raises(RunFolderError, match="is not the record of a search, or damaged"):
        fetched(f"{ROOT}/default/{RECORD}", tmp_path, opener)


@pytest.mark.parametrize("folder", ["/x/default/..", "/x/../PPO_0_2026-01-02_03-04-05_0123abcd", "/etc/passwd"])
def test_record_that_names_another_folder_as_a_run_is_refused(tmp_path, stored, opener, folder):
    (stored / RECORD).write_text(record({**trial(0, "running", 1), "run_folder": folder}))
    with pytest.raises(RunFolderError, match="is no run's folder, and the record of the search names it"):
        fetched(f"{ROOT}/default/{RECORD}", tmp_path, opener)


def test_source_of_trials_that_is_on_another_machine_is_refused_unless_all_have_begun(tmp_path, stored, opener):
    source = "/home/elsewhere/checkpoint_000010"
    (stored / RECORD).write_text(record(trial(1, "running", 20), restore=source))
    assert fetched(f"{ROOT}/default", tmp_path, opener)[0]
    (tmp_path / "here" / "default" / RECORD).unlink()
    (stored / RECORD).write_text(record(trial(1, "running", 20), trial(3, "pending"), restore=source))
    with pytest.raises(RunFolderError, match=f"^restore: trials of the search start from {source}, which is not on"):
        fetched(f"{ROOT}/default", tmp_path, opener)


def test_file_to_write_goes_to_the_working_folder_where_its_own_is_not_here(tmp_path, stored, opener, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (stored / RECORD).write_text(record(trial(0, "finished", 20), write={"path": "/home/elsewhere/best.yaml"}))
    assert fetched(f"{ROOT}/default", tmp_path, opener)[1]["data"]["write"]["path"] == str(tmp_path / "best.yaml")
