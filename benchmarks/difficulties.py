"""Small environments that each add one difficulty to a classic task, for ``benchmarks/untuned.py``.

Importing the module registers them under ``Hard/``; it needs gymnasium and NumPy alone, so that other libraries can import it.
"""

import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces, wrappers
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from gymnasium.envs.classic_control.pendulum import PendulumEnv


class UprightPendulum(gymnasium.Wrapper):
    """Rewards 1 within 0.3 rad of upright, else 0: sparse."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        """Return the step with its sparse reward."""
        obs, _, terminated, truncated, info = self.env.step(action)
        return obs, float(obs[0] > np.cos(0.3)), terminated, truncated, info


class Slow(gymnasium.Wrapper):
    """Sleeps ``pause`` seconds in every step."""

    def __init__(self, env: gymnasium.Env, pause: float = 0.005) -> None:
        super().__init__(env)
        self._pause = pause

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
        """Sleep, then step."""
        time.sleep(self._pause)
        return self.env.step(action)


class RewardAtEnd(gymnasium.Wrapper):
    """Pays all rewards of an episode of up to ``limit`` steps in its last step."""

    def __init__(self, env: gymnasium.Env, limit: int = 500) -> None:
        super().__init__(env)
        self._limit, self._steps, self._sum = limit, 0, 0.0

    def reset(self, **kwargs: Any) -> tuple[Any, dict]:
        """Begin an episode."""
        self._steps, self._sum = 0, 0.0
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        """Return the step, with the sum of rewards if it is the last one, else 0."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._steps, self._sum = self._steps + 1, self._sum + float(reward)
        ends = terminated or self._steps >= self._limit
        return obs, self._sum if ends else 0.0, terminated, truncated, info


class TwoPoles(gymnasium.Env):
    """Two independent CartPoles, one action for each; ends when either falls. MultiDiscrete([2, 2]), 8 numbers."""

    metadata = {"render_modes": []}

    def __init__(self) -> None:
        self._poles = (CartPoleEnv(), CartPoleEnv())
        low, high = (
            np.concatenate([getattr(pole.observation_space, end) for pole in self._poles]) for end in ("low", "high")
        )
        self.observation_space = spaces.Box(low, high, dtype=np.float32)
        self.action_space = spaces.MultiDiscrete([2, 2])

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        """Begin an episode."""
        super().reset(seed=seed)
        starts = [pole.reset(seed=int(self.np_random.integers(2**31)))[0] for pole in self._poles]
        return np.concatenate(starts), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Move both carts; the reward is 1."""
        steps = [pole.step(int(one)) for pole, one in zip(self._poles, action, strict=True)]
        return np.concatenate([step[0] for step in steps]), 1.0, any(step[2] for step in steps), False, {}


class CopyBits(gymnasium.Env):
    """Shows 8 random bits; each bit of the action that equals its neighbour's bit on the left earns 1/8. MultiBinary(8)."""

    metadata = {"render_modes": []}
    observation_space = spaces.Box(0.0, 1.0, (8,), np.float32)
    action_space = spaces.MultiBinary(8)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        """Begin an episode."""
        super().reset(seed=seed)
        self._bits = self.np_random.integers(0, 2, 8).astype(np.float32)
        return self._bits, {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Return the next bits and the share of bits that were right."""
        reward = float(np.mean(np.asarray(action) == np.roll(self._bits, 1)))
        self._bits = self.np_random.integers(0, 2, 8).astype(np.float32)
        return self._bits, reward, False, False, {}


class NoisyNumbers(gymnasium.ObservationWrapper):
    """Appends ``count`` standard normal numbers to the observation."""

    def __init__(self, env: gymnasium.Env, count: int = 100) -> None:
        super().__init__(env)
        shape = (env.observation_space.shape or (0,))[0] + count
        self.observation_space, self._count = spaces.Box(-np.inf, np.inf, (shape,), np.float32), count

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """Return the observation with noise after it."""
        noise = self.env.unwrapped.np_random.standard_normal(self._count)
        return np.concatenate([observation, noise]).astype(np.float32)


def _offset_cartpole() -> gymnasium.Env:
    """Return a CartPole whose observations lie near 1000 and differ by a factor of 10,000 in scale."""
    scale, offset = np.array([1000.0, 10.0, 1.0, 0.1]), np.array([1000.0, -1000.0, 1000.0, -1000.0])
    free = spaces.Box(-np.inf, np.inf, (4,), np.float32)
    return wrappers.TransformObservation(CartPoleEnv(), lambda obs: (obs * scale + offset).astype(np.float32), free)


def _dict_cartpole() -> gymnasium.Env:
    """Return a CartPole whose observation is a Dict of two vectors and the side of the track as a Discrete."""
    space = spaces.Dict(
        {
            "position": spaces.Box(-np.inf, np.inf, (2,), np.float32),
            "velocity": spaces.Box(-np.inf, np.inf, (2,), np.float32),
            "side": spaces.Discrete(2),
        }
    )

    def of(obs: np.ndarray) -> dict[str, Any]:
        return {"position": obs[[0, 2]], "velocity": obs[[1, 3]], "side": np.int64(obs[0] > 0)}

    return wrappers.TransformObservation(CartPoleEnv(), of, space)


def _pendulum(low: float, high: float) -> gymnasium.Env:
    """Return a Pendulum whose torques are given on the scale from ``low`` to ``high``."""
    return wrappers.RescaleAction(PendulumEnv(), np.float32(low), np.float32(high))


def _scaled(env: gymnasium.Env, factor: float) -> gymnasium.Env:
    return wrappers.TransformReward(env, lambda reward: factor * float(reward))


def _acrobot() -> gymnasium.Env:
    return gymnasium.make("Acrobot-v1", max_episode_steps=-1, disable_env_checker=True)


ENVIRONMENTS: dict[str, tuple[Callable[..., gymnasium.Env], int | None]] = {  # name -> (maker, time limit in steps)
    "SparsePendulum": (lambda: UprightPendulum(PendulumEnv()), 200),
    "LongCartPole": (CartPoleEnv, 5000),
    "TinyRewardPendulum": (lambda: _scaled(PendulumEnv(), 1e-3), 200),
    "HugeRewardAcrobot": (lambda: _scaled(_acrobot(), 1e4), 500),
    "OffsetCartPole": (_offset_cartpole, 500),
    "WideActionPendulum": (lambda: _pendulum(-100.0, 100.0), 200),
    "AsymmetricPendulum": (lambda: _pendulum(-1.0, 9.0), 200),
    "SlowCartPole": (lambda pause=0.005: Slow(CartPoleEnv(), pause), 500),
    "EndlessPendulum": (PendulumEnv, None),
    "TwoPoles": (TwoPoles, 500),
    "CopyBits": (CopyBits, 20),
    "DictCartPole": (_dict_cartpole, 500),
    "NoisyCartPole": (lambda: NoisyNumbers(CartPoleEnv()), 500),
    "RewardAtEndCartPole": (lambda: RewardAtEnd(CartPoleEnv(), 500), 500),
}
for _name, (_maker, _limit) in ENVIRONMENTS.items():
    gymnasium.register(f"Hard/{_name}-v0", entry_point=_maker, max_episode_steps=_limit)
gymnasium.register(
    "Hard/WindyLander-v0",
    entry_point="gymnasium.envs.box2d:LunarLander",
    kwargs={"enable_wind": True},
    max_episode_steps=1000,
    reward_threshold=200,
)
