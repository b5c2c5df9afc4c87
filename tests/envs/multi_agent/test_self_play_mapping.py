"""Who plays whom in self-play, and on which side."""

import collections

import numpy as np
import pytest

from drl_cli.envs.multi_agent.policy_choice import EpisodeMapping, first_odds

AGENTS = ("x", "o")


def _agents(**given):
    playing = {
        "learner": "main",
        "slots": ["main_0"],
        "scripted": ["random"],
        "own_share": 0.5,
        "evaluate_against": ["random", "perfect"],
        **given,
    }
    return {
        "spaces": dict.fromkeys(AGENTS),
        "policies": {},
        "mapping": None,
        "mapping_fn": None,
        "self_play": playing,
    }


def _drawn(mapping, count=2000):
    found = [mapping.of_episode(0) for _ in range(count)]
    return collections.Counter((one["x"], one["o"]) for one in found)


def test_sides_are_exchanged_at_random():
    drawn = _drawn(EpisodeMapping(_agents(), (0, 0)))
    assert set(drawn) == {("main", "main"), ("main", "random"), ("random", "main")}
    assert drawn["main", "main"] == pytest.approx(1000, abs=100)
    assert drawn["main", "random"] == pytest.approx(500, abs=100)


def test_odds_that_come_with_weights_decide_from_then_on():
    mapping = EpisodeMapping(_agents(), (0, 0))
    mapping.adopt({"main": {}, "self_play": {"odds": np.float32([0, 0, 1])}})
    assert set(_drawn(mapping, 50)) == {("main", "main_0"), ("main_0", "main")}
    mapping.adopt({"main": {}})
    assert set(_drawn(mapping, 50)) == {("main", "main_0"), ("main_0", "main")}


def test_opponents_repeat_with_the_seed_and_go_on_from_a_state():
    mapping, same = (EpisodeMapping(_agents(), (3, 1)) for _ in range(2))
    first = [mapping.of_episode(0) for _ in range(10)]
    assert first == [same.of_episode(0) for _ in range(10)]
    resumed = EpisodeMapping(_agents(), (3, 1))
    resumed.load(mapping.state())
    assert [resumed.of_episode(0) for _ in range(10)] == [mapping.of_episode(0) for _ in range(10)]


def test_an_evaluation_takes_opponents_in_turn_on_every_side():
    mapping = EpisodeMapping(_agents(), (0, 0))
    found = [tuple(mapping.of_evaluation(number).values()) for number in range(5)]
    assert found == [
        ("main", "random"),
        ("random", "main"),
        ("main", "perfect"),
        ("perfect", "main"),
        ("main", "random"),
    ]


def test_without_opponents_by_name_the_first_games_are_against_itself():
    np.testing.assert_array_equal(first_odds(_agents(scripted=[])["self_play"]), [1, 0])
