"""Stop rules: any one reached, missing values never, goals only when confirmed."""

import pytest

from drl_cli.config.origins import Where
from drl_cli.runs.stop_rules import Stop, flatten, problems, unmet

RESULT = {
    "timesteps_total": 5000,
    "episode_reward_mean": None,
    "evaluation": {"episode_reward_mean": 210.0, "confirmed_reward_mean": None},
    "info": {"learner": {"default_policy": {"mean_q": float("nan")}}},
}


def test_flatten_joins_names_with_slashes():
    assert flatten(RESULT)["evaluation/episode_reward_mean"] == 210.0
    assert set(flatten(RESULT)) == {
        "timesteps_total",
        "episode_reward_mean",
        "evaluation/episode_reward_mean",
        "evaluation/confirmed_reward_mean",
        "info/learner/default_policy/mean_q",
    }


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ({}, None),
        ({"timesteps_total": 5001}, None),
        ({"timesteps_total": 5000}, "timesteps_total 5,000 reached 5,000"),
        ({"episode_reward_mean": -1e9}, None),
        ({"info/learner/default_policy/mean_q": 0}, None),
        ({"pid": 0}, None),
        ({"episode_reward_mean": 0, "timesteps_total": 1e3}, "timesteps_total 5,000 reached 1,000"),
        ({"evaluation/episode_reward_mean": 200}, "evaluation/episode_reward_mean 210 reached 200"),
    ],
)
def test_any_rule_reached_stops(rules, reason):
    assert Stop(rules).check(RESULT) == reason


@pytest.mark.parametrize(
    ("mean", "confirmed", "stops"),
    [(210.0, None, False), (210.0, 199.9, False), (210.0, 200.0, True), (199.0, 250.0, False), (None, 250.0, False)],
)
def test_goal_counts_only_when_confirmed(mean, confirmed, stops):
    result = {"evaluation": {"episode_reward_mean": mean, "confirmed_reward_mean": confirmed}}
    stop = Stop({"evaluation/episode_reward_mean": 200}, confirm_episodes=50)
    assert (stop.check(result) is not None) == stops


def test_unconfirmed_goal_does_not_hide_other_rules():
    stop = Stop({"evaluation/episode_reward_mean": 200, "timesteps_total": 10}, confirm_episodes=50)
    assert stop.check(RESULT) == "timesteps_total 5,000 reached 10"


def test_goal_is_the_threshold_of_the_evaluation():
    assert Stop({"evaluation/episode_reward_mean": 200, "timesteps_total": 1}).goal == 200
    assert Stop({"episode_reward_mean": 200}).goal is None


@pytest.mark.parametrize(
    ("rules", "line"),
    [
        (
            {"episode_reward_meen": 1},
            "stop: unknown result field 'episode_reward_meen' (--stop). Did you mean 'episode_reward_mean'?",
        ),
        (
            {"mean_q": 1},
            "stop: unknown result field 'mean_q' (--stop). Did you mean 'info/learner/default_policy/mean_q'?",
        ),
        ({"hostname": 1}, "stop: hostname is no number (--stop)."),
        ({"timesteps_total": "x"}, 'stop: timesteps_total: "x" is not allowed; it takes a number (--stop).'),
        ({"timesteps_total": True}, "stop: timesteps_total: true is not allowed; it takes a number (--stop)."),
        ({"timesteps_total": None}, "stop: timesteps_total: null is not allowed; it takes a number (--stop)."),
        (
            {"evaluation": {"episode_reward_mean": 1}},
            "stop: evaluation holds a mapping (--stop). Write the field as 'evaluation/episode_reward_mean'.",
        ),
    ],
)
def test_rule_that_cannot_be_is_told(rules, line):
    assert problems(rules, Where("--stop")) == [line]


def test_unmet_lists_what_was_missed():
    assert unmet({"timesteps_total": 1, "episode_reward_mean": 3}, RESULT) == [
        "episode_reward_mean was never measured; required >= 3"
    ]
