"""The JSON Schema of tuned files: draft 7, up to date, accepts what drl accepts, and catches what a person gets wrong."""

import copy
import json
from pathlib import Path

import jsonschema
import pytest

from drl_cli.config.assignments import load_file
from drl_cli.experiments import file_schema, tuned_files

KEPT = tuned_files.shipped_folder() / "schema.json"
LINE = "# yaml-language-server: $schema=schema.json\n"
GOOD = {
    "mine": {
        "run": "SAC",
        "env": "Pendulum-v1",
        "stop": {"timesteps_total": 1000},
        "checkpoint_freq": 1,
        "config": {
            "gamma": 0.98,
            "train_batch_size": 1e3,
            "sample_batch_size": 8,  # RLlib's earlier spelling
            "Q_model": {"fcnet_hiddens": [64, 64], "fcnet_activation": "relu"},
            "optimization": {"actor_learning_rate": {"loguniform": [1e-4, 1e-2]}},
            "n_step": {"tune.choice": [1, 3]},
            "multiagent": {"policies": ["a", "b"]},
        },
    }
}
CONFIG = ("mine", "config")
WRONG = [
    (("mine",), 3),
    (("mine",), []),
    (("mine", "run"), "SACC"),
    (("mine", "run"), 1),
    (("mine", "env"), 1),
    (("mine", "enviroment"), "Pendulum-v1"),
    (("mine", "stop"), 100),
    (("mine", "checkpoint_freq"), -1),
    (("mine", "checkpoint_freq"), 1.5),
    (("mine", "checkpoint_freq"), "often"),
    (("mine", "checkpoint_at_end"), "yes"),
    (("mine", "keep_checkpoints_num"), 0),
    (("mine", "num_samples"), 0),
    (("mine", "num_samples"), 100_000),
    (("mine", "export_formats"), ["h5"]),
    (("mine", "loggers"), [1]),
    (CONFIG, "SAC"),
    ((*CONFIG, "gama"), 0.9),
    ((*CONFIG, "gamma"), 1.1),
    ((*CONFIG, "gamma"), "0.9"),
    ((*CONFIG, "gamma"), True),
    ((*CONFIG, "train_batch_size"), 0),
    ((*CONFIG, "train_batch_size"), 1.5),
    ((*CONFIG, "num_workers"), -1),
    ((*CONFIG, "clip_param"), 0.2),  # a key of PPO
    ((*CONFIG, "Q_model"), [64, 64]),
    ((*CONFIG, "Q_model", "fcnet_hiddens"), 64),
    ((*CONFIG, "Q_model", "fcnet_hiddens"), [0]),
    ((*CONFIG, "Q_model", "fcnet_activation"), "leaky"),
    ((*CONFIG, "Q_model", "layers"), 2),
    ((*CONFIG, "optimization", "actor_learning_rate"), -1),
    ((*CONFIG, "optimization", "learning_rate"), 1e-3),
    ((*CONFIG, "exploration_config"), {"type": "Greedy"}),
    ((*CONFIG, "seed"), -1),
    ((*CONFIG, "clip_rewards"), [1]),
    ((*CONFIG, "n_step"), {"uniformly": [1, 3]}),
    ((*CONFIG, "n_step"), {"choice": 3}),
]


@pytest.fixture(scope="module")
def made():
    """The schema of all algorithms."""
    return file_schema.of_files()


@pytest.fixture(scope="module")
def validator(made):
    jsonschema.Draft7Validator.check_schema(made)
    return jsonschema.Draft7Validator(made)


def test_schema_that_stands_beside_the_tuned_files_is_that_of_the_declared_keys(made):
    assert json.loads(KEPT.read_text("utf-8")) == made, "Type: drl schema > tuned_examples/schema.json"


def test_every_tuned_file_names_the_schema_and_is_valid(validator):
    wrong = {}
    for name, path in tuned_files.shipped().items():
        assert path.read_text("utf-8").startswith(LINE), f"{name}: its first line must be {LINE}"
        wrong[name] = [error.message for error in validator.iter_errors(load_file(str(path))[0])]
    assert len(wrong) > 70 and not any(wrong.values())


def test_line_for_editors_is_no_part_of_what_a_tuned_file_says():
    assert tuned_files.find("cartpole-ppo").about.startswith("PPO balances the pole")


def test_schema_accepts_other_spellings_and_values_to_search_over(validator):
    assert [error.message for error in validator.iter_errors(GOOD)] == []


@pytest.mark.parametrize("path, value", WRONG)
def test_schema_catches_a_wrong_file(validator, path, value):
    wrong = copy.deepcopy(GOOD)
    inner = wrong
    for name in path[:-1]:
        inner = inner.setdefault(name, {})
    inner[path[-1]] = value
    assert not validator.is_valid(wrong)


def test_schema_of_one_algorithm_refuses_the_others():
    validator = jsonschema.Draft7Validator(file_schema.of_files(["sac"]))
    assert validator.is_valid(GOOD) and not validator.is_valid({"mine": {**GOOD["mine"], "run": "TD3"}})


def test_every_key_has_a_meaning(made):
    config = made["definitions"]["config.PPO"]["properties"]["lr"]
    key = made["definitions"][Path(config["$ref"]).name.replace("%23", "#")]
    assert "learning rate" in key["description"].lower() and key["default"] == 0.0003
