"""Connect four: four in a row on six rows of seven columns, for two players in turn.

Registered by ``envs.bundled_envs``. Source: PettingZoo's connect_four (1.27), whose observation, mask and rewards it has.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from drl_cli.envs.multi_agent.multi_agent_env import AgentsStep
from drl_cli.envs.multi_agent.small_games import NO_AGENTS, BoardGame

ROWS, COLUMNS = 6, 7
_SQUARES = ROWS * COLUMNS
_WIDTH = COLUMNS + 1  # bits of a row in a set of stones: one stays free, so that no line goes on in the next row
_STEPS = (1, _WIDTH, _WIDTH + 1, _WIDTH - 1)  # from square to square along a row, a column and the two diagonals
_BITS = [1 << (_WIDTH * row + column) for row in range(ROWS) for column in range(COLUMNS)]
_SIDE = 32  # pixels of a square


def bit_of(row: int, column: int) -> int:
    """Return the set of stones that has the one at ``row``, ``column``; row 0 is on top."""
    return _BITS[COLUMNS * row + column]


def stones_of(obs: np.ndarray) -> tuple[int, int]:
    """Return the stones that an agent observes (float32 [91]), its own and the other's, each a set as of ``bit_of``."""
    seen = obs[COLUMNS:].reshape(_SQUARES, 2)
    own, other = (sum(_BITS[square] for square in np.flatnonzero(seen[:, side]).tolist()) for side in (0, 1))
    return own, other


def has_four(stones: int) -> bool:
    """Whether a set of stones has four in a line."""
    for step in _STEPS:
        pairs = stones & (stones >> step)
        if pairs & (pairs >> 2 * step):
            return True
    return False


class ConnectFour(BoardGame):
    """Stones fall down columns; four in a row, column or diagonal win; rewards as in ``BoardGame``.

    An agent observes its mask (7: 1 where a column has room), then for each square, from the top left, whether it is its own
    and whether it is the other's, float32 [91]. Choosing a full column is illegal.
    """

    agents = ("player_0", "player_1")

    def __init__(self, render_mode: str | None = None, random_moves: int = 0) -> None:
        """``render_mode``: "rgb_array" or None; frames are drawn either way.

        ``random_moves``: a game begins after up to so many random moves, any number of them as likely, which do not end it:
        the learning policy meets positions that good play does not lead to. Raises ValueError for any other than 0 to 40.
        """
        if type(random_moves) is not int or not 0 <= random_moves <= _SQUARES - 2:
            raise ValueError(f"random_moves {random_moves!r:.40}: it must be a whole number in [0, {_SQUARES - 2}]")
        super().__init__(COLUMNS, ROWS, COLUMNS)
        self._random_moves = random_moves
        self._stones, self._free = [0, 0], [ROWS] * COLUMNS  # of each player; squares left in each column
        self._seen = np.zeros((2, COLUMNS + 2 * _SQUARES), np.float32)  # by each player

    def reset(self, seed: int | None = None) -> AgentsStep:
        """Begin a game. Nothing is random but ``random_moves``."""
        self._empty()
        if self._random_moves:
            rng = np.random.default_rng(seed)
            while not self._opened(rng):
                self._empty()
        return AgentsStep({self.agents[self._turn]: self._obs(self._turn)}, {}, NO_AGENTS, NO_AGENTS, False, {})

    def _empty(self) -> None:
        self._board[:], self._turn = 0, 0
        self._stones, self._free = [0, 0], [ROWS] * COLUMNS
        self._seen[:] = 0.0
        self._seen[:, :COLUMNS] = 1.0

    def _opened(self, rng: np.random.Generator) -> bool:
        """Make the random moves on an empty board; returns whether the game goes on after them."""
        for _ in range(int(rng.integers(self._random_moves + 1))):
            free = [column for column, squares in enumerate(self._free) if squares]
            _, wins = self._place(free[rng.integers(len(free))], 1 - 2 * self._turn)
            if wins:
                return False
            self._turn = 1 - self._turn
        return True

    def _place(self, action: int, stone: int) -> tuple[bool, bool]:
        row, player = self._free[action] - 1, (1 - stone) // 2
        if row < 0:
            return False, False
        square = COLUMNS * row + action
        self._free[action], self._board[square] = row, stone
        self._stones[player] |= _BITS[square]
        at = COLUMNS + 2 * square
        self._seen[player, at] = self._seen[1 - player, at + 1] = 1.0
        if row == 0:
            self._seen[:, action] = 0.0
        return True, has_four(self._stones[player])

    def _obs(self, player: int) -> np.ndarray:
        return self._seen[player].copy()

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
