"""Stop rules: any one reached, missing values never, goals only when confirmed; ``--assert``: read, refused, compared."""

from types import SimpleNamespace

import pytest
from experiment_fakes import Config

from drl_cli.config.origins import Where
from drl_cli.errors import ConfigError
from drl_cli.runs.stop_rules import (
    Stopper,
    StopRules,
    parse_requirements,
    problems,
    unmet_criteria,
    unmet_requirements,
)

RESULT = {
    "timesteps_total": 5000,
    "episode_reward_mean": None,
    "evaluation": {"episode_reward_mean": 210.0, "confirmed_reward_mean": None},
    "info": {"learner": {"default_policy": {"mean_q": float("nan")}}},
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
    assert StopRules(rules).check(RESULT) == reason


@pytest.mark.parametrize(
    ("mean", "confirmed", "stops"),
    [(210.0, None, False), (210.0, 199.9, False), (210.0, 200.0, True), (199.0, 250.0, False), (None, 250.0, False)],
)
def test_goal_counts_only_when_confirmed(mean, confirmed, stops):
    result = {"evaluation": {"episode_reward_mean": mean, "confirmed_reward_mean": confirmed}}
    stop = StopRules({"evaluation/episode_reward_mean": 200}, confirm_episodes=50)
    assert (stop.check(result) is not None) == stops


def test_unconfirmed_goal_does_not_hide_other_rules():
    stop = StopRules({"evaluation/episode_reward_mean": 200, "timesteps_total": 10}, confirm_episodes=50)
    assert stop.check(RESULT) == "timesteps_total 5,000 reached 10"


def test_rules_that_an_iteration_may_reach_on_its_way_are_told_apart_from_seconds():
    rules = {"time_total_s": 60, "timesteps_total": 10, "episode_reward_mean": 5, "training_iteration": 3}
    ending = Stopper(rules | {"evaluation/episode_reward_mean": 200}, Config())
    assert ending.limits == {"time_total_s": 60}
    assert ending.thresholds == {"timesteps_total": 10, "episode_reward_mean": 5}


def test_goal_is_the_threshold_of_the_evaluation():
    assert StopRules({"evaluation/episode_reward_mean": 200, "timesteps_total": 1}).goal == (
        "evaluation/episode_reward_mean",
        200,
    )
    assert StopRules({"episode_reward_mean": 200}).goal is None


def test_goal_can_be_the_return_of_a_policy():
    rules = {"timesteps_total": 9, "evaluation/policy_reward_mean/a.b": 450, "evaluation/policy_reward_mean/c": 1}
    goal = StopRules(rules).goal
    assert goal == ("evaluation/policy_reward_mean/a.b", 450) and goal.reward is None
    assert goal.score({"episode_reward_mean": 1.0, "policy_reward_mean": {"a.b": 2.0}}) == 2.0
    assert goal.score({"episode_reward_mean": 1.0}) is None  # of an evaluation before the policy was there
    assert StopRules({"evaluation/episode_reward_mean": 3} | rules).goal == ("evaluation/episode_reward_mean", 3)


@pytest.mark.parametrize(
    ("own", "confirmed", "stops"), [(460.0, None, False), (460.0, 449.0, False), (460.0, 451.0, True)]
)
def test_return_of_a_policy_counts_only_when_confirmed(own, confirmed, stops):
    evaluation = {"episode_reward_mean": 999.0, "policy_reward_mean": {"a": own}, "confirmed_reward_mean": confirmed}
    stop = StopRules({"evaluation/policy_reward_mean/a": 450}, confirm_episodes=50)
    assert (stop.check({"evaluation": evaluation}) is not None) == stops


def test_goal_of_a_policy_is_held_by_its_own_return():
    rule = "evaluation/policy_reward_mean/a"
    touched = {"metric": rule, "value": 460.0, "target": 450.0, "confirmed": None}
    held = stopper({rule: 450.0})
    assert held.check(evaluated(1, 900.0, own=460.0), touched) is None
    assert held.check(evaluated(2, 900.0, own=440.0), touched) is None
    assert (
        held.check(evaluated(3, 10.0, own=470.0), touched)
        == f"{rule} 460 reached 450, and held 455 over 2 more evaluations"
    )


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
        ({"timesteps_total:": 1}, "stop: unknown result field 'timesteps_total:' (--stop). Write timesteps_total."),
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
    assert unmet_criteria({"timesteps_total": 1, "episode_reward_mean": 3}, RESULT) == [
        "episode_reward_mean was never measured; required >= 3"
    ]


@pytest.mark.parametrize(
    ("text", "value", "is_met"),
    [
        ("episode_reward_mean>=200", 200.0, True),
        ("episode_reward_mean >= 200", 199.9, False),
        ("episode_reward_mean>200", 200.0, False),
        ("episode_reward_mean<=2e2", 200.0, True),
        ("episode_reward_mean<-5", -5.0, False),
        ("episode_reward_mean<-5", -5.1, True),
        ("episode_reward_mean>=1", None, False),
        ("episode_reward_mean>=1", float("nan"), False),
        ("episode_reward_mean<1", float("nan"), False),
    ],
)
def test_requirement_is_compared_with_the_field(text, value, is_met):
    assert (unmet_requirements(parse_requirements([text]), {"episode_reward_mean": value}) == []) is is_met


def test_nested_fields_of_requirements_are_found_and_misses_are_listed():
    asked = parse_requirements(["evaluation/episode_reward_mean>=200", "info/num_updates<10", "time_total_s<5"])
    result = {"evaluation": {"episode_reward_mean": 123.4567}, "info": {"num_updates": 9}}
    assert unmet_requirements(asked, result) == [
        "evaluation/episode_reward_mean is 123.457; required >= 200",
        "time_total_s was never measured; required < 5",
    ]
    assert len(unmet_requirements(asked, None)) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("episode_reward_mean", "The quotes matter: without them the shell interprets >."),
        ("episode_reward_mean=200", "is not FIELD>=NUMBER"),
        ("episode_reward_mean==200", "is not FIELD>=NUMBER"),
        ("episode_reward_mean>=", "is not FIELD>=NUMBER"),
        (">=200", "is not FIELD>=NUMBER"),
        ("a>=b>=3", "is not FIELD>=NUMBER"),
    ],
)
def test_string_that_is_no_requirement_is_refused_with_one_that_works(text, said):
    with pytest.raises(ConfigError, match="^--assert: ") as caught:
        parse_requirements([text])
    assert said in str(caught.value) and "--assert 'episode_reward_mean>=200'" in str(caught.value)


