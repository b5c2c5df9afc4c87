"""Runs with a storage_path: their folder is copied, and a storage that fails never costs a run."""

import json

import pytest
from experiment_fakes import Spec, StopRequest, left, trainer

from drl_cli import events
from drl_cli.errors import ConfigError, StorageError
from drl_cli.experiments import run as driving
from drl_cli.runs import loggers, retention


@pytest.fixture
def heard():
    found = []
    stop = events.subscribe(lambda kind, fields: found.append((kind, fields.get("text"))))
    yield found
    stop()


def drive(spec, made=None):
    return driving.run(spec, StopRequest(), made or trainer(), lambda: 0.0)


def spec_of(tmp_path, **given):
    return Spec(tmp_path / "results", storage_path=f"file://{tmp_path}/store", checkpoint_freq=1, **given)


def copy_of(outcome, tmp_path):
    return tmp_path / "store" / "default" / outcome.run_folder.name


def test_copy_of_a_finished_run_says_how_it_ended(tmp_path):
    outcome = drive(spec_of(tmp_path))
    copied = copy_of(outcome, tmp_path)
    assert left(copied) == left(outcome.run_folder) == {1: False, 2: False, 3: True}
    assert json.loads((copied / "status.json").read_text())["state"] == "finished"
    assert [row["training_iteration"] for row in loggers.read_rows(copied)] == [1, 2, 3]
    assert json.loads((copied / "params.json").read_text())["storage_path"] == f"file://{tmp_path}/store"
    assert retention.find(copied).name == "checkpoint_000003"


def test_run_without_storage_path_records_none(tmp_path):
    outcome = drive(Spec(tmp_path))
    assert "storage_path" not in json.loads((outcome.run_folder / "params.json").read_text())


def test_new_run_whose_storage_cannot_be_written_does_not_start_and_leaves_nothing(tmp_path):
    (tmp_path / "store").write_text("a file")
    made = trainer()
    with pytest.raises(StorageError, match=r"^file://.*/params.json: "):
        drive(spec_of(tmp_path), made)
    assert made.made == [] and list((tmp_path / "results" / "default").iterdir()) == []


def test_storage_that_is_the_folder_of_results_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="is the folder of the results"):
        drive(Spec(tmp_path, storage_path=f"file://{tmp_path}"))


def test_storage_that_breaks_during_the_run_is_a_warning_and_the_run_is_whole(tmp_path, heard):
    def fill():
        (tmp_path / "store" / "default").rename(tmp_path / "elsewhere")
        (tmp_path / "store" / "default").write_text("in the way")

    outcome = drive(spec_of(tmp_path), trainer({1: {"do": fill}}))
    assert (outcome.state, outcome.exit_code) == ("finished", 0)
    assert left(outcome.run_folder) == {1: False, 2: False, 3: True}
    warnings = [text for kind, text in heard if kind == "warning"]
    assert f"; the run itself is, in {outcome.run_folder}. To copy what is missing: drl train --resume" in warnings[-1]


def test_run_that_is_over_completes_its_copy_when_it_is_resumed(tmp_path):
    outcome = drive(spec_of(tmp_path))
    copied = copy_of(outcome, tmp_path)
    (copied / "checkpoint_000003" / "COMMIT").unlink()
    again = drive(spec_of(tmp_path, resume=outcome.run_folder))
    assert "nothing was trained" in again.text
    assert left(copied) == left(outcome.run_folder)


def test_resumed_run_goes_on_without_its_storage(tmp_path, heard):
    outcome = drive(Spec(tmp_path / "results", checkpoint_freq=1, stop={"training_iteration": 1}))
    (tmp_path / "store").write_text("a file")
    again = drive(spec_of(tmp_path, resume=outcome.run_folder))
    assert (again.state, again.exit_code) == ("finished", 0)
    assert any(kind == "notice" and text.startswith("storage_path: file://") for kind, text in heard)
