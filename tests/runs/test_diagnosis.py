"""When a run looks stuck or as if it diverges, and when it does not."""

import math

import pytest
from diagnoses import Clock, names

from drl_cli.algorithms import table
from drl_cli.config.parse import parse
from drl_cli.runs.diagnosis import Diagnosis
from drl_cli.runs.run_history import Situation, situation


def result(steps, reward=None, evaluation=None, episodes=None, **stats):
    """A nested result; ``evaluation``: (number, mean, least, largest)."""
    told = {
        "timesteps_total": steps,
        "episodes_total": steps // 100 if episodes is None else episodes,
        "episode_reward_mean": reward,
        "episode_reward_max": reward,
        "episode_reward_min": reward,
        "episode_len_mean": 100.0,
        "info": {"learner": {"default_policy": stats}},
    }
    if evaluation:
        names = ("training_iteration", "episode_reward_mean", "episode_reward_min", "episode_reward_max")
        told["evaluation"] = dict(zip(names, evaluation, strict=True))
    return told


def test_no_episode_within_three_time_limits_is_told_once(told):
    seen = Diagnosis(Situation(streams=2, limit=200), Clock())
    for steps in (400, 1200, 1400, 1600):
        seen.see(result(steps, episodes=0))
    assert names(told) == ["no episode"]
    assert "700 steps in each environment" in told[0]["text"] and "Set horizon" in told[0]["text"]


def test_no_episode_without_a_time_limit_takes_longer(told):
    seen = Diagnosis(Situation(streams=1), Clock())
    seen.see(result(20_000, episodes=0))
    assert told == []
    seen.see(result(20_001, episodes=0))
    assert names(told) == ["no episode"]


def test_no_episode_is_as_it_should_be_where_all_is_read(told):
    Diagnosis(Situation(reads=True), Clock()).see(result(10**6, episodes=0))
    assert told == []


def test_entropy_that_is_gone_while_rewards_stand_still_is_told(told):
    seen = Diagnosis(Situation(choices=math.log(4)), Clock())
    for step in range(1, 25):
        seen.see(result(1000 * step, -150.0, entropy=0.001))
    assert names(told) == ["entropy"]


def test_entropy_that_is_gone_while_rewards_rise_is_no_news(told):
    seen = Diagnosis(Situation(choices=math.log(4)), Clock())
    for step in range(1, 40):
        seen.see(result(1000 * step, 10.0 * step, entropy=0.001))
    assert told == []


def test_entropy_of_gaussians_may_be_negative(told):
    seen = Diagnosis(Situation(dims=2), Clock())
    for step in range(1, 40):
        seen.see(result(1000 * step, -150.0, entropy=-2.0))
    assert told == []
    for step in range(40, 45):
        seen.see(result(1000 * step, -150.0, entropy=-7.0))
    assert names(told) == ["entropy"]


def test_goal_that_was_reached_silences_every_rule(told):
    seen = Diagnosis(Situation(choices=math.log(2), target=475), Clock())
    for step in range(1, 40):
        seen.see(result(1000 * step, 500.0, entropy=0.0001, mean_q=1e9))
    assert told == []


def test_values_beyond_what_rewards_explain_three_times_in_a_row_are_told(told):
    seen = Diagnosis(Situation(gamma=0.99), Clock())
    for q in (5000.0, 5000.0, 20.0, 5000.0, 5000.0):
        seen.see(result(1000, -100.0, mean_q=q))
    assert told == []
    seen.see(result(1000, -100.0, mean_q=5000.0))
    assert names(told) == ["values"] and "5e+03" in told[0]["text"]


def test_values_of_a_long_horizon_and_of_entropy_are_explained(told):
    seen = Diagnosis(Situation(gamma=0.99, dims=2), Clock())
    for step in range(5):  # 1 a step for 100 steps: 100 in sum, and 400 from a temperature of 1
        seen.see(result(1000 * step + 1000, 100.0, mean_q=4000.0, alpha_value=1.0))
    assert told == []


def test_error_of_the_values_is_compared_as_its_root(told):
    seen = Diagnosis(Situation(gamma=0.9), Clock())
    for _ in range(3):
        seen.see(result(1000, 10.0, vf_loss=90.0**2))
    assert told == []
    for _ in range(3):
        seen.see(result(1000, 10.0, vf_loss=110.0**2))
    assert names(told) == ["values"]


