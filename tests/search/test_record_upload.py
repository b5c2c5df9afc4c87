"""The copy of a search's record: beside the copies of its runs, when a trial changes."""

import json

import pytest
import searches
import stores

from drl_cli import events
from drl_cli.errors import StorageError
from drl_cli.search import record_upload
from drl_cli.search.search_record import Record


@pytest.fixture
def record(tmp_path):
    found = searches.data(folder=str(tmp_path / "results" / "cartpole"))
    found["experiments"][0]["mapping"]["storage_path"] = "s3://bucket/runs"
    return Record.new(found)


def test_record_is_copied_beside_the_runs_before_the_first_trial(record):
    opened, storage = [], stores.mock()
    uploads = record_upload.begun(record, lambda uri: opened.append(uri) or storage)
    assert opened == ["s3://bucket/runs/cartpole"]
    assert storage.read(record.path.name, limit=10**6) == record.path.read_bytes()
    uploads.close()


def test_trial_that_changes_is_in_the_copy(record):
    storage = stores.mock()
    uploads = record_upload.begun(record, lambda uri: storage)
    record.change(1, state="running", run_folder="/x/cartpole/RUN")
    events.report("trial", trial=1, **record.trials[1])
    assert uploads._is_idle()  # nothing but the event asked for a copy
    uploads.close()
    assert json.loads(storage.read(record.path.name, limit=10**6))["trials"]["1"]["state"] == "running"


def test_results_alone_ask_for_no_copy():
    is_due = record_upload.Changes()
    assert is_due("trial", {"trial": 0, "state": "running"})
    assert not is_due("trial", {"trial": 0, "state": "running", "result": {"training_iteration": 2}})
    assert is_due("trial", {"trial": 0, "state": "running", "run_folder": "/x/RUN"})
    assert not is_due("notice", {"text": "x"})


def test_storage_that_cannot_be_written_is_refused(record, tmp_path):
    storage = stores.faulty(tmp_path, lambda verb, path: OSError("denied") if verb == "open" else None)
    with pytest.raises(StorageError, match=f"{record.path.name}: denied"):
        record_upload.begun(record, lambda uri: storage)


def test_search_without_a_storage_has_no_copy(tmp_path):
    record = Record.new(searches.data(folder=str(tmp_path / "results" / "cartpole")))
    assert record_upload.begun(record) is None
