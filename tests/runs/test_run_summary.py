"""One run folder → a Run."""

import errno
import fcntl
import json
import os
import socket

import pytest
from fake_runs import STARTED, add_row, row, set_status, write_run

from drl_cli.errors import RunFolderError
from drl_cli.runs import run_folder, run_summary

DEAD = 2**22 - 1  # above what this kernel numbers its processes with, or free


def held(path):
    lock = os.open(path / ".lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def test_read_tells_what_the_records_hold(tmp_path):
    best = {"checkpoint": "checkpoint_000002", "metric": "evaluation/episode_reward_mean", "value": 12.5}
    path = write_run(tmp_path, 0x1A, [row(1), row(2), row(3)], best=best)
    (path / "checkpoint_000002").mkdir()
    (path / "checkpoint_000002" / "weights").write_bytes(b"x" * 5000)
    run = run_summary.read(path)
    assert (run.id, run.algorithm, run.env, run.experiment, run.seed) == (
        "0000001a",
        "SAC",
        "Pendulum-v1",
        "default",
        26,
    )
    assert (run.state, run.exit_code, run.text) == ("finished", 0, "goal reached")
    assert (run.iteration, run.steps, run.seconds, run.reward) == (3, 3000, 6.0, 30.0)
    assert (run.best, run.best_metric) == (12.5, "evaluation/episode_reward_mean")
    assert (run.best_checkpoint, run.checkpoints) == ("checkpoint_000002", ("checkpoint_000002",))
    assert (run.started, run.updated) == (STARTED, STARTED + 100)
    assert run.config["gamma"] == 0.99
    files = sum(os.path.getsize(path / name) for name in ("params.json", "status.json", "result.json", "best.json"))
    assert run.size == files + 5000 + len("{}")


def test_last_row_leaves_a_torn_line_out(tmp_path):
    path = write_run(tmp_path, rows=[row(1), row(2)])
    with open(path / "result.json", "a") as file:
        file.write('{"training_iteration": 3, "timest')
    assert run_summary.last_row(path)["training_iteration"] == 2


def test_last_row_longer_than_the_tail_is_found(tmp_path):
    path = write_run(tmp_path, rows=[row(1)])
    add_row(path, row(2, hist_stats={"episode_reward": [1.0] * run_summary.TAIL_BYTES}))
    assert run_summary.last_row(path)["training_iteration"] == 2


def test_last_row_of_a_run_without_rows_is_empty(tmp_path):
    assert run_summary.last_row(write_run(tmp_path)) == {}


def test_state_is_running_while_the_lock_is_held_whatever_the_status_says(tmp_path):
    path = write_run(tmp_path)
    lock = held(path)
    assert run_summary.read(path).state == "running"
    os.close(lock)
    assert run_summary.read(path).state == "finished"


def test_state_of_a_run_whose_process_is_gone_is_died(tmp_path):
    assert run_summary.read(write_run(tmp_path, status={"state": "running"})).state == "died"


def test_state_without_a_status_is_died(tmp_path):
    assert run_summary.read(write_run(tmp_path, status=False)).state == "died"


@pytest.mark.parametrize("ago, state", [(60, "running"), (7200, "died")])
def test_state_on_another_host_is_believed_for_an_hour(tmp_path, monkeypatch, ago, state):
    monkeypatch.setattr(run_summary, "_now", lambda: STARTED + 100 + ago)
    path = write_run(tmp_path, status={"state": "running", "host": "elsewhere"})
    assert run_summary.read(path).state == state


@pytest.mark.parametrize("pid, state", [(os.getpid(), "running"), (DEAD, "died")], ids=["alive", "dead"])
def test_state_without_locks_goes_by_the_process(tmp_path, monkeypatch, pid, state):
    def refuse(_file, _how):
        raise OSError(errno.ENOLCK, "no locks")

    path = write_run(tmp_path, status={"state": "running", "pid": pid})
    monkeypatch.setattr(run_folder.fcntl, "flock", refuse)
    assert run_summary.read(path).state == state


def test_read_refuses_what_is_no_run_of_ours(tmp_path):
    with pytest.raises(RunFolderError, match="params.json is missing"):
        run_summary.read(tmp_path)
    (tmp_path / "params.json").write_text(json.dumps({"lr": 0.1, "env": "CartPole-v0"}))
    with pytest.raises(RunFolderError, match="another program's"):
        run_summary.read(tmp_path)
    assert not run_summary.is_run(tmp_path)


def test_read_survives_damaged_status_and_best(tmp_path):
    path = write_run(tmp_path, rows=[row(1)])
    (path / "status.json").write_text("{")
    (path / "best.json").write_text("[1]")
    run = run_summary.read(path)
    assert (run.state, run.best, run.steps) == ("died", None, 1000)


def test_size_does_not_follow_links(tmp_path):
    (tmp_path / "big").write_bytes(b"x" * 10_000)
    path = write_run(tmp_path / "results")
    before = run_summary.size_of(path)
    (path / "link").symlink_to(tmp_path / "big")
    assert 0 < run_summary.size_of(path) - before < 1000


def test_set_status_is_seen_at_the_next_read(tmp_path):
    path = write_run(tmp_path)
    set_status(path, state="failed", exit_code=3)
    assert (run_summary.read(path).state, run_summary.read(path).exit_code) == ("failed", 3)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EMFILE, errno.EIO])
def test_state_of_a_run_whose_lock_cannot_be_opened_is_that_of_its_process(tmp_path, monkeypatch, number):
    run = write_run(tmp_path, status={"state": "running", "pid": os.getpid(), "host": socket.gethostname()})
    real = os.open

    def refused(path, *arguments, **keywords):
        if str(path).endswith(".lock"):
            raise OSError(number, os.strerror(number), path)
        return real(path, *arguments, **keywords)

    monkeypatch.setattr(os, "open", refused)
    assert run_summary.read(run).state == "running"
