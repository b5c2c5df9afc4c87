"""ParameterNoise: every episode acts with weights of its own, the newest ones plus Gaussian noise.

The noise ε of an environment stays the same for an episode; its deviation adapts so that noisy and clean policies differ
in their actions by a target. Another exploration is laid over the noisy policy's actions.

Sources: Plappert et al. 2018, "Parameter Space Noise for Exploration" (arXiv 1706.01905), sections 3 and C; RLlib's
ParameterNoise (1.0.1), OpenAI's baselines. Deviations:
- Every environment has a noise of its own, at the price of a forward pass for each; RLlib has one for a worker.
- New weights act at once, with the episode's ε on them; in the sources the noisy copy waits for the next episode.
- The distance is measured at every 8th step of an environment while it acts, and the deviation adapts after 50 steps or at
  the episode's end, for the episodes that begin from then on. RLlib measures whole episodes, once each, which takes
  230 episodes from its default of 1.0 to 0.1; baselines adapt every 50 updates.
- The distance of Box actions is in half ranges. Layer norms, as in the sources, and noisy layers' deviations, running
  statistics and batch norms stay clean.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from drl_cli.policies.action_specs import box

if TYPE_CHECKING:
    from drl_cli.policies.action_specs import Actions, ActionSpec
    from drl_cli.policies.exploration.interface import Acted, At, Exploration
    from drl_cli.policies.forward import Acting
    from drl_cli.policies.nets import Heads, State, Weights
    from drl_cli.policies.numpy_policy import NumpyPolicy
    from drl_cli.policies.policy_spec import PolicySpec

ADAPTATION = 1.01  # factor of a step towards the target (section C of the paper)
MEASURED_EVERY, ADAPTED_EVERY = 8, 50  # steps of an environment
_LEAST, _MOST = 1e-6, 1e3  # of the deviation
TARGET = 0.2  # distance of Box actions where what is laid over has no deviation of its own, as in RLlib
EPSILON = 0.01  # the like for action values
_NOISY = ("kernel", "bias")


class ParameterNoise:
    """See the module; ``interface.Exploration`` says what its methods do."""

    def __init__(
        self, spec: PolicySpec, count: int, initial: float, settings: Mapping[str, Any], sub: Exploration
    ) -> None:
        """``initial``: deviation at the start; ``settings``, ``sub``: of the exploration laid over it."""
        shapes = spec.nets[0].weight_shapes()
        own = spec.nets[0].own_names()  # a custom model's: which of them scale or shift, only it knows
        self._shapes = {n: shape for n, shape in shapes.items() if n in own or n.rpartition("/")[2] in _NOISY}
        self._names = list(shapes)
        is_box, self._sub = spec.action.dtype == "float32", sub
        self._divergence = (
            _BoxDistance(box(spec.action), settings, sub) if is_box else _ValueDivergence(spec.action, settings, sub)
        )
        self._noise: list[Any] = [None] * count  # (seed, {name: ε}), for as long as the seed stays; None: not drawn yet
        self._nets: list[Any] = [None] * count  # Forward with that noise on the newest weights; None: not made yet
        self._weights: Weights | None = None
        self.memory = {
            "stddev": np.full(1, initial, np.float64),
            "own_stddev": np.zeros(count, np.float64),  # of the running episodes
            "seed": np.full(count, -1, np.int64),  # of ε; -1: an episode begins
            "age": np.zeros(count, np.int64),  # steps since the deviation adapted to this environment
            "divergence": np.zeros(count, np.float64),  # summed over the measured steps of this age
            **{f"sub_{name}": array for name, array in sub.memory.items()},
        }

    def act(self, policy: NumpyPolicy, obs: np.ndarray, state: State, rng: np.random.Generator, at: At) -> Acted:
        """See ``interface.Exploration``."""
        t, rows = at
        envs = range(*rows.indices(len(self._nets)))
        for env in envs:
            if self.memory["seed"][env] < 0 or self.memory["age"][env] >= ADAPTED_EVERY:
                self._adapt(env, t)
            if self.memory["seed"][env] < 0:
                self.memory["seed"][env] = rng.integers(0, 2**62)
                self.memory["own_stddev"][env] = self.memory["stddev"][0]
        self._prepare(policy, envs)
        noisy = policy.with_net(_each_row([self._nets[env] for env in envs]))
        self._measure(policy, noisy, obs, envs)
        return self._sub.act(noisy, obs, state, rng, at)

    def logp(self, policy: NumpyPolicy, obs: np.ndarray, state: State, action: np.ndarray, at: At) -> np.ndarray | None:
        """See ``interface.Exploration``: that of what is laid over the noisy policy, each episode's own."""
        envs = range(*at[1].indices(len(self._nets)))
        noisy = policy.with_net(_each_row([self._nets[env] for env in envs]))
        return self._sub.logp(noisy, obs, state, action, at)

    def _prepare(self, policy: NumpyPolicy, envs: range) -> None:
        """Make the noisy nets that are missing, or all of them after new weights."""
        if policy.weights is not self._weights:
            self._weights, self._nets = policy.weights, [None] * len(self._nets)
        for env in envs:
            seed = int(self.memory["seed"][env])
            if self._noise[env] is None or self._noise[env][0] != seed:
                drawing = np.random.Generator(np.random.PCG64(seed))
                drawn = {name: drawing.standard_normal(shape, np.float32) for name, shape in self._shapes.items()}
                self._noise[env], self._nets[env] = (seed, drawn), None
            if self._nets[env] is None:
                drawn, spread = self._noise[env][1], np.float32(self.memory["own_stddev"][env])
                weights = {name: policy.weights[name] for name in self._names}
                weights |= {name: weights[name] + spread * noise for name, noise in drawn.items()}
                self._nets[env] = policy.net_of(weights)

    def _measure(self, policy: NumpyPolicy, noisy: NumpyPolicy, obs: np.ndarray, envs: range) -> None:
        age = self.memory["age"]
        due = [row for row, env in enumerate(envs) if age[env] % MEASURED_EVERY == 0]
        age[envs.start : envs.stop] += 1
        if not due:
            return
        mine = policy.with_net(_each_row([self._nets[envs[row]] for row in due]))
        found = self._divergence(policy, mine, obs[due])
        for row, value in zip(due, found, strict=True):
            self.memory["divergence"][envs[row]] += value

    def _adapt(self, env: int, t: int) -> None:
        """One step towards the target, from what was measured in environment ``env``."""
        age, divergence = int(self.memory["age"][env]), self.memory["divergence"][env]
        self.memory["age"][env], self.memory["divergence"][env] = 0, 0.0
        if not age:
            return
        mean = divergence / -(-age // MEASURED_EVERY)
        far = not mean <= self._divergence.target(t)  # also where the noise has made it no number
        stddev = self.memory["stddev"][0] * (1.0 / ADAPTATION if far else ADAPTATION)
        self.memory["stddev"][0] = min(max(stddev, _LEAST), _MOST)

    def ended(self, index: int) -> None:
        """The next episode of environment ``index`` has a noise of its own."""
        self.memory["seed"][index] = -1
        self._sub.ended(index)

    def describe(self, t: int) -> dict[str, float]:
        """Return the deviation of the weights, and what the exploration laid over it says."""
        return {**self._sub.describe(t), "parameter_stddev": float(self.memory["stddev"][0])}


class _BoxDistance:
    """Mean square of the difference of the actions, in half ranges."""

    def __init__(self, action: ActionSpec, settings: Mapping[str, Any], sub: Exploration) -> None:
        low, high = action.policy_bounds()
        self._half, self._settings, self._sub = (high - low) / 2, settings, sub

    def __call__(self, clean: NumpyPolicy, noisy: NumpyPolicy, obs: np.ndarray) -> np.ndarray:
        """Return the divergence at each of ``obs`` [n, …], [n]."""
        one, other = (policy.greedy(policy.heads(obs)) for policy in (clean, noisy))
        return np.square((one - other) / self._half).mean(axis=-1)

    def target(self, t: int) -> float:
        """The square of the deviation of the noise laid over: 0.2 for a policy without."""
        now = self._sub.describe(t)
        if "ou_sigma" in self._settings:
            return (self._settings["ou_sigma"] * now["scale"]) ** 2
        return now.get("stddev", TARGET) ** 2


class _ValueDivergence:
    """Kullback–Leibler divergence of the softmax over action values, the clean policy's from the noisy one's."""

    def __init__(self, action: Actions, settings: Mapping[str, Any], sub: Exploration) -> None:
        self._n, self._sub = action.size, sub

    def __call__(self, clean: NumpyPolicy, noisy: NumpyPolicy, obs: np.ndarray) -> np.ndarray:
        """Return the divergence at each of ``obs`` [n, …], [n]."""
        one, other = (_log_softmax(policy.q_values(obs)) for policy in (clean, noisy))
        return (np.exp(one) * (one - other)).sum(axis=-1)

    def target(self, t: int) -> float:
        """That of an epsilon-greedy policy from the greedy one (section C): of the epsilon laid over, 0.01 where it is 0."""
        epsilon = self._sub.describe(t).get("epsilon") or EPSILON
        return -math.log(1.0 - epsilon + epsilon / self._n)


def _each_row(nets: Sequence[Acting]) -> Acting:
    """Return a net that gives row i to ``nets[i]``."""

    def run(x: np.ndarray, rng: np.random.Generator | None = None) -> Heads:
        parts = [net(x[row : row + 1], rng) for row, net in enumerate(nets)]
        return {head: np.concatenate([part[head] for part in parts]) for head in parts[0]}

    return run


def _log_softmax(x: np.ndarray) -> np.ndarray:
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))
