"""Environments whose actions are a Dict or a Tuple: importing this registers Levers-v0."""

import gymnasium
import numpy as np
from gymnasium import spaces

NESTED = spaces.Dict(
    {
        "arm": spaces.Tuple((spaces.Discrete(3, start=-1), spaces.Box(np.float32([-2, 0]), np.float32([2, 1])))),
        "bulbs": spaces.MultiBinary(2),
        "dials": spaces.MultiDiscrete([2, 4], start=[0, 5]),
        "tilt": spaces.Box(-1.0, 1.0, (), np.float64),
    }
)
"""A vector of it: arm.0 (from 0), arm.1 (2 numbers), bulbs (2), dials (2, from 0), tilt."""


class Levers(gymnasium.Env):
    """Refuses what is no action of ``NESTED``, keeps the last one as ``given``, and ends after 12 steps.

    Its observation is a running mix of all numbers of the actions so far.
    """

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = NESTED
    metadata = {"render_modes": []}
    given = None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left, self.sum = 12, self.np_random.random(2)
        return self.sum.astype(np.float32), {}

    def step(self, action):
        if not self.action_space.contains(action):
            raise ValueError(f"{action} is no action")
        Levers.given = action
        choice, far = action["arm"]
        self.left -= 1
        self.sum = 0.9 * self.sum + [choice + float(action["tilt"]), far @ [1, 2] + action["bulbs"] @ [3, 4]]
        reward = float(choice == 1) - abs(float(far[0])) + float(action["dials"][1] == 8)
        return self.sum.astype(np.float32), reward, self.left == 0, False, {}


gymnasium.register("Levers-v0", entry_point=Levers)