def test_values_in_other_units_than_rewards_are_not_judged(told):
    seen = Diagnosis(Situation(scaled=True), Clock())
    for _ in range(5):
        seen.see(result(1000, 0.1, mean_q=1e6))
    assert told == []


def test_temperature_that_runs_away_is_told(told):
    seen = Diagnosis(Situation(), Clock())
    for _ in range(3):
        seen.see(result(1000, 5.0, alpha_value=500.0, target_entropy=-2.0))
    assert names(told) == ["temperature"]


def test_evaluations_of_one_score_are_told_after_many_steps(told):
    seen = Diagnosis(Situation(target=-110.0), Clock())
    for number in range(1, 7):
        seen.see(result(10_000 * number, -200.0, (number, -200.0, -200.0, -200.0)))
    assert names(told) == ["one score"] and "exactly -200" in told[0]["text"]


LIKE_AT_FIRST = [-300.0, -310.0, -305.0, -295.0, -290.0] * 8


def _standing_still(seen, rewards=LIKE_AT_FIRST, steps=5000, **changes):
    """Results whose training rewards do not rise; returns of single episodes differ by 200."""
    for number, reward in enumerate(rewards, 1):
        row = {"episode_reward_max": reward + 100.0, "episode_reward_min": reward - 100.0, **changes}
        seen.see({**result(steps * number, reward), **row})


@pytest.mark.parametrize(
    ("facts", "changes", "advice"),
    [
        (
            {"explore": "Raise entropy_coeff"},
            {"rewards": [0.0] * 40, "episode_reward_max": 0.0, "episode_reward_min": 0.0},
            "Every episode returned 0, so that rewarded states may never have been reached. Raise entropy_coeff.",
        ),
        (
            {"limit": 100, "horizon": 100},
            {"rewards": [-1.0] * 40, "episode_reward_max": -1.0, "episode_reward_min": -1.0},
            "Every episode is cut after 100 steps, perhaps too early. Raise horizon. Explore more.",
        ),
        (
            {},
            {"episode_reward_min": -9000.0},
            "Returns reach 9,000 in size and are not scaled: set reward_scaling=true.",
        ),
        ({"bound": 255.0}, {}, "Observations reach 255 and are not scaled: set observation_filter=MeanStdFilter."),
    ],
)
def test_no_progress_names_its_cause_and_the_key_to_change(told, facts, changes, advice):
    _standing_still(Diagnosis(Situation(**facts), Clock()), **changes)
    assert names(told) == ["no progress"]
    assert told[0]["text"].startswith("Looks stuck: after 100,000 env steps training rewards are where they began. ")
    assert told[0]["text"].endswith(advice)


@pytest.mark.parametrize(
    ("facts", "changes"),
    [
        ({}, {}),  # no cause is known: it may be slow
        ({"scaled": True}, {"episode_reward_min": -9000.0}),
        ({"bound": 8.0}, {}),
        ({"bound": 255.0}, {"steps": 2000}),  # too early
        ({"bound": 255.0}, {"rewards": [-300.0 + number for number in range(40)]}),
        ({"bound": 255.0, "target": -290.0}, {}),
        ({"bound": 255.0, "reads": True}, {}),
    ],
)
def test_no_progress_without_a_cause_or_for_a_short_time_is_no_news(told, facts, changes):
    _standing_still(Diagnosis(Situation(**facts), Clock()), **changes)
    assert told == []


def test_values_that_explode_with_large_returns_name_the_scale_of_rewards(told):
    seen = Diagnosis(Situation(gamma=0.99), Clock())
    for _ in range(3):
        seen.see(result(1000, -5000.0, mean_q=1e6))
    assert names(told) == ["values"]
    assert "Returns reach 5,000 in size and are not scaled: set reward_scaling=true. Lower the" in told[0]["text"]


def test_one_score_names_the_key_that_explores(told):
    seen = Diagnosis(Situation(target=-110.0, limit=200, explore="Raise entropy_coeff"), Clock())
    for number in range(1, 7):
        row = result(10_000 * number, -200.0, (number, -200.0, -200.0, -200.0))
        seen.see({**row, "episode_len_mean": 200.0})
    assert told[0]["text"].endswith(
        "reached. Every episode is cut after 200 steps, perhaps too early. Raise entropy_coeff."
    )


