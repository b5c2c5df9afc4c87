import json
import os
import subprocess
import sys

import numpy as np
import pytest
from checkpoint_maker import FACTS, read_everything, save

from drl_cli import checkpoints
from drl_cli.checkpoints import files
from drl_cli.checkpoints.writer import commit_text
from drl_cli.errors import CheckpointError
from drl_cli.runs import retention


def test_save_then_load_returns_what_was_stored(tmp_path):
    path = save(tmp_path)
    assert path == tmp_path / "checkpoint_000010"
    assert sorted(os.listdir(path)) == [
        "COMMIT",
        "manifest.json",
        "replay-0.safetensors",
        "state.json",
        "weights.safetensors",
        "workers.safetensors",
    ]
    found = checkpoints.load(path)
    assert (found.number, found.facts) == (10, FACTS)
    assert found.arrays("weights")["steps"].item() == 10
    assert found.json("state") == {"iteration": 10, "rng": [1, 2**70, "x"]}
    assert found.arrays("workers") == {}
    assert found.has("replay") and found.files("replay") == ["replay-0"]
    assert found.arrays("replay-0")["obs"].shape == (200, 8)
    assert os.listdir(tmp_path) == ["checkpoint_000010"]


def test_save_writes_a_commit_with_the_hash_of_the_manifest(tmp_path):
    path = save(tmp_path)
    digest, size, name = (path / "COMMIT").read_text().split()
    assert len(digest) == 64 and int(size) == (path / "manifest.json").stat().st_size and name == "manifest.json"


def test_writer_left_without_commit_leaves_nothing(tmp_path):
    with pytest.raises(KeyError), checkpoints.Writer(tmp_path, 3) as writer:
        checkpoints.write_json(writer.folder / "state.json", {})
        raise KeyError
    assert os.listdir(tmp_path) == []


def test_writer_temporary_folder_is_private(tmp_path):
    with checkpoints.Writer(tmp_path, 3) as writer:
        assert writer.folder.name.startswith(f".tmp-000003-{os.getpid()}-")
        assert writer.folder.stat().st_mode & 0o777 == 0o700


def test_commit_gives_the_folder_the_mode_that_the_umask_leaves(tmp_path):
    before = os.umask(0o027)
    try:
        assert save(tmp_path).stat().st_mode & 0o777 == 0o750
        assert os.umask(0o027) == 0o027  # asked for by setting it, and put back
    finally:
        os.umask(before)


def test_commit_of_a_manifest_that_fills_its_limit_is_read_and_of_a_longer_one_refused(tmp_path):
    size = (save(tmp_path, facts={"x": ""}) / "manifest.json").stat().st_size
    full = save(tmp_path, facts={"x": "x" * (1_000_000 - size)})
    assert (full / "manifest.json").stat().st_size == 1_000_000 and checkpoints.load(full).number == 10
    with pytest.raises(ValueError, match=r"the manifest would have 1000001 bytes \(1000000 allowed\)"):
        save(tmp_path, facts={"x": "x" * (1_000_001 - size)})


def test_commit_of_a_file_that_does_not_belong_is_refused(tmp_path):
    with checkpoints.Writer(tmp_path, 3) as writer:
        (writer.folder / "params.pkl").write_bytes(b"")
        with pytest.raises(ValueError, match="params.pkl is not a file"):
            writer.commit({})


def test_commit_of_a_link_is_refused(tmp_path):
    (tmp_path / "elsewhere.json").write_bytes(b"{}")
    with checkpoints.Writer(tmp_path, 3) as writer:
        (writer.folder / "state.json").symlink_to(tmp_path / "elsewhere.json")
        with pytest.raises(OSError, match="symbolic links"):
            writer.commit({})


@pytest.mark.parametrize("facts", [{"x": float("nan")}, {"x": float("inf")}, {"text": "x" * 1_000_001}])
def test_commit_of_facts_that_are_not_strict_json_is_refused(tmp_path, facts):
    with checkpoints.Writer(tmp_path, 3) as writer, pytest.raises(ValueError):
        writer.commit(facts)
    assert os.listdir(tmp_path) == []


