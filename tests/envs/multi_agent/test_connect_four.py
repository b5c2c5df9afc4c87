"""Connect four: lines, full columns, what players see."""

import numpy as np
import pytest

from drl_cli.envs.multi_agent.connect_four import ConnectFour, board_of, has_four

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
    board = board_of(step.obs[SECOND])
    assert board[5, 3] == -1
    assert np.abs(board).sum() == 1
    _, step = _played([3, 2])
    assert board_of(step.obs[FIRST])[5, 2:4].tolist() == [-1, 1]


def test_lines_are_counted_through_the_new_stone():
    board = np.zeros((6, 7), int)
    board[5, :4] = 1
    assert has_four(board, 5, 2)
    assert not has_four(board[:, 1:], 5, 0)


def test_the_board_is_drawn():
    env, _ = _played([3])
    frame = env.render()
    assert frame.shape == (192, 224, 3)
    assert frame[176, 112].tolist() == [210, 50, 40]
