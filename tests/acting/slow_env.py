"""Environments for processes of their own: one that takes its time, dies or raises when told to."""

import os
import time

import gymnasium
import numpy as np


class Slow(gymnasium.Env):
    """Observes how many steps it has made and its process; action 1 raises, action 2 kills the process, 3 waits."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gymnasium.spaces.Discrete(4)

    def __init__(self, wait=0.0):
        self._wait, self._steps = wait, 0

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self._steps = 0
        return self._obs(), {}

    def step(self, action):
        if action == 1:
            raise ArithmeticError("told to")
        if action == 2:
            os._exit(7)
        if action == 3:
            time.sleep(self._wait)
        self._steps += 1
        return self._obs(), float(self.np_random.random()), self._steps >= 6, False, {}

    def _obs(self):
        return np.array([self._steps, os.getpid()], np.float64)


gymnasium.register("Slow-v0", Slow)
