"""A run of another process as a stream of events."""

import fcntl
import json
import os

import pytest
from fake_runs import add_events, add_row, row, set_status, write_run

from drl_cli.runs.follow import Follower, progress_of

FINISHED = {"state": "finished", "text": "goal reached", "exit_code": 0}


@pytest.fixture
def living(tmp_path):
    """A run that goes on: its lock is held until the test ends. Returns (path, stop)."""
    path = write_run(tmp_path, 1, [row(1)], {"state": "running"}, [(0.5, "phase", {"text": "loading TensorFlow"})])
    lock = os.open(path / ".lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    closed = []

    def stop():
        if not closed:
            closed.append(True)
            os.close(lock)

    yield path, stop
    stop()


def kinds(events):
    return [kind for kind, _, _ in events]


def test_poll_tells_the_past_in_the_order_of_time(living):
    path, _ = living
    add_events(path, [(11.0, "evaluation", {"episode_reward_mean": 1.0})])
    told = Follower(path).poll()
    assert [(kind, seconds) for kind, _, seconds in told] == [
        ("phase", 0.5),
        ("evaluation", 11.0),
        ("progress", 12.0),
        ("result", 12.0),
    ]
    assert told[0][1] == {"text": "loading TensorFlow"}


def test_poll_tells_only_what_is_new(living):
    path, _ = living
    follower = Follower(path)
    follower.poll()
    assert follower.poll() == []
    add_row(path, row(2))
    told = follower.poll()
    assert kinds(told) == ["progress", "result"] and told[1][1]["result"]["training_iteration"] == 2


def test_poll_waits_for_the_end_of_a_line(living):
    path, _ = living
    follower = Follower(path)
    follower.poll()
    text = json.dumps(row(2)) + "\n"
    with open(path / "result.json", "a") as file:
        file.write(text[:20])
    assert follower.poll() == []
    with open(path / "result.json", "a") as file:
        file.write(text[20:])
    assert kinds(follower.poll()) == ["progress", "result"]


def test_poll_reads_a_table_that_was_cut_and_tells_no_row_twice(living):
    path, _ = living
    follower = Follower(path)
    follower.poll()
    (path / "new").write_text(json.dumps(row(1)) + "\n" + json.dumps(row(2)) + "\n")
    os.replace(path / "new", path / "result.json")
    assert [fields["result"]["training_iteration"] for kind, fields, _ in follower.poll() if kind == "result"] == [2]


def test_a_long_past_is_told_as_progress_and_only_its_end_as_results(tmp_path):
    path = write_run(tmp_path, 1, [row(n) for n in range(1, 21)])
    told = kinds(Follower(path).poll())
    assert (told.count("progress"), told.count("result"), told[-1]) == (20, 5, "finished")
    assert kinds(Follower(path, all_rows=True).poll()).count("result") == 20


def test_events_of_a_process_before_a_resume_are_left_out(tmp_path):
    events = [(-50.0, "finished", {"state": "interrupted"}), (1.0, "notice", {"text": "resuming"})]
    path = write_run(tmp_path, 1, events=[*events, (100.0, "finished", FINISHED)])
    told = Follower(path).poll()
    assert kinds(told) == ["notice", "finished"] and told[-1][1]["state"] == "finished"


def test_the_end_is_told_once_as_the_run_told_it(living):
    path, stop = living
    follower = Follower(path)
    follower.poll()
    add_events(path, [(30.0, "finished", FINISHED)])
    set_status(path, state="finished")
    stop()
    assert follower.poll() == [("finished", FINISHED, 30.0)]
    assert follower.poll() == [] and follower.state == "finished"
    assert follower.last_seconds == 100.0  # status.json was written last


def test_a_run_whose_process_vanishes_ends_as_died(living):
    path, stop = living
    follower = Follower(path)
    follower.poll()
    stop()
    ((kind, fields, _),) = follower.poll()
    assert kind == "finished" and fields["state"] == "died" and fields["exit_code"] is None
    assert fields["text"].startswith(f"its process ({os.getpid()} on ")


def test_a_finished_run_without_events_still_ends(tmp_path):
    path = write_run(tmp_path, 1, status={"state": "interrupted", "exit_code": 130, "text": "stopped by SIGINT"})
    ((kind, fields, _),) = Follower(path).poll()
    assert (kind, fields["state"], fields["exit_code"]) == ("finished", "interrupted", 130)


def test_status_brings_counters_that_are_newer_than_the_rows(living):
    path, _ = living
    follower = Follower(path)
    follower.poll()
    newer = {"training_iteration": 1, "env_steps": 1500, "waiting": "learner is waiting for samples"}
    set_status(path, progress=newer)
    assert [(kind, fields) for kind, fields, _ in follower.poll()] == [("progress", newer)]
    assert follower.poll() == []


def test_status_brings_no_counters_that_are_older_than_the_rows(living):
    path, _ = living
    set_status(path, progress={"training_iteration": 0, "env_steps": 500, "waiting": "learner is waiting for samples"})
    told = [fields for kind, fields, _ in Follower(path).poll() if kind == "progress"]
    assert told[-1] == {"waiting": "learner is waiting for samples"} and told[0]["env_steps"] == 1000


def test_damaged_lines_are_left_out(tmp_path):
    path = write_run(tmp_path, 1, [row(1)])
    with open(path / "result.json", "a") as file:
        file.write("{\n[1]\n")
    with open(path / "events.jsonl", "a") as file:
        file.write('{"time": 5, "kind": "x"}\nnonsense\n')
    assert kinds(Follower(path).poll()) == ["progress", "result", "finished"]


def test_progress_of_a_row_has_rates_over_its_own_seconds():
    fields = progress_of(row(3), updates_before=80)
    assert (fields["env_steps"], fields["env_steps_per_s"]) == (3000, 500.0)
    assert (fields["updates"], fields["updates_per_s"], fields["learner"]) == (120, 20.0, "learning")
    assert "replay_size" not in fields


def test_run_without_workers_is_told_as_inline(tmp_path):
    inline = write_run(tmp_path, 1, [row(1)], config={"num_workers": 0})
    several = write_run(tmp_path, 2, [row(1)], config={"num_workers": 2})
    told = [[f["workers"] for kind, f, _ in Follower(path).poll() if kind == "progress"] for path in (inline, several)]
    assert told == [[0], [2]]
