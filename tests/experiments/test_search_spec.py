"""What is a search, which points it has, and what is refused before anything starts."""

import json

import pytest

from drl_cli.errors import ConfigError
from drl_cli.experiments import config_tree, search_spec
from drl_cli.experiments.spec import ExperimentSpec

CARTPOLE = {"run": "PPO", "env": "CartPole-v1", "stop": ["timesteps_total=1000"], "config": "{num_workers: 0}"}


def asked(flags=None, wishes=None, file=None):
    return search_spec.read(file, {**CARTPOLE, **(flags or {})} if file is None else flags or {}, wishes or {})


def points(found):
    return [point["values"] for point in found.data["points"]]


def refusal(flags=None, wishes=None, file=None):
    with pytest.raises(ConfigError) as caught:
        asked(flags, wishes, file)
    return str(caught.value)


@pytest.fixture
def write(tmp_path):
    def written(text):
        path = tmp_path / "my.yaml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return written


def test_plain_run_is_no_search():
    found = asked()
    assert isinstance(found, ExperimentSpec)
    assert (found.run, found.env, found.config.num_workers) == ("PPO", "CartPole-v1", 0)


def test_file_of_a_plain_run_is_read_once(write, monkeypatch):
    path, found = write("a: {run: PPO, env: CartPole-v1, stop: {timesteps_total: 10}}\n"), []
    load = config_tree.experiment_files.load
    monkeypatch.setattr(config_tree.experiment_files, "load", lambda name: found.append(name) or load(name))
    made = asked(file=path)
    assert (made.name, made.stop, found) == ("a", {"timesteps_total": 10}, [path])


def test_name_of_a_file_goes_before_a_preference_and_not_before_a_flag(write):
    path = write("a: {run: PPO, env: CartPole-v1, num_samples: 2}\n")
    flags = {"experiment_name": "mine"}
    assert asked({**flags, "defaults": ["experiment_name"]}, file=path).specs[0].name == "a"
    assert asked(flags, file=path).specs[0].name == "mine"


def test_grid_in_a_flag_makes_a_point_of_each_value():
    found = asked({"set": ["lr={grid_search: [0.001, 0.01]}"]})
    assert points(found) == [{"lr": 0.001}, {"lr": 0.01}]
    assert [spec.config.lr for spec in found.specs] == [0.001, 0.01]
    assert found.specs[0].seed == found.specs[1].seed


def test_grid_anywhere_in_a_file_multiplies(write):
    path = write(
        "a:\n  run: {grid_search: [PPO, A2C]}\n  env: CartPole-v1\n  stop: {timesteps_total: {grid_search: [10, 20]}}\n"
        "  config: {model: {fcnet_hiddens: {grid_search: [[8], [16, 16]]}}}\n"
    )
    found = asked(file=path)
    assert len(found.specs) == 8
    assert found.specs[0].run == "PPO" and found.specs[-1].run == "A2C"
    assert points(found)[-1] == {"run": "A2C", "stop.timesteps_total": 20, "model.fcnet_hiddens": [16, 16]}
    assert found.specs[-1].config.model.fcnet_hiddens == (16, 16)
    assert found.specs[-1].stop == {"timesteps_total": 20}


def test_grid_over_environments_runs_each():
    found = asked({"env": None, "config": "{env: {grid_search: [CartPole-v1, Acrobot-v1]}, num_workers: 0}"})
    assert [spec.env for spec in found.specs] == ["CartPole-v1", "Acrobot-v1"]


def test_num_samples_draws_anew_and_the_seed_repeats_it():
    flags = {"set": ["lr={loguniform: [1e-5, 1e-2]}", "seed=4"]}
    first, second = asked(flags, {"num_samples": 3}), asked(flags, {"num_samples": 3})
    assert len({values["lr"] for values in points(first)}) == 3
    assert points(first) == points(second)


def test_samples_without_a_seed_get_one_each():
    found = asked({}, {"num_samples": 3})
    assert len({spec.seed for spec in found.specs}) == 3


def test_samples_with_a_given_seed_are_told_to_be_the_same():
    found = asked({"set": ["seed=4"]}, {"num_samples": 2})
    assert any("all 2 samples of a point are the same run. Take --seeds 0..1" in text for text in found.notices)


def test_seeds_are_an_axis():
    found = asked({}, {"seeds": "0..2,7"})
    assert [spec.seed for spec in found.specs] == [0, 1, 2, 7]


def test_experiments_of_a_file_run_in_one_search(write):
    path = write(
        "a: {run: PPO, env: CartPole-v1, config: {num_workers: 0}}\n"
        "b: {run: ARS, env: CartPole-v1, num_samples: 2, max_failures: 3}\n"
    )
    found = asked(file=path)
    assert [spec.name for spec in found.specs] == ["a", "b", "b"]
    assert found.data["max_failures"] == 3


def test_trials_that_do_not_say_their_workers_have_none(write):
    found = asked(file=write("a: {run: ARS, env: CartPole-v1, num_samples: 2}\n"))
    assert [spec.config.num_workers for spec in found.specs] == [0, 0]
    assert found.data["experiments"][0]["mapping"]["config"]["num_workers"] == 0
    assert "num_workers: 0 in each trial, since none was given" in found.notices[0]


