"""Environments that come with this program, and those of RLlib's examples, which its files name by the path of a class.

Registered here, for ``envs.make``. Source: the examples of RLlib 0.8 to 2.4.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from gymnasium.envs.classic_control.mountain_car import MountainCarEnv
from gymnasium.envs.classic_control.pendulum import PendulumEnv

from drl_cli.config.env_names import EXTERNAL_ID, TEAM_ID
from drl_cli.errors import EnvError, shown

SEEN = (0, 2)  # of (position, velocity, angle, angular velocity)


_CLASS_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
_EXAMPLES = ("ray.rllib.examples.", "rllib.examples.")
HERE = {
    "StatelessCartPole": "drl/StatelessCartPole-v1",
    "CartPole": "CartPole-v1",
    "MultiAgentCartPole": "drl/MultiAgentCartPole-v1",
    "MultiAgentCartPoleCrashing": "drl/MultiAgentCartPoleCrashing-v1",
    "TwoStepGame": "drl/TwoStepGame-v1",
    "TwoStepGameWithGroupedAgents": "drl/TwoStepGame-v1",
}
"""Class of RLlib's examples → the id of the same environment."""
_RECORDED = {"halfcheetah": "HalfCheetah-v5", "hopper": "Hopper-v5"}
"""First word of an environment with recorded steps in RLlib's ``d4rl_env`` → the id of the same environment."""


class StatelessCartPole(gymnasium.ObservationWrapper):
    """CartPole whose observation is position and angle: the velocities have to be remembered from step to step."""

    metadata: dict[str, Any] = CartPoleEnv.metadata  # type: ignore[assignment]  # a property there; gymnasium reads the class's, and a wrapper has it only once it is made

    def __init__(self, **kwargs: Any) -> None:
        """Arguments are CartPole's."""
        env = CartPoleEnv(**kwargs)
        super().__init__(env)
        space: Any = env.observation_space  # a Box
        low, high = (bound[list(SEEN)] for bound in (space.low, space.high))
        self.observation_space = gymnasium.spaces.Box(low, high, dtype=np.float32)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """Return [position, angle], float32."""
        return observation[list(SEEN)]


class StatelessPendulum(gymnasium.ObservationWrapper):
    """Pendulum whose observation is the angle's cosine and sine: the velocity has to be remembered from step to step."""

    metadata: dict[str, Any] = PendulumEnv.metadata  # type: ignore[assignment]  # as above

    def __init__(self, **kwargs: Any) -> None:
        """Arguments are Pendulum's."""
        super().__init__(PendulumEnv(**kwargs))
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """Return [cos, sin] of the angle, float32."""
        return observation[:2]


PUSHES = (0.065, 0.05, 0.035, 0.02, 0.0)
"""Velocity at which the car starts in each task of ``MountainCarTasks``, per step; 0.058 reaches the top unaided."""


