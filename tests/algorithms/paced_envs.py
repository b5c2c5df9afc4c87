"""Environments with every kind of actions, noisy observations and ends of both kinds; importing this registers them."""

import gymnasium
import numpy as np
from gymnasium import spaces

OBS, N = 3, 3
SEEN = spaces.Box(-np.inf, np.inf, (OBS,), np.float32)
ACTIONS = {
    "Box": spaces.Box(np.float32([-2, 0]), np.float32([2, 1])),
    "Discrete": spaces.Discrete(N, start=2),
    "MultiDiscrete": spaces.MultiDiscrete([2, 3]),
    "MultiBinary": spaces.MultiBinary(2),
}
ACTIONS["Composite"] = spaces.Tuple(
    (ACTIONS["Discrete"], spaces.Dict({"far": ACTIONS["Box"], "on": ACTIONS["MultiBinary"]}))
)


class Paced(gymnasium.Env):
    """Episodes of 3, 5, 7 or 9 steps by their seed. ``masked``: of three actions one is forbidden in each step."""

    metadata = {"render_modes": []}

    def __init__(self, actions="Discrete", masked=False):
        self.action_space, self.masked = ACTIONS[actions], masked
        mask = {"action_mask": spaces.MultiBinary(N)}
        self.observation_space = spaces.Dict({"seen": SEEN, **mask}) if masked else SEEN

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 3 + 2 * int(self.np_random.integers(4))
        return self._seen(), {}

    def step(self, action):
        if not self.action_space.contains(action):
            raise ValueError(f"{action} is no action")
        if self.masked and action - 2 == self.left % N:
            raise ValueError(f"{action} is forbidden")
        self.left -= 1
        return self._seen(), float(self.np_random.normal()), self.left == 0, False, {}

    def _seen(self):
        seen = self.np_random.normal(1.0, 2.0, OBS).astype(np.float32)
        return {"seen": seen, "action_mask": (np.arange(N) != self.left % N).astype(np.int8)} if self.masked else seen


gymnasium.register("Paced-v0", entry_point=Paced)
