"""Exploration by drawing: from the policy, uniformly, epsilon-greedily, or by a softmax over action values.

Random actions may be held for some steps (``HeldActions``): independent ones cancel out and lead nowhere. On
MountainCarContinuous 0.2 % of random episodes reach the flag, 59 % when each action is held for 8 steps.

Nets with noisy layers draw their weights at every act (Fortunato et al. 2018); their epsilon is what the config says, 0.

Sources: action repeats as exploration, Dabney et al. 2021, "Temporally-Extended ε-Greedy Exploration" (arXiv 2006.01782);
deviation: a fixed length instead of one drawn anew, and ``share`` stays the share of random actions (there ε is the
chance that a hold begins).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from drl_cli.policies.distributions import drawn

if TYPE_CHECKING:
    from drl_cli.policies.action_specs import Actions
    from drl_cli.policies.exploration.interface import Acted, At, Level
    from drl_cli.policies.nets import State
    from drl_cli.policies.numpy_policy import NumpyPolicy


class HeldActions:
    """The held actions of ``count`` environments; a hold ends with its episode.

    Where a held action is not allowed any more, another one is held for the rest.
    """

    def __init__(self, count: int, steps: int, action: Actions) -> None:
        """``steps``: length of a hold; ``action``: what describes the actions."""
        self._steps = steps
        self._column = (-1,) + (1,) * len(action.shape)
        self.memory = {}
        if steps > 1:
            self.memory = {
                "action": np.zeros((count, *action.shape), action.dtype),
                "left": np.zeros(count, np.int64),
            }

    @property
    def is_free(self) -> bool:
        """Whether every random action is drawn anew."""
        return self._steps == 1

    def uniform(self, policy: NumpyPolicy, rng: np.random.Generator, obs: np.ndarray, rows: slice) -> np.ndarray:
        """Return random actions [n, …] at ``obs`` [n, …] of the environments in the slice ``rows``."""
        if self._steps == 1:
            return policy.random(obs, rng)
        return self._advanced(rng.random(len(obs)) < 1.0, policy, rng, (obs, rows))[0]

    def among(
        self,
        action: np.ndarray,
        share: Any,
        policy: NumpyPolicy,
        rng: np.random.Generator,
        at: tuple[np.ndarray, slice],
    ) -> np.ndarray:
        """Return ``action`` [n, …] with a ``share`` of random ones (a number, or one for each row) in their places.

        ``at``: (the observations [n, …], the slice of their environments).
        """
        if self._steps == 1:
            drawn = rng.random(action.shape)  # of a team each agent's is drawn by itself
            return np.where(drawn < np.reshape(share, self._column), policy.random(at[0], rng), action)
        # Free steps alternate with holds of k steps; holds that begin with chance p fill k·p/(k·p + 1 − p) of all.
        begins = rng.random(len(action)) < share / (self._steps * (1.0 - share) + share)
        chosen, held = self._advanced(begins, policy, rng, at)
        return np.where(held.reshape(self._column), chosen, action)

    def ended(self, index: int) -> None:
        """End the hold of environment ``index``."""
        if self._steps > 1:
            self.memory["left"][index] = 0

    def _advanced(
        self, begins: np.ndarray, policy: NumpyPolicy, rng: np.random.Generator, at: tuple[np.ndarray, slice]
    ) -> tuple[np.ndarray, np.ndarray]:
        """One step: return the held actions and in which rows they hold; where none does, one may begin."""
        obs, rows = at
        held, left = self.memory["action"][rows], self.memory["left"][rows]  # views
        if policy.spec.mask:
            forbidden = (left > 0) & ~policy.allowed(obs)[np.arange(len(obs)), held]
            held[forbidden] = policy.random(obs, rng)[forbidden]
        fresh = begins & (left == 0)
        held[fresh] = policy.random(obs, rng)[fresh]
        left[fresh] = self._steps
        holding = left > 0
        left[holding] -= 1
        return held.copy(), holding


class StochasticSampling:
    """Draws from the policy's distribution."""

    def __init__(self) -> None:
        self.memory = {}

    def act(self, policy: NumpyPolicy, obs: np.ndarray, state: State, rng: np.random.Generator, at: At) -> Acted:
        """See ``interface.Exploration``; log-probabilities are computed of a whole fragment, which costs a tenth."""
        heads, state = policy.stepped(obs, state, rng)
        action = policy.drawn(heads, rng)
        return action, policy.noted(state, action), heads if policy.spec.scored else {}

    def logp(self, policy: NumpyPolicy, obs: np.ndarray, state: State, action: np.ndarray, at: At) -> np.ndarray | None:
        """See ``interface.Exploration``."""
        return policy.logp(policy.stepped(obs, state)[0], action)

    def ended(self, index: int) -> None:
        """See ``interface.Exploration``."""

    def describe(self, t: int) -> dict[str, float]:
        """Nothing: how far draws scatter is up to the policy."""
        return {}


