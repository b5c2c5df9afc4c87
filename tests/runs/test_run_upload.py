"""The copy of a run in a storage: what is in it at any moment is whole, and it follows the run's folder."""

import json
import os
import threading

import pytest
import stores
from checkpoint_maker import save

from drl_cli import checkpoints, events
from drl_cli.errors import StorageError
from drl_cli.runs import retention
from drl_cli.runs.run_upload import RunUpload, Uploads

RUN = ("default", "RUN")


@pytest.fixture
def folder(tmp_path):
    """The folder of a run, with records, a recording and hidden files."""
    path = tmp_path / "results" / "default" / "RUN"
    (path / "experience").mkdir(parents=True)
    (path / "params.json").write_text("{}")
    (path / "result.json").write_text('{"training_iteration": 1}\n')
    (path / "experience" / "output_worker-1_0.json").write_text('{"type": "SampleBatch"}\n')
    (path / ".lock").write_text("")
    (path / ".tmp-000002-1-abcdef01").mkdir()
    return path


@pytest.fixture
def heard():
    found = []
    stop = events.subscribe(lambda kind, fields: found.append((kind, fields.get("text"))))
    yield found
    stop()


def best(folder, name):
    (folder / "best.json").write_text(json.dumps({"checkpoint": name}))


def upload(folder, storage):
    """Return a RunUpload into ``storage``, which is opened at the URI of the run's copy."""
    return RunUpload(folder, stores.URI, lambda uri: storage)


def names(store):
    return sorted(path.relative_to(store).as_posix() for path in store.rglob("*") if path.is_file())


def test_copy_holds_checkpoints_records_and_recordings_and_nothing_hidden(folder):
    save(folder, 10)
    best(folder, "checkpoint_000010")
    storage = stores.mock()
    upload(folder, storage).copy()
    assert sorted(storage.entries()) == ["best.json", "checkpoint_000010", "experience", "params.json", "result.json"]
    assert sorted(storage.entries("checkpoint_000010")) == sorted(os.listdir(folder / "checkpoint_000010"))
    assert storage.read("experience", "output_worker-1_0.json", limit=100) == b'{"type": "SampleBatch"}\n'
    commit = (folder / "checkpoint_000010" / "COMMIT").read_bytes()
    assert storage.read("checkpoint_000010", "COMMIT", limit=1000) == commit


def test_copy_is_below_experiment_and_run(folder):
    opened = []
    one = RunUpload(folder, "s3://bucket/runs?region=x", lambda uri: opened.append(uri) or stores.mock())
    one.copy()
    assert opened == ["s3://bucket/runs/default/RUN?region=x"]


def test_copied_checkpoint_loads(folder, tmp_path):
    save(folder, 10)
    (tmp_path / "store").mkdir()
    upload(folder, stores.local(tmp_path / "store")).copy()
    assert checkpoints.load(tmp_path / "store" / "checkpoint_000010", optional=True).number == 10


def test_commit_is_written_last_so_that_a_broken_copy_is_not_a_checkpoint(folder, tmp_path):
    save(folder, 10)
    (tmp_path / "store").mkdir()
    order = []
    storage = stores.faulty(tmp_path / "store", lambda verb, path: order.append(path) if verb == "move" else None)
    upload(folder, storage).copy()
    assert [path for path in order if "checkpoint" in path][-2:] == [
        "checkpoint_000010/manifest.json",
        "checkpoint_000010/COMMIT",
    ]


@pytest.mark.parametrize("name", ["weights.safetensors", "state.json", "manifest.json", "COMMIT"])
def test_copy_that_fails_leaves_no_commit_and_the_next_one_completes_it(folder, tmp_path, name):
    save(folder, 10)
    (tmp_path / "store").mkdir()
    broken = [name]
    storage = stores.faulty(
        tmp_path / "store",
        lambda verb, path: OSError("no route to host") if verb == "open" and broken and broken[0] in path else None,
    )
    one = upload(folder, storage)
    with pytest.raises(StorageError, match=rf"s3://bucket/runs/checkpoint_000010/{name}: no route to host"):
        one.copy()
    assert "checkpoint_000010/COMMIT" not in names(tmp_path / "store")
    broken.clear()
    one.copy()
    assert checkpoints.load(tmp_path / "store" / "checkpoint_000010", optional=True).number == 10


def test_second_copy_sends_only_what_changed(folder):
    save(folder, 10)
    storage = stores.mock()
    one = upload(folder, storage)
    one.copy()
    before = storage.moved
    with open(folder / "result.json", "a") as file:
        file.write('{"training_iteration": 2}\n')
    one.copy()
    assert storage.moved - before == (folder / "result.json").stat().st_size


def test_new_process_does_not_send_checkpoints_and_recordings_again(folder, tmp_path):
    save(folder, 10)
    (tmp_path / "store").mkdir()
    upload(folder, stores.local(tmp_path / "store")).copy()
    storage = stores.local(tmp_path / "store")
    upload(folder, storage).copy()
    assert storage.moved == sum((folder / name).stat().st_size for name in ("params.json", "result.json"))


