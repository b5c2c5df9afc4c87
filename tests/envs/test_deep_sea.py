"""Deep sea: what steps to the right cost and bring, and what is drawn."""

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from drl_cli.envs.deep_sea import DeepSea
from drl_cli.errors import EnvError


def dive(env, to_the_right):
    """Return (observations, rewards, the last info) of an episode that goes to the right, or never."""
    obs, _ = env.reset()
    seen, rewards, ended, info = [obs], [], False, {}
    while not ended:
        row, column = divmod(int(np.argmax(seen[-1])), int(np.sqrt(len(obs))))
        action = env.right_action(row, column)
        obs, reward, ended, truncated, info = env.step(action if to_the_right else 1 - action)
        assert not truncated
        seen.append(obs)
        rewards.append(reward)
    return seen, rewards, info


def test_gymnasiums_checker_finds_nothing():
    check_env(DeepSea(5), skip_render_check=True)


def test_going_to_the_right_costs_a_hundredth_in_all_and_finds_the_treasure():
    seen, rewards, info = dive(DeepSea(4), to_the_right=True)
    assert [int(np.argmax(obs)) for obs in seen[:-1]] == [0, 5, 10, 15]
    assert not seen[-1].any()
    assert rewards == pytest.approx([-0.0025, -0.0025, -0.0025, 0.9975])
    assert info == {"is_success": True}


def test_going_to_the_left_stays_at_the_wall_and_costs_nothing():
    seen, rewards, info = dive(DeepSea(4), to_the_right=False)
    assert [int(np.argmax(obs)) for obs in seen[:-1]] == [0, 4, 8, 12]
    assert rewards == [0.0] * 4
    assert info == {"is_success": False}


def test_actions_differ_between_cells_and_with_the_seed_of_the_mapping():
    def actions(env):
        return [env.right_action(row, column) for row in range(8) for column in range(8)]

    assert actions(DeepSea(8)) == actions(DeepSea(8)) != actions(DeepSea(8, mapping_seed=1))
    assert set(actions(DeepSea(8))) == {0, 1}


@pytest.mark.parametrize("size", [1, 101, 2.0, "8"])
def test_size_out_of_range_is_one_line(size):
    with pytest.raises(EnvError, match="no whole number from 2 to 100") as caught:
        DeepSea(size)
    assert "\n" not in str(caught.value)
