"""Two experiments key by key."""

import json

import pytest
from fake_runs import write_run

from drl_cli.config.where import Where
from drl_cli.errors import ConfigError
from drl_cli.runs import run_summary
from drl_cli.runs.config_diff import MISSING, Side, differences, side_of_file, side_of_run


def side(mapping, name="a"):
    return side_of_file(name, mapping, Where(name))


def keys(rows):
    return [key for key, _, _ in rows]


def test_files_that_differ_in_one_key_give_one_row():
    a = side({"run": "SAC", "env": "Pendulum-v1", "config": {"gamma": 0.9}})
    b = side({"run": "SAC", "env": "Pendulum-v1"})
    rows, hidden = differences(a, b)
    assert rows == [("config.gamma", 0.9, 0.99)] and hidden == 0
    assert not a.is_default("config.gamma") and b.is_default("config.gamma")


def test_nested_keys_are_told_by_their_path():
    a = side({"run": "SAC", "env": "Pendulum-v1", "config": {"optimization": {"actor_learning_rate": 0.5}}})
    rows, _ = differences(a, side({"run": "SAC", "env": "Pendulum-v1"}))
    assert keys(rows) == ["config.optimization.actor_learning_rate"]


def test_keys_of_one_algorithm_at_their_defaults_are_only_counted():
    a = side({"run": "SAC", "env": "Pendulum-v1"})
    b = side({"run": "PPO", "env": "Pendulum-v1", "config": {"clip_param": 0.1}})
    rows, hidden = differences(a, b)
    told = {key: (left, right) for key, left, right in rows}
    assert told["run"] == ("SAC", "PPO") and told["config.clip_param"] == (MISSING, 0.1)
    assert "config.kl_target" not in told and hidden > 10
    everything, none = differences(a, b, everything=True)
    assert "config.kl_target" in keys(everything) and "env" in keys(everything) and none == 0


def test_equal_numbers_of_another_kind_do_not_differ():
    sides = [
        Side(n, n, "file", "SAC", "E", {"config.tau": value, "config.flag": 1}) for n, value in (("a", 1), ("b", 1.0))
    ]
    assert differences(*sides) == ([], 0)


def test_true_and_one_differ():
    sides = [Side(n, n, "file", "SAC", "E", {"config.flag": value}) for n, value in (("a", True), ("b", 1))]
    assert differences(*sides)[0] == [("config.flag", True, 1)]


def test_runs_differ_in_seed_and_versions(tmp_path):
    paths = [write_run(tmp_path, number) for number in (1, 2)]
    for path, numpy in zip(paths, ("2.0.0", "2.4.6"), strict=True):
        versions = {"drl": "0.1.0", "git": None, "packages": {"numpy": numpy, "ray": "2.60.0"}, "time": numpy}
        (path / "versions.json").write_text(json.dumps(versions))
    rows, _ = differences(*(side_of_run(run_summary.read(path)) for path in paths))
    assert rows == [("config.seed", 1, 2), ("versions.packages.numpy", "2.0.0", "2.4.6")]


def test_a_run_and_a_file_are_not_compared_by_versions(tmp_path):
    path = write_run(tmp_path, 1)
    (path / "versions.json").write_text(json.dumps({"drl": "0.1.0"}))
    rows, _ = differences(side_of_run(run_summary.read(path)), side({"run": "SAC", "env": "Pendulum-v1"}))
    assert "versions.drl" not in keys(rows)


def test_a_run_of_an_unknown_algorithm_has_no_defaults(tmp_path):
    made = side_of_run(run_summary.read(write_run(tmp_path, 1, run="OLD")))
    assert made.defaults == {} and not made.is_default("config.gamma")


def test_a_file_with_a_wrong_key_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match="gama.*Did you mean 'gamma'"):
        side({"run": "SAC", "env": "Pendulum-v1", "config": {"gama": 0.9}})
    with pytest.raises(ConfigError, match="mine: env is missing"):
        side({"run": "SAC"}, "mine")


def test_what_is_searched_over_stands_as_it_was_asked_for():
    grid, drawn = {"grid_search": [100, 200]}, {"uniform": [0.9, 0.99]}
    a = side({"run": "PPO", "env": "E", "config": {"sample_batch_size": grid, "gamma": drawn}, "num_samples": 3})
    rows, _ = differences(
        a, side({"run": "PPO", "env": {"grid_search": ["E", "F"]}, "config": {"lr": 0.5}, "num_samples": 1})
    )
    told = {key: (left, right) for key, left, right in rows}
    assert told["config.rollout_fragment_length"] == (grid, 128) and told["config.gamma"] == (drawn, 0.99)
    assert told["env"] == ("E", {"grid_search": ["E", "F"]}) and told["num_samples"] == (3, 1)
    assert told["config.lr"] == (0.0003, 0.5)


def test_lists_and_nodes_of_stop_rules_can_be_searched_over():
    layers = {"grid_search": [[8], [16, 16]]}
    stop = {"choice": [1000, 2000]}
    a = side(
        {"run": "PPO", "env": "E", "stop": {"timesteps_total": stop}, "config": {"model": {"fcnet_hiddens": layers}}}
    )
    rows, _ = differences(a, side({"run": "PPO", "env": "E", "stop": {"timesteps_total": 1000}}))
    assert rows == [("stop.timesteps_total", stop, 1000), ("config.model.fcnet_hiddens", layers, [64, 64])]


def test_search_that_is_misspelt_or_has_wrong_values_is_refused():
    with pytest.raises(ConfigError, match=r"gamma: .*at least two|gamma: .*\[low, high\]"):
        side({"run": "PPO", "env": "E", "config": {"gamma": {"uniform": [0.9]}}})
    with pytest.raises(ConfigError, match="gamma: 7.0 is not allowed"):
        side({"run": "PPO", "env": "E", "config": {"gamma": {"uniform": [0.9, 7.0]}}})