def test_workers_that_are_given_are_asked_of_ray():
    found = asked({"config": "{num_workers: {grid_search: [0, 2]}}"})
    assert [point["bundles"] for point in found.data["points"]] == [
        [{"CPU": 1}],
        [{"CPU": 1}, {"CPU": 1.0}, {"CPU": 1.0}],
    ]


def test_resources_per_trial_take_the_place_of_what_follows_from_workers():
    found = asked({}, {"resources_per_trial": "{cpu: 2, extra_cpu: 1}", "num_samples": 2})
    assert found.data["points"][0]["bundles"] == [{"CPU": 2}, {"CPU": 1}]


def test_wrong_key_beside_a_grid_is_refused_with_the_nearest():
    text = refusal({"set": ["lr={grid_search: [0.001, 0.01]}", "gmma=0.9"]})
    assert text == "gmma: unknown key (-s). Did you mean 'gamma'?"


def test_wrong_value_inside_a_grid_is_refused():
    assert "lr: -1 is not allowed" in refusal({"set": ["lr={grid_search: [0.001, -1]}"]})


def test_end_of_a_range_that_is_not_allowed_is_refused():
    assert "gamma: 1.5 is not allowed" in refusal({"set": ["gamma={uniform: [0.9, 1.5]}"]}, {"num_samples": 2})


def test_code_is_refused_and_not_run():
    text = refusal({"config": "{lr: {eval: 'exit()'}}"})
    assert text.startswith("config.lr: eval holds code, which is not run. Draw values with one of choice, uniform")


def test_point_whose_keys_do_not_go_together_is_named():
    text = refusal({"run": "ARS", "config": "{num_rollouts: {grid_search: [8, 16]}, rollouts_used: 16}"})
    assert "rollouts_used: 16 is more than num_rollouts 8" in text


@pytest.mark.parametrize(
    ("wishes", "text"),
    [
        ({"scheduler": "ASHAA"}, "--scheduler: 'ASHAA' is no scheduler. Did you mean 'ASHA'?"),
        ({"scheduler": "ASHA", "scheduler_config": "{grace_perod: 1}"}, "Did you mean 'grace_period'?"),
        (
            {"scheduler_config": "{max_t: 1}"},
            "max_t: a key of AsyncHyperBand, HyperBand, not of FIFO (--scheduler-config).",
        ),
        (
            {"scheduler_config": "{metric: reward_mean}"},
            "metric: unknown result field 'reward_mean' (--scheduler-config).",
        ),
        ({"scheduler": "ASHA", "scheduler_config": "{grace_period: 200}"}, "grace_period: 200 is beyond max_t 100"),
        (
            {"scheduler": "HyperBand", "scheduler_config": "{max_t: 7}"},
            "max_t: 7 with a reduction_factor of 3 leaves no whole first rung. Take 9 or 3 (--scheduler-config).",
        ),
        ({"scheduler": "PBT"}, "hyperparam_mutations is missing: what may PBT change?"),
        (
            {"scheduler": "PBT", "scheduler_config": "{hyperparam_mutations: {lrr: [1, 2]}}"},
            "lrr: unknown key",
        ),
        (
            {"scheduler": "PBT", "scheduler_config": "{hyperparam_mutations: {lr: 3}}"},
            'hyperparam_mutations: lr: 3 is no list and no {"uniform": [low, high]}',
        ),
        ({"search": "tpee"}, "--search: 'tpee' is no search. Did you mean 'tpe'?"),
        ({"seeds": "4..1"}, "--seeds: '4..1' is no seed and no range of seeds. Write 0..4, or 1,5,9."),
        ({"seeds": "1,1"}, "--seeds: '1,1' names a seed twice"),
        (
            {"resources_per_trial": "{cpus: 1}"},
            "cpus: unknown key (--resources-per-trial). Did you mean 'cpu'?",
        ),
        ({"resources_per_trial": "{cpu: x}"}, 'resources_per_trial.cpu: "x" is not a number from 0 to 1024'),
        ({"write": "/nowhere/best.yaml"}, "--write: /nowhere/best.yaml: there is no such folder."),
        ({"write": __file__}, "exists already. Name another file, or remove it."),
    ],
)
def test_wrong_option_of_a_search_is_refused(wishes, text):
    assert text in refusal({}, wishes)


def test_seed_and_seeds_contradict():
    assert "--seed and --seeds: give one of them." in refusal({"set": ["seed=1"]}, {"seeds": "0..3"})


def test_too_many_trials_are_refused():
    grid = "{grid_search: [" + ", ".join(f"0.{n}" for n in range(101, 300)) + "]}"
    text = refusal({"set": [f"gamma={grid}", f"lambda={grid}"]})
    assert text.startswith("39,601 trials; at most 10,000 fit into a search.")