BOUNDED = {"shape": [3], "low": [0.0, -400.0, None], "high": [1.0, 255.0, 2.0]}


@pytest.mark.parametrize(
    ("run", "given", "obs", "bound", "explore"),
    [
        ("PPO", {}, BOUNDED, 400.0, "Raise entropy_coeff"),
        ("PPO", {"observation_filter": "MeanStdFilter"}, BOUNDED, None, "Raise entropy_coeff"),
        ("PPO", {}, {"shape": [84, 84, 4], "low": 0, "high": 255}, None, "Raise entropy_coeff"),
        ("DQN", {}, {"shape": [99], "low": None, "high": 50.0}, 50.0, "Hold random actions for some steps"),
        ("SAC", {}, {"shape": [1], "low": [None], "high": [None]}, None, "Hold random actions for some steps"),
        ("ARS", {}, BOUNDED, None, "Raise noise_stdev"),
    ],
)
def test_situation_knows_what_scales_observations_and_what_explores(run, given, obs, bound, explore):
    config = parse(table.find(run), given, "the test")
    known = situation(config, "CartPole-v1", {"spaces": {"obs": obs}})
    assert known.bound == bound and known.explore.startswith(explore)


def perfect(seen, score, lower=None, first=1):
    """Ten evaluations of one score; ``lower``: the least return of training episodes at first."""
    for number in range(1, 11):
        row = result(10_000 * number, score, (number, score, score, score))
        if lower is not None and number == first:
            row["episode_reward_min"] = lower
        seen.see(row)


def test_every_evaluation_at_what_counts_as_solved_is_not_stuck_though_the_goal_is_beyond(told):
    perfect(Diagnosis(Situation(target=501.0, threshold=475.0), Clock()), 500.0)
    assert told == []


def test_every_evaluation_at_the_highest_return_ever_seen_is_not_stuck_where_nobody_says_what_is_solved(told):
    perfect(Diagnosis(Situation(), Clock()), 1.0)
    perfect(Diagnosis(Situation(), Clock()), -20.0, lower=-90.0)
    assert told == []


def test_a_perfect_policy_that_no_longer_tries_anything_is_not_stuck(told):
    seen = Diagnosis(Situation(choices=math.log(4)), Clock())
    for number in range(1, 41):
        seen.see(result(10_000 * number, 1.0, (number, 1.0, 1.0, 1.0), entropy=0.001))
    assert told == []


def test_nothing_in_every_evaluation_is_stuck_where_nobody_says_what_is_solved(told):
    perfect(Diagnosis(Situation(), Clock()), 0.0)
    assert names(told) == ["one score"]


def test_standing_still_below_what_counts_as_solved_is_stuck_though_nothing_was_ever_better(told):
    perfect(Diagnosis(Situation(target=90.0, threshold=90.0), Clock()), 0.0, lower=-40.0)
    assert names(told) == ["one score"]


def test_evaluations_of_one_score_while_training_moves_are_no_news(told):
    seen = Diagnosis(Situation(target=-110.0), Clock())
    for number in range(1, 9):
        seen.see(result(10_000 * number, -200.0 + 8 * number, (number, -200.0, -200.0, -200.0)))
    assert told == []


def test_evaluation_that_is_told_again_with_each_result_counts_once(told):
    seen = Diagnosis(Situation(target=-110.0), Clock())
    for step in range(1, 20):
        seen.see(result(10_000 * step, -200.0, (1, -200.0, -200.0, -200.0)))
    assert told == []


def test_evaluations_that_stay_fallen_are_told(told):
    seen = Diagnosis(Situation(target=1000.0), Clock())
    for number, mean in enumerate([10.0, 400.0, *[150.0] * 7], 1):
        seen.see(result(1000 * number, 100.0 + number, (number, mean, mean - 9, mean + 9)))
    assert told == []
    seen.see(result(10_000, 90.0, (10, 200.0, 190.0, 210.0)))
    assert names(told) == ["fallen"] and "reached 400 (iteration 2)" in told[0]["text"]


