"""Copies of an environment with one agent: each is that environment, by itself."""

import gymnasium
import numpy as np
import pytest

from drl_cli.envs import make
from drl_cli.envs.multi_agent import open_envs
from drl_cli.envs.multi_agent.copies import Copies, tiled
from drl_cli.randomness import number


def test_each_copy_is_the_environment_with_a_seed_of_its_own_and_ends_by_itself():
    env = open_envs.open_env("CartPole-v1", {}, "copies", 3)
    assert env.agents == ["0", "1", "2"] and not env.is_turn_based
    step, alone = env.reset(5), []
    for index in range(3):
        alone.append(gymnasium.make("CartPole-v1"))
        assert alone[index].reset(seed=number(5, "env", index))[0].tolist() == step.obs[str(index)].tolist()
    assert len({obs.tobytes() for obs in step.obs.values()}) == 3
    rng, ended, left = np.random.default_rng(0), [], {"0", "1", "2"}
    while not step.is_over:
        assert set(step.acting()) == left
        actions = {agent: rng.integers(2) for agent in step.acting()}
        step = env.step(actions)
        for agent, action in actions.items():
            obs, reward, terminated, truncated, _ = alone[int(agent)].step(int(action))
            assert (step.obs[agent].tolist(), step.rewards[agent]) == (obs.tolist(), reward)
            assert (agent in step.terminated, agent in step.truncated) == (terminated, truncated)
        left -= step.ended
        ended.append(len(step.ended))
    assert sum(ended) == 3 and max(ended) < 3
    env.close()
    env.close()


def test_copy_with_a_reward_that_is_not_finite_is_named():
    class Broken(gymnasium.Wrapper):
        def step(self, action):
            obs, _, *rest = self.env.step(action)
            return obs, float("nan"), *rest

    env = Copies(lambda: Broken(make.make("CartPole-v1", {})), 2)
    env.reset(0)
    with pytest.raises(FloatingPointError, match="agent '0': observation or reward is not finite"):
        env.step({"0": np.int64(0), "1": np.int64(0)})


def test_frames_of_copies_stand_side_by_side_in_rows():
    frames = [np.full((2, 3, 3), shade, np.uint8) for shade in (1, 2, 3)]
    picture = tiled(frames)
    assert picture.shape == (4, 6, 3)
    assert [picture[0, 0, 0], picture[0, 3, 0], picture[2, 0, 0], picture[2, 3, 0]] == [1, 2, 3, 0]
    env = open_envs.open_env("CartPole-v1", {}, "copies", 2, "rgb_array")
    env.reset(0)
    assert env.render().shape == (400, 1200, 3)
