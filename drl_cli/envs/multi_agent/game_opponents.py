"""Players of the bundled board games: perfect tic-tac-toe, and connect four that looks two moves ahead.

Both choose at random among moves that they find equal. Used by ``scripted``.
"""

from __future__ import annotations

import functools

import numpy as np

from drl_cli.envs.multi_agent.connect_four import COLUMNS, ROWS, bit_of, has_four, stones_of
from drl_cli.envs.multi_agent.small_games import LINES

Board = tuple[int, ...]  # nine squares: 1 of who is to move, −1 of the other, 0 free


def tic_tac_toe_minimax(obs: np.ndarray, legal: np.ndarray, rng: np.random.Generator) -> int:
    """Return one of the best squares; ``obs``: as ``small_games.TicTacToe`` shows it, float32 [27]."""
    board = tuple((obs[9::2] - obs[10::2]).astype(int).tolist())
    return int(rng.choice(_best_squares(board)))


@functools.cache
def _best_squares(board: Board) -> list[int]:
    values = {square: -_value(_moved(board, square)) for square in range(9) if board[square] == 0}
    best = max(values.values())
    return [square for square, value in values.items() if value == best]


@functools.cache
def _value(board: Board) -> int:
    """Return the value of a board for who is to move: 1 won, 0 drawn, −1 lost, with best play of both."""
    sums = np.array(board)[LINES].sum(axis=1)
    if (sums == -3).any():
        return -1
    if all(board):
        return 0
    return max(-_value(_moved(board, square)) for square in range(9) if board[square] == 0)


def _moved(board: Board, square: int) -> Board:
    """Return the board after a move, as the other sees it."""
    return tuple(-1 if at == square else -stone for at, stone in enumerate(board))


def connect_four_depth_2(obs: np.ndarray, legal: np.ndarray, rng: np.random.Generator) -> int:
    """Return a column that wins; else one after which the other cannot win at once; else any.

    ``obs``: as ``connect_four.ConnectFour`` shows it, float32 [91].
    """
    own, other = stones_of(obs)
    moves = {column: bit_of(_lowest(own | other, column), column) for column in np.flatnonzero(legal).tolist()}
    winning = [column for column, bit in moves.items() if has_four(own | bit)]
    if winning:
        return int(rng.choice(winning))
    safe = [column for column, bit in moves.items() if not _can_win(other, own | bit)]
    return int(rng.choice(safe or list(moves)))


def _lowest(stones: int, column: int) -> int:
    """Return the row in which a stone comes to rest; −1 where the column is full."""
    return next((row for row in reversed(range(ROWS)) if not stones & bit_of(row, column)), -1)


def _can_win(own: int, other: int) -> bool:
    """Whether who owns ``own`` has a move that wins."""
    rows = ((_lowest(own | other, column), column) for column in range(COLUMNS))
    return any(has_four(own | bit_of(row, column)) for row, column in rows if row >= 0)
