"""RND: rewards for observations that are new, by random network distillation, beside another exploration of actions.

A predictor network learns to give what a fixed random network gives; its squared error is large where few observations
have been, and is the intrinsic reward of the step that led there. It is added to the rewards that are learnt from;
reported rewards and scores are without it.

Source: Burda et al. 2018, "Exploration by Random Network Distillation" (arXiv 1810.12894): section 2.2, the prediction error;
2.4, errors divided by the running deviation of their discounted returns, observations normalised and clipped to ±5.
Deviations:
- Each worker has networks of its own, which learn from its own fragments, each once; what is new to one worker is not
  made old by another. So does RLlib's Curiosity. They are saved with the worker's state.
- One value function learns the sum of both rewards, whose intrinsic part ends with its episodes; the paper has two, and
  returns that go on over the ends of episodes.
- Two hidden layers of 64 units on vectors; the paper's are convolutions.
- Rewards in a replay buffer keep the intrinsic part that they were stored with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from drl_cli.policies.exploration.interface import Acted, At, Exploration
    from drl_cli.policies.nets import State
    from drl_cli.policies.numpy_policy import NumpyPolicy

HIDDEN, ROWS = 64, 256  # units of a layer; rows of a step of the predictor
GAMMA, CLIP = 0.99, 5.0  # of the intrinsic returns; deviations of an observation
BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8  # of Adam
_LAYERS = 3


class RandomNetworkDistillation:
    """See the module; ``interface.Exploration`` says what its methods do."""

    def __init__(
        self, obs: int, count: int, settings: Mapping[str, Any], sub: Exploration, rng: np.random.Generator
    ) -> None:
        """``obs``: numbers of an observation; ``count``: environments; ``sub``: chooses the actions; ``rng``: draws weights."""
        self._eta, self._lr, self._sub = settings["eta"], settings["lr"], sub
        sizes = (obs, HIDDEN, HIDDEN, settings["feature_dim"])
        self.memory = {
            "count": np.zeros(1, np.float64),  # observations seen
            "mean": np.zeros(obs, np.float64),
            "square": np.zeros(obs, np.float64),  # sum of squared deviations
            "returns": np.zeros(count, np.float64),  # intrinsic, of each environment
            "return_moments": np.zeros(3, np.float64),  # count, mean, sum of squared deviations
            "updates": np.zeros(1, np.int64),
            "bonus": np.zeros(1, np.float64),  # mean of the newest fragment
            **{f"sub_{name}": array for name, array in sub.memory.items()},
        }
        for net in ("target", "predictor"):
            for layer, (size, units) in enumerate(zip(sizes, sizes[1:], strict=False)):
                self.memory[f"{net}/{layer}/kernel"] = rng.normal(0.0, np.sqrt(2.0 / size), (size, units))
                self.memory[f"{net}/{layer}/bias"] = np.zeros(units)
        for name in [name for name in self.memory if name.startswith("predictor/")]:
            for moment in ("first", "second"):
                self.memory[f"{moment}/{name}"] = np.zeros_like(self.memory[name])

    def act(self, policy: NumpyPolicy, obs: np.ndarray, state: State, rng: np.random.Generator, at: At) -> Acted:
        """See ``interface.Exploration``."""
        return self._sub.act(policy, obs, state, rng, at)

    def logp(self, policy: NumpyPolicy, obs: np.ndarray, state: State, action: np.ndarray, at: At) -> np.ndarray | None:
        """See ``interface.Exploration``."""
        return self._sub.logp(policy, obs, state, action, at)

    def ended(self, index: int) -> None:
        """See ``interface.Exploration``."""
        self._sub.ended(index)

    def describe(self, t: int) -> dict[str, float]:
        """Return the mean intrinsic reward of the newest fragment, and what the exploration of actions says."""
        return {**self._sub.describe(t), "intrinsic_reward": float(self.memory["bonus"][0])}

    def bonus(self, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the intrinsic rewards float32 [T, N] of a fragment (``experience.columns``), and learn from it.

        Rows after the end of a stream (``length``) get 0.
        """
        steps, envs = columns["reward"].shape
        lengths = columns.get("length", np.full(envs, steps))
        real = np.arange(steps)[:, None] < lengths  # [T, N]
        obs = next_obs(columns)[real].astype(np.float64)  # [M, D], a step of all environments after the other
        self._see(obs)
        deviation = np.sqrt(self.memory["square"] / self.memory["count"]) + 1e-8
        obs = np.clip((obs - self.memory["mean"]) / deviation, -CLIP, CLIP)
        error = np.zeros((steps, envs))
        error[real] = self._learn(obs)
        scale = self._return_scale(error, real, columns["terminated"] | columns["truncated"])
        rewards = self._eta * error / scale
        self.memory["bonus"][0] = rewards[real].mean() if len(obs) else 0.0
        return rewards.astype(np.float32)

    def _see(self, obs: np.ndarray) -> None:
        """Merge ``obs`` [M, D] into the moments of observations."""
        memory = self.memory
        memory["count"][:], memory["mean"][:], memory["square"][:] = _merged(
            (memory["count"][0], memory["mean"], memory["square"]), obs
        )

    def _return_scale(self, error: np.ndarray, real: np.ndarray, ended: np.ndarray) -> float:
        """Return the deviation of the intrinsic returns so far, with those of a fragment; all [T, N]."""
        returns, found = self.memory["returns"], []
        for gained, here, end in zip(error, real, ended, strict=True):
            returns[here] = GAMMA * returns[here] + gained[here]
            found.append(returns[here].copy())
            returns[here & end] = 0.0
        moments = self.memory["return_moments"]
        moments[:] = _merged((moments[0], moments[1], moments[2]), np.concatenate(found))
        return max(float(np.sqrt(moments[2] / max(moments[0], 1.0))), 1e-8)

    def _learn(self, obs: np.ndarray) -> np.ndarray:
        """Return the predictor's errors float64 [M] on normalised ``obs`` [M, D], before it learns from them."""
        wanted = self._net("target", obs)[-1]
        error = np.square(self._net("predictor", obs)[-1] - wanted).mean(axis=-1)
        for first in range(0, len(obs), ROWS):
            rows = slice(first, first + ROWS)
            self._descend(obs[rows], wanted[rows])
        return error

    def _net(self, net: str, x: np.ndarray) -> list[np.ndarray]:
        """Return the values [M, …] after each layer, the input first."""
        values = [x]
        for layer in range(_LAYERS):
            x = values[-1] @ self.memory[f"{net}/{layer}/kernel"] + self.memory[f"{net}/{layer}/bias"]
            values.append(x if layer == _LAYERS - 1 else np.maximum(x, 0.0))
        return values

    def _descend(self, obs: np.ndarray, wanted: np.ndarray) -> None:
        """One step of Adam on the mean squared error."""
        values = self._net("predictor", obs)
        slope = 2.0 * (values[-1] - wanted) / wanted.size
        self.memory["updates"] += 1
        for layer in reversed(range(_LAYERS)):
            name = f"predictor/{layer}"
            before = values[layer]
            kernel, bias = before.T @ slope, slope.sum(axis=0)
            slope = (slope @ self.memory[f"{name}/kernel"].T) * (
                before > 0.0
            )  # of the layer before, where there is one
            self._adam(f"{name}/kernel", kernel)
            self._adam(f"{name}/bias", bias)

    def _adam(self, name: str, gradient: np.ndarray) -> None:
        memory, step = self.memory, int(self.memory["updates"][0])
        first, second = memory[f"first/{name}"], memory[f"second/{name}"]
        first += (1.0 - BETA_1) * (gradient - first)
        second += (1.0 - BETA_2) * (np.square(gradient) - second)
        rate = self._lr * np.sqrt(1.0 - BETA_2**step) / (1.0 - BETA_1**step)
        memory[name] -= rate * first / (np.sqrt(second) + EPSILON)


def next_obs(columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the observation after each step of a fragment, [T, N, …]: at an episode's end its last one."""
    after = np.concatenate([columns["obs"][1:], columns["tail_obs"][None]])
    after[columns["terminated"] | columns["truncated"]] = columns["end_obs"]
    return after


def _merged(moments: tuple[Any, Any, Any], rows: np.ndarray) -> tuple[Any, Any, Any]:
    """Return (count, mean, sum of squared deviations) of earlier ``moments`` and ``rows`` [M, …] (Chan et al. 1979)."""
    count, mean, square = moments
    if not len(rows):
        return count, mean, square
    more = len(rows)
    total, apart = count + more, rows.mean(axis=0) - mean
    return (
        total,
        mean + apart * more / total,
        square + np.square(rows - rows.mean(axis=0)).sum(axis=0) + np.square(apart) * count * more / total,
    )
