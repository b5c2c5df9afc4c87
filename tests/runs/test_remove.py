"""Removing runs: what goes, and what never does."""

import fcntl
import os

import pytest
from fake_runs import write_run

from drl_cli.errors import RunFolderError
from drl_cli.runs import remove, run_summary


def test_remove_deletes_the_run_and_says_what_was_freed(tmp_path):
    path, other = write_run(tmp_path, 1), write_run(tmp_path, 2)
    size = run_summary.size_of(path)
    assert remove.remove(run_summary.read(path), [tmp_path]) == size
    assert [entry.name for entry in (tmp_path / "default").iterdir()] == [other.name]


def test_remove_of_the_last_run_takes_the_empty_experiment_too_but_not_the_root(tmp_path):
    path = write_run(tmp_path, 1)
    remove.remove(run_summary.read(path), [tmp_path])
    assert list(tmp_path.iterdir()) == []
    path = write_run(tmp_path, 1)
    remove.remove(run_summary.read(path), [tmp_path / "default"])
    assert (tmp_path / "default").is_dir()


def test_check_spares_a_run_outside_of_the_results(tmp_path):
    run = run_summary.read(write_run(tmp_path / "theirs", 1))
    (tmp_path / "ours").mkdir()
    assert "is outside the results" in remove.check(run, [tmp_path / "ours"])
    assert remove.check(run, [tmp_path / "theirs"]) is None


def test_check_spares_the_folder_of_results_itself(tmp_path):
    path = write_run(tmp_path, 1)
    assert "is outside" in remove.check(run_summary.read(path), [path])


def test_check_sees_through_a_link_in_the_path(tmp_path):
    write_run(tmp_path / "theirs", 1)
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "default").symlink_to(tmp_path / "theirs" / "default")
    (linked,) = (tmp_path / "ours" / "default").iterdir()
    assert "is outside" in remove.check(run_summary.read(linked), [tmp_path / "ours"])


def test_a_running_run_is_never_removed(tmp_path):
    path = write_run(tmp_path, 1)
    idle = run_summary.read(path)
    lock = os.open(path / ".lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    assert "is running" in remove.check(run_summary.read(path), [tmp_path])
    with pytest.raises(RunFolderError, match="is running"):
        remove.remove(idle, [tmp_path])  # it was started after it had been listed
    os.close(lock)
    assert path.is_dir()


def test_keep_best_spares_the_best_of_each_algorithm_on_each_environment(tmp_path):
    def best(value):
        return {"checkpoint": "checkpoint_000001", "metric": "episode_reward_mean", "value": value}

    paths = [
        write_run(tmp_path, 1, best=best(1.0)),
        write_run(tmp_path, 2, best=best(3.0)),
        write_run(tmp_path, 3, best=best(2.0)),
        write_run(tmp_path, 4),
        write_run(tmp_path, 5, best=best(0.0), run="TD3"),
    ]
    left = remove.keep_best([run_summary.read(path) for path in paths], 2)
    assert [run.id[-1] for run in left] == ["1", "4"]


def test_remove_clears_what_a_removal_that_died_left(tmp_path):
    path = write_run(tmp_path, 1)
    write_run(tmp_path, 2)
    for pid in (2**22 - 1, os.getpid()):
        (tmp_path / "default" / f".del-x-{pid}-0123abcd").mkdir()
    remove.remove(run_summary.read(path), [tmp_path])
    names = sorted(entry.name for entry in (tmp_path / "default").iterdir())
    assert len(names) == 2 and names[0] == f".del-x-{os.getpid()}-0123abcd"