def test_pruned_checkpoint_and_dropped_replay_leave_the_copy_too(folder, tmp_path):
    save(folder, 10)
    save(folder, 20)
    (tmp_path / "store").mkdir()
    one = upload(folder, stores.local(tmp_path / "store"))
    one.copy()
    retention.remove(folder / "checkpoint_000010")
    retention.drop_replay(folder / "checkpoint_000020")
    one.copy()
    assert not (tmp_path / "store" / "checkpoint_000010").exists()
    copied = checkpoints.load(tmp_path / "store" / "checkpoint_000020", optional=True)
    assert not copied.has("replay") and not (copied.path / "replay-0.safetensors").exists()


def test_checkpoint_that_only_the_copy_has_stays(folder, tmp_path):
    (tmp_path / "store").mkdir()
    save(tmp_path / "store", 5)
    save(folder, 10)
    upload(folder, stores.local(tmp_path / "store")).copy()
    assert [number for number, _ in retention.numbers(tmp_path / "store")] == [5, 10]


def test_checkpoint_of_the_same_number_takes_the_place_of_the_earlier_one(folder, tmp_path):
    (tmp_path / "store").mkdir()
    one = upload(folder, stores.local(tmp_path / "store"))
    save(folder, 10, replay=False)
    one.copy()
    save(folder, 10, replay=True)
    one.copy()
    assert checkpoints.load(tmp_path / "store" / "checkpoint_000010", optional=True).has("replay")


def test_checkpoint_that_is_removed_while_it_is_sent_is_sent_whole(folder, tmp_path):
    save(folder, 10)
    (tmp_path / "store").mkdir()

    def prune(verb, path):
        if verb == "open" and "weights" in path:
            retention.remove(folder / "checkpoint_000010")

    upload(folder, stores.faulty(tmp_path / "store", prune)).copy()
    assert checkpoints.load(tmp_path / "store" / "checkpoint_000010", optional=True).number == 10


def test_damaged_checkpoint_is_not_copied_and_named(folder, tmp_path, heard):
    path = save(folder, 10)
    data = bytearray((path / "weights.safetensors").read_bytes())
    data[-1] ^= 1
    (path / "weights.safetensors").write_bytes(data)
    (tmp_path / "store").mkdir()
    upload(folder, stores.local(tmp_path / "store")).copy()
    assert "checkpoint_000010/COMMIT" not in names(tmp_path / "store")
    assert [kind for kind, text in heard if "weights.safetensors: SHA-256 differs" in (text or "")] == ["warning"]


def test_best_of_the_copy_names_a_checkpoint_that_is_in_it(folder, tmp_path):
    save(folder, 10)
    best(folder, "checkpoint_000010")
    (tmp_path / "store").mkdir()
    one = upload(folder, stores.local(tmp_path / "store"))
    one.copy()
    retention.remove(folder / "checkpoint_000010")
    best(folder, "checkpoint_000020")  # which is still being written
    one.copy()
    assert retention.find(tmp_path / "store").name == "checkpoint_000010"


def uploads_of(folder, storage):
    return Uploads(upload(folder, storage), lambda: "Type: drl train --resume RUN")


def test_checkpoint_of_a_run_is_copied_while_it_goes_on(folder, tmp_path):
    (tmp_path / "store").mkdir()
    done = threading.Event()
    storage = stores.faulty(tmp_path / "store", lambda verb, path: done.set() if path.endswith("/COMMIT") else None)
    one = uploads_of(folder, storage)
    events.report("checkpoint", path=str(save(folder, 10)))
    assert done.wait(30)  # nothing but the event asked for a copy
    assert one.finish()
    one.close()


def test_end_of_a_run_waits_for_the_copy(folder):
    storage = stores.mock()
    one = uploads_of(folder, storage)
    save(folder, 10)
    assert one.finish()
    assert "COMMIT" in storage.entries("checkpoint_000010")
    one.close()


def test_storage_that_fails_at_the_end_is_a_warning_with_the_next_step(folder, tmp_path, heard):
    save(folder, 10)
    (tmp_path / "store").mkdir()
    one = uploads_of(folder, stores.faulty(tmp_path / "store", lambda verb, path: OSError("AccessDenied:\n no")))
    assert not one.finish()
    one.close()
    warnings = [text for kind, text in heard if kind == "warning"]
    assert "not copied: s3://bucket/runs/checkpoint_000010/COMMIT: AccessDenied: no" in warnings[0]
    assert warnings[-1].endswith(f"; the run itself is, in {folder}. Type: drl train --resume RUN")


def test_copy_after_a_failed_one_has_all_of_it(folder, tmp_path, heard):
    save(folder, 10)
    (tmp_path / "store").mkdir()
    broken = [True]
    one = uploads_of(folder, stores.faulty(tmp_path / "store", lambda *_: OSError("down") if broken else None))
    assert not one.finish()
    broken.clear()
    assert one.finish()
    one.close()
    assert checkpoints.load(tmp_path / "store" / "checkpoint_000010", optional=True).number == 10
