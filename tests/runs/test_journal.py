"""The records that a run writes of what happens: events.jsonl, drl.log, status.json."""

import json
import logging
import os
import re

import pytest

from drl_cli import events
from drl_cli.runs import journal, run_folder


def create(tmp_path):
    return run_folder.create(tmp_path, "default", "SAC", "Pendulum-v1")


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


def test_journal_whose_disk_is_full_at_the_end_closes_without_an_error(tmp_path):
    made = create(tmp_path)
    for name in ("events.jsonl", "drl.log"):
        os.symlink("/dev/full", made.path / name)  # opens like a file, and what is written fails, that of close too
    log = journal.Journal(made)
    events.report("warning", text="x")
    log.close()
    made.close()
    assert run_folder.lock_state(made.path) is False
    assert json.loads((made.path / "status.json").read_text())["state"] == "running"


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
