"""CartPole without velocities is CartPole in all but what is seen."""

import gymnasium
import numpy as np

from drl_cli.envs import make


def test_stateless_cartpole_shows_position_and_angle_of_the_same_game():
    mine, whole = make.make("drl/StatelessCartPole-v1", {}), gymnasium.make("CartPole-v1")
    seen, full = mine.reset(seed=3)[0], whole.reset(seed=3)[0]
    for action in [0, 1, 1, 0, *[1] * 16]:
        assert seen.dtype == np.float32 and seen.tolist() == full[[0, 2]].tolist()
        assert mine.observation_space.contains(seen)
        (seen, *mine_rest), (full, *whole_rest) = mine.step(action), whole.step(action)
        assert mine_rest == whole_rest
        if whole_rest[1]:
            break
    assert whole_rest[1]  # it fell


def test_stateless_cartpole_is_known_by_name_limit_and_threshold():
    assert make.resolve("drl/StatelessCartPole-v1").notice is None
    assert make.time_limit("drl/StatelessCartPole-v1") == 500
    assert make.reward_threshold("drl/StatelessCartPole-v1") == 475.0
    assert make.describe(make.make("drl/StatelessCartPole-v1", {}))["obs"]["shape"] == [2]


def test_stateless_cartpole_draws_frames():
    env = make.make("drl/StatelessCartPole-v1", {}, render_mode="rgb_array")
    env.reset(seed=0)
    assert env.render().shape == (400, 600, 3)
