"""The two-step game's payoffs, and tic-tac-toe beside PettingZoo's."""

import itertools

import numpy as np
import pytest

from drl_cli.envs.multi_agent import open_envs
from drl_cli.envs.multi_agent.small_games import TicTacToe, TwoStepGame


@pytest.mark.parametrize("actions", list(itertools.product((0, 1), repeat=4)))
def test_two_step_game_pays_what_rashid_et_al_say(actions):
    env = TwoStepGame()
    step = env.reset(0)
    assert env.state().tolist() == [1, 0, 0] and step.obs["agent_2"].tolist() == [1, 0, 0, 0, 1]
    first, second, third, fourth = actions
    step = env.step({"agent_1": np.int64(first), "agent_2": np.int64(second)})
    assert env.state().tolist() == ([0, 0, 1] if first else [0, 1, 0]) and sum(step.rewards.values()) == 0
    step = env.step({"agent_1": np.int64(third), "agent_2": np.int64(fourth)})
    assert step.is_over and step.terminated == {"agent_1", "agent_2"}
    assert sum(step.rewards.values()) == ([[0, 1], [1, 8]][third][fourth] if first else 7)


@pytest.mark.parametrize("seed", range(20))
def test_tic_tac_toe_is_pettingzoos(seed):
    ours, theirs = TicTacToe(), open_envs.open_env("classic/tictactoe-v3", {}, "aec")
    assert ours.agents == tuple(theirs.agents) and ours.spaces("player_1") == theirs.spaces("player_1")
    rng, mine, other = np.random.default_rng(seed), ours.reset(), theirs.reset(0)
    while not mine.is_over:
        (agent,) = mine.acting()
        assert other.acting() == [agent] and mine.obs[agent].tolist() == other.obs[agent].tolist()
        free = np.flatnonzero(mine.obs[agent][:9])
        # Now and then a square that may be taken already.
        square = rng.integers(9) if rng.random() < 0.05 else rng.choice(free)
        mine, other = ours.step({agent: square}), theirs.step({agent: square})
    assert other.is_over and mine.rewards == other.rewards and mine.ended == other.ended
    assert [mine.obs[agent][9:].tolist() for agent in ours.agents] == [
        other.obs[agent][9:].tolist() for agent in ours.agents
    ]


def test_tic_tac_toe_draws_a_cross_where_the_first_player_moved():
    env = TicTacToe()
    env.reset()
    env.step({"player_1": np.int64(1)})
    frame = env.render()
    assert frame.shape == (194, 194, 3) and (frame[97, 32] == (200, 60, 40)).all() and (frame[32, 97] == 255).all()


def test_flags_of_rllibs_two_step_game_are_taken_where_they_ask_for_what_it_is():
    given = {"separate_state_space": True, "one_hot_state_encoding": True, "actions_are_logits": True}
    assert TwoStepGame(env_config=given).agents == ("agent_1", "agent_2")
    with pytest.raises(ValueError, match="one_hot_state_encoding False: env_config takes"):
        TwoStepGame(env_config={"one_hot_state_encoding": False})
