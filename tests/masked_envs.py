"""An environment whose observations say which of its actions are allowed, and which breaks where another is taken."""

import gymnasium
import numpy as np
from gymnasium import spaces

N = 4
MASK = spaces.MultiBinary(N)


class Doors(gymnasium.Env):
    """Step t allows the actions t mod 4 and (t + 1) mod 4, counted from ``start``; taking the latter pays 1. 20 steps."""

    metadata = {"render_modes": []}

    def __init__(self, render_mode=None, start=0, mask=MASK, actions=None):
        self.observation_space = spaces.Dict({"time": spaces.Box(0, 1, (2,), np.float32), "action_mask": mask})
        self.action_space = actions or spaces.Discrete(N, start=start)
        self.start = start

    def _seen(self):
        mask = np.zeros(N, np.int8)
        mask[[self.at % N, (self.at + 1) % N]] = 1
        return {"time": np.float32([self.at / 20, 1.0]), "action_mask": mask}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = int(self.np_random.integers(N))
        self.end = self.at + 20
        return self._seen(), {}

    def step(self, action):
        taken = action - self.start
        if taken not in (self.at % N, (self.at + 1) % N):
            raise ValueError(f"action {action} in step {self.at}")
        reward = float(taken == (self.at + 1) % N)
        self.at += 1
        return self._seen(), reward, self.at == self.end, False, {}


gymnasium.register("Doors-v0", entry_point=Doors)
