"""Manifests whose facts are not what this program writes, with hashes that are right all the same."""

import json

import pytest
from agents_checkpoint import agents_setup
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


SELF_PLAY = {"learner": "a", "slots": ["b"], "scripted": [], "own_share": 0.5, "evaluate_against": []}


def with_agents(tmp_path, change):
    """A checkpoint whose facts have agents "0" and "1" of the policies a and b, changed by ``change(agents)``."""
    agents = json.loads(json.dumps(agents_setup({"0": "a", "1": "b"})))  # no part of it twice
    change(agents)
    return rewritten(save(tmp_path), lambda facts: facts.update(agents=agents))


@pytest.mark.parametrize(
    "change", [{}, {"self_play": SELF_PLAY, "mapping": None}, {"mapping": None, "mapping_fn": "mine"}]
)
def test_agents_that_are_whole_are_read_as_they_were_written(tmp_path, change):
    path = with_agents(tmp_path, lambda agents: agents.update(change))
    assert checkpoints.load(path).facts["agents"] == agents_setup({"0": "a", "1": "b"}) | change


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda agents: agents.pop("kind"), "agents.kind is missing"),
        (lambda agents: agents["spaces"]["1"].pop("obs"), "agents.spaces.1.obs is missing"),
        (lambda agents: agents["policies"]["b"].pop("config"), "agents.policies.b.config is missing"),
        (lambda agents: agents.update(count=0), "agents.count is '0'; it takes a whole number of 1 or more"),
        (lambda agents: agents.update(policies={}), "agents.policies is '{}'; it takes an object of policies"),
        (lambda agents: agents["policies"].update({"b c": {}}), "it takes ids of policies"),
        (lambda agents: agents["policies"]["a"]["agents"].append("2"), "it takes agents of agents.spaces"),
        (lambda agents: agents["mapping"].update({"1": "a"}), "it takes a policy that may act for the agent"),
        (lambda agents: agents["mapping"].pop("1"), "it takes a policy that may act for the agent"),
        (lambda agents: agents.update(mapping=None), "it takes an object where mapping_fn is null"),
        (lambda agents: agents.update(self_play=SELF_PLAY | {"slots": ["c"]}), "it takes ids of agents.policies"),
        (lambda agents: agents.update(self_play={"learner": "a"}), "agents.self_play.slots is missing"),
    ],
)
def test_agents_that_do_not_fit_together_are_refused(tmp_path, change, told):
    with pytest.raises(CheckpointError) as caught:
        checkpoints.load(with_agents(tmp_path, change))
    assert told in str(caught.value)
