import json

import pytest
import searches

from drl_cli.errors import ConfigError, RunFolderError
from drl_cli.search import search_record
from drl_cli.search.search_record import Record


@pytest.fixture
def made(tmp_path):
    return Record.new(searches.data(folder=str(tmp_path / "cartpole")))


def test_record_of_a_new_search_holds_every_point_as_pending(made):
    assert made.path.name.startswith("search_2") and made.path.name.endswith("_abc12.json")
    assert {number: trial["state"] for number, trial in made.trials.items()} == dict.fromkeys(range(4), "pending")
    assert json.loads(made.path.read_text())["data"]["metric"] == searches.METRIC


def test_record_is_read_back_as_it_was(made):
    made.change(2, state="finished", result={"timesteps_total": 5, searches.METRIC: float("nan")}, run_folder="/r")
    again = Record.read(made.path)
    assert again.data == made.data
    assert again.trials[2]["result"] == {"timesteps_total": 5, searches.METRIC: None}
    assert [point["trial"] for point in again.unfinished()] == [0, 1, 3]


def test_trials_that_are_trained_again_are_counted_apart(made):
    made.change(4, point=searches.point(4, 0.1, rescore=0), state="pending")
    assert [point["trial"] for point in made.unfinished(rescored=True)] == [4]
    assert len(made.unfinished()) == 4


def test_newest_is_the_last_search_that_is_not_finished(made, tmp_path):
    folder = tmp_path / "cartpole"
    later = folder / made.path.name.replace("search_2", "search_3")
    later.write_bytes(made.path.read_bytes())
    assert search_record.newest(folder) == later
    Record.read(later).write("finished")
    assert search_record.newest(folder) == made.path
    assert search_record.newest(tmp_path / "nowhere") is None


def test_other_files_are_no_records(tmp_path):
    path = tmp_path / "search_x.json"
    path.write_text('{"format": 99}')
    with pytest.raises(RunFolderError) as caught:
        Record.read(path)
    assert str(caught.value) == f"{path}: is not the record of a search of this version"
    path.write_text("{")
    with pytest.raises(RunFolderError):
        Record.read(path)


def test_secret_is_not_written_and_a_search_with_one_is_not_resumed(tmp_path):
    data = searches.data(folder=str(tmp_path))
    data["experiments"][0]["mapping"]["config"]["env_config"] = {"api_key": "abc"}
    made = Record.new(data)
    assert 'abc"' not in made.path.read_text()
    with pytest.raises(ConfigError) as caught:
        Record.read(made.path)
    assert "a secret value of the search was not recorded; start a new search." in str(caught.value)


def test_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RunFolderError) as caught:
        Record.new(searches.data(folder=str(tmp_path / "file" / "cartpole")))
    assert "Choose another folder with --local-dir" in str(caught.value)


def test_search_that_another_process_runs_is_not_run_twice(made):
    with made.held(), pytest.raises(RunFolderError) as caught, Record.read(made.path).held():
        pass
    assert str(caught.value) == f"{made.path}: another process runs this search. Wait for it or stop it"
    with made.held():
        assert made.path.exists()