def test_commit_of_the_same_number_replaces_the_earlier_one(tmp_path):
    assert not checkpoints.load(save(tmp_path, replay=False)).has("replay")
    assert checkpoints.load(save(tmp_path)).has("replay")
    assert os.listdir(tmp_path) == ["checkpoint_000010"]


def test_json_stores_numpy_scalars_and_refuses_objects(tmp_path):
    checkpoints.write_json(tmp_path / "state.json", {"a": np.float32(0.5), "b": np.int64(3), "c": np.bool_(True)})
    assert json.loads((tmp_path / "state.json").read_text()) == {"a": 0.5, "b": 3, "c": True}
    with pytest.raises(TypeError, match="a set cannot be stored"):
        checkpoints.write_json(tmp_path / "other.json", {"a": {1}})


def test_json_is_sorted_indented_ascii_with_an_end_of_line(tmp_path):
    checkpoints.write_json(tmp_path / "state.json", {"b": [1, "é"], "a": {}})
    assert (tmp_path / "state.json").read_bytes() == b'{\n "a": {},\n "b": [\n  1,\n  "\\u00e9"\n ]\n}\n'


def test_json_that_fills_its_limit_is_read_and_a_byte_more_is_refused(tmp_path, monkeypatch):
    with checkpoints.Writer(tmp_path, 1) as writer:
        (writer.folder / "state.json").write_bytes(b"[1, 2]")
        found = checkpoints.load(writer.commit({}))
    monkeypatch.setattr(files, "MAX_JSON", 6)
    assert found.json("state") == [1, 2]
    monkeypatch.setattr(files, "MAX_JSON", 5)
    with pytest.raises(CheckpointError, match="has 6 bytes, more than the 5 that are allowed"):
        found.json("state")


def test_checkpoint_of_iteration_zero_is_read(tmp_path):
    assert checkpoints.load(save(tmp_path, 0)).number == 0


def test_empty_file_is_refused_when_it_is_read(tmp_path):
    with checkpoints.Writer(tmp_path, 1) as writer:
        (writer.folder / "state.json").write_bytes(b"")
        found = checkpoints.load(writer.commit({}))
    with pytest.raises(CheckpointError, match=r"state\.json: is not strict JSON"):
        found.json("state")


def test_arrays_finite_refuses_nan_and_names_the_array(tmp_path):
    with checkpoints.Writer(tmp_path, 1) as writer:
        checkpoints.write_arrays(writer.folder / "weights.safetensors", {"q/kernel": np.array([1.0, np.nan])})
        found = checkpoints.load(writer.commit({}))
    assert np.isnan(found.arrays("weights")["q/kernel"][1])
    with pytest.raises(CheckpointError, match="q/kernel holds values that are not finite"):
        found.arrays("weights", finite=True)


def test_missing_part_is_named(tmp_path):
    found = checkpoints.load(save(tmp_path, replay=False))
    with pytest.raises(CheckpointError, match="has no replay-0.safetensors"):
        found.arrays("replay-0")


def test_load_of_a_newer_format_says_so(tmp_path):
    path = save(tmp_path)
    reseal(path, format=7)
    with pytest.raises(CheckpointError, match=r"format 7, this drl reads up to 1.*upgrade drl"):
        checkpoints.load(path)


def reseal(path, **changes):
    """Change the manifest and make COMMIT fit again, as an attacker would."""
    data = json.loads((path / "manifest.json").read_text())
    data.update(changes)
    text = json.dumps(data).encode()
    (path / "manifest.json").write_bytes(text)
    (path / "COMMIT").write_bytes(commit_text(text))