def test_metric_is_the_evaluation_where_there_is_one_and_the_goal_its_stop_rule():
    flags = {"stop": ["evaluation/episode_reward_mean=475"], "config": "{evaluation_interval: 1, num_workers: 0}"}
    found = asked(flags, {"num_samples": 2})
    assert (found.data["metric"], found.data["goal"]) == ("evaluation/episode_reward_mean", 475)
    none = asked({"config": "{evaluation_interval: null, num_workers: 0}"}, {"num_samples": 2})
    assert (none.data["metric"], none.data["goal"]) == ("episode_reward_mean", None)


def test_population_starts_from_drawn_values_unless_they_are_given():
    config = "{hyperparam_mutations: {lr: {loguniform: [1e-5, 1e-2]}, gamma: [0.9, 0.99]}}"
    found = asked({"set": ["gamma=0.99"]}, {"scheduler": "PBT", "scheduler_config": config, "num_samples": 3})
    assert [values["gamma"] for values in points(found)] == [0.99, 0.99, 0.99]
    assert len({values["lr"] for values in points(found)}) == 3
    assert found.data["samplers"]["gamma"] == ["choice", [0.9, 0.99]]
    assert "hyperparam_mutations" in found.data["scheduler"]["config"]


def test_tpe_keeps_the_ranges_and_refuses_what_it_cannot_choose():
    pytest.importorskip("optuna")
    wishes = {"search": "tpe", "num_samples": 5}
    found = asked({"set": ["lr={loguniform: [1e-5, 1e-2]}"]}, wishes)
    assert (found.data["points"], found.data["num_trials"]) == ([], 5)
    assert found.data["samplers"] == {"lr": ["loguniform", [1e-5, 1e-2]]}
    assert "lr is a grid, which tries all values" in refusal({"set": ["lr={grid_search: [0.1, 0.2]}"]}, wishes)
    assert "no value to search over" in refusal({}, wishes)
    assert "lr: it does not support normal" in refusal({"set": ["lr={randn: [0.01, 0.001]}"]}, wishes)
    assert "how many trials?" in refusal({"set": ["lr={uniform: [0.1, 0.2]}"]}, {"search": "tpe"})


def test_missing_optuna_is_told_with_its_extra(monkeypatch):
    monkeypatch.setattr("drl_cli.experiments.search_choices.importlib.util.find_spec", lambda name: None)
    text = refusal({"set": ["lr={uniform: [0.1, 0.2]}"]}, {"search": "tpe", "num_samples": 5})
    assert text == "--search tpe needs Optuna, which is not installed. Run: pip install 'drl-cli[optuna]'"


def test_data_is_plain_and_makes_the_same_spec_in_another_process(tmp_path):
    flags = {"set": ["lr={grid_search: [0.001, 0.01]}"], "local_dir": str(tmp_path), "imports": []}
    found = asked(flags)
    data = json.loads(json.dumps(found.data))
    spec = search_spec.spec_of(data, data["points"][1])
    assert (spec.config.lr, spec.seed, spec.trial) == (0.01, found.specs[1].seed, f"{data['id']}_00001")
    assert spec.local_dir == tmp_path
    assert spec.config == found.specs[1].config


def test_secrets_of_the_command_are_not_recorded():
    found = asked({"command": ["drl", "--config", "{env_config: {api_key: abc}}"]}, {"num_samples": 2})
    assert "abc" not in json.dumps(found.data["flags"])


def test_best_of_several_environments_is_not_written(tmp_path):
    flags = {"env": None, "config": "{env: {grid_search: [CartPole-v1, Acrobot-v1]}, num_workers: 0}"}
    text = refusal(flags, {"write": str(tmp_path / "best.yaml")})
    assert text == "--write: there are several environments (Acrobot-v1, CartPole-v1), whose scores do not compare."


def test_misspelt_sampler_is_named():
    text = refusal({"set": ["lr={lgouniform: [0.1, 0.2]}"]}, {"num_samples": 2})
    assert 'lr: {"lgouniform": [0.1, 0.2]} is not allowed: to search over it, write {loguniform: …}' in text


def test_trial_reserves_the_cpus_of_its_driver_and_the_memory_of_its_workers():
    found = asked({"set": ["num_workers=1", "num_cpus_for_driver=2", "memory_per_worker=1000"]}, {"num_samples": 2})
    assert found.data["points"][0]["bundles"] == [{"CPU": 2.0}, {"CPU": 1.0, "memory": 1000}]
    found = asked({"set": ["num_cpus_for_driver=0"]}, {"num_samples": 2})
    assert found.data["points"][0]["bundles"] == [{"CPU": 0.001}]


def test_local_mode_is_refused_for_a_search():
    assert refusal({"local_mode": True}, {"num_samples": 2}).startswith(
        "--local-mode: the trials of a search are separate processes"
    )


@pytest.mark.parametrize("formats", ["onnx", ["checkpoint", "model"]])
def test_exports_of_a_search_are_refused_with_the_command_that_makes_them(formats):
    with pytest.raises(ConfigError, match="this is a search, .* drl checkpoint export RUN"):
        asked({"set": ["lr={grid_search: [0.001, 0.01]}"], "export_formats": formats})


def test_checkpoints_as_the_export_of_a_search_are_what_it_keeps():
    assert len(points(asked({"set": ["lr={grid_search: [0.001, 0.01]}"], "export_formats": "checkpoint"}))) == 2
