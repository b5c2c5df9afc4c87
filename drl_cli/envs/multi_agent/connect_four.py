"""Connect four: four in a row on six rows of seven columns, for two players in turn.

Registered by ``envs.bundled_envs``. Source: PettingZoo's connect_four (1.27), whose observation, mask and rewards it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from drl_cli.envs.multi_agent.agent_view import view_of
from drl_cli.envs.multi_agent.multi_agent_env import AgentsStep, MultiAgentEnv

if TYPE_CHECKING:
    from drl_cli.envs.env_spec import EnvSpec

ROWS, COLUMNS = 6, 7
_STONES = ROWS * COLUMNS
_DIRECTIONS = ((0, 1), (1, 0), (1, 1), (1, -1))
_SIDE = 32  # pixels of a square
_NOBODY: frozenset[str] = frozenset()


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


class ConnectFour(MultiAgentEnv):
    """Stones fall down columns; four in a row, column or diagonal win: 1 to the winner, −1 to the other, a draw 0 to both.

    An agent observes its mask (7: 1 where a column has room), then for each square, from the top left, whether it is its own
    and whether it is the other's, float32 [91]. A full column ends the game: −1 to who chose it, 0 to the other.
    """

    agents = ("player_0", "player_1")
    is_turn_based = True

    def __init__(self, render_mode: str | None = None) -> None:
        """``render_mode``: "rgb_array" or None; frames are drawn either way."""
        parts: dict[str, spaces.Space] = {
            "action_mask": spaces.Box(0, 1, (COLUMNS,), np.int8),
            "observation": spaces.Box(0, 1, (ROWS, COLUMNS, 2), np.int8),
        }
        self._spec = view_of(spaces.Dict(parts), spaces.Discrete(COLUMNS), None).spec
        self._board = np.zeros((ROWS, COLUMNS), np.int8)  # 1 and −1: of the first and the second player
        self._turn = 0
        self.notes = []

    def spaces(self, agent: str) -> EnvSpec:
        """Return the spaces of ``agent``: both have the same."""
        return self._spec

    def reset(self, seed: int | None = None) -> AgentsStep:
        """Begin a game: the first player moves. Nothing is random."""
        self._board[:], self._turn = 0, 0
        return AgentsStep({self.agents[0]: self._obs(0)}, {}, _NOBODY, _NOBODY, False, {})

    def step(self, actions: Mapping[str, np.ndarray]) -> AgentsStep:
        """Drop a stone for the player whose turn it is."""
        mover, other = self._turn, 1 - self._turn
        column, stone = int(actions[self.agents[mover]]), 1 - 2 * mover
        row = int((self._board[:, column] == 0).sum()) - 1
        is_legal = row >= 0
        wins = False
        if is_legal:
            self._board[row, column] = stone
            wins = has_four(self._board, row, column)
        self._turn = other
        if is_legal and not wins and not self._board[0].all():
            return AgentsStep({self.agents[other]: self._obs(other)}, {}, _NOBODY, _NOBODY, False, {})
        paid = (1.0, -1.0) if wins else (0.0, 0.0) if is_legal else (-1.0, 0.0)
        rewards = {self.agents[mover]: paid[0], self.agents[other]: paid[1]}
        obs = {agent: self._obs(index) for index, agent in enumerate(self.agents)}
        return AgentsStep(obs, rewards, frozenset(self.agents), _NOBODY, True, {})

    def _obs(self, player: int) -> np.ndarray:
        stone, board = 1 - 2 * player, self._board.ravel()
        seen = np.empty(COLUMNS + 2 * _STONES, np.float32)
        seen[:COLUMNS] = self._board[0] == 0
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
                square[disc] = colours[int(self._board[row, column])]
        return frame

    def close(self) -> None:
        """Nothing is open."""
