"""Damage is found wherever it is, and named."""

import pytest
from plain_policy import POLICY

from drl_cli.checks import verify
from drl_cli.errors import CheckpointError, InputError
from drl_cli.runs import pack


def _changed(path):
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def test_run_is_all_of_its_checkpoints(pendulum_run):
    assert [path.name for path in verify.places(pendulum_run)] == ["checkpoint_000010", "checkpoint_000020"]
    verdicts = [verify.verify(path) for path in verify.places(pendulum_run)]
    assert [(one.damage, one.files, one.note) for one in verdicts] == [(None, 2, None)] * 2


def test_checkpoint_or_a_file_in_it_is_that_one_and_with_all_its_run(pendulum_run):
    one = pendulum_run / "checkpoint_000020"
    assert verify.places(one) == verify.places(one / "state.json") == [one]
    assert [path.name for path in verify.places(one, every=True)] == ["checkpoint_000010", "checkpoint_000020"]


def test_folder_of_runs_is_looked_at_with_all_alone(pendulum_run):
    with pytest.raises(CheckpointError, match="holds 1 run. Name one, or check all of them with --all"):
        verify.places(pendulum_run.parent)
    assert [path.name for path in verify.places(pendulum_run.parent, every=True)] == [
        "checkpoint_000010",
        "checkpoint_000020",
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("weights.safetensors", "SHA-256 differs from the manifest"),
        ("state.json", "SHA-256 differs from the manifest"),
        ("manifest.json", "COMMIT: does not fit manifest.json"),
        ("COMMIT", "COMMIT: does not fit manifest.json"),
    ],
)
def test_damaged_file_is_named(pendulum_run, name, text):
    _changed(pendulum_run / "checkpoint_000010" / name)
    damage = verify.verify(pendulum_run / "checkpoint_000010").damage
    assert text in damage and damage.startswith(str(pendulum_run / "checkpoint_000010"))


def test_weights_that_do_not_fit_their_policy_are_damage(tmp_path, write_checkpoint):
    net = {**POLICY["nets"][0], "layers": [{"units": 5, "activation": "tanh", "layer_norm": False}]}
    path = write_checkpoint(tmp_path, 1, policies={"default_policy": {**POLICY, "nets": [net]}})
    assert "dense_0/kernel: its policy needs float32 (3, 5), found float32 (3, 4)" in verify.verify(path).damage


def test_network_that_is_not_registered_here_is_no_damage(pendulum_run, monkeypatch):
    def unknown(_):
        raise InputError("No model is registered as 'mine'.")

    monkeypatch.setattr(verify.policy_from_manifest, "policy_spec", unknown)
    found = verify.verify(pendulum_run / "checkpoint_000010")
    assert (found.damage, found.note) == (
        None,
        "its weights were not checked against its policy: No model is registered as 'mine'.",
    )


def test_archive_is_read_to_its_end(pendulum_run, tmp_path):
    pack.pack(pendulum_run / "checkpoint_000010", tmp_path / "a.tar.gz")
    assert verify.verify(verify.places(tmp_path / "a.tar.gz")[0]).note == "checkpoint checkpoint_000010"
    whole = (tmp_path / "a.tar.gz").read_bytes()
    (tmp_path / "a.tar.gz").write_bytes(whole[: len(whole) // 2])
    assert "a.tar.gz: is damaged" in verify.verify(tmp_path / "a.tar.gz").damage


def test_best_that_is_not_there_is_damage_of_the_run(pendulum_run):
    assert verify.best_damage(pendulum_run) is None
    (pendulum_run / "best.json").write_text('{"checkpoint": "checkpoint_000015"}')
    assert verify.best_damage(pendulum_run).endswith(
        "best.json: names checkpoint_000015, which does not exist. Use --latest for the newest"
    )
    (pendulum_run / "best.json").write_text("{")
    assert "best.json: is not strict JSON" in verify.best_damage(pendulum_run)