class Random:
    """Uniform actions for ever."""

    def __init__(self, held: HeldActions) -> None:
        """``held``: HeldActions of its own."""
        self._held = held
        self.memory = held.memory

    def act(self, policy: NumpyPolicy, obs: np.ndarray, state: State, rng: np.random.Generator, at: At) -> Acted:
        """See ``interface.Exploration``."""
        action = self._held.uniform(policy, rng, obs, at[1])
        return action, policy.noted(policy.next_state(obs, state), action), policy.random_columns(obs)

    def logp(self, policy: NumpyPolicy, obs: np.ndarray, state: State, action: np.ndarray, at: At) -> np.ndarray | None:
        """See ``interface.Exploration``."""
        return policy.random_logp(obs) if self._held.is_free else None

    def ended(self, index: int) -> None:
        """See ``interface.Exploration``."""
        self._held.ended(index)

    def describe(self, t: int) -> dict[str, float]:
        """Return nothing: it never changes."""
        return {}


class EpsilonGreedy:
    """The best action, with a share epsilon of random ones.

    Random actions are held for ``hold_steps`` here as well; epsilon is the share of steps with a random action. All n
    actions are drawn from, the best one too, as in RLlib.
    """

    def __init__(self, epsilon: Level, held: HeldActions) -> None:
        """``epsilon``: a level, see ``interface``; ``held``: HeldActions of its own."""
        self._epsilon, self._held = epsilon, held
        self.memory = held.memory

    def act(self, policy: NumpyPolicy, obs: np.ndarray, state: State, rng: np.random.Generator, at: At) -> Acted:
        """See ``interface.Exploration``."""
        action, state, columns = policy.act(obs, state, rng, True)
        return self._held.among(action, self._epsilon(*at), policy, rng, (obs, at[1])), state, columns

    def logp(self, policy: NumpyPolicy, obs: np.ndarray, state: State, action: np.ndarray, at: At) -> np.ndarray | None:
        """See ``interface.Exploration``; of noisy nets the best action is another one at every step: None."""
        epsilon = self._epsilon(*at)
        if not self._held.is_free or policy.spec.is_noisy or policy.spec.team or not np.any(epsilon):
            return None
        return policy.logp(policy.stepped(obs, state)[0], action, epsilon=epsilon)

    def ended(self, index: int) -> None:
        """See ``interface.Exploration``."""
        self._held.ended(index)

    def describe(self, t: int) -> dict[str, float]:
        """Return epsilon, the mean over the worker's environments."""
        return {"epsilon": float(np.mean(self._epsilon(t, slice(None))))}


class SoftQ:
    """Draws actions in proportion to exp(Q / temperature)."""

    def __init__(self, temperature: float) -> None:
        self._temperature = temperature
        self.memory = {}

    def act(self, policy: NumpyPolicy, obs: np.ndarray, state: State, rng: np.random.Generator, at: At) -> Acted:
        """See ``interface.Exploration``."""
        heads, state = policy.stepped(obs, state, rng)
        return drawn(policy.values(heads) / self._temperature, rng), state, {}

    def logp(self, policy: NumpyPolicy, obs: np.ndarray, state: State, action: np.ndarray, at: At) -> np.ndarray | None:
        """See ``interface.Exploration``."""
        if policy.spec.is_noisy:
            return None
        return policy.logp(policy.stepped(obs, state)[0], action, temperature=self._temperature)

    def ended(self, index: int) -> None:
        """See ``interface.Exploration``."""

    def describe(self, t: int) -> dict[str, float]:
        """Return the temperature."""
        return {"temperature": float(self._temperature)}