class MountainCarTasks(MountainCarEnv):
    """A mountain car that starts with a weaker push from task to task, 1 to 5; the top brings the task's number as reward.

    The last task is MountainCar with a reward at the top alone, which random actions do not reach. A reverse curriculum, from
    states near the goal to those of the task: Florensa et al. 2017, arXiv 1707.05300.
    """

    def __init__(self, task: int = 1, **kwargs: Any) -> None:
        """``task``: the first one; other arguments are MountainCar's."""
        super().__init__(**kwargs)
        self.set_task(task)

    def set_task(self, task: int) -> None:
        """Start where ``task`` does from the next reset on. Raises ValueError."""
        if task not in range(1, len(PUSHES) + 1):
            raise ValueError(f"task {task} is not from 1 to {len(PUSHES)}")
        self._next = task

    def get_task(self) -> int:
        """Return the task that was set last."""
        return self._next

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode of the task."""
        _, info = super().reset(seed=seed, options=options)
        self._task = self._next
        self.state = np.array([self.state[0], PUSHES[self._task - 1]])
        obs = np.array(self.state, np.float32)
        return obs, info

    def step(self, action: int) -> tuple[Any, float, bool, Any, dict[str, Any]]:
        """Take a step."""
        obs, _, terminated, truncated, info = super().step(action)
        return obs, float(self._task) if terminated else 0.0, terminated, truncated, info


def weaker_push(train_results: Mapping[str, Any], task_settable_env: Any, env_ctx: Mapping[str, Any]) -> int:
    """Return the next task of ``MountainCarTasks`` when nine episodes of ten reach the top, the same one before."""
    del env_ctx
    task, mean = task_settable_env.get_task(), train_results["episode_reward_mean"]
    return min(task + 1, len(PUSHES)) if mean is not None and mean >= 0.9 * task else task


TASK_FNS = {"weaker_push": weaker_push}
"""Functions for ``env_task_fn`` that need no registration."""


class ExternalEnv(gymnasium.Env):
    """The spaces of a simulator that drives (``input: policy_server``). It cannot be stepped."""

    def __init__(self, observation_space: Any = None, action_space: Any = None) -> None:
        """The spaces as plain data, see ``space_of``. Raises EnvError."""
        self.observation_space = space_of("observation_space", observation_space)
        self.action_space = space_of("action_space", action_space)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Raise EnvError."""
        raise EnvError(f"{EXTERNAL_ID} has spaces and no simulator: it is for input policy_server.")

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Raise EnvError."""
        return self.reset()  # type: ignore[return-value]


def space_of(name: str, given: Any) -> gymnasium.Space:
    """Return the space that plain data describes; ``name``: of the key, for messages. Raises EnvError.

    {"Box": {"low": -1, "high": 1, "shape": [4], "dtype": "float32"}} (low and high: a number or a list each; null: none),
    {"Discrete": 2}, {"MultiDiscrete": [2, 3]} or {"MultiBinary": 4}.
    """
    spaces = gymnasium.spaces
    try:
        ((kind, value),) = given.items()
        if kind == "Box":
            known = {"low", "high", "shape", "dtype"}
            if set(value) - known:
                raise ValueError(f"unknown {sorted(set(value) - known)[0]}")
            low = _filled(value.get("low"), -np.inf)
            high, dtype = _filled(value.get("high"), np.inf), np.dtype(value.get("dtype", "float32"))
            shape = tuple(value["shape"]) if "shape" in value else np.broadcast(low, high).shape
            low, high = (np.broadcast_to(bound, shape).astype(dtype) for bound in (low, high))
            return spaces.Box(low, high, dtype=dtype.type)
        return {"Discrete": spaces.Discrete, "MultiDiscrete": spaces.MultiDiscrete, "MultiBinary": spaces.MultiBinary}[
            kind
        ](value)
    except (AttributeError, AssertionError, KeyError, TypeError, ValueError, OverflowError) as error:
        why = " ".join(str(error).split())[:80]
        kinds = '{"Box": {"low": -1, "high": 1, "shape": [4]}}, {"Discrete": 2}, {"MultiDiscrete": [2, 3]}, {"MultiBinary": 4}'
        raise EnvError(f"env_config.{name}: {shown(given)} is no space ({why}). It takes one of {kinds}.") from error


def _filled(bound: Any, instead: float) -> np.ndarray:
    """Return a bound as an array, ``instead`` for each null."""
    array = np.array(bound, np.float64)
    return np.where(np.isnan(array), instead, array)


gymnasium.register(
    id="drl/MountainCarTasks-v1",
    entry_point="drl_cli.envs.bundled_envs:MountainCarTasks",
    max_episode_steps=200,
    reward_threshold=4.5,
)

gymnasium.register(id=EXTERNAL_ID, entry_point="drl_cli.envs.bundled_envs:ExternalEnv")

gymnasium.register(
    id="drl/StatelessCartPole-v1",
    entry_point="drl_cli.envs.bundled_envs:StatelessCartPole",
    max_episode_steps=500,
    reward_threshold=475.0,
)

gymnasium.register(
    id="drl/StatelessPendulum-v1",
    entry_point="drl_cli.envs.bundled_envs:StatelessPendulum",
    max_episode_steps=200,
)

gymnasium.register("drl/BitFlipping-v1", "drl_cli.envs.goal_envs:BitFlipping", max_episode_steps=25)
gymnasium.register("drl/DeepSea-v1", "drl_cli.envs.deep_sea:DeepSea")
gymnasium.register("drl/PointReach-v1", "drl_cli.envs.goal_envs:PointReach", max_episode_steps=50)
gymnasium.register(
    "drl/SteerAndStop-v1", "drl_cli.envs.steer_and_stop:SteerAndStop", max_episode_steps=30, reward_threshold=1.7
)

gymnasium.register(id=TEAM_ID, entry_point="drl_cli.envs.multi_agent.team:TeamEnv")


gymnasium.register(
    "drl/MultiAgentCartPole-v1", "drl_cli.envs.multi_agent.cart_poles:multi_agent_cart_pole", max_episode_steps=500
)
gymnasium.register(
    "drl/MultiAgentCartPoleCrashing-v1", "drl_cli.envs.multi_agent.cart_poles:CrashingCartPoles", max_episode_steps=500
)
gymnasium.register("drl/TwoStepGame-v1", "drl_cli.envs.multi_agent.small_games:TwoStepGame")
gymnasium.register("drl/TicTacToe-v1", "drl_cli.envs.multi_agent.small_games:TicTacToe")
gymnasium.register("drl/ConnectFour-v1", "drl_cli.envs.multi_agent.connect_four:ConnectFour")


def stands_for(env_id: str) -> str | None:
    """Return the id of the environment that a class path of RLlib's examples means, or None."""
    return HERE.get(env_id.rpartition(".")[2]) if env_id.startswith(_EXAMPLES) else None


def refusal(env_id: str) -> str | None:
    """Return why the path of a class is no environment here and what to do, or None where it is no such path."""
    if not _CLASS_PATH.fullmatch(env_id):
        return None
    name = env_id.rpartition(".")[2][:60]
    recorded = _RECORDED.get(name.partition("_")[0]) if ".d4rl_env." in env_id else None
    if recorded:
        return (
            f"{env_id[:120]} is an environment of D4RL, whose recordings are Minari's today. Write env: {recorded}, and input: "
            "minari://ID with one of: minari list remote"
        )
    what = (
        "a class of RLlib's examples, which drl does not contain"
        if env_id.startswith("ray.")
        else "the path of a class"
    )
    return (
        f"{env_id[:120]} is {what}; environments go by registered names. In a module of yours write "
        f"drl_cli.register_env('{name}', {name}), then type: --import MODULE --env {name}"
    )
