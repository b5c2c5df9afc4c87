"""An environment whose returns are known: every step gives 1, for ever or for five steps; importing this registers it."""

import gymnasium
import numpy as np

STEPS = 5
FOR_EVER = np.eye(1 + STEPS, dtype=np.float32)[0]
COUNTING = np.eye(1 + STEPS, dtype=np.float32)[1:]  # what is seen before each of the five steps


class Counting(gymnasium.Env):
    """Episodes of two kinds by their seed: in one all looks alike and nothing ends; the other ends at its fifth step."""

    observation_space = gymnasium.spaces.Box(0, 1, (1 + STEPS,), np.float32)
    metadata = {"render_modes": []}

    def __init__(self, discrete=False, composite=False):
        one = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2) if discrete else one
        if composite:
            self.action_space = gymnasium.spaces.Tuple((gymnasium.spaces.Discrete(2), one))

    def reset(self, *, seed=None, options=None):
        self.at, self.ends = 0, seed % 2 == 1
        return self._seen(), {}

    def step(self, action):
        self.at += 1
        return self._seen(), 1.0, self.ends and self.at == STEPS, False, {}

    def _seen(self):
        if not self.ends:
            return FOR_EVER
        return COUNTING[self.at] if self.at < STEPS else np.zeros(1 + STEPS, np.float32)


gymnasium.register("CountedReward-v0", entry_point=Counting)
