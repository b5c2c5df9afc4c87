"""Games of two policies: how they are counted."""

import pytest

from drl_cli.actors.part_records import ScoredEpisode
from drl_cli.analysis.matches import match, wilson


def _game(own, other):
    return ScoredEpisode(own, 5, 0, True, policy_rewards={"main": [own], "random": [other]})


def test_games_are_won_drawn_and_lost_by_returns():
    found = match([_game(1.0, -1.0), _game(0.0, 0.0), _game(-1.0, 1.0), _game(1.0, -1.0)])
    assert (found["games"], found["won"], found["drawn"], found["lost"]) == (4, 2, 1, 1)
    assert (found["win_rate"], found["loss_rate"], found["score"]) == (0.5, 0.25, 0.625)


def test_the_opponents_agents_count_by_their_mean():
    game = ScoredEpisode(1.0, 5, 0, True, policy_rewards={"main": [1.0], "opponent": [2.0, 0.5]})
    assert match([game])["lost"] == 1


@pytest.mark.parametrize(
    ("hits", "count", "low", "high"),
    [(0, 1000, 0.0, 0.0038268), (50, 100, 0.4038315, 0.5961685), (10, 10, 0.7224672, 1.0)],
)
def test_the_interval_is_wilsons(hits, count, low, high):
    assert wilson(hits, count) == pytest.approx((low, high), abs=1e-6)
