"""A curriculum: a corridor that gets longer when the agent has learnt to walk the present one.

    cd docs/examples
    drl train --run PPO --env Corridor --import own_curriculum -s env_task_fn=longer \
        -s metrics_smoothing_episodes=20 --stop timesteps_total=60000

The same from callbacks: -s callbacks=longer instead of -s env_task_fn=longer.
"""

import gymnasium as gym
import numpy as np

from drl_cli import Callbacks, register_callbacks, register_env, register_env_task_fn

LENGTHS = (4, 8, 16, 32)


class Corridor(gym.Env):
    """The reward waits at the end of a corridor; which way that is, the observation tells."""

    def __init__(self):
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self.length = LENGTHS[0]

    def set_task(self, task):
        """Make the corridor ``task`` steps long, from the next reset on."""
        self.length = task

    def get_task(self):
        """Return the length of the corridor."""
        return self.length

    def reset(self, *, seed=None, options=None):
        """Begin in the middle of the way."""
        super().reset(seed=seed)
        self.side, self.left = int(self.np_random.choice([-1, 1])), self.length
        self.steps = 0
        return self._obs(), {}

    def step(self, action):
        """Walk to one side or to the other."""
        self.left += -1 if (action == 1) == (self.side == 1) else 1
        self.steps += 1
        over = self.left == 0
        return self._obs(), self.length if over else 0.0, over, self.steps >= 2 * self.length, {}

    def _obs(self):
        return np.array([self.side, np.tanh(self.left / 32)], np.float32)


def longer(train_results, task_settable_env, env_ctx):
    """Return the next length when nine episodes of ten reach the end; RLlib's signature."""
    length, mean = task_settable_env.get_task(), train_results["episode_reward_mean"]
    if mean is None or mean < 0.9 * length:
        return length
    return LENGTHS[min(LENGTHS.index(length) + 1, len(LENGTHS) - 1)]


class Longer(Callbacks):
    """The same as a callback."""

    def on_train_result(self, *, result, trainer, workers, **more):
        """Set the task after an iteration, and report how long the corridors are."""
        trainer.set_task(longer(result, trainer, trainer.config.env_config))
        result["corridors"] = [env for envs in workers.foreach_env(lambda env: env.unwrapped.length) for env in envs]


register_env("Corridor", Corridor)
register_env_task_fn("longer", longer)
register_callbacks("longer", Longer)
