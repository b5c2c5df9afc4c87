"""Manifests whose facts are not what this program writes, with hashes that are right all the same."""

import json

import pytest
from checkpoint_maker import save

from drl_cli import checkpoints
from drl_cli.checkpoints.writer import commit_text
from drl_cli.errors import CheckpointError


def rewritten(path, change):
    """Change the facts of a checkpoint by ``change(facts)`` and make its COMMIT fit again; returns its path."""
    manifest = json.loads((path / "manifest.json").read_text())
    change(manifest["facts"])
    text = json.dumps(manifest).encode("ascii")
    (path / "manifest.json").write_bytes(text)
    (path / "COMMIT").write_bytes(commit_text(text))
    return path


@pytest.mark.parametrize(
    ("name", "value", "takes"),
    [
        ("counters", "many", "an object"),
        ("counters", {"training_iteration": "10"}, "a whole number"),
        ("counters", {"timesteps_total": 1.5}, "a whole number"),
        ("counters", {"training_iteration": True}, "a whole number"),
        ("counters", {"training_iteration": -1}, "a whole number"),
        ("counters", {"timesteps_total": 2**63}, "a whole number"),
        ("counters", {"time_total_s": None}, "a number"),
        ("score", {"episode_reward_mean": "12"}, "a number or null"),
        ("algorithm", ["SAC"], "a string"),
        ("env", 3, "a string"),
        ("env_config", [], "an object or null"),
        ("horizon", 0, "a whole number of 1 or more, or null"),
        ("spaces", {"obs": []}, "an object"),
        ("spaces", {"obs": {"shape": 3}}, "a list of whole numbers"),
        ("spaces", {"obs": {"shape": [3, -1]}}, "a list of whole numbers"),
        ("spaces", {"action": []}, "an object"),
        ("spaces", {"action": {"n": "2"}}, "a whole number"),
        ("config", "gamma: 0.9", "an object or null"),
        ("seed", "7", "a whole number or null"),
    ],
)
def test_fact_of_another_type_is_refused_by_its_name(tmp_path, name, value, takes):
    path = rewritten(save(tmp_path), lambda facts: facts.update({name: value}))
    with pytest.raises(CheckpointError) as caught:
        checkpoints.load(path)
    told = str(caught.value)
    assert told.startswith(f"{path}/manifest.json: facts: {name}") and told.endswith(f"; it takes {takes}")


def test_least_and_largest_counters_are_read(tmp_path):
    counters = {"training_iteration": 0, "timesteps_total": 2**63 - 1}
    assert (
        checkpoints.load(rewritten(save(tmp_path), lambda f: f.update(counters=counters))).facts["counters"] == counters
    )


def test_fact_that_is_missing_is_named_by_whoever_needs_it(tmp_path):
    found = checkpoints.load(rewritten(save(tmp_path), lambda facts: facts.pop("counters")))
    with pytest.raises(CheckpointError, match=r"manifest\.json: facts: env is missing"):
        found.require_facts()