def test_evaluations_that_swing_are_no_news(told):
    seen = Diagnosis(Situation(target=1000.0), Clock())
    for number in range(1, 60):
        mean = 400.0 if number % 7 == 2 else 100.0
        seen.see(result(1000 * number, 100.0 + number, (number, mean, mean - 9, mean + 9)))
    assert told == []


def test_finding_is_told_again_only_after_ten_minutes(told):
    clock = Clock()
    seen = Diagnosis(Situation(limit=10), clock)
    for seconds in (0.0, 300.0, 599.0, 600.0):
        clock.now = seconds
        seen.see(result(1000, episodes=0))
    assert names(told) == ["no episode", "no episode"]


def test_lucky_evaluation_before_training_has_risen_is_no_fall(told):
    seen = Diagnosis(Situation(target=1000.0), Clock())
    for number, mean in enumerate([10.0, 400.0, *[150.0] * 12], 1):
        seen.see(result(1000 * number, 20.0 + 10 * number, (number, mean, mean - 9, mean + 9)))
    assert told == []


def _sampled(seconds, making):
    return result(1000, 500.0) | {"timers": {"sample_s": seconds, "make_env_s": making}}


@pytest.mark.parametrize(
    ("fresh", "advice"),
    [(True, "fresh_envs constructs one"), (False, "an environment that raised is constructed again")],
)
def test_making_environments_for_more_than_a_tenth_of_sampling_is_told(told, fresh, advice):
    seen = Diagnosis(Situation(fresh=fresh, target=100.0), Clock())
    seen.see(_sampled(0.6, 0.5))
    assert told == []  # too early to judge
    seen.see(_sampled(0.6, 0.46))
    assert names(told) == ["making"]
    assert told[0]["text"].startswith(f"Constructing environments takes 80 % of sampling: {advice}")


def test_making_environments_for_a_twentieth_of_sampling_is_not_told(told):
    seen = Diagnosis(Situation(fresh=True), Clock())
    for _ in range(5):
        seen.see(_sampled(2.0, 0.1))
    assert told == []


def _risen(seen, below, steps=5000, top=300.0):
    """Training rises from 0 to ``top`` and stays there; each greedy evaluation is ``below`` it."""
    for number in range(1, 61):
        reward = min(top, 10.0 * number)
        found = (number, reward - below, reward - below - 50.0, reward)
        seen.see({**result(steps * number, reward, found), "episode_reward_min": reward - 100.0})


def test_greedy_evaluations_that_stay_far_below_training_name_the_key_of_the_deviations(told):
    _risen(Diagnosis(Situation(state_std=True), Clock()), below=200.0)
    assert names(told) == ["needs noise"]
    assert "were 100 to 100, where training is at 300" in told[0]["text"]
    assert told[0]["text"].endswith("Set model={free_log_std: true}.")


@pytest.mark.parametrize(
    ("facts", "changes"),
    [
        ({"state_std": False}, {}),
        ({"state_std": True}, {"below": 100.0}),
        ({"state_std": True}, {"steps": 1000}),
        ({"state_std": True}, {"top": 600.0}),
    ],
    ids=["no deviations of a network", "near enough", "too early", "still rising"],
)
def test_greedy_evaluations_below_training_are_no_news_otherwise(told, facts, changes):
    _risen(Diagnosis(Situation(**facts), Clock()), **{"below": 200.0, **changes})
    assert told == []


@pytest.mark.parametrize(
    ("run", "given", "env", "known"),
    [
        ("PPO", {}, "Pendulum-v1", True),
        ("PPO", {"model": {"free_log_std": True}}, "Pendulum-v1", False),
        ("PPO", {"use_sde": True}, "Pendulum-v1", False),
        ("PPO", {}, "CartPole-v1", False),
        ("SAC", {}, "Pendulum-v1", False),
    ],
)
def test_situation_knows_where_the_network_gives_deviations(run, given, env, known):
    action = {"kind": "Box", "shape": [1]} if env == "Pendulum-v1" else {"kind": "Discrete", "n": 2}
    config = parse(table.find(run), given, "the test")
    assert situation(config, env, {"spaces": {"action": action}}).state_std is known


