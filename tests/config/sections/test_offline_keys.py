"""What ``input`` may be, what it means, and where it is refused."""

import re

import pytest

from drl_cli.algorithms import table
from drl_cli.algorithms.dqn import DQNConfig
from drl_cli.algorithms.sac import SACConfig
from drl_cli.config.parse import read
from drl_cli.config.sections import offline


def problems(name, **given):
    return read(table.find(name), given, "--config", table.built_in())[1]


@pytest.mark.parametrize(
    ("given", "streams"),
    [
        ("sampler", [(None, 1.0)]),
        ("runs/*.json", [(("runs/*.json",), 1.0)]),
        (["a.json", "b"], [(("a.json", "b"), 1.0)]),
        ("minari://mujoco/hopper/expert-v0", [(("minari://mujoco/hopper/expert-v0",), 1.0)]),
        ({"sampler": 0.25, "a": 0.75}, [(None, 0.25), (("a",), 0.75)]),
        ({"a": 0.1, "b": 0.2, "c": 0.7}, [(("a",), 0.1), (("b",), 0.2), (("c",), 0.7)]),
    ],
)
def test_input_names_its_streams(given, streams):
    assert [tuple(stream) for stream in offline.streams(SACConfig(input=given))] == streams


def test_dataset_of_later_versions_names_its_files_in_input_config():
    config = SACConfig(input="dataset", input_config={"format": "json", "paths": ["a", "b"]})
    assert offline.streams(config) == (offline.InputStream(("a", "b"), 1.0),)


def test_dataset_of_1_13_names_its_files_in_path():
    given = {"input": "dataset", "input_config": {"format": "json", "path": "recorded/x"}}
    config, problems, notices = read(table.find("BC"), given, "--config", table.built_in())
    assert problems == [] and offline.streams(config) == (offline.InputStream(("recorded/x",), 1.0),)
    assert notices == ["input_config.path (--config) is read as input_config.paths."]


@pytest.mark.parametrize(
    ("given", "reads", "only", "samples"),
    [
        ("sampler", False, False, True),
        ({"sampler": 1.0}, False, False, True),
        ("a", True, True, False),
        ({"a": 1.0}, True, True, False),
        ({"sampler": 0.5, "a": 0.5}, True, False, True),
        ({"a": 0.5, "b": 0.5}, True, False, False),
    ],
)
def test_input_says_whether_anything_is_read_or_sampled(given, reads, only, samples):
    config = DQNConfig(input=given)
    assert (offline.reads(config), offline.reads_only(config), offline.samples(config)) == (reads, only, samples)


def test_paths_become_absolute_and_everything_else_stays(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    paths = offline.absolute(SACConfig(input={"sampler": 0.5, "a/*.json": 0.25, "minari://x": 0.25}))
    assert paths == {"input": {"sampler": 0.5, f"{tmp_path}/a/*.json": 0.25, "minari://x": 0.25}}
    assert offline.absolute(SACConfig(input=["~/a", "/b"])) == {"input": ("/home/me/a", "/b")}
    found = offline.absolute(SACConfig(input="dataset", input_config={"paths": "a"}))
    assert found["input_config"].paths == f"{tmp_path}/a"
    assert offline.absolute(SACConfig()) == {}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"input": {"sampler": 0.5, "a": 0.4}},
            "input: .*the shares sum to 0.9, not to 1; it takes sampler, policy_server, a path",
        ),
        ({"input": {}}, "it names nothing to read"),
        ({"input": ["sampler", "a"]}, r"input: sampler in a list has no share; write \{sampler: 0.5, PATH: 0.5\}"),
        ({"input": []}, "input: .* is not allowed; it takes sampler, policy_server, a path, a list of paths"),
        ({"input": "dataset"}, "input_config.paths: they go with input: dataset; without them"),
        ({"input_config": {"paths": "a"}}, "input_config.paths: they go with input: dataset; input is sampler"),
        ({"input_config": {"format": "parquet"}}, "input_config.format: .*parquet"),
        ({"actions_in_input_normalized": True}, "true speaks of files, and input is sampler"),
        ({"input": "a", "num_workers": 2, "num_replay_shards": 2}, "num_replay_shards: files are read into one part"),
        ({"shuffle_buffer_size": 10}, "shuffle_buffer_size: it speaks of files, and input is sampler; leave it out"),
        ({"synchronize_filters": False}, "false speaks of observation_filter, which is NoFilter; leave it out"),
        (
            {"input": "a", "synchronize_filters": False, "observation_filter": "MeanStdFilter"},
            "false speaks of workers that act, and these read files; leave it out",
        ),
        ({"input": "a", "postprocess_inputs": 1}, "postprocess_inputs: 1 is not allowed; it takes true or false"),
    ],
)
def test_input_that_cannot_be_meant_is_refused_with_the_reason(given, text):
    (found,) = problems("SAC", **given)
    assert re.search(text, found)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "PPO",
            "it takes sampler or policy_server: it is on-policy, and recorded steps are from another policy",
        ),
        ("A3C", "it takes sampler or policy_server: it is on-policy"),
        ("IMPALA", "it takes sampler or policy_server: it is on-policy"),
        ("ES", "not of ES: it evaluates weights by playing episodes, which recorded experience cannot do"),
        ("R2D2", "input: files hold no states of the LSTM for its sequences to begin with"),
    ],
)
def test_rows_that_cannot_learn_from_files_say_why(name, text):
    (found,) = problems(name, input="a.json")
    assert text in found


@pytest.mark.parametrize("name", ["MARWIL", "BC", "SAC", "TQC", "CROSSQ", "TD3", "DDPG", "DQN", "QRDQN", "SimpleQ"])
def test_rows_that_can_learn_from_files_take_them(name):
    config, wrong, _ = read(table.find(name), {"input": "a.json"}, "--config", table.built_in())
    assert wrong == [] and offline.reads_only(config)


@pytest.mark.parametrize(
    ("name", "given", "text"),
    [
        ("BC", {"beta": 1.0}, "beta: a key of IQL, MARWIL, not of BC: BC is MARWIL with a beta of 0"),
        (
            "MARWIL",
            {"replay_buffer_size": 10},
            "replay_buffer_size: no key of MARWIL: the capacity is counted in steps",
        ),
        ("MARWIL", {"use_gae": False}, "not of MARWIL: it uses Monte Carlo returns, up to the end of each episode"),
    ],
)
def test_keys_of_imitation_that_are_not_read_say_what_to_write(name, given, text):
    (found,) = problems(name, **given)
    assert text in found


def test_key_without_effect_on_bc_is_told():
    _, wrong, notices = read(table.find("MARWIL"), {"beta": 0.0, "vf_coeff": 0.5}, "--config", table.built_in())
    assert wrong == [] and notices == ["vf_coeff has no effect while beta is 0.0 (--config)."]
