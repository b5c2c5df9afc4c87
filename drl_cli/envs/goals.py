"""Environments with goals: what a step would have brought if another goal had been desired.

Used by ``actors.replay_buffer`` for hindsight experience replay, and by ``experiments.env_facts``, which checks the environment
once. The interface is that of gymnasium-robotics' GoalEnv: observations are a Dict with ``achieved_goal`` and ``desired_goal``,
and ``compute_reward(achieved_goal, desired_goal, info)`` is the reward of a step that led to ``achieved_goal``;
``compute_terminated``, with the same arguments, says whether the episode ends there. ``info`` is an empty dict here: steps in a
replay have none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np

from drl_cli.envs.steps import as_action
from drl_cli.errors import EnvError, failure

REWARD, TERMINATED = "compute_reward", "compute_terminated"
_COMPARED = 8  # goals of the first call whose results are compared with those of one goal at a time


class ByGoals:
    """``compute_reward`` or ``compute_terminated`` for many goals at once, whichever way the environment takes them."""

    def __init__(self, function: Callable[[Any, Any, dict[str, Any]], Any], name: str) -> None:
        """``function``: the environment's method; ``name``: for messages."""
        self._function, self._name = function, name
        self._takes_many: bool | None = None  # whether one call does for all goals; not known yet

    def __call__(self, achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        """Return the results float64 [M] for goals [M, G]. Raises EnvError for what the environment raises or returns."""
        if self._takes_many is None and len(achieved) > 1:
            self._takes_many = self._try_many(achieved, desired)
        if self._takes_many:
            result = np.asarray(self._function(achieved, desired, {}), np.float64)
        else:
            result = self._one_by_one(achieved, desired)
        if result.shape != (len(achieved),) or not np.isfinite(result).all():
            raise EnvError(f"{self._name} returned {str(result)[:60]} for {len(achieved)} goals; a finite number each.")
        return result

    def _try_many(self, achieved: np.ndarray, desired: np.ndarray) -> bool:
        try:
            result = np.asarray(self._function(achieved, desired, {}), np.float64)
        except Exception:  # it is made for one goal: asked that way, it says what else is wrong
            return False
        few = slice(0, _COMPARED)
        return result.shape == (len(achieved),) and np.allclose(
            result[few], self._one_by_one(achieved[few], desired[few]), rtol=1e-4, atol=1e-6
        )

    def _one_by_one(self, achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        try:
            results = [self._function(*pair, {}) for pair in zip(achieved, desired, strict=True)]
            return np.array([float(np.asarray(result).item()) for result in results], np.float64)
        except (Exception, SystemExit) as error:
            raise EnvError(f"{self._name} raised {failure(error)}") from error


class GoalOutcomes:
    """Reward and end of steps by the goals achieved and desired (``experience.hindsight.Outcomes``)."""

    def __init__(self, env: gymnasium.Env, knows_ends: bool = True) -> None:
        """``env``: with the interface above; ``knows_ends``: ask it for ends where it can say. Raises EnvError."""
        if not env.has_wrapper_attr(REWARD):
            raise EnvError(f"it has no {REWARD}(achieved_goal, desired_goal, info)")
        self._reward = ByGoals(env.get_wrapper_attr(REWARD), REWARD)
        has_ends = knows_ends and env.has_wrapper_attr(TERMINATED)
        self._ends = ByGoals(env.get_wrapper_attr(TERMINATED), TERMINATED) if has_ends else None

    def __call__(self, achieved: np.ndarray, desired: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return (reward float32 [M], whether the episode ends there bool [M] or None) for goals [M, G]. Raises EnvError."""
        ends = None if self._ends is None else self._ends(achieved, desired) > 0
        return self._reward(achieved, desired).astype(np.float32), ends


def check(env: gymnasium.Env, layout: Sequence[int]) -> None:
    """Compare what ``compute_reward`` and ``compute_terminated`` say of one step with what the step itself returned.

    ``layout``: of ``spaces.find_goal``. Raises EnvError where they differ, and for what the environment raises.
    """
    outcomes = GoalOutcomes(env)
    env.reset(seed=0)
    env.action_space.seed(0)
    obs, reward, terminated, _, _ = env.step(as_action(env.action_space.sample()))
    achieved, desired = (np.asarray(obs, np.float32)[None, at : at + layout[2]] for at in layout[:2])
    computed, ends = outcomes(achieved, desired)
    if not np.isclose(computed[0], float(reward), rtol=1e-3, atol=1e-4):  # type: ignore[arg-type]  # gymnasium's SupportsFloat
        raise EnvError(
            f"{REWARD} says {computed[0]:g} of a step whose reward was {float(reward):g}; the goals alone must decide it"
        )
    if ends is not None and bool(ends[0]) != bool(terminated):
        raise EnvError(f"{TERMINATED} says {bool(ends[0])} of a step that returned terminated {bool(terminated)}")
    outcomes(np.repeat(achieved, 2, axis=0), np.stack([desired[0], achieved[0]]))
