import fcntl
import json
import os
import shutil

import pytest
from experiment_fakes import save_small

from drl_cli.errors import ResourcesExhausted, RunFolderError
from drl_cli.runs import find, run_folder, run_names


def create(tmp_path, env="Pendulum-v1", experiment="default"):
    return run_folder.create(tmp_path, experiment, "SAC", env)


@pytest.mark.parametrize(
    ("env", "part"),
    [
        ("ALE/Pong-v5", "ALE_Pong-v5"),
        ("my_module:Env-v0", "my_module_Env-v0"),
        ("../../etc", "______etc"),
        ("a b\nc\0d", "a_b_c_d"),
        ("漢" * 200, "漢" * 26),
        ("", "_"),
    ],
)
def test_run_folder_name_is_clean_and_stays_inside(tmp_path, env, part):
    made = create(tmp_path, env)
    made.close()
    assert made.path.parent == tmp_path / "default"
    assert made.path.name.startswith(f"SAC_{part}_0_") and run_names.RUN_FOLDER.fullmatch(made.path.name)


@pytest.mark.parametrize("name", ["../x", "/x", "a/b", ".", "..", "", "a\0b", "x" * 300, "-x", "a\nb", "a..b"])
def test_experiment_name_that_is_no_folder_name_is_refused(tmp_path, name):
    with pytest.raises(RunFolderError, match="is no name for an experiment"):
        create(tmp_path, experiment=name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["default", "lunar lander", "Über-漢_1.2"])
def test_experiment_name_of_letters_of_any_script_works(tmp_path, name):
    made = create(tmp_path, experiment=name)
    made.close()
    assert made.path.parent.name == name


def test_ten_runs_at_once_get_ten_folders(tmp_path):
    made = [create(tmp_path) for _ in range(10)]
    assert len({folder.path for folder in made}) == 10
    for folder in made:
        folder.close()


def test_unwritable_results_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(RunFolderError, match=r"cannot be written \(Not a directory\). Choose another with --local-dir"):
        create(tmp_path / "file")


@pytest.mark.parametrize(("code", "error"), [(30, RunFolderError), (28, ResourcesExhausted)])
def test_probe_that_fails_is_told_before_anything_starts(tmp_path, monkeypatch, code, error):
    def fail(fd):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(error, match="cannot be written"):
        create(tmp_path)


def test_lock_is_held_until_close_and_names_its_holder(tmp_path):
    made = create(tmp_path)
    made.write("params.json", {})
    assert run_folder.is_locked(made.path)
    with pytest.raises(RunFolderError, match=f"process {os.getpid()} on "):
        run_folder.reopen(made.path)
    made.close()
    assert not run_folder.is_locked(made.path)
    run_folder.reopen(made.path).close()


def test_a_look_at_the_lock_does_not_keep_a_run_from_starting(tmp_path, monkeypatch):
    made = create(tmp_path)
    made.write("params.json", {})
    made.close()
    looking = os.open(made.path / ".lock", os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    waits = []

    def wait(seconds):
        waits.append(seconds)
        if len(waits) == 2:
            os.close(looking)

    monkeypatch.setattr(run_folder.time, "sleep", wait)
    run_folder.reopen(made.path).close()
    assert waits == [0.02, 0.02]


def test_reopen_of_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(RunFolderError, match="no such run folder"):
        run_folder.reopen(tmp_path / "gone")
    with pytest.raises(RunFolderError, match=r"params\.json is missing"):
        run_folder.reopen(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_reopen_clears_what_a_dead_process_left(tmp_path):
    made = create(tmp_path)
    made.write("params.json", {})
    made.close()
    (made.path / f".tmp-000010-{os.getpid()}-00c0ffee").mkdir()
    run_folder.reopen(made.path).close()
    assert sorted(os.listdir(made.path)) == [".lock", "params.json"]


def run_with(tmp_path, when, state):
    path = tmp_path / "default" / f"SAC_Pendulum-v1_0_2026-01-{when:02d}_00-00-00_0123abcd"
    path.mkdir(parents=True)
    (path / "params.json").write_text("{}")
    if state:
        (path / "status.json").write_text(json.dumps({"state": state}))
    save_small(path)
    return path


def test_find_unfinished_takes_the_newest_that_is_free_and_not_finished(tmp_path):
    run_with(tmp_path, 1, "failed")
    killed = run_with(tmp_path, 2, None)
    busy = run_with(tmp_path, 3, "interrupted")
    run_with(tmp_path, 4, "finished")
    (tmp_path / "default" / "notes").mkdir()
    held = run_folder.reopen(busy)
    assert find.find_unfinished(tmp_path, "default") == killed
    held.close()
    assert find.find_unfinished(tmp_path, "default") == busy


def test_find_unfinished_leaves_out_what_has_no_checkpoint_to_go_on_from(tmp_path):
    older, newer = run_with(tmp_path, 1, "interrupted"), run_with(tmp_path, 2, "running")
    shutil.rmtree(newer / "checkpoint_000001")
    assert find.find_unfinished(tmp_path, "default") == older
    shutil.rmtree(older / "checkpoint_000001")
    with pytest.raises(RunFolderError, match="died, without a checkpoint to continue from") as caught:
        find.find_unfinished(tmp_path, "default")
    assert "interrupted, without a checkpoint to continue from" in str(caught.value)


def test_find_unfinished_with_none_left_tells_what_is_there(tmp_path):
    with pytest.raises(RunFolderError, match="no run at all"):
        find.find_unfinished(tmp_path, "default")
    run_with(tmp_path, 4, "finished")
    with pytest.raises(RunFolderError, match="0123abcd: finished"):
        find.find_unfinished(tmp_path, "default")


def test_a_state_running_without_a_lock_is_a_run_that_died(tmp_path):
    dead = run_with(tmp_path, 1, "running")
    assert find.find_unfinished(tmp_path, "default") == dead


def test_folder_that_is_closed_twice_does_not_free_the_lock_of_the_next(tmp_path):
    first = create(tmp_path)
    first.close()
    second = create(tmp_path)  # its lock may have the number of the first one's
    first.close()
    assert run_folder.is_locked(second.path) and not run_folder.is_locked(first.path)
    second.close()
    assert not run_folder.is_locked(second.path)
