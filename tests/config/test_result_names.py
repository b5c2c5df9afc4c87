"""The names of results: each once, of the kinds the loggers and stop rules count on."""

import pytest

from drl_cli.config.result_names import (
    LIST_FIELDS,
    NUMBER_FIELDS,
    RESULT_FIELDS,
    TEXT_FIELDS,
    flatten,
    is_number_field,
    policy_in,
    policy_problems,
)


def test_names_are_unique_and_complete():
    assert len(RESULT_FIELDS) == len(set(RESULT_FIELDS)) == len(NUMBER_FIELDS) + len(TEXT_FIELDS) + len(LIST_FIELDS)
    assert {"episode_reward_mean", "timesteps_total", "evaluation/confirmed_reward_mean", "done"} <= set(RESULT_FIELDS)
    assert "info/learner/default_policy/grad_norm_actor" in NUMBER_FIELDS


def test_results_of_the_off_policy_family_have_names():
    learner = {f"info/learner/default_policy/{name}" for name in ("loss", "mean_td_error", "critic_loss", "edge_mass")}
    explored = {f"info/exploration/{name}" for name in ("epsilon", "stddev", "scale")}
    assert learner | explored | {"info/replay_shards"} <= set(NUMBER_FIELDS)


def test_results_of_the_on_policy_family_have_names():
    stats = ("policy_loss", "vf_explained_var", "kl", "first_kl", "line_search_steps", "cg_residual", "max_rho")
    stream = ("fragments_dropped", "weight_lag_max", "queue_size", "queue_capacity", "num_steps_replayed")
    learner = {f"info/learner/default_policy/{name}" for name in stats}
    assert learner | {f"info/{name}" for name in stream} <= set(NUMBER_FIELDS)


def test_flatten_joins_with_slashes_and_keeps_the_order():
    assert list(flatten({"b": 1, "a": {"x": {"y": 2}, "z": [3]}, "e": {}}).items()) == [
        ("b", 1),
        ("a/x/y", 2),
        ("a/z", [3]),
    ]


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("policy_reward_mean/good.1", "good.1"),
        ("evaluation/policy_reward_max/b", "b"),
        ("info/learner/b/mean_q", "b"),
        ("info/exploration/b/epsilon", "b"),
        ("info/learner/b/maen_q", None),
        ("policy_reward_median/b", None),
        ("policy_reward_mean/a/b", None),
        ("episode_reward_mean", None),
    ],
)
def test_fields_by_policy_are_known(name, policy):
    assert policy_in(name) == policy
    assert is_number_field(name) == (policy is not None or name in NUMBER_FIELDS)


def test_field_of_a_policy_that_is_not_there_is_refused_with_the_nearest():
    (line,) = policy_problems(["policy_reward_mean/godo", "policy_reward_mean/good"], ["good", "adversary"])
    assert line == (
        "policy_reward_mean/godo: there is no policy 'godo'. Did you mean 'policy_reward_mean/good'? They are good, adversary."
    )
    (line,) = policy_problems(["policy_reward_mean/good", "info/learner/default_policy/mean_q"], [])
    assert line.startswith("policy_reward_mean/good needs an environment with several agents")