@pytest.mark.parametrize(("text", "shown"), [("mean>=much", '"much"'), ("mean>=null", "null"), ("mean>=true", "true")])
def test_requirement_of_something_else_than_a_number_is_refused(text, shown):
    with pytest.raises(ConfigError, match=f"^--assert: mean: {shown} is not allowed; it takes a number.$"):
        parse_requirements([text])


def stopper(rules, hold=2, started_at=-1):
    config = SimpleNamespace(evaluation_confirm_episodes=0, evaluation_hold=hold)
    return Stopper(rules, config, started_at)


def evaluated(number, mean, own=None, **more):
    policies = {} if own is None else {"policy_reward_mean": {"a": own}}
    return {"evaluation": {"training_iteration": number, "episode_reward_mean": mean} | policies, **more}


def test_goal_is_held_for_some_more_evaluations_while_other_rules_still_stop():
    touched = {"metric": "evaluation/episode_reward_mean", "value": 210.0, "target": 200.0, "confirmed": None}
    held = stopper({"evaluation/episode_reward_mean": 200.0, "timesteps_total": 100})
    assert held.check(evaluated(1, 150.0), None) is None
    assert held.check(evaluated(2, 210.0), touched) is None
    assert held.check(evaluated(2, 210.0), touched) is None  # the same evaluation again
    assert held.check(evaluated(3, 190.0), touched) is None
    assert held.check(evaluated(4, 200.0), touched) == (
        "evaluation/episode_reward_mean 210 reached 200, and held 195 over 2 more evaluations"
    )
    other = stopper({"evaluation/episode_reward_mean": 200.0, "timesteps_total": 100})
    assert other.check(evaluated(1, 210.0), touched) is None
    assert other.check(evaluated(1, 210.0, timesteps_total=100), touched) == "timesteps_total 100 reached 100"


def test_limits_are_the_rules_in_seconds():
    rules = {"time_total_s": 60.0, "timesteps_total": 5, "evaluation/episode_reward_mean": 1.0}
    assert stopper(rules).limits == {"time_total_s": 60.0} and stopper(rules).goal.threshold == 1.0


def test_report_of_an_evaluation_has_success_and_rewards_by_policy_where_there_are_any(heard):
    result = evaluated(1, 150.0, own=75.0)
    result["evaluation"] |= {"success_rate": 0.45}
    rules = stopper({"timesteps_total": 100})
    rules.check(result, None)
    rules.check(evaluated(2, 150.0), None)
    (_, first), (_, second) = [found for found in heard if found[0] == "evaluation"]
    assert first["success_rate"] == 0.45 and first["policy_reward_mean"] == {"a": 75.0}
    assert "success_rate" not in second and "policy_reward_mean" not in second
