"""Environments for processes of their own: one that waits for others, dies or raises when told to."""

import os
import time
from pathlib import Path

import gymnasium
import numpy as np


class Slow(gymnasium.Env):
    """Observes how many steps it has made and its process; action 1 raises, action 2 kills the process.

    Action 3 waits until as many environments as ``together`` are in this step, which they note in the folder ``meeting``.
    """

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gymnasium.spaces.Discrete(4)

    def __init__(self, meeting=None, together=0):
        self._meeting, self._together, self._steps = meeting, together, 0

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
            self._meet(Path(self._meeting))
        self._steps += 1
        return self._obs(), float(self.np_random.random()), self._steps >= 6, False, {}

    def _meet(self, folder):
        (folder / str(os.getpid())).touch()
        began = time.monotonic()
        while len(list(folder.iterdir())) < self._together:
            if time.monotonic() - began > 60:
                raise TimeoutError("the others have not come")
            time.sleep(0.005)  # the processes share nothing but the folder, and no pipe says that a file came

    def _obs(self):
        return np.array([self._steps, os.getpid()], np.float64)


gymnasium.register("Slow-v0", Slow)
