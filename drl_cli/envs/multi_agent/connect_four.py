"""Connect four: four in a row on six rows of seven columns, for two players in turn.

Registered by ``envs.bundled_envs``. Source: PettingZoo's connect_four (1.27), whose observation, mask and rewards it has.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from drl_cli.envs.multi_agent.small_games import BoardGame

ROWS, COLUMNS = 6, 7
_STONES = ROWS * COLUMNS
_DIRECTIONS = ((0, 1), (1, 0), (1, 1), (1, -1))
_SIDE = 32  # pixels of a square


def board_of(obs: np.ndarray) -> np.ndarray:
    """Return the board that an agent observes, int [6, 7]: 1 of its own, −1 of the other's; row 0 is on top."""
    return (obs[COLUMNS::2] - obs[COLUMNS + 1 :: 2]).astype(int).reshape(ROWS, COLUMNS)


def has_four(board: np.ndarray, row: int, column: int) -> bool:
    """Whether the stone at ``row``, ``column`` is one of four in a line."""
    stone = board[row, column]
    for down, right in _DIRECTIONS:
        count = 1
        for way in (1, -1):
            y, x = row + way * down, column + way * right
            while 0 <= y < ROWS and 0 <= x < COLUMNS and board[y, x] == stone:
                count, y, x = count + 1, y + way * down, x + way * right
        if count >= 4:
            return True
    return False


class ConnectFour(BoardGame):
    """Stones fall down columns; four in a row, column or diagonal win; rewards as in ``BoardGame``.

    An agent observes its mask (7: 1 where a column has room), then for each square, from the top left, whether it is its own
    and whether it is the other's, float32 [91]. Choosing a full column is illegal.
    """

    agents = ("player_0", "player_1")

    def __init__(self, render_mode: str | None = None) -> None:
        """``render_mode``: "rgb_array" or None; frames are drawn either way."""
        super().__init__(COLUMNS, ROWS, COLUMNS)

    def _place(self, action: int, stone: int) -> tuple[bool, bool]:
        board = self._board.reshape(ROWS, COLUMNS)
        row = int((board[:, action] == 0).sum()) - 1
        if row < 0:
            return False, False
        board[row, action] = stone
        return True, has_four(board, row, action)

    def _obs(self, player: int) -> np.ndarray:
        stone, board = 1 - 2 * player, self._board
        seen = np.empty(COLUMNS + 2 * _STONES, np.float32)
        seen[:COLUMNS] = board[:COLUMNS] == 0
        seen[COLUMNS::2], seen[COLUMNS + 1 :: 2] = board == stone, board == -stone
        return seen

    def render(self) -> Any:
        """Return the board, uint8 [192, 224, 3]: red stones of the first player, yellow ones of the second."""
        rows, columns = np.mgrid[:_SIDE, :_SIDE] - (_SIDE - 1) / 2
        disc = np.hypot(rows, columns) < 0.42 * _SIDE
        frame = np.full((ROWS * _SIDE, COLUMNS * _SIDE, 3), (30, 60, 160), np.uint8)
        colours = {0: (240, 240, 240), 1: (210, 50, 40), -1: (240, 200, 40)}
        for row in range(ROWS):
            for column in range(COLUMNS):
                square = frame[row * _SIDE : (row + 1) * _SIDE, column * _SIDE : (column + 1) * _SIDE]
                square[disc] = colours[int(self._board[COLUMNS * row + column])]
        return frame
