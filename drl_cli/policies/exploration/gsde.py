"""Generalised state-dependent exploration (gSDE): noise that is a fixed function of the features for a while.

The noise of an action is φ·(weights) for the last hidden features φ and weights drawn every ``sde_sample_freq`` steps and at
every start of an episode: similar observations get similar noise, so that an episode's actions are smooth.

Source: Raffin et al. 2021, "Smooth Exploration for Robotic Reinforcement Learning" (arXiv 2005.05719), section 3. Deviations:
every environment has weights of its own; an episode's start draws them anew (stable-baselines3: only a rollout's); policies
without deviations of their own have theirs from the config.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from drl_cli.policies.action_specs import LOG_STD_MAX, box
from drl_cli.policies.exploration.action_noise import clipped, column

if TYPE_CHECKING:
    from drl_cli.policies.exploration.interface import Acted, At, Level
    from drl_cli.policies.nets import State, Weights
    from drl_cli.policies.numpy_policy import NumpyPolicy
    from drl_cli.policies.policy_spec import PolicySpec

_LEAST = 1e-6  # of the length of φ: where all features are dead there is no noise


class _Directions:
    """Standard normals θ [N, F, A], drawn anew every ``freq`` steps of an environment."""

    def __init__(self, count: int, shape: tuple[int, ...], freq: int) -> None:
        self._freq = freq
        self.memory = {
            "directions": np.zeros((count, *shape), np.float32),
            "age": np.full(count, freq, np.int64),
        }

    @property
    def is_free(self) -> bool:
        """Whether they are drawn anew at every step."""
        return self._freq == 1

    def at(self, rng: np.random.Generator, rows: slice) -> np.ndarray:
        """Return θ [n, F, A] for the environments in the slice ``rows`` and count this step."""
        age, directions = self.memory["age"][rows], self.memory["directions"][rows]  # views
        due = np.flatnonzero(age >= self._freq)
        if due.size:
            directions[due] = rng.standard_normal((due.size, *directions.shape[1:]), dtype=np.float32)
            age[due] = 0
        age += 1
        return directions

    def ended(self, index: int) -> None:
        """Let the next episode of environment ``index`` begin with other directions."""
        self.memory["age"][index] = self._freq


class StateDependentSampling:
    """For Gaussian policies, squashed or not, whose net has ``sde``: mean + Σ_j φ_j·exp(K_ja)·θ_ja.

    Over the draws of θ its standard deviation is exp(log_std), the head that learning works with.
    """

    def __init__(self, spec: PolicySpec, count: int, freq: int) -> None:
        """``spec``: PolicySpec; ``count``: environments; ``freq``: steps between draws."""
        self._name = f"{spec.nets[0].name}/log_std/kernel"
        self._directions = _Directions(count, spec.nets[0].weight_shapes()[self._name], freq)
        self.memory = self._directions.memory
        self._weights: Weights | None = None  # whose deviations these are
        self._deviations = np.empty(0, np.float32)

    def act(self, policy: NumpyPolicy, obs: np.ndarray, state: State, rng: np.random.Generator, at: At) -> Acted:
        """See ``interface.Exploration``."""
        if policy.weights is not self._weights:
            self._weights, self._deviations = policy.weights, np.exp(policy.weights[self._name])
        heads = policy.heads(obs)
        noise = projected(heads["features"], self._deviations * self._directions.at(rng, at[1]))
        # The distribution that learns has deviations of at most exp(LOG_STD_MAX).
        noise *= np.exp(np.minimum(LOG_STD_MAX - heads["log_std"], 0.0))
        action = policy.displaced(heads, noise)
        return action, state, policy.scores(heads, action)

    def logp(self, policy: NumpyPolicy, obs: np.ndarray, state: State, action: np.ndarray, at: At) -> np.ndarray | None:
        """See ``interface.Exploration``: of directions that stay for several steps there is none."""
        return policy.logp(policy.heads(obs), action) if self._directions.is_free else None

    def ended(self, index: int) -> None:
        """See ``interface.Exploration``."""
        self._directions.ended(index)

    def describe(self, t: int) -> dict[str, float]:
        """Nothing: the deviations are learnt."""
        return {}


class StateDependentNoise:
    """For deterministic policies: scale·stddev·half range·(φ·θ)/|φ|, clipped to the bounds; (φ·θ)/|φ| is N(0, 1) over θ."""

    def __init__(self, spec: PolicySpec, count: int, scale: Level, settings: Mapping[str, Any]) -> None:
        """``spec``: PolicySpec; ``count``: environments; ``scale``: a level; ``settings``: stddev, sde_sample_freq."""
        net = spec.nets[0]
        shape = net.weight_shapes()[f"{net.name}/mean/kernel"]
        self._directions = _Directions(count, shape, settings["sde_sample_freq"])
        self.memory = self._directions.memory
        self._low, self._high = box(spec.action).policy_bounds()
        self._spread = (self._high - self._low) / 2 * settings["stddev"]
        self._scale, self._stddev = scale, settings["stddev"]

    def act(self, policy: NumpyPolicy, obs: np.ndarray, state: State, rng: np.random.Generator, at: At) -> Acted:
        """See ``interface.Exploration``."""
        heads, features = policy.heads_and_features(obs)
        unit = features / np.maximum(np.linalg.norm(features, axis=-1, keepdims=True), _LEAST)
        noise = projected(unit, self._directions.at(rng, at[1])) * self._spread * column(self._scale(*at))
        return clipped(policy.greedy(heads) + noise, self._low, self._high), state, {}

    def logp(self, policy: NumpyPolicy, obs: np.ndarray, state: State, action: np.ndarray, at: At) -> np.ndarray | None:
        """See ``interface.Exploration``: there is none, the noise goes on from step to step, and is clipped."""

    def ended(self, index: int) -> None:
        """See ``interface.Exploration``."""
        self._directions.ended(index)

    def describe(self, t: int) -> dict[str, float]:
        """Return the standard deviation as a share of half the range."""
        return {"stddev": float(self._scale(t, slice(None))) * self._stddev}


def projected(features: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Return Σ_j φ_nj·θ_nja, float32 [n, A], for ``features`` [n, F] and ``directions`` [n, F, A]."""
    return (features[:, None, :] @ directions)[:, 0]