@pytest.mark.parametrize("name", ["../outside.json", "/etc/passwd", "params.pkl", "manifest.json", "replay-0.npz", ""])
def test_load_of_a_manifest_that_names_other_files_is_refused(tmp_path, name):
    path = save(tmp_path)
    reseal(path, files={name: {"size": 1, "sha256": "0" * 64, "part": "weights"}})
    with pytest.raises(CheckpointError, match="not a file that a checkpoint may have"):
        checkpoints.load(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 0},
        {"format": True},
        {"format": "1"},
        {"files": []},
        {"facts": None},
        {"number": -1},
        {"number": 1.5},
        {"optional": ["weights"]},
        {"files": {"state.json": {"size": "1", "sha256": "", "part": "state"}}},
        {"files": {"state.json": {"size": -1, "sha256": "", "part": "state"}}},
        {"files": {"state.json": {"size": 1, "sha256": 0, "part": "state"}}},
        {"files": {"state.json": {"size": 1, "sha256": "", "part": "state", "more": 1}}},
        {"files": {"state.json": {"size": 1, "sha256": "", "part": "replay"}}},
        {"files": {"state.json": []}},
        {"more": 1},
    ],
)
def test_load_of_a_malformed_manifest_is_refused(tmp_path, changes):
    path = save(tmp_path)
    reseal(path, **changes)
    with pytest.raises(CheckpointError, match=r"manifest\.json: "):
        checkpoints.load(path)


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"a": NaN}', '{"a": 1e999}', '{"a": 1, "a": 1}', "[" * 200_000, "\x00", ""]
)
def test_load_of_a_manifest_that_is_not_strict_json_is_refused(tmp_path, text):
    path = save(tmp_path)
    (path / "manifest.json").write_text(text)
    (path / "COMMIT").write_bytes(commit_text(text.encode()))
    with pytest.raises(CheckpointError, match=r"manifest\.json: "):
        checkpoints.load(path)


def test_load_of_a_pickled_checkpoint_explains_the_refusal(tmp_path):
    (tmp_path / "checkpoint-10").write_bytes(b"\x80\x04.")
    with pytest.raises(CheckpointError, match="RLlib's pickled data"):
        checkpoints.load(tmp_path)


def test_load_of_a_foreign_folder_a_file_or_nothing_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    for path, reason in [
        (tmp_path, "manifest.json is missing"),
        (tmp_path / "notes.txt", "is not a folder"),
        (tmp_path / "gone", "no such folder"),
        ("nul\0", "cannot be read"),
    ]:
        with pytest.raises(CheckpointError, match=reason):
            checkpoints.load(path)


def test_load_of_a_renamed_checkpoint_folder_is_refused_where_the_number_lies(tmp_path):
    path = save(tmp_path)
    path.rename(tmp_path / "checkpoint_000099")
    with pytest.raises(CheckpointError, match="manifest says number 10"):
        checkpoints.load(tmp_path / "checkpoint_000099")
    (tmp_path / "checkpoint_000099").rename(tmp_path / "my lander 🙂")
    assert checkpoints.load(tmp_path / "my lander 🙂").number == 10


def test_dropped_replay_differs_from_a_missing_file(tmp_path):
    path = save(tmp_path)
    assert retention.drop_replay(path) is True
    assert not (path / "replay-0.safetensors").exists()
    assert checkpoints.load(path).has("replay") is False
    assert sorted(read_everything(path)) == ["state", "weights", "workers"]
    assert retention.drop_replay(path) is False
    other = save(tmp_path, number=11)
    (other / "replay-0.safetensors").unlink()
    with pytest.raises(CheckpointError, match="replay-0.safetensors: the file is missing"):
        checkpoints.load(other)


def test_dropped_replay_interrupted_before_unlink_still_counts_as_dropped(tmp_path):
    path, data = save(tmp_path), b""
    data = (path / "replay-0.safetensors").read_bytes()
    retention.drop_replay(path)
    (path / "replay-0.safetensors").write_bytes(data[:10])
    assert checkpoints.load(path).has("replay") is False
    assert retention.drop_replay(path) is True
    assert not (path / "replay-0.safetensors").exists()


def test_marker_of_another_checkpoint_is_refused(tmp_path):
    first, second = save(tmp_path, 1), save(tmp_path, 2)
    retention.drop_replay(first)
    (first / "replay.dropped").rename(second / "replay.dropped")
    with pytest.raises(CheckpointError, match="replay.dropped: does not fit"):
        checkpoints.load(second)


def test_checkpoint_imports_nothing_heavy():
    code = "import sys, drl_cli.checkpoints; print([n for n in ('tensorflow', 'ray', 'gymnasium') if n in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
