"""Connect four: lines, full columns, what players see."""

import numpy as np
import pytest

from drl_cli.envs.multi_agent.connect_four import ConnectFour, bit_of, has_four, stones_of

FIRST, SECOND = ConnectFour.agents


def _played(columns):
    env = ConnectFour()
    step = env.reset()
    for column in columns:
        (agent,) = step.acting()
        step = env.step({agent: np.int64(column)})
    return env, step


@pytest.mark.parametrize(
    ("columns", "winner"),
    [
        ([0, 1, 0, 1, 0, 1, 0], FIRST),  # a column
        ([0, 0, 1, 1, 2, 2, 3], FIRST),  # a row
        ([6, 0, 0, 1, 1, 2, 2, 3], SECOND),
        ([0, 1, 1, 2, 2, 3, 2, 3, 3, 6, 3], FIRST),  # a diagonal
        ([6, 5, 5, 4, 4, 3, 4, 3, 3, 0, 3], FIRST),  # the other one
    ],
)
def test_four_in_a_line_win(columns, winner):
    _, step = _played(columns)
    loser = SECOND if winner == FIRST else FIRST
    assert step.is_over
    assert step.rewards == {winner: 1.0, loser: -1.0}


def test_three_and_one_apart_do_not_win():
    _, step = _played([0, 0, 1, 1, 3, 3, 4])
    assert not step.is_over


def test_a_full_board_is_a_draw():
    order = [0, 1, 2, 3, 4, 5, 6]
    board = np.zeros((6, 7), int)
    env = ConnectFour()
    step = env.reset()
    rng = np.random.default_rng(0)
    for _ in range(2000):  # games at random until one is drawn
        while not step.is_over:
            (agent,) = step.acting()
            legal = np.flatnonzero(step.obs[agent][:7])
            step = env.step({agent: rng.choice(legal)})
        if set(step.rewards.values()) == {0.0}:
            break
        step = env.reset()
    assert set(step.rewards.values()) == {0.0}
    assert len(order) == board.shape[1]
    assert not step.obs[FIRST][:7].any()


def test_a_full_column_is_not_legal_and_ends_the_game():
    env, step = _played([0] * 6)
    assert step.obs[FIRST][:7].tolist() == [0, 1, 1, 1, 1, 1, 1]
    step = env.step({FIRST: np.int64(0)})
    assert step.is_over
    assert step.rewards == {FIRST: -1.0, SECOND: 0.0}


def test_each_player_sees_its_own_stones_first():
    _, step = _played([3])
    assert stones_of(step.obs[SECOND]) == (0, bit_of(5, 3))
    _, step = _played([3, 2])
    assert stones_of(step.obs[FIRST]) == (bit_of(5, 3), bit_of(5, 2))


def test_a_game_begins_with_an_empty_board():
    env, _ = _played([0, 1, 0, 1, 0, 1, 0])
    step = env.reset()
    assert step.obs[FIRST].tolist() == [1.0] * 7 + [0.0] * 84


@pytest.mark.parametrize(
    ("squares", "is_line"),
    [
        ([(5, 0), (5, 1), (5, 2), (5, 3)], True),
        ([(0, 3), (0, 4), (0, 5), (0, 6)], True),
        ([(2, 6), (3, 6), (4, 6), (5, 6)], True),
        ([(2, 0), (3, 1), (4, 2), (5, 3)], True),
        ([(0, 6), (1, 5), (2, 4), (3, 3)], True),
        ([(5, 0), (5, 1), (5, 2), (5, 4)], False),
        ([(0, 5), (0, 6), (1, 0), (1, 1)], False),  # a row does not go on in the next one
        ([(0, 5), (1, 6), (3, 0), (4, 1)], False),  # nor does a diagonal
        ([(1, 1), (2, 0), (2, 6), (3, 5)], False),
    ],
)
def test_four_in_a_line_within_the_board_are_found(squares, is_line):
    assert has_four(sum(bit_of(row, column) for row, column in squares)) == is_line


def test_games_after_random_moves_are_those_of_the_seed_and_go_on():
    env, begun, counts = ConnectFour(random_moves=3), {}, set()
    for seed in (*range(40), *range(40)):
        step = env.reset(seed)
        (agent,) = step.acting()
        own, other = stones_of(step.obs[agent])
        assert begun.setdefault(seed, (own, other)) == (own, other)
        counts.add((own | other).bit_count())
        assert env.agents.index(agent) == (own | other).bit_count() % 2
        assert (step.rewards, step.is_over) == ({}, False)
        assert list(env.step({agent: np.int64(3)}).obs) == [env.agents[1 - env.agents.index(agent)]]
    assert counts == {0, 1, 2, 3}
    assert len(set(begun.values())) > 10


def test_random_moves_do_not_end_a_game():
    env = ConnectFour(random_moves=40)
    steps = [env.reset(seed) for seed in range(100)]
    assert not any(step.is_over or step.rewards for step in steps)


@pytest.mark.parametrize("count", [-1, 41, 2.5, True, "4"])
def test_random_moves_that_are_no_number_of_moves_are_refused(count):
    with pytest.raises(ValueError, match=r"it must be a whole number in \[0, 40\]"):
        ConnectFour(random_moves=count)


def test_the_board_is_drawn():
    env, _ = _played([3])
    frame = env.render()
    assert frame.shape == (192, 224, 3)
    assert frame[176, 112].tolist() == [210, 50, 40]
