"""Runs that are trials of searches, folded into one line each."""

import fcntl
import json

import pytest
from fake_runs import row, write_run

from drl_cli.errors import RunFolderError
from drl_cli.runs import find, remove, search_folders
from drl_cli.runs.run_summary import read

BEST = {"checkpoint": "checkpoint_000001", "metric": "evaluation/episode_reward_mean"}


def trial(root, search, number, **keywords):
    """Write a trial's run folder."""
    path = write_run(root, 100 + number, [row(number + 1)], **keywords)
    return path.rename(path.with_name(f"SAC_Pendulum-v1_{search}_{number:05d}_{path.name[-28:]}"))


@pytest.fixture
def paths(tmp_path):
    """Two trials of a search of three, its record, and a run of its own."""
    first = trial(tmp_path, "1a2b3", 0, best={**BEST, "value": -300.0})
    second = trial(tmp_path, "1a2b3", 1, best={**BEST, "value": -150.0})
    states = {"0": "finished", "1": "stopped", "2": "pending"}
    told = {
        "format": 1,
        "state": "interrupted",
        "data": {"num_trials": 3, "metric": "evaluation/episode_reward_mean"},
        "trials": {name: {"state": state} for name, state in states.items()},
    }
    record = first.parent / "search_2026-11-21_10-00-00_1a2b3.json"
    record.write_text(json.dumps(told))
    return first, second, write_run(tmp_path, 7, [row(5)]), record


def test_trial_of_reads_search_and_number_off_the_folder(paths):
    assert [search_folders.trial_of(path) for path in paths[:3]] == [("1a2b3", 0), ("1a2b3", 1), None]


def test_folded_search_has_sums_its_best_and_what_its_record_says(paths):
    runs = [read(path) for path in paths[:3]]
    search, alone = search_folders.folded(runs)
    assert alone is runs[2]
    assert (search.id, search.state, search.over, search.trials) == ("1a2b3", "interrupted", 2, 3)
    assert (search.best, search.best_run, search.steps, search.seconds) == (-150.0, runs[1].id, 3000, 6.0)
    assert search.size == runs[0].size + runs[1].size and search.path == paths[3]


def test_folded_search_whose_process_lives_is_running(paths):
    lock = paths[3].with_name(f".{paths[3].stem}.lock")
    with open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert search_folders.folded([read(paths[0])])[0].state == "running"
    assert search_folders.folded([read(paths[0])])[0].state == "interrupted"


def test_folded_search_that_says_running_and_has_no_process_has_died(paths):
    paths[3].write_text(paths[3].read_text().replace("interrupted", "running"))
    assert search_folders.folded([read(paths[0])])[0].state == "died"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"trials": 3, "data": 4}'])
def test_folded_search_with_a_damaged_record_is_what_its_trials_are(paths, text):
    paths[3].write_text(text)
    search = search_folders.folded([read(path) for path in paths[:2]])[0]
    assert (search.state, search.trials, search.over) == ("finished", 2, 2)


def test_find_runs_id_of_a_search_means_its_trials(paths, tmp_path):
    assert find.find_runs(["1a2b3"], [tmp_path]) == [paths[0], paths[1]]
    with pytest.raises(RunFolderError, match="Did you mean '1a2b3'"):
        find.find_runs(["1a2b4"], [tmp_path])


def test_find_record_by_id(paths, tmp_path):
    assert search_folders.find_record("1a2b3", [tmp_path]) == paths[3]
    assert (
        search_folders.find_record("00000", [tmp_path]) is None
        and search_folders.find_record("../*", [tmp_path]) is None
    )


def test_remove_last_trial_takes_the_record_along(paths, tmp_path):
    remove.remove(read(paths[0]), [tmp_path])
    assert paths[3].exists()
    remove.remove(read(paths[1]), [tmp_path])
    assert not paths[3].exists() and paths[2].exists()
