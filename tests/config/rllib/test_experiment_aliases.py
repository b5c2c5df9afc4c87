"""Keys of RLlib's experiments that have no effect, or stand for a stop rule."""

import pytest

from drl_cli.config.origins import Where
from drl_cli.config.rllib.experiment_aliases import settled


@pytest.mark.parametrize(
    ("mapping", "said"),
    [
        ({"upload_dir": ""}, "is what drl does anyway."),
        ({"loggers": None}, "is what drl does anyway."),
        ({"sync_on_checkpoint": True}, "has no effect: a checkpoint is complete on the run's own disk"),
        ({"export_formats": ["checkpoint"]}, "has no effect: each checkpoint is one"),
        ({"frameworks": ["tf", "torch"]}, "has no effect: drl always uses TensorFlow-1-style graphs"),
        ({"log_to_file": False}, "has no effect: each run has its drl.log."),
    ],
)
def test_key_that_changes_nothing_is_said_and_left_out(mapping, said):
    left, notices, problems = settled({"run": "SAC", **mapping}, Where("my.yaml"))
    assert (left, problems, len(notices)) == ({"run": "SAC"}, [], 1)
    assert said in notices[0] and notices[0].startswith(next(iter(mapping)))


@pytest.mark.parametrize(
    ("mapping", "text"),
    [
        ({"sync_on_checkpoint": 1}, "sync_on_checkpoint: 1 is not allowed; it takes true or false (my.yaml)."),
        (
            {"frameworks": ["jax"]},
            "frameworks: [\"jax\"] is not allowed; it takes one of 'tf', 'tf2', 'tfe', 'torch' (my.yaml).",
        ),
        ({"time_budget_s": -1}, "time_budget_s: -1 is not allowed; it takes a number of seconds > 0 (my.yaml)."),
        ({"time_budget_s": True}, "time_budget_s: true is not allowed; it takes a number of seconds > 0 (my.yaml)."),
    ],
)
def test_value_of_the_wrong_type_is_refused(mapping, text):
    assert settled(mapping, Where("my.yaml"))[2] == [text]


@pytest.mark.parametrize(
    ("stop", "rules"),
    [
        (None, {"time_total_s": 60}),
        ({"episode_reward_mean": 5}, {"episode_reward_mean": 5, "time_total_s": 60}),
        ({"time_total_s": 20}, {"time_total_s": 20}),
        ({"time_total_s": 200}, {"time_total_s": 60}),
    ],
)
def test_time_budget_is_a_stop_rule(stop, rules):
    left, notices, problems = settled({"time_budget_s": 60, **({"stop": stop} if stop else {})}, Where("my.yaml"))
    assert (left, problems) == ({"stop": rules}, [])
    assert notices[0].startswith("time_budget_s 60 (my.yaml) is read as stop: {time_total_s: ")


@pytest.mark.parametrize("given", [{"upload_dir": "s3://x"}, {"sync_config": {"upload_dir": "s3://x"}}])
def test_upload_dir_is_read_as_storage_path(given):
    left, notices, problems = settled({"run": "SAC", **given}, Where("my.yaml"))
    assert (left, problems) == ({"run": "SAC", "storage_path": "s3://x"}, [])
    assert notices[0].endswith(" (my.yaml) is read as storage_path.")


def test_upload_dir_beside_another_storage_path_is_refused():
    given = {"upload_dir": "s3://x", "storage_path": "s3://y"}
    assert settled(given, Where("my.yaml"))[2] == [
        "upload_dir: another name of storage_path, which is given as well (my.yaml)."
    ]


def test_what_is_refused_with_a_hint_is_left_to_the_schema():
    mapping = {"trial_name_creator": "mine", "export_formats": ["model"]}
    assert settled(mapping, Where("my.yaml")) == (mapping, [], [])


@pytest.mark.parametrize("section", ["stop", "pass_criteria"])
def test_result_fields_of_rllib_2_have_their_names_here_in_rules_and_criteria(section):
    rules = {"sampler_results/episode_reward_mean": 5, "evaluation/sampler_results/episode_reward_mean": 6}
    left, notices, problems = settled({"run": "SAC", section: rules}, Where("my.yaml"))
    assert left[section] == {"episode_reward_mean": 5, "evaluation/episode_reward_mean": 6} and problems == []
    assert notices == [
        f"{section}: sampler_results/episode_reward_mean (my.yaml) is read as episode_reward_mean.",
        f"{section}: evaluation/sampler_results/episode_reward_mean (my.yaml) is read as evaluation/episode_reward_mean.",
    ]
