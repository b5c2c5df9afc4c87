"""Environments that break each rule of the interface; imported by tests as a user's module."""

import gymnasium
import numpy as np

BOX = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)


class Sound(gymnasium.Env):
    """Well-behaved; what the others bend."""

    observation_space = BOX
    action_space = BOX
    metadata = {"render_modes": []}

    def __init__(self, render_mode=None, twist=None):
        self.twist = twist

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self.twist == "reset raises":
            raise KeyError("no such level")
        if self.twist == "reset exits":
            raise SystemExit(3)
        obs = np.zeros(3 if self.twist == "shape" else 2, np.float32)
        if self.twist == "nan":
            obs[1] = np.nan
        if self.twist == "words":
            return "words", {}
        return obs if self.twist == "old reset" else (obs, {})

    def step(self, action):
        obs = np.zeros(2, np.float32)
        if self.twist == "step raises":
            raise RuntimeError("motor\nburnt")
        if self.twist == "old step":
            return obs, 0.0, False, {}
        reward = {"reward nan": float("nan"), "reward word": "much", "reward pair": [1.0, 2.0]}.get(self.twist, 1.0)
        done = 0 if self.twist == "done is int" else False
        return obs, reward, done, False, [] if self.twist == "info is list" else {}

    def close(self):
        if self.twist == "close raises":
            raise OSError("stuck")


SPACES = {
    "discrete": {"action_space": gymnasium.spaces.Discrete(2)},
    "unbounded": {"action_space": gymnasium.spaces.Box(-1.0, np.inf, (2,), np.float32)},
    "huge": {"action_space": gymnasium.spaces.Box(-3e38, 3e38, (1,), np.float32)},
    "matrix": {"action_space": gymnasium.spaces.Box(-1.0, 1.0, (2, 2), np.float32)},
    "whole": {"action_space": gymnasium.spaces.Box(0, 5, (1,), np.int32)},
    "multi": {"action_space": gymnasium.spaces.MultiDiscrete([2, 3])},
    "image": {"observation_space": gymnasium.spaces.Box(0, 255, (32, 32, 3), np.uint8)},
    "table": {"observation_space": gymnasium.spaces.Box(0.0, 1.0, (2, 3), np.float32)},
    "dict": {"observation_space": gymnasium.spaces.Dict({"a": BOX})},
    "number": {"observation_space": gymnasium.spaces.Discrete(7)},
}

gymnasium.register("Crooked-v3", entry_point=Sound, max_episode_steps=50, reward_threshold=7.5)
gymnasium.register("Crooked-v1", entry_point=Sound)
for name, changes in SPACES.items():
    gymnasium.register(f"Crooked-{name}-v0", entry_point=type(f"Sound{name}", (Sound,), changes))
