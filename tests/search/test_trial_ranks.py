import pytest
import searches
import yaml
from searches import METRIC, trial

from drl_cli.config.strict_yaml import load_yaml_text
from drl_cli.search import trial_ranks

WRITE = {"path": "best.yaml", "top": 2, "seeds": 3}


def test_higher_score_comes_first_and_failed_trials_are_left_out():
    trials = {
        0: trial(0, 0.1, 5.0),
        1: trial(1, 0.2, 9.0),
        2: trial(2, 0.3, 99.0, state="failed"),
        3: trial(3, 0.4, None),
    }
    assert trial_ranks.ranked(searches.data(), trials) == [1, 0]


def test_lower_score_comes_first_where_low_is_good():
    trials = {0: trial(0, 0.1, 5.0), 1: trial(1, 0.2, 9.0)}
    assert trial_ranks.ranked(searches.data(mode="min"), trials) == [0, 1]


def test_of_those_that_reached_the_goal_the_one_with_fewer_steps_is_best():
    trials = {0: trial(0, 0.1, 499.0, 9000), 1: trial(1, 0.2, 480.0, 3000), 2: trial(2, 0.3, 470.0, 1000)}
    assert trial_ranks.ranked(searches.data(goal=475), trials) == [1, 0, 2]


def test_best_are_trained_again_on_the_same_fresh_seeds():
    data = searches.data(write=WRITE)
    trials = {0: trial(0, 0.1, 5.0), 1: trial(1, 0.2, 9.0), 2: trial(2, 0.3, 7.0)}
    points = trial_ranks.rescoring_points(data, trials, 3)
    assert [(p["trial"], p["rescore"], p["values"]["lr"]) for p in points] == [
        (3, 1, 0.2), (4, 1, 0.2), (5, 1, 0.2), (6, 2, 0.3), (7, 2, 0.3), (8, 2, 0.3),
    ]  # fmt: skip
    seeds = [p["seed"] for p in points]
    assert seeds[:3] == seeds[3:] and len(set(seeds)) == 3 and 7 not in seeds


@pytest.fixture
def again():
    """Trial 1 looked best, and was lucky: on fresh seeds trial 2 is better."""
    trials = {1: trial(1, 0.2, 90.0), 2: trial(2, 0.3, 70.0)}
    scores = {3: (1, 10.0), 4: (1, 20.0), 5: (1, 30.0), 6: (2, 60.0), 7: (2, 80.0), 8: (2, 70.0)}
    for number, (origin, score) in scores.items():
        trials[number] = trial(number, 0.1 * (origin + 1), score, rescore=origin)
        trials[number]["point"]["seed"] = 1000 + number
    return trials


def test_best_mean_on_fresh_seeds_wins_and_its_median_run_stands_for_it(again):
    assert trial_ranks.rescored(searches.data(), again) == [(2, [60.0, 80.0, 70.0], 8), (1, [10.0, 20.0, 30.0], 4)]


def test_trial_of_which_a_seed_failed_is_out(again):
    again[6]["state"] = "failed"
    assert [entry[0] for entry in trial_ranks.rescored(searches.data(), again)] == [1]


def test_file_holds_the_values_and_the_seed_that_shows_the_score(again):
    text = trial_ranks.file_text(searches.data(write=WRITE), again, "drl train -f x")
    written, _ = load_yaml_text(text, "best.yaml")
    config = {"lr": pytest.approx(0.3), "seed": 1008, "adam_epsilon": 1e-5}  # the last: a file means RLlib's without it
    assert written == {"cartpole": {"run": "PPO", "env": "CartPole-v1", "config": config, "stop": {}}}
    head = [line for line in text.splitlines() if line.startswith("#")]
    assert head[0] == "# Found by: drl train -f x"
    assert "#   trial 2: 70 ± 10 (60, 80, 70) after 1,000 env steps on average" in head
    assert "#   trial 1: 20 ± 10 (10, 20, 30) after 1,000 env steps on average" in head
    assert "# This is trial 2. With the seed below it ended at 70 after 1,000 env steps." in head


def test_file_of_a_search_over_a_file_leaves_out_what_that_left_out(again):
    data = searches.data(write=WRITE)
    data["experiments"][0]["is_from_file"] = True
    written, _ = load_yaml_text(trial_ranks.file_text(data, again, "drl train -f x"), "best.yaml")
    assert "adam_epsilon" not in written["cartpole"]["config"]


def test_file_says_what_it_needs_and_what_is_not_repeatable(again):
    data = searches.data(write=WRITE, flags={"imports": ["my_envs"]})
    data["experiments"][0]["mapping"] |= {"stop": {"time_total_s": 60}, "num_samples": 4}
    data["experiments"][0]["mapping"]["config"] |= {"num_workers": 2, "env_config": {"token": "abc"}}
    text = trial_ranks.file_text(data, again, "drl train")
    assert "# It needs: --import my_envs\n" in text
    assert "# With workers runs are not reproducible exactly" in text
    assert "# It has a time limit" in text
    assert "abc" not in text and "num_samples" not in text
    assert yaml.safe_load(text)["cartpole"]["config"]["env_config"] == {"token": "***"}


def test_pass_criteria_are_demanded_of_the_mean_over_an_experiments_trials():
    data = searches.data()
    data["experiments"][0]["mapping"]["pass_criteria"] = {METRIC: 100}
    trials = {0: trial(0, 0.1, 90.0), 1: trial(1, 0.2, 110.0), 2: trial(2, 0.2, 0.0, state="stopped")}
    assert trial_ranks.missed(data, trials) == []
    trials[1] = trial(1, 0.2, 108.0)
    assert trial_ranks.missed(data, trials) == [f"cartpole: {METRIC} is 99 on average over 2 trials; required >= 100"]


def test_what_assert_demands_is_demanded_of_the_mean_over_an_experiments_trials():
    data = searches.data(demands=[[METRIC, "<", 95.0]])
    trials = {0: trial(0, 0.1, 90.0), 1: trial(1, 0.2, 110.0)}
    assert trial_ranks.missed(data, trials) == [f"cartpole: {METRIC} is 100 on average over 2 trials; required < 95"]
    assert trial_ranks.missed(data | {"demands": [[METRIC, "<", 101.0]]}, trials) == []
