"""Minimax of tic-tac-toe, and connect four two moves ahead."""

import numpy as np
import pytest

from drl_cli.envs.multi_agent import scripted
from drl_cli.envs.multi_agent.agent_functions import register_opponent
from drl_cli.envs.multi_agent.connect_four import ConnectFour
from drl_cli.envs.multi_agent.scripted import ScriptedOpponent
from drl_cli.envs.multi_agent.small_games import TicTacToe
from drl_cli.errors import InputError, PluginFailed
from drl_cli.plugins import OPPONENTS


def _games(env, names, count):
    """Return how often each of two opponents by name won."""
    spaces = env.spaces(env.agents[0])
    players = [ScriptedOpponent(name, spaces, 1) for name in names]
    rng, won = np.random.default_rng(0), [0, 0]
    for _ in range(count):
        step = env.reset()
        while not step.is_over:
            (agent,) = step.acting()
            player = players[env.agents.index(agent)]
            player.see(0, step.obs[agent])
            step = env.step({agent: player.act([0], [rng])[0]})
        for index, agent in enumerate(env.agents):
            won[index] += step.rewards[agent] > 0
    return won


def test_perfect_players_draw_tic_tac_toe():
    assert _games(TicTacToe(), ["tic-tac-toe-minimax"] * 2, 50) == [0, 0]


def test_minimax_never_loses_to_random_moves():
    first, second = _games(TicTacToe(), ["tic-tac-toe-minimax", "random"], 50)
    assert (first > 40, second) == (True, 0)
    first, second = _games(TicTacToe(), ["random", "tic-tac-toe-minimax"], 50)
    assert (first, second > 25) == (0, True)


def test_all_nine_first_squares_are_as_good():
    obs = TicTacToe().reset().obs["player_1"]
    player = ScriptedOpponent("tic-tac-toe-minimax", TicTacToe().spaces("player_1"), 1)
    player.see(0, obs)
    rng = np.random.default_rng(0)
    assert {int(player.act([0], [rng])[0]) for _ in range(200)} == set(range(9))


def _columns(moves, name="connect-four-depth-2"):
    env = ConnectFour()
    step = env.reset()
    for column in moves:
        (agent,) = step.acting()
        step = env.step({agent: np.int64(column)})
    (agent,) = step.acting()
    player = ScriptedOpponent(name, env.spaces(agent), 1)
    player.see(0, step.obs[agent])
    rng = np.random.default_rng(0)
    return {int(player.act([0], [rng])[0]) for _ in range(100)}


def test_a_win_is_taken():
    assert _columns([0, 1, 0, 1, 0, 1]) == {0}


def test_a_threat_is_met():
    assert _columns([0, 1, 0, 1, 0]) == {0}


def test_without_threats_any_column_will_do():
    assert _columns([]) == set(range(7))


def test_two_moves_ahead_beat_random_moves():
    first, second = _games(ConnectFour(), ["connect-four-depth-2", "random"], 40)
    assert first > 30 > second


def test_opponents_are_named_in_full():
    spaces = TicTacToe().spaces("player_1")
    with pytest.raises(InputError, match="Did you mean 'random'"):
        scripted.check("randon", spaces)
    with pytest.raises(InputError, match="its game alone"):
        scripted.check("connect-four-depth-2", spaces)


def test_an_opponent_of_ones_own_gets_what_is_legal():
    asked = []

    def lowest(obs, legal, rng):
        asked.append(legal)
        return np.flatnonzero(legal)[0]

    register_opponent("lowest", lowest)
    register_opponent("wrong", lambda obs, legal, rng: 9)
    try:
        spaces = TicTacToe().spaces("player_1")
        scripted.check("lowest", spaces)
        player = ScriptedOpponent("lowest", spaces, 1)
        player.see(0, np.float32([0, 1] + [1] * 7 + [0] * 18))
        assert player.act([0], [np.random.default_rng(0)]).tolist() == [1]
        assert asked[0].tolist() == [False] + [True] * 8
        with pytest.raises(PluginFailed, match="opponent wrong chose '9'; an action is a whole number from 0 to 8"):
            ScriptedOpponent("wrong", spaces, 1).act([0], [np.random.default_rng(0)])
    finally:
        for name in ("lowest", "wrong"):
            OPPONENTS._things.pop(name)