def _waiting(seen, length=1600.0, evaluations=(-8.0, -9.0, -5.0, 2.0, 1.0, 3.0, 2.0, 4.0), early=-105.0):
    """A run whose first episodes were short, and in which all of the newest last to the time limit."""
    for number, mean in enumerate(evaluations, 1):
        for step in range(4):
            first = number == 1
            told = result(
                20_000 * (number - 1) + 5000 * step, early if first else mean, (number, mean, mean - 9, mean + 9)
            )
            seen.see(told | {"episode_len_mean": 90.0 if first else length, "episode_reward_min": early})


def test_a_policy_that_waits_for_the_time_limit_because_an_end_is_costly_names_clip_rewards(told):
    _waiting(Diagnosis(Situation(limit=1600, target=300, explore="Raise entropy_coeff"), Clock()))
    assert names(told) == ["waits"]
    assert "their limit of 1,600 steps" in told[0]["text"]
    assert "Set clip_rewards" in told[0]["text"]
    assert "Raise entropy_coeff" in told[0]["text"]


@pytest.mark.parametrize(
    ("facts", "changes"),
    [
        ({"scaled": True}, {}),  # clipped already
        ({"unscalable": True}, {}),  # the key would be refused
        ({}, {"evaluations": (-8.0, -9.0, -5.0, -3.0, -2.0)}),  # not yet 100,000 env steps
        ({"limit": None}, {}),
        ({}, {"length": 700.0}),  # episodes end
        ({}, {"evaluations": (-90.0, -60.0, -40.0, -25.0, -10.0, 5.0, 20.0, 26.0)}),  # it rises
        ({}, {"evaluations": (-8.0, 60.0, 80.0, 90.0, 90.0, 90.0, 90.0, 90.0)}),  # it gains something
        ({}, {"early": 20.0}),  # its first episodes cost nothing
    ],
)
def test_episodes_that_last_to_the_time_limit_are_no_news_otherwise(told, facts, changes):
    _waiting(Diagnosis(Situation(**{"limit": 1600, "target": 300} | facts), Clock()), **changes)
    assert "waits" not in names(told)


@pytest.mark.parametrize(("run", "refuses"), [("MAPPO", True), ("MADDPG", True), ("QMIX", False), ("PPO", False)])
def test_advice_to_scale_rewards_is_not_for_algorithms_that_refuse_it(told, run, refuses):
    config = parse(table.find(run), {}, "the test")
    facts = situation(config, "NoSuch-v0", {})
    assert facts.unscalable == refuses
    _standing_still(Diagnosis(facts, Clock()), rewards=(-5000.0,) * 40)
    assert ("reward_scaling" in "".join(one["text"] for one in told)) != refuses


def _hopping(seen, means, every=20_000, length=120.0, first=40.0, noise=0.0):
    """A result and an evaluation every ``every`` env steps, with ``means`` after ``first``; training is ``noise`` below."""
    for number, mean in enumerate((first, *means), 1):
        row = result(every * number, mean - noise, (number, mean, mean - 9, mean + 9))
        seen.see(row | {"episode_len_mean": length})


LEAPS = (180.0, 300.0, 340.0, 310.0, 370.0, 320.0, 350.0, 330.0, 360.0)  # Hopper-v5, which counts as solved at 3,800


@pytest.mark.parametrize(
    ("length", "ends"),
    [(120.0, "Episodes end after 120 of 1,000 steps"), (1000.0, "Episodes last to their limit of 1,000 steps")],
)
def test_a_policy_that_has_stood_still_for_long_far_below_what_is_wanted_is_told(told, length, ends):
    facts = Situation(limit=1000, target=3800, wider="Raise exploration_config.stddev (0.1)")
    _hopping(Diagnosis(facts, Clock()), LEAPS, length=length)
    assert names(told) == ["plateau"]
    assert "since env step 60,000" in told[0]["text"] and "370 at best, where 3,800 is wanted" in told[0]["text"]
    assert ends in told[0]["text"] and "Raise exploration_config.stddev (0.1)" in told[0]["text"]


