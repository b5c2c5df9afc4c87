"""``drl watch``: a run of another process until it ends."""

import fcntl
import json
import os

import pytest
from fake_runs import add_events, add_row, evaluation, row, set_status, write_run

from drl_cli import cli
from drl_cli.cli import watch
from drl_cli.runs import run_summary

ENDED = {"state": "finished", "text": "goal reached", "exit_code": 0}
EVENTS = [
    (0.5, "phase", {"text": "loading TensorFlow"}),
    (13.0, "evaluation", {"training_iteration": 1, "episode_reward_mean": -90.0, "episodes": 10, "confirmed": None}),
]


def drl(capsys, *arguments, code=0):
    assert cli.main([str(word) for word in arguments]) == code
    return capsys.readouterr()


@pytest.fixture
def finished(tmp_path, monkeypatch):
    """A run that has ended well."""
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path))
    best = {"checkpoint": "checkpoint_000002", "metric": "evaluation/episode_reward_mean", "value": -90.0}
    path = write_run(tmp_path, 7, [row(1), row(2)], None, [*EVENTS, (20.0, "finished", ENDED)], best)
    (path / "checkpoint_000002").mkdir()
    return path


def test_a_finished_run_shows_its_story_and_what_to_type_next(finished, capsys):
    out, err = drl(capsys, "watch", "00000007")
    assert "   0:00  loading TensorFlow\n" in err
    assert "   0:13  evaluation: reward -90.0 over 10 greedy episodes\n" in err
    assert "   0:14  iteration 2: reward 20.0, 10 episodes, 2,000 steps (500/s), 80 updates\n" in err
    assert err.endswith("   0:20  finished\n")
    assert "SAC on Pendulum-v1 finished: goal reached" in out and "checkpoint_000002  (evaluation -90.0)" in out
    assert "drl rollout 00000007\n" in out


def test_json_is_that_of_train(finished, capsys):
    lines = [json.loads(line) for line in drl(capsys, "watch", finished, "--json").out.splitlines()]
    assert [line.get("training_iteration") for line in lines] == [1, 2, None]
    paths = {"run": str(finished), "final": f"{finished}/checkpoint_000002", "best": f"{finished}/checkpoint_000002"}
    assert lines[-1] == {"finished": {"state": "finished", "text": "goal reached", "exit_code": 0, **paths}}


def test_a_living_run_is_watched_until_it_ends(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path))
    path = write_run(tmp_path, 1, [row(1)], {"state": "running"}, EVENTS)
    lock = os.open(path / ".lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    turns = iter(range(1, 10))

    def live(_seconds):
        turn = next(turns)
        if turn == 1:
            add_row(path, row(2, evaluation=evaluation(2, -80.0)))
        if turn == 2:
            add_events(path, [(30.0, "finished", ENDED)])
            set_status(path, state="finished")
            os.close(lock)

    monkeypatch.setattr(watch.time, "sleep", live)
    out, err = drl(capsys, "watch", "--json")  # the newest that is running
    assert [json.loads(line).get("training_iteration") for line in out.splitlines()] == [1, 2, None]
    assert next(turns) == 3


def test_a_run_whose_process_is_gone_ends_with_the_way_to_go_on(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path))
    path = write_run(tmp_path, 1, [row(1)], {"state": "running"})
    (path / "checkpoint_000001").mkdir()
    out, err = drl(capsys, "watch", "00000001")
    assert "The run died: its process (" in err and "SAC on Pendulum-v1 died." in out
    assert "Resume    drl train --resume 00000001\n" in out
    drl(capsys, "watch", "00000001", "--exit-status", code=3)


@pytest.mark.parametrize("code", [0, 4, 130])
def test_exit_status_is_that_of_the_run_when_asked_for(tmp_path, capsys, monkeypatch, code):
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path))
    write_run(tmp_path, 1, status={"state": "interrupted" if code == 130 else "finished", "exit_code": code})
    assert cli.main(["watch", "00000001", "--exit-status"]) == code
    assert cli.main(["watch", "00000001"]) == 0
    assert "SAC on Pendulum-v1" in capsys.readouterr().out


def test_ctrl_c_ends_the_watching_only(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path))
    path = write_run(tmp_path, 1, [row(1)], {"state": "running"})
    lock = os.open(path / ".lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)

    def interrupt(_seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(watch.time, "sleep", interrupt)
    _, err = drl(capsys, "watch", code=130)
    assert "No longer watching; the run continues. Watch again: drl watch 00000001" in err
    assert run_summary.read(path).state == "running"
    os.close(lock)


def test_view_knows_the_goal_before_any_event(finished):
    view = watch.view_of(run_summary.read(finished))
    assert (view.algorithm, view.env, view.goal) == ("SAC", "Pendulum-v1", -200.0)


def test_wrong_words_are_refused(finished, capsys):
    assert "Did you mean '00000007'" in drl(capsys, "watch", "0000007", code=2).err
    assert "no run of that name" in drl(capsys, "watch", "nothing-like-it", code=2).err
