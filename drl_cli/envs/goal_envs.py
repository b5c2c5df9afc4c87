"""Environments with goals: each episode desires one of many, and the reward says only whether it is reached.

Registered by ``envs.bundled_envs``. Their interface is that of gymnasium-robotics' GoalEnv (see ``envs.goals``); their
``compute_reward`` and ``compute_terminated`` take one pair of goals or rows of them.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from drl_cli.errors import EnvError

Obs = dict[str, np.ndarray]


class BitFlipping(gymnasium.Env):
    """Bits, each action flips one; the reward is -1 until they equal those desired.

    Source: Andrychowicz et al. 2017 (arXiv:1707.01495), section 3.1. With 20 bits or more, random actions hardly ever
    meet the goal, and without hindsight there is nothing to learn from.
    """

    def __init__(self, bits: int = 25) -> None:
        """``bits``: how many, 1 to 1000."""
        if not isinstance(bits, int) or not 1 <= bits <= 1000:
            raise EnvError(f"env_config.bits: {str(bits)[:60]} is no whole number from 1 to 1000.")
        self.action_space = gymnasium.spaces.Discrete(bits)
        of_bits = gymnasium.spaces.Box(0.0, 1.0, (bits,), np.float32)
        self.observation_space = gymnasium.spaces.Dict({"achieved_goal": of_bits, "desired_goal": of_bits})
        self._bits, self._goal = np.zeros(bits, np.float32), np.zeros(bits, np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, dict[str, Any]]:
        """Draw bits and a goal."""
        super().reset(seed=seed, options=options)
        self._bits, self._goal = self.np_random.integers(0, 2, (2, len(self._bits))).astype(np.float32)
        return self._obs(), {}

    def step(self, action: int) -> tuple[Obs, float, bool, bool, dict[str, Any]]:
        """Flip bit ``action``."""
        self._bits[action] = 1.0 - self._bits[action]
        there = bool(self.compute_terminated(self._bits, self._goal, {}))
        return self._obs(), -float(not there), there, False, {"is_success": there}

    def compute_terminated(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Any) -> Any:
        """Return whether all bits are as desired, bool [...] for goals [..., bits]."""
        return (np.abs(achieved_goal - desired_goal) < 0.5).all(axis=-1)

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Any) -> np.ndarray:
        """Return the reward, 0 or -1, float32 [...] for goals [..., bits]."""
        return np.where(self.compute_terminated(achieved_goal, desired_goal, info), 0.0, -1.0).astype(np.float32)

    def _obs(self) -> Obs:
        return {"achieved_goal": self._bits.copy(), "desired_goal": self._goal.copy()}


class PointReach(gymnasium.Env):
    """A point that is accelerated within a cube; the reward is -1 except within 0.05 of the place desired.

    Episodes do not end there: as in gymnasium-robotics' reaching tasks, the point is to stay. ``is_success`` of the last
    step counts.
    """

    NEAR, DT, DRAG = 0.05, 0.1, 0.9  # distance; time of a step; share of the velocity that a step leaves

    def __init__(self, dimensions: int = 3) -> None:
        """``dimensions``: of the cube [-1, 1]^d, 1 to 10."""
        if not isinstance(dimensions, int) or not 1 <= dimensions <= 10:
            raise EnvError(f"env_config.dimensions: {str(dimensions)[:60]} is no whole number from 1 to 10.")
        box = gymnasium.spaces.Box
        place = box(-1.0, 1.0, (dimensions,), np.float32)
        self.action_space = box(-1.0, 1.0, (dimensions,), np.float32)
        self.observation_space = gymnasium.spaces.Dict(
            {"observation": box(-1.0, 1.0, (dimensions,), np.float32), "achieved_goal": place, "desired_goal": place}
        )
        self._place, self._velocity, self._goal = np.zeros((3, dimensions), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, dict[str, Any]]:
        """Draw a place and a goal, uniformly; the point rests."""
        super().reset(seed=seed, options=options)
        self._place, self._goal = self.np_random.uniform(-1.0, 1.0, (2, len(self._place))).astype(np.float32)
        self._velocity = np.zeros_like(self._place)
        return self._obs(), {}

    def step(self, action: np.ndarray) -> tuple[Obs, float, bool, bool, dict[str, Any]]:
        """Accelerate by ``action``; walls stop the point."""
        push = np.clip(np.asarray(action, np.float32), -1.0, 1.0)
        self._velocity = np.clip(self.DRAG * self._velocity + self.DT * push, -1.0, 1.0)
        moved = self._place + self.DT * self._velocity
        self._place = np.clip(moved, -1.0, 1.0)
        self._velocity = np.where(moved == self._place, self._velocity, np.float32(0.0))
        reward = float(self.compute_reward(self._place, self._goal, {}))
        return self._obs(), reward, False, False, {"is_success": reward == 0.0}

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Any) -> np.ndarray:
        """Return the reward, 0 or -1, float32 [...] for places [..., dimensions]."""
        is_near = np.linalg.norm(achieved_goal - desired_goal, axis=-1) <= self.NEAR
        return np.where(is_near, 0.0, -1.0).astype(np.float32)

    def _obs(self) -> Obs:
        return {"observation": self._velocity, "achieved_goal": self._place, "desired_goal": self._goal}
