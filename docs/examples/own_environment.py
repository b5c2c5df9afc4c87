"""A custom environment: registered under a name, then used like any other.

A robot moves along a corridor to the exit at its end; every step has a small cost, and the robot may slip. Environments have
gymnasium's interface: spaces, reset and step.

    drl train --import own_environment --run PPO --env Corridor-v0 --stop evaluation/episode_reward_mean=0.5
    drl train --import own_environment --run DQN --env Corridor-v0 --config '{"env_config": {"length": 12}}'
    drl env check Corridor-v0 --import own_environment
    drl rollout RUN --import own_environment
    python own_environment.py
"""

import gymnasium as gym
import numpy as np

from drl_cli import Trainer, register_env

BACK, FORTH = 0, 1


class Corridor(gym.Env):
    """A corridor of ``length`` cells. The observation is the robot's position, from 0 to 1; the exit is at 1."""

    metadata = {"render_modes": ["ansi"]}

    def __init__(self, length=8, slip=0.1, render_mode=None):
        """``length`` and ``slip`` come from ``env_config``."""
        self.length, self.slip, self.render_mode = length, slip, render_mode
        self.observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float32)
        self.action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        """Start an episode: all randomness comes from the seeded ``self.np_random``, so that runs are reproducible."""
        super().reset(seed=seed)
        self.cell = 0
        return self._seen(), {}

    def step(self, action):
        """Take a step. ``terminated``: a terminal state has been reached; gymnasium handles the time limit."""
        if self.np_random.random() < self.slip:
            action = BACK
        self.cell = max(0, self.cell + (1 if action == FORTH else -1))
        at_exit = self.cell == self.length
        return self._seen(), 1.0 if at_exit else -0.02, at_exit, False, {}

    def render(self):
        """Return the corridor as a line of text."""
        return "".join("R" if cell == self.cell else "." for cell in range(self.length)) + "|"

    def _seen(self):
        return np.array([self.cell / self.length], np.float32)


# The first argument is the name for --env, the second constructs the environment; the rest are gymnasium's keywords.
register_env("Corridor-v0", Corridor, max_episode_steps=100, reward_threshold=0.5)


def main(iterations=5):
    """Train without Ray, then play one episode in a longer corridor step by step."""
    config = {"num_workers": 0, "timesteps_per_iteration": 2000, "env_config": {"length": 12}}
    with Trainer("PPO", env="Corridor-v0", config=config) as trainer:
        for _ in range(iterations):
            result = trainer.train()
            print(f"{result['timesteps_total']:>6} steps: mean reward {result['episode_reward_mean']:.2f}")
        env = Corridor(length=12, render_mode="ansi")
        obs, _ = env.reset(seed=1)
        terminated, steps = False, 0
        while not terminated and steps < 100:
            obs, _, terminated, _, _ = env.step(trainer.compute_action(obs))
            steps += 1
            print(env.render())
        return steps


if __name__ == "__main__":
    main()
