"""Uniformly random actions, each held for some steps.

Independent random actions cancel out and lead nowhere: on MountainCarContinuous 0.2 % of random episodes reach the flag,
59 % when each action is held for 8 steps. Used by the random phase of every exploration and by epsilon-greedy.

Sources: action repeats as exploration, Dabney et al. 2021, "Temporally-Extended ε-Greedy Exploration" (arXiv 2006.01782);
deviation: a fixed length instead of one drawn anew, and ``share`` stays the share of random actions (there ε is the
chance that a hold begins).
"""

import numpy as np


class HeldActions:
    """The held actions of ``count`` environments; a hold ends with its episode.

    Where a held action is not allowed any more, another one is held for the rest.
    """

    def __init__(self, count, steps, action):
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
    def is_free(self):
        """Whether every random action is drawn anew."""
        return self._steps == 1

    def uniform(self, policy, rng, obs, rows):
        """Return random actions [n, …] at ``obs`` [n, …] of the environments in the slice ``rows``."""
        if self._steps == 1:
            return policy.random(obs, rng)
        return self._advanced(rng.random(len(obs)) < 1.0, policy, rng, (obs, rows))[0]

    def among(self, action, share, policy, rng, at):
        """Return ``action`` [n, …] with a ``share`` of random ones (a number, or one for each row) in their places.

        ``at``: (the observations [n, …], the slice of their environments).
        """
        drawn = rng.random(len(action))
        if self._steps == 1:
            chosen, held = policy.random(at[0], rng), drawn < share
        else:
            # Free steps alternate with holds of k steps; holds that begin with chance p fill k·p/(k·p + 1 − p) of all.
            begins = drawn < share / (self._steps * (1.0 - share) + share)
            chosen, held = self._advanced(begins, policy, rng, at)
        return np.where(held.reshape(self._column), chosen, action)

    def ended(self, index):
        """End the hold of environment ``index``."""
        if self._steps > 1:
            self.memory["left"][index] = 0

    def _advanced(self, begins, policy, rng, at):
        """One step: return the held actions and in which rows they hold; where none does, one may begin."""
        obs, rows = at
        held, left = self.memory["action"][rows], self.memory["left"][rows]  # views
        if policy.spec.mask:
            spoilt = (left > 0) & ~policy.allowed(obs)[np.arange(len(obs)), held]
            held[spoilt] = policy.random(obs, rng)[spoilt]
        fresh = begins & (left == 0)
        held[fresh] = policy.random(obs, rng)[fresh]
        left[fresh] = self._steps
        holding = left > 0
        left[holding] -= 1
        return held.copy(), holding
