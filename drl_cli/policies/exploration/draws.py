"""Exploration by drawing: from the policy, uniformly, epsilon-greedily, or by a softmax over action values.

Every kind of exploration has ``act(policy, obs, state, rng, (t, rows)) → action, state, columns`` for the environments in the
slice ``rows`` at env step t of the run, ``logp(policy, obs, state, action, (t, rows))`` (see ``making``; the action is the
recorded one), ``ended(index)``, ``describe(t)`` and ``memory``, the arrays that it remembers.
Those of other rooms are ``noise``, ``state_dependent`` and ``parameters``; ``making`` calls them all.

Nets with noisy layers draw their weights at every act (Fortunato et al. 2018); their epsilon is what the config says, 0.
"""

import numpy as np

from drl_cli.policies.distributions import drawn


class StochasticSampling:
    """Draws from the policy's distribution."""

    def __init__(self):
        self.memory = {}

    def act(self, policy, obs, state, rng, at):
        """See the module."""
        return policy.act(obs, state, rng, True)

    def logp(self, policy, obs, state, action, at):
        """See the module."""
        return policy.logp(policy.stepped(obs, state)[0], action)

    def ended(self, index):
        """See the module."""

    def describe(self, t):
        """Nothing: how far draws scatter is the policy's own affair."""
        return {}


class Random:
    """Uniform actions for ever."""

    def __init__(self, held):
        """``held``: HeldActions of its own."""
        self._held = held
        self.memory = held.memory

    def act(self, policy, obs, state, rng, at):
        """See the module."""
        action = self._held.uniform(policy, rng, obs, at[1])
        return action, policy.noted(policy.next_state(obs, state), action), policy.random_columns(obs)

    def logp(self, policy, obs, state, action, at):
        """See the module."""
        return policy.random_logp(obs) if self._held.is_free else None

    def ended(self, index):
        """See the module."""
        self._held.ended(index)

    def describe(self, t):
        """Nothing changes."""
        return {}


class EpsilonGreedy:
    """The best action, with a share epsilon of random ones.

    Random actions are held for ``hold_steps`` here as well; epsilon is the share of steps with a random action. All n
    actions are drawn from, the best one too, as in RLlib.
    """

    def __init__(self, epsilon, held):
        """``epsilon``: a level, see ``levels``; ``held``: HeldActions of its own."""
        self._epsilon, self._held = epsilon, held
        self.memory = held.memory

    def act(self, policy, obs, state, rng, at):
        """See the module."""
        action, state, columns = policy.act(obs, state, rng, True)
        return self._held.among(action, self._epsilon(*at), policy, rng, (obs, at[1])), state, columns

    def logp(self, policy, obs, state, action, at):
        """See the module; of noisy nets the best action is another one at every step, and nobody knows how often."""
        epsilon = self._epsilon(*at)
        if not self._held.is_free or policy.spec.is_noisy or not np.any(epsilon):
            return None
        return policy.logp(policy.stepped(obs, state)[0], action, epsilon=epsilon)

    def ended(self, index):
        """See the module."""
        self._held.ended(index)

    def describe(self, t):
        """Return epsilon, the mean over the worker's environments."""
        return {"epsilon": float(np.mean(self._epsilon(t, slice(None))))}


class SoftQ:
    """Draws actions in proportion to exp(Q / temperature)."""

    def __init__(self, temperature):
        self._temperature = temperature
        self.memory = {}

    def act(self, policy, obs, state, rng, at):
        """See the module."""
        heads, state = policy.stepped(obs, state, rng)
        return drawn(policy.values(heads) / self._temperature, rng), state, {}

    def logp(self, policy, obs, state, action, at):
        """See the module."""
        if policy.spec.is_noisy:
            return None
        return policy.logp(policy.stepped(obs, state)[0], action, temperature=self._temperature)

    def ended(self, index):
        """See the module."""

    def describe(self, t):
        """Return the temperature."""
        return {"temperature": float(self._temperature)}
