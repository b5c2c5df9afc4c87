"""Where each value came from: collected, recorded, explained."""

import json

import pytest

from drl_cli.errors import InputError
from drl_cli.experiments import open_run, provenance, run_records, spec
from drl_cli.extras import load

OLD = """
mine:
  run: SAC
  env: Pendulum-v0
  stop: {timesteps_total: 2000}
  config:
    sample_batch_size: 4
    num_workers: 0
    optimization: {actor_learning_rate: 0.001}
    replay_buffer_config: {capacity: 50000}
"""


@pytest.fixture
def made(tmp_path):
    path = tmp_path / "old.yaml"
    path.write_text(OLD)
    (found,) = spec.from_file(str(path), {"set": ["gamma=0.98"], "local_dir": str(tmp_path)})
    return found


def test_places_are_lines_flags_and_other_spellings(made, tmp_path):
    file = tmp_path / "old.yaml"
    assert made.origins["run"] == f"{file}:3"
    assert made.origins["stop.timesteps_total"] == f"{file}:5"
    assert made.origins["config.gamma"] == "-s"
    assert made.origins["config.rollout_fragment_length"] == f"{file}:7, as sample_batch_size"
    assert made.origins["config.optimization.actor_learning_rate"] == f"{file}:9"
    assert made.origins["config.buffer_size"] == f"{file}:10, as replay_buffer_config.capacity"
    assert "config.tau" not in made.origins


def rows_of(made):
    told = provenance.explained(run_records.params(made), made.origins, made.config)
    return {row["key"]: row for row in told["rows"]}


def test_explained_tells_defaults_what_was_filled_in_and_what_null_stands_for(made):
    rows = rows_of(made)
    assert rows["config.gamma"]["from"] == "-s" and rows["config.gamma"]["value"] == 0.98
    assert rows["config.tau"]["from"] is None and rows["config.tau"]["rllib"] == 0.005
    assert rows["config.seed"]["from"] == provenance.DRAWN
    intensity = rows["config.training_intensity"]
    assert (intensity["value"], intensity["from"]) == (32.0, "as in RLlib")
    assert rows["config.min_iter_time_s"]["stands_for"] == 0.0
    assert "config.env" not in rows


def test_every_key_of_the_schema_is_explained(made):
    keys = {f"config.{row['key']}" for row in load("drl_cli.config.key_description").keys(type(made.config))}
    assert keys - {"config.env"} == {key for key in rows_of(made) if key.startswith("config.")}


def test_keys_of_each_policy_are_explained_with_the_place_of_the_block(tmp_path):
    own = "{quick: {lr: 0.001, model: {fcnet_hiddens: [8]}}, plain: null}"
    flags = {"run": "PPO", "env": "CartPole-v1", "set": ["multiagent.copies=2", f"multiagent.policies={own}"]}
    flags["set"].append("multiagent.policy_mapping={'0': quick, '*': plain}")
    made = spec.from_flags({**flags, "local_dir": str(tmp_path)})
    rows = {key: row for key, row in rows_of(made).items() if key.startswith("config.multiagent.policies.")}
    assert {key: (row["value"], row["from"]) for key, row in rows.items()} == {
        "config.multiagent.policies.quick.lr": (0.001, "-s"),
        "config.multiagent.policies.quick.model.fcnet_hiddens": ([8], "-s"),
    }


def test_run_without_a_record_tells_what_differs_as_given(made):
    told = provenance.explained(run_records.params(made), None)
    rows = {row["key"]: row["from"] for row in told["rows"]}
    assert rows["config.gamma"] == provenance.UNRECORDED and rows["config.tau"] is None


def test_resumed_run_keeps_its_record_and_adds_flags():
    before = {"config.lr": "a.yaml:3", "config.num_workers": "a.yaml:4"}
    places = {"config.lr": "/r/params.json:9", "config.num_workers": "-s"}
    assert open_run.joined_origins(before, places) == {"config.lr": "a.yaml:3", "config.num_workers": "-s"}


def test_run_is_explained_from_its_folder(made, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "params.json").write_text(json.dumps(run_records.params(made)))
    (folder / "provenance.json").write_text(json.dumps({"from": made.origins}))
    assert provenance.find(str(folder)) == ("run", folder)
    (told,) = provenance.of_run(folder)
    assert (told["run"], told["env"], told["env_asked"]) == ("SAC", "Pendulum-v1", "Pendulum-v0")
    assert {row["key"]: row["from"] for row in told["rows"]}["config.gamma"] == "-s"


def test_target_that_is_neither_run_nor_file_is_refused_with_the_nearest(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path))
    with pytest.raises(InputError, match="neither a run .* Did you mean 'cartpole-ppo'"):
        provenance.find("cartpole-pppo")
    assert provenance.find("cartpole-ppo")[0] == "file"
