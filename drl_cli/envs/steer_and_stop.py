"""An environment with parametrised actions: each step is a choice, and a number says how far it goes.

Registered by ``envs.bundled_envs``. Such actions: Masson et al. 2016, "Reinforcement Learning with Parameterized Actions"
(arXiv 1509.01644); Hausknecht & Stone 2016 (arXiv 1511.04143). The task is a domain of this program's own.
"""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np

from drl_cli.errors import EnvError, suggestion

TURN, DRIVE, STOP = 0, 1, 2
SPACES = gymnasium.spaces
KINDS = ("tuple", "dict")


class SteerAndStop(gymnasium.Env):
    """A vehicle in the square [-1, 1]² that turns, drives or stops; it is to stop within 0.1 of a target.

    Actions: the choice among TURN by π·angle (angle in [-1, 1]), DRIVE ahead by a distance in [0, 0.5], and STOP, which ends
    the episode; the numbers of other choices have no effect. Observations: float32 [3], the distance to the target, cosine
    and sine of its direction seen from the vehicle. Reward: what a step brings the vehicle nearer, less 0.02; of STOP 1 at
    the target and -1 anywhere else, less 0.02. Random actions stop after three steps on average, hardly ever at the target.
    """

    NEAR, FARTHEST, COST = 0.1, 0.5, 0.02

    def __init__(self, kind: str = "tuple") -> None:
        """``kind``: "tuple", (choice, [angle, distance]), or "dict" with the keys angle, choice and distance."""
        if kind not in KINDS:
            hint = suggestion(str(kind), KINDS) or f" It is one of {', '.join(KINDS)}."
            raise EnvError(f"env_config.kind: {str(kind)[:60]!r} is no kind of action space.{hint}")
        self._is_dict = kind == "dict"
        low, high = np.array([-1.0, 0.0], np.float32), np.array([1.0, self.FARTHEST], np.float32)
        if self._is_dict:
            angle, distance = (SPACES.Box(low[at], high[at], (1,), np.float32) for at in (slice(0, 1), slice(1, 2)))
            self.action_space = SPACES.Dict({"angle": angle, "choice": SPACES.Discrete(3), "distance": distance})
        else:
            self.action_space = SPACES.Tuple((SPACES.Discrete(3), SPACES.Box(low, high, dtype=np.float32)))
        most = np.array([math.sqrt(8.0), 1.0, 1.0], np.float32)
        self.observation_space = SPACES.Box(np.array([0.0, -1.0, -1.0], np.float32), most, dtype=np.float32)
        self._place, self._target, self._heading = np.zeros(2), np.zeros(2), 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Draw place, target and heading, uniformly."""
        super().reset(seed=seed, options=options)
        self._place, self._target = self.np_random.uniform(-1.0, 1.0, (2, 2))
        self._heading = float(self.np_random.uniform(-math.pi, math.pi))
        return self._obs(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Turn, drive or stop; walls stop the vehicle."""
        if self._is_dict:
            choice, angle, distance = action["choice"], float(action["angle"][0]), float(action["distance"][0])
        else:
            choice, (angle, distance) = action[0], np.asarray(action[1], float).tolist()
        before = self._distance()
        if choice == TURN:
            self._heading += math.pi * min(max(angle, -1.0), 1.0)
        elif choice == DRIVE:
            ahead = np.array([math.cos(self._heading), math.sin(self._heading)])
            self._place = np.clip(self._place + min(max(distance, 0.0), self.FARTHEST) * ahead, -1.0, 1.0)
        is_there = choice == STOP and before <= self.NEAR
        ending = (1.0 if is_there else -1.0) if choice == STOP else 0.0
        reward = before - self._distance() + ending - self.COST
        return self._obs(), reward, choice == STOP, False, {"is_success": is_there}

    def _distance(self) -> float:
        return float(np.hypot(*(self._target - self._place)))

    def _obs(self) -> np.ndarray:
        away = self._target - self._place
        bearing = math.atan2(away[1], away[0]) - self._heading
        return np.array([self._distance(), math.cos(bearing), math.sin(bearing)], np.float32)
