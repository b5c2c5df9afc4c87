"""Two small games whose best play is known: the two-step game and tic-tac-toe.

Registered by ``envs.bundled_envs``. Sources: Rashid et al. 2018 (arXiv 1803.11485, section 5), PettingZoo's tictactoe (1.27),
whose observation, mask and rewards tic-tac-toe has; it needs no package and steps about ten times as fast.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from drl_cli.envs.multi_agent.agent_view import view_of
from drl_cli.envs.multi_agent.multi_agent_env import AgentsStep, MultiAgentEnv

if TYPE_CHECKING:
    from drl_cli.envs.env_spec import EnvSpec

NO_AGENTS: frozenset[str] = frozenset()


class TwoStepGame(MultiAgentEnv):
    """Two agents, two steps, one payoff for the team: 8 for those who dare, 7 for sure.

    In the first step (state 0) the action of the first agent leads to state 1 or 2. In state 1 the team gets 7 whatever it
    does, in state 2 it gets ``PAYOFF[action of the first, action of the second]``. An agent observes the state and itself, one
    number of 0 or 1 for each, float32 [5]; ``state()`` is the first three of these. Each agent is paid half of the team's
    payoff, as in RLlib's example, so that the sum over agents is the team's.
    """

    PAYOFF = np.array([[0.0, 1.0], [1.0, 8.0]])
    agents = ("agent_1", "agent_2")
    is_turn_based = False

    FLAGS = ("separate_state_space", "one_hot_state_encoding", "actions_are_logits")

    def __init__(self, env_config: Mapping[str, bool] | None = None) -> None:
        """``env_config``: flags of RLlib's example that ask for what this one is: see ``FLAGS``; each can only be true.

        Raises ValueError for any other.
        """
        for flag, value in (env_config or {}).items():
            if flag not in self.FLAGS or value is not True:
                raise ValueError(f"{flag} {value!r:.40}: env_config takes {', '.join(self.FLAGS)}, each only as true")
        self._spec = view_of(spaces.Box(0, 1, (5,), np.float32), spaces.Discrete(2), None).spec
        self._state = 0
        self.notes = []

    def spaces(self, agent: str) -> EnvSpec:
        """Return the spaces of ``agent``: both have the same."""
        return self._spec

    def reset(self, seed: int | None = None) -> AgentsStep:
        """Begin an episode. Nothing is random."""
        self._state = 0
        return AgentsStep(self._obs(), {}, NO_AGENTS, NO_AGENTS, False, {})

    def step(self, actions: Mapping[str, np.ndarray]) -> AgentsStep:
        """Take one of the two steps."""
        first, second = (int(actions[agent]) for agent in self.agents)
        if self._state == 0:
            self._state = 1 + first
            return AgentsStep(self._obs(), dict.fromkeys(self.agents, 0.0), NO_AGENTS, NO_AGENTS, False, {})
        payoff = 7.0 if self._state == 1 else float(self.PAYOFF[first, second])
        paid = dict.fromkeys(self.agents, payoff / len(self.agents))
        return AgentsStep(self._obs(), paid, frozenset(self.agents), NO_AGENTS, True, {})

    def state(self) -> np.ndarray:
        """Return the state, one-hot, float32 [3]."""
        return np.eye(3, dtype=np.float32)[self._state]

    def _obs(self) -> dict[str, np.ndarray]:
        mine = np.eye(len(self.agents), dtype=np.float32)
        return {agent: np.concatenate([self.state(), mine[index]]) for index, agent in enumerate(self.agents)}

    def render(self) -> Any:
        """Return None: there is nothing to see."""

    def close(self) -> None:
        """Nothing is open."""


class BoardGame(MultiAgentEnv):
    """Two players place stones in turn. A win is 1 to the winner and −1 to the other, a draw 0 to both.

    An illegal move ends the game: −1 to the player that made it, 0 to the other.
    """

    is_turn_based = True

    def __init__(self, actions: int, rows: int, columns: int) -> None:
        """``actions``: number of moves; ``rows``, ``columns``: of the board."""
        parts: dict[str, spaces.Space] = {
            "action_mask": spaces.Box(0, 1, (actions,), np.int8),
            "observation": spaces.Box(0, 1, (rows, columns, 2), np.int8),
        }
        self._spec = view_of(spaces.Dict(parts), spaces.Discrete(actions), None).spec
        self._board = np.zeros(rows * columns, np.int8)  # 1 and −1: of the first and the second player
        self._turn = 0
        self.notes = []

    def spaces(self, agent: str) -> EnvSpec:
        """Return the spaces of ``agent``: both have the same."""
        return self._spec

    def reset(self, seed: int | None = None) -> AgentsStep:
        """Begin a game: the first player moves. Nothing is random."""
        self._board[:], self._turn = 0, 0
        return AgentsStep({self.agents[0]: self._obs(0)}, {}, NO_AGENTS, NO_AGENTS, False, {})

    def step(self, actions: Mapping[str, np.ndarray]) -> AgentsStep:
        """Place a stone for the player whose turn it is."""
        mover, other = self._turn, 1 - self._turn
        is_legal, wins = self._place(int(actions[self.agents[mover]]), 1 - 2 * mover)
        self._turn = other
        if is_legal and not wins and not self._board.all():
            return AgentsStep({self.agents[other]: self._obs(other)}, {}, NO_AGENTS, NO_AGENTS, False, {})
        paid = (1.0, -1.0) if wins else (0.0, 0.0) if is_legal else (-1.0, 0.0)
        rewards = {self.agents[mover]: paid[0], self.agents[other]: paid[1]}
        obs = {agent: self._obs(index) for index, agent in enumerate(self.agents)}
        return AgentsStep(obs, rewards, frozenset(self.agents), NO_AGENTS, True, {})

    @abstractmethod
    def _place(self, action: int, stone: int) -> tuple[bool, bool]:
        """Place ``stone`` (1 or −1) where ``action`` says, if that is legal; returns (is legal, wins)."""

    @abstractmethod
    def _obs(self, player: int) -> np.ndarray:
        """Return the board as ``player`` (0 or 1) sees it: the mask, then the squares."""

    def close(self) -> None:
        """Nothing is open."""


LINES = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]])
_SIDE = 64  # pixels of a square


class TicTacToe(BoardGame):
    """Three in a row on nine squares, numbered down the columns as PettingZoo numbers them; rewards as in ``BoardGame``.

    An agent observes its mask (9: 1 where a square is free), then for each square whether it is its own and whether it is the
    other's, float32 [27], as PettingZoo's, flattened. Taking an occupied square is illegal.
    """

    agents = ("player_1", "player_2")

    def __init__(self, render_mode: str | None = None) -> None:
        """``render_mode``: "rgb_array" or None; frames are drawn either way."""
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 2}
        super().__init__(9, 3, 3)

    def _place(self, action: int, stone: int) -> tuple[bool, bool]:
        if self._board[action]:
            return False, False
        self._board[action] = stone
        return True, bool((self._board[LINES].sum(axis=1) == 3 * stone).any())

    def _obs(self, player: int) -> np.ndarray:
        stone = 1 - 2 * player
        seen = np.empty(27, np.float32)
        seen[:9], seen[9::2], seen[10::2] = self._board == 0, self._board == stone, self._board == -stone
        return seen

    def render(self) -> np.ndarray:
        """Return the board, uint8 [194, 194, 3]: crosses of the first player, rings of the second."""
        size = 3 * _SIDE + 2
        frame = np.full((size, size, 3), 255, np.uint8)
        rows, columns = np.mgrid[:_SIDE, :_SIDE] - (_SIDE - 1) / 2
        near = np.maximum(abs(rows), abs(columns)) < 22
        marks = {1: near & (abs(abs(rows) - abs(columns)) < 4), -1: abs(np.hypot(rows, columns) - 20) < 3}
        colours = {1: (200, 60, 40), -1: (40, 80, 200)}
        for square, stone in enumerate(self._board.tolist()):
            top, left = (_SIDE + 1) * (square % 3), (_SIDE + 1) * (square // 3)  # numbered down the columns
            if stone:
                frame[top : top + _SIDE, left : left + _SIDE][marks[stone]] = colours[stone]
        frame[[_SIDE, 2 * _SIDE + 1]] = frame[:, [_SIDE, 2 * _SIDE + 1]] = 0
        return frame
