"""The pool of frozen copies: ratings, win rates, odds and freezing, by hand."""

import numpy as np
import pytest

from drl_cli.actors.opponent_pool import OpponentPool
from drl_cli.config.sections.self_play import SelfPlayConfig
from drl_cli.errors import CheckpointError

RANDOM, FIRST, SECOND = 1, 2, 3  # numbers among the players


def _pool(**keys):
    config = SelfPlayConfig(**{"opponents": 2, "scripted": ["random"], "freeze_interval": 100, **keys})
    setup = {
        "learner": "main",
        "slots": [f"main_{index}" for index in range(config.opponents)],
        "scripted": list(config.scripted),
        "own_share": config.own_share,
        "evaluate_against": ["random"],
    }
    return OpponentPool(config, setup)


def _games(*pairs):
    return np.float32(pairs)


def test_ratings_move_as_elo_says():
    pool = _pool()
    pool.note(_games((RANDOM, 1.0)))
    assert pool.stats()["elo"] == 1008.0  # 16 · (1 − 0.5)
    pool.note(_games((RANDOM, 0.0)))
    # d = 16: expected 1 / (1 + 10^(−16 / 400)) = 0.523010
    assert pool.stats()["elo"] == pytest.approx(1008.0 - 16 * 0.5230096, abs=1e-4)
    assert pool._state["ratings"].sum() == pytest.approx(4000.0)


def test_games_against_itself_change_nothing():
    pool = _pool()
    pool.note(_games((0, 1.0)))
    assert pool.stats() == _pool().stats()


def test_win_rates_are_over_the_latest_games():
    pool = _pool(win_window=4)
    pool.note(_games(*[(RANDOM, 0.0)] * 3, (RANDOM, 1.0), (RANDOM, 0.5), (RANDOM, 1.0)))
    np.testing.assert_allclose(pool.win_rates(), [(0.0 + 1.0 + 0.5 + 1.0) / 4, 0.5, 0.5])
    assert pool.stats()["games_random"] == 6


def test_copies_are_frozen_by_the_interval_and_the_oldest_is_replaced():
    pool = _pool()
    assert [pool.freeze(steps) for steps in (99, 100, 150, 200, 300, 399)] == [
        None,
        "main_0",
        None,
        "main_1",
        "main_0",
        None,
    ]
    assert pool.stats()["copies_frozen"] == 3
    assert pool.stats()["opponents"] == 3


def test_a_copy_is_frozen_once_the_newest_one_is_beaten():
    pool = _pool(freeze_interval=None, freeze_win_rate=0.6)
    assert pool.freeze(1) == "main_0"  # there is none yet
    pool.note(_games(*[(FIRST, 1.0)] * 19))
    assert pool.freeze(2) is None  # too few games to say
    pool.note(_games((FIRST, 1.0)))
    assert pool.freeze(3) == "main_1"
    assert pool.freeze(4) is None
    pool.note(_games(*[(SECOND, 1.0)] * 11, *[(SECOND, 0.0)] * 9))
    assert pool.freeze(5) is None  # 0.55


def test_a_new_copy_has_the_learners_rating_and_no_games():
    pool = _pool(opponents=1)
    pool.freeze(100)
    pool.note(_games((FIRST, 1.0), (RANDOM, 1.0)))
    pool.freeze(200)
    assert pool._state["ratings"][2] == pool._state["ratings"][0]
    assert pool.win_rates()[1] == 0.5


def test_odds_are_shared_by_who_is_there():
    pool = _pool(own_share=0.4)
    np.testing.assert_allclose(pool.odds, [0.4, 0.6, 0, 0])
    pool.freeze(100)
    np.testing.assert_allclose(pool.odds, [0.4, 0.3, 0.3, 0])
    pool.freeze(200)
    np.testing.assert_allclose(pool.odds, [0.4, 0.2, 0.2, 0.2])


def test_without_anybody_else_the_learner_meets_itself():
    np.testing.assert_allclose(_pool(scripted=[], own_share=0.4).odds, [1, 0, 0])


def test_the_newest_copy_is_met_beside_opponents_by_name():
    pool = _pool(choose="newest")
    pool.freeze(100)
    pool.freeze(200)
    np.testing.assert_allclose(pool.odds, [0.5, 0.25, 0, 0.25])


def test_who_is_rarely_beaten_is_met_more_often():
    pool = _pool(choose="prioritised", priority_power=2.0)
    pool.freeze(100)
    pool.note(_games(*[(RANDOM, 1.0)] * 3, (RANDOM, 0.0)))  # (1 − 0.75)² = 0.0625; the copy (1 − 0.5)² = 0.25
    np.testing.assert_allclose(pool.odds, [0.5, 0.1, 0.4, 0])


def test_who_always_loses_is_still_met_when_all_do():
    pool = _pool(choose="prioritised", opponents=0)
    pool.note(_games((RANDOM, 1.0)))
    np.testing.assert_allclose(pool.odds, [0.5, 0.5])


def test_a_pool_goes_on_from_its_state():
    pool = _pool()
    pool.freeze(100)
    pool.note(_games((RANDOM, 1.0), (FIRST, 0.5)))
    other = _pool()
    other.load(pool.state())
    assert other.stats() == pool.stats()
    assert other.freeze(150) is None
    assert other.freeze(200) == pool.freeze(200) == "main_1"
    with pytest.raises(CheckpointError, match="opponents"):
        _pool(opponents=3).load(pool.state())