@pytest.mark.parametrize(
    ("facts", "changes"),
    [
        ({"target": None}, {}),  # nobody says what is wanted
        ({"reads": True}, {}),
        ({"target": 600}, {}),  # more than half of the way is done
        ({}, {"every": 5000}),  # not yet for 100,000 env steps
        ({}, {"means": (180.0, 300.0, 400.0, 500.0, 600.0, 750.0, 900.0, 1000.0, 1100.0)}),  # it rises
        ({}, {"means": (*LEAPS[:5], 800.0, *LEAPS[5:])}),  # it has risen of late
        ({}, {"means": (41.0,) * 9}),  # it never rose, which another rule judges
    ],
)
def test_evaluations_that_stand_still_are_no_news_otherwise(told, facts, changes):
    seen = Diagnosis(Situation(**{"limit": 1000, "target": 3800} | facts), Clock())
    _hopping(seen, **{"means": LEAPS} | changes)
    assert "plateau" not in names(told)


def test_standing_still_is_judged_by_half_of_the_run_so_far(told):
    means = [180.0, *(180.0 + 200.0 * number for number in range(1, 6)), *(1200.0,) * 5]
    _hopping(Diagnosis(Situation(limit=1000, target=3800), Clock()), means, every=100_000)
    assert told == []  # 1,180 after 700,000 env steps of 1,200,000
    _hopping(Diagnosis(Situation(limit=1000, target=3800), Clock()), [*means, 1200.0, 1200.0], every=100_000)
    assert names(told) == ["plateau"]


@pytest.mark.parametrize(
    ("run", "given", "noise", "advice"),
    [
        ("PPO", {}, 300.0, "Training stays 300 or more below these greedy evaluations"),
        ("PPO", {}, 100.0, "Raise entropy_coeff"),  # less than half of what evaluations have gained
        ("PPO", {"model": {"free_log_std": True, "log_std_init": -2}}, 300.0, "Raise entropy_coeff"),
        ("PPO", {"use_sde": True}, 300.0, "Raise entropy_coeff"),
        ("TD3", {}, 300.0, "Raise exploration_config.stddev (0.1)"),
    ],
)
def test_noise_that_costs_what_could_be_gained_is_told_where_the_policy_begins_with_much(
    told, run, given, noise, advice
):
    config = parse(table.find(run), given, "the test")
    facts = situation(config, "HalfCheetah-v5", {"spaces": {"action": {"kind": "Box", "shape": [6]}}}, 4800.0)
    _hopping(Diagnosis(facts, Clock()), LEAPS, noise=noise)
    assert names(told) == ["plateau"] and advice in told[0]["text"]
    is_narrower = told[0]["text"].endswith("Set model={free_log_std: true, log_std_init: -2}, or try other seeds.")
    assert is_narrower == advice.startswith("Training")


def test_a_plateau_whose_cause_another_rule_names_is_told_by_that_rule_alone(told):
    stood = (-105.0, 2.0, 3.0, 1.0, 2.0, 1.0, 3.0, 2.0, 4.0, 3.0)
    _waiting(Diagnosis(Situation(limit=1600, target=300), Clock()), evaluations=stood)
    assert names(told) == ["waits"]
    _waiting(Diagnosis(Situation(limit=1600, target=300, unscalable=True), Clock()), evaluations=stood)
    assert names(told) == ["waits", "plateau"]  # it is one


@pytest.mark.parametrize(
    ("run", "given", "action", "wider"),
    [
        ("TD3", {}, {"kind": "Box", "shape": [3]}, "Raise exploration_config.stddev (0.1)"),
        (
            "DDPG",
            {"exploration_config": {"ou_base_scale": 0.2}},
            {"kind": "Box", "shape": [3]},
            "Raise exploration_config.ou_base_scale (0.2)",
        ),
        ("CROSSQ", {}, {"kind": "Box", "shape": [3]}, "Raise target_entropy (-3)"),
        ("SAC", {"target_entropy": -1.5}, {"kind": "Box", "shape": [3]}, "Raise target_entropy (-1.5)"),
        ("SAC", {}, {"kind": "Discrete", "n": 3}, "Raise target_entropy_fraction (0.3)"),
        ("DQN", {}, {"kind": "Discrete", "n": 3}, "Raise exploration_config.final_epsilon"),
        ("PPO", {}, {"kind": "Box", "shape": [3]}, "Raise entropy_coeff"),
        ("ARS", {}, {"kind": "Box", "shape": [3]}, "Raise noise_stdev"),
    ],
)
def test_situation_knows_what_makes_actions_vary_more(run, given, action, wider):
    config = parse(table.find(run), given, "the test")
    assert situation(config, "CartPole-v1", {"spaces": {"action": action}}).wider.startswith(wider)
