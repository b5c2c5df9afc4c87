import fcntl
import json
import logging
import os
import re
import shutil

import pytest
from experiment_fakes import Config, Spec, save_small

from drl_cli import __version__, events
from drl_cli.errors import ResourcesExhausted, RunFolderError
from drl_cli.runs import find, journal, records, run_folder, run_names


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
    with pytest.raises(RunFolderError, match="died, without a checkpoint to go on from") as caught:
        find.find_unfinished(tmp_path, "default")
    assert "interrupted, without a checkpoint to go on from" in str(caught.value)


def test_find_unfinished_with_none_left_tells_what_is_there(tmp_path):
    with pytest.raises(RunFolderError, match="no run at all"):
        find.find_unfinished(tmp_path, "default")
    run_with(tmp_path, 4, "finished")
    with pytest.raises(RunFolderError, match="0123abcd: finished"):
        find.find_unfinished(tmp_path, "default")


def test_a_state_running_without_a_lock_is_a_run_that_died(tmp_path):
    dead = run_with(tmp_path, 1, "running")
    assert find.find_unfinished(tmp_path, "default") == dead


def test_params_hide_secrets_by_key_name(tmp_path):
    config = Config(env_config={"api_key": "abc", "inner": [{"my_password": "def", "size": 3}], "Token": {"a": 1}})
    data = records.params(Spec(tmp_path, config=config))
    assert data["config"]["env_config"] == {
        "api_key": "***",
        "inner": [{"my_password": "***", "size": 3}],
        "Token": "***",
    }
    assert (data["run"], data["env"], data["env_asked"], data["seed"]) == ("SAC", "Pendulum-v1", "Pendulum-v0", 7)
    assert data["stop"] == {"training_iteration": 3} and data["config"]["gamma"] == 0.99


def test_command_line_hides_secrets_in_every_spelling():
    words = [
        "drl",
        "--config",
        '{"env_config": {"token": "abc", "n": 1}}',
        "-s",
        "env_config.api_key=def",
        "--secret",
        "g",
    ]
    hidden = records.redact_command(words)
    assert hidden == [
        "drl",
        "--config",
        '{"env_config": {"token": ***, "n": 1}}',
        "-s",
        "env_config.api_key=***",
        "--secret",
        "***",
    ]
    assert records.redact_command(["--passwd=x", "--seed", "1"]) == ["--passwd=***", "--seed", "1"]


def test_versions_name_python_packages_git_and_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = records.versions(Spec(tmp_path))
    assert data["drl"] == __version__ and data["packages"]["numpy"].count(".") >= 2
    assert (data["git"], data["command"], data["seed"]) == (None, ["drl", "train"], 7)


def test_versions_outside_of_git_and_without_git_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert records.versions(Spec(tmp_path))["git"] is None


def test_journal_keeps_the_newest_progress_in_the_status_every_five_seconds(tmp_path):
    made = create(tmp_path)
    clock = {"now": 0.0}
    log = journal.Journal(made, lambda: clock["now"])
    events.report("progress", env_steps=5)
    assert "progress" not in json.loads((made.path / "status.json").read_text())
    clock["now"] = 5.0
    events.report("progress", env_steps=7, waiting="learner is waiting for samples")
    told = json.loads((made.path / "status.json").read_text())["progress"]
    assert told == {"env_steps": 7, "waiting": "learner is waiting for samples"}
    log.close()
    made.close()


def test_journal_writes_events_log_and_status(tmp_path):
    made = create(tmp_path)
    clock = {"now": 0.0}
    log = journal.Journal(made, lambda: clock["now"])
    events.report("worker_lost", worker=3, incarnation=2, text="killed by SIGKILL")
    events.report("progress", env_steps=5)
    events.report("result", result={"training_iteration": 4, "timesteps_total": 4000})
    assert json.loads((made.path / "status.json").read_text())["training_iteration"] is None
    clock["now"] = 6.0
    events.report("result", result={"training_iteration": 5, "timesteps_total": 5000})
    status = json.loads((made.path / "status.json").read_text())
    assert (status["state"], status["training_iteration"], status["pid"]) == ("running", 5, os.getpid())
    log.log(logging.ERROR, "two\nlines")
    log.close()
    events.report("warning", text="after the end")
    made.close()
    lines = [json.loads(line) for line in (made.path / "events.jsonl").read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["worker_lost"] and lines[0]["time"].endswith("Z")
    text = (made.path / "drl.log").read_text()
    assert "WARNING worker-3#2: worker_lost killed by SIGKILL\n" in text
    assert text.count("INFO") == 2 and "ERROR   driver: two\nlines" in text and "after the end" not in text


def test_journal_rotates_its_log_at_three_files(tmp_path, monkeypatch):
    monkeypatch.setattr(journal, "LOG_BYTES", 1000)
    made = create(tmp_path)
    log = journal.Journal(made)
    for _ in range(100):
        log.log(logging.INFO, "x" * 100)
    log.close()
    made.close()
    kept = sorted(name for name in os.listdir(made.path) if name.startswith("drl.log"))
    assert kept == ["drl.log", "drl.log.1", "drl.log.2"]


def test_journal_that_cannot_write_stays_silent(tmp_path, capsys):
    made = create(tmp_path)
    (made.path / "drl.log").mkdir()
    (made.path / "status.json").mkdir()
    (made.path / "events.jsonl").mkdir()
    log = journal.Journal(made)
    events.report("finished", state="failed", text="x", exit_code=3)
    log.close()
    made.close()
    assert capsys.readouterr() == ("", "")
    assert (made.path / "status.json").is_dir()


def test_journal_writes_its_log_as_json_lines(tmp_path):
    made = create(tmp_path)
    log = journal.Journal(made, log_format="json")
    events.report("worker_lost", worker=3, incarnation=2, text="killed by SIGKILL")
    log.log(logging.ERROR, "two\nlines")
    log.close()
    made.close()
    lines = [json.loads(line) for line in (made.path / "drl.log").read_text().splitlines()]
    assert [(line["level"], line["component"], line["text"]) for line in lines] == [
        ("WARNING", "worker-3#2", "worker_lost killed by SIGKILL"),
        ("ERROR", "driver", "two\nlines"),
    ]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"]) for line in lines)


@pytest.mark.parametrize(("text", "line"), [("compiling", "learner compiling"), ("", "learner is ready")])
def test_log_says_what_the_learner_is_at(text, line):
    assert journal.log_line("learner", {"text": text}) == (logging.INFO, line, "driver")
