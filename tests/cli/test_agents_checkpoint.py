"""``drl checkpoint info``, ``verify`` and ``export`` of a checkpoint with several policies."""

import json

import pytest
from agents_checkpoint import SPACES, agents_setup, write_pair

from drl_cli import checkpoints, cli
from drl_cli.checks.verify import verify
from drl_cli.errors import CheckpointError
from drl_cli.policies.numpy_policy import policies_from_checkpoint, policy_from_checkpoint


def typed(capsys, *words, code=0):
    """Run ``drl checkpoint`` in this process; return (stdout, stderr)."""
    assert cli.main(["checkpoint", *map(str, words)]) == code
    return capsys.readouterr()


def test_policies_of_a_checkpoint_each_have_their_own_weights(tmp_path):
    found = checkpoints.load(write_pair(tmp_path))
    policies = policies_from_checkpoint(found)
    stored = found.arrays("weights")
    assert list(policies) == ["a", "b"]
    for name, policy in policies.items():
        assert (policy.weights["policy/dense_0/kernel"] == stored[f"{name}/policy/dense_0/kernel"]).all()
    with pytest.raises(CheckpointError, match=r"holds several policies \(a, b\), and one is needed"):
        policy_from_checkpoint(found)


def test_info_lists_each_policy_with_its_agents_and_nets(tmp_path, capsys):
    path = write_pair(tmp_path, policy_of={"0": "a", "1": "b", "2": "b"})
    lines = typed(capsys, "info", path)[0].splitlines()
    assert "id        a, acts for agent 0" in lines and "id        b, acts for agents 1, 2" in lines
    assert sum(line.startswith("net ") for line in lines) == 2
    held = json.loads(typed(capsys, "info", path, "--json")[0])
    assert held["policy"] is None and held["can"]["play"] == {"possible": True, "why": None}
    assert [(one["agents"], one["trained"]) for one in held["policies"].values()] == [(["0"], True), (["1", "2"], True)]


def test_info_of_a_team_names_its_environment_and_its_agents(tmp_path, capsys, write_checkpoint):
    spaces = {**SPACES, "team": {"agents": ["a_0", "a_1"]}}
    inside = {"env": "mpe2/simple_spread-v3", "env_config": {}}
    path = write_checkpoint(tmp_path, 10, env="drl/Team-v1", env_config=inside, spaces=spaces)
    lines = typed(capsys, "info", path)[0].splitlines()
    assert (
        lines[0].startswith("SAC on mpe2/simple_spread-v3, ") and "team      agents a_0, a_1, which act as one" in lines
    )
    held = json.loads(typed(capsys, "info", path, "--json")[0])
    assert held["policy"]["team"] == ["a_0", "a_1"]


def test_verify_looks_at_the_weights_of_every_policy(tmp_path):
    whole = write_pair(tmp_path / "whole")
    assert verify(whole).damage is None
    described = checkpoints.load(whole).facts["policies"]["a"]
    facts = {"agents": agents_setup({"0": "a", "1": "c"}), "policies": {"a": described, "c": described}}
    assert "has no array named 'c/policy/" in verify(write_pair(tmp_path / "other", **facts)).damage


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("policies", {}, "agents.policies is '{}'; it takes an object of policies"),
        ("policies", {"../x": {}}, "agents.policies is '../x'; it takes ids of policies"),
        ("mapping", {"0": "a"}, "agents.mapping.1 is 'None'; it takes a policy that may act for the agent"),
        ("mapping", {"0": "b", "1": "b"}, "agents.mapping.0 is 'b'"),
        ("mapping", None, "agents.mapping is 'None'; it takes an object where mapping_fn is null"),
        ("count", 0, "agents.count is '0'; it takes a whole number of 1 or more"),
        ("spaces", {"0": {}}, "agents.spaces.0.obs is missing"),
    ],
)
def test_facts_about_agents_that_cannot_be_are_refused(tmp_path, key, value, said):
    path = write_pair(tmp_path, agents=agents_setup({"0": "a", "1": "b"}) | {key: value})
    with pytest.raises(CheckpointError) as refused:
        checkpoints.load(path)
    assert said in str(refused.value)


def test_export_writes_every_policy_into_a_folder_or_the_chosen_one(tmp_path, capsys):
    path = write_pair(tmp_path / "run")
    folder = tmp_path / "policies"
    lines = typed(capsys, "export", path, "--format", "onnx", "-o", folder, "--json")[0].splitlines()
    assert [json.loads(line)["policy"] for line in lines] == ["a", "b"]
    assert sorted(one.name for one in folder.iterdir()) == ["a.onnx", "a.onnx.json", "b.onnx", "b.onnx.json"]
    about = json.loads((folder / "b.onnx.json").read_text())
    assert about["policy"] == "b" and about["action_space"]["n"] == 2
    typed(capsys, "export", path, "--policy", "b", "-q", "-o", tmp_path / "one.onnx")
    assert (tmp_path / "one.onnx").read_bytes() == (folder / "b.onnx").read_bytes()


def test_export_of_an_unknown_policy_or_of_several_into_one_file_is_refused(tmp_path, capsys):
    path = write_pair(tmp_path / "run", policy_of={"0": "good", "1": "adversary"})
    err = typed(capsys, "export", path, "--policy", "godo", "-o", tmp_path / "x.onnx", code=2)[1]
    assert "--policy: the checkpoint has no policy 'godo'. Did you mean 'good'?" in err
    err = typed(capsys, "export", path, "-o", tmp_path / "x.onnx", code=2)[1]
    assert "several policies (adversary, good). Choose one with --policy" in " ".join(err.split())
    assert not list(tmp_path.glob("x*"))
