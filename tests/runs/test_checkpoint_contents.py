"""What a checkpoint holds, and what can be done with it."""

import fcntl
import json

import numpy as np
import pytest
from plain_policy import POLICY

from drl_cli import checkpoints
from drl_cli.errors import CheckpointError
from drl_cli.runs.checkpoint_contents import holding

PARAMS = {"run": "SAC", "env": "Pendulum-v1", "config": {}}
VERSIONS = {"drl": "0.1.0", "python": "3.11.7", "packages": {"numpy": "2.4.6", "tensorflow": "2.21.0", "ray": 3}}


@pytest.fixture
def run(pendulum_run):
    (pendulum_run / "params.json").write_text(json.dumps(PARAMS))
    (pendulum_run / "versions.json").write_text(json.dumps(VERSIONS))
    return pendulum_run


def test_best_checkpoint_of_a_run_is_told(run):
    held = holding(run)
    assert (held["algorithm"], held["env"], held["training_iteration"]) == ("SAC", "Pendulum-v1", 10)
    assert (held["path"], held["run"]) == (str(run / "checkpoint_000010"), str(run))
    assert held["counters"] == {"training_iteration": 10, "timesteps_total": 10_000}
    assert held["versions"] == {"drl": None, "python": "3.11.7", "numpy": "2.4.6", "tensorflow": "2.21.0"}
    sizes = {name: (run / "checkpoint_000010" / name).stat().st_size for name in ("state.json", "weights.safetensors")}
    assert {one["name"]: one["size"] for one in held["files"]} == sizes
    assert held["size"] == sum(sizes.values())
    assert holding(run, latest=True)["training_iteration"] == 20


def test_policy_and_arrays_are_told(run):
    held = holding(run)
    assert held["policy"]["obs"] == {
        "shape": [3],
        "dtype": "float32",
        "frames": 1,
        "mask": None,
        "low": [-1.0, -1.0, -8.0],
        "high": [1.0, 1.0, 8.0],
    }
    action = {"kind": "Box", "low": (-2.0,), "high": (2.0,), "normalize": True, "clip": True}
    assert (held["policy"]["distribution"], held["policy"]["action"]) == ("squashed_gaussian", action)
    assert (held["policy"]["memory"], held["policy"]["filter"], held["policy"]["weights"]) == (
        [],
        False,
        3 * 4 + 4 + 2 * 5,
    )
    (net,) = held["policy"]["nets"]
    assert (net["layers"], net["heads"], net["activations"]) == ([4], {"mean": 1, "log_std": 1}, ["tanh"])
    assert net["residual"] is False
    found = {one["name"]: (one["dtype"], one["shape"], one["bytes"]) for one in held["arrays"]}
    assert found["default_policy/policy/dense_0/kernel"] == ("float32", [3, 4], 48)
    assert len(found) == 6 and held["replay"] is None


def test_replay_is_told_in_rows_and_bytes(tmp_path):
    with checkpoints.Writer(tmp_path, 1) as writer:
        columns = {"obs": np.zeros((70, 3), np.float32), "link": np.zeros(70, np.int32)}
        checkpoints.write_arrays(writer.folder / "replay-0.safetensors", columns, compress=True)
        checkpoints.write_arrays(writer.folder / "replay-1.safetensors", columns)
        path = writer.commit({"algorithm": "SAC"})
    held = holding(path)
    size = sum((path / f"replay-{index}.safetensors").stat().st_size for index in (0, 1))
    assert held["replay"] == {"shards": 2, "rows": 140, "bytes": size}
    shapes = {(one["file"], one["name"]): one["shape"] for one in held["arrays"]}
    assert shapes[("replay-0.safetensors", "obs")] == [70, 3]


def test_newest_of_a_run_can_be_played_restored_and_resumed(run):
    possible = {name: one["possible"] for name, one in holding(run, latest=True)["can"].items()}
    assert possible == {"play": True, "restore": True, "resume": True}


def test_older_one_cannot_be_resumed_and_says_which_would(run):
    can = holding(run / "checkpoint_000010")["can"]
    assert can["restore"]["possible"]
    assert can["resume"] == {"possible": False, "why": "Its run would go on from checkpoint_000020."}


def test_run_that_goes_on_cannot_be_resumed(run):
    with open(run / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert holding(run, latest=True)["can"]["resume"]["why"] == "Its run goes on."


def test_checkpoint_outside_of_a_run_begins_a_new_one(pendulum_run):
    can = holding(pendulum_run)["can"]
    assert (can["play"]["possible"], can["restore"]["possible"], can["resume"]["possible"]) == (True, True, False)
    assert can["resume"]["why"].endswith("Start a new run from it: drl train --restore")


def test_policy_that_this_version_cannot_run_is_said(tmp_path, write_checkpoint):
    path = write_checkpoint(tmp_path, 1, policies={"default_policy": {**POLICY, "distribution": "astrology"}})
    held = holding(path)
    assert held["policy"] is None
    assert "distribution 'astrology'" in held["can"]["play"]["why"]
    assert not held["can"]["restore"]["possible"]


def test_weights_that_are_missing_are_named(tmp_path, write_checkpoint):
    net = {**POLICY["nets"][0], "layers": [{"units": 4, "activation": "tanh", "layer_norm": True}]}
    path = write_checkpoint(tmp_path, 1, policies={"default_policy": {**POLICY, "nets": [net]}})
    assert holding(path)["can"]["play"]["why"] == "Its weights lack policy/dense_0/norm_scale."


def test_damage_is_an_error_that_names_the_file(run):
    path = run / "checkpoint_000010" / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(CheckpointError, match=r"weights.safetensors: SHA-256 differs"):
        holding(run)
