"""What a result says of callbacks' numbers over many episodes."""

import math

from drl_cli.config.episode_metrics import LONGEST_HIST, MetricsWindow, summarised, summary


class Episode:
    def __init__(self, reward, length, custom_metrics=(), hist_data=(), policy_rewards=()):
        self.reward, self.length, self.is_cut = reward, length, False
        self.policy_rewards = dict(policy_rewards)
        self.custom_metrics, self.hist_data = dict(custom_metrics), dict(hist_data)
        self.success = None


def test_of_several_policies_the_returns_of_each_one_s_agents_are_summarised():
    episodes = [
        Episode(3.0, 5, policy_rewards={"a": [1.0, 2.0]}),
        Episode(4.0, 5, policy_rewards={"a": [0.0], "b": [4.0]}),
    ]
    found = summary(episodes)
    assert found["policy_reward_mean"] == {"a": 1.0, "b": 4.0}
    assert found["policy_reward_min"] == {"a": 0.0, "b": 4.0}
    assert found["policy_reward_max"] == {"a": 2.0, "b": 4.0}


def test_metrics_become_mean_least_and_most_over_the_episodes_that_have_them():
    custom, hist = summarised([({"angle": 1.0, "b": 5.0}, {"h": [1.0]}), ({"angle": 4.0}, {"h": [2.0, 3.0]})])
    assert custom == {
        "angle_mean": 2.5,
        "angle_min": 1.0,
        "angle_max": 4.0,
        "b_mean": 5.0,
        "b_min": 5.0,
        "b_max": 5.0,
    }
    assert hist == {"h": [1.0, 2.0, 3.0]}


def test_what_is_not_finite_does_not_count():
    custom, _ = summarised([({"a": math.nan, "b": math.inf}, {}), ({"a": 2.0}, {})])
    assert custom == {"a_mean": 2.0, "a_min": 2.0, "a_max": 2.0, "b_mean": None, "b_min": None, "b_max": None}


def test_a_histogram_keeps_the_newest_numbers():
    _, hist = summarised([({}, {"h": [float(i)] * 6000}) for i in range(2)])
    assert len(hist["h"]) == LONGEST_HIST == 10_000 and hist["h"].count(0.0) == 4000


def test_a_window_forgets_the_oldest_and_goes_on_from_its_state():
    window = MetricsWindow(2)
    window.add([({"a": 1.0}, {}), ({"a": 2.0}, {}), ({"a": 4.0}, {"h": [7.0]})])
    other = MetricsWindow(2)
    other.load(window.state())
    assert other.summarised() == window.summarised() == ({"a_mean": 3.0, "a_min": 2.0, "a_max": 4.0}, {"h": [7.0]})


def test_a_summary_has_metrics_only_where_there_are_some():
    assert summary([Episode(1.0, 10), Episode(3.0, 20)]) == {
        "episode_reward_mean": 2.0,
        "episode_reward_max": 3.0,
        "episode_reward_min": 1.0,
        "episode_len_mean": 15.0,
        "episodes_this_iter": 2,
        "episodes_cut": 0,
    }
    found = summary([Episode(1.0, 10, {"a": 2.0}, {"h": [1.0]})])
    assert found["custom_metrics"] == {"a_mean": 2.0, "a_min": 2.0, "a_max": 2.0} and found["hist_stats"] == {
        "h": [1.0]
    }
