"""Hindsight experience replay: steps drawn from a ring are learnt from as if a goal achieved later had been the one desired.

Used by ``actors.replay_buffer`` in place of the ring that it holds; it has the same methods. Source: Andrychowicz et al. 2017,
"Hindsight Experience Replay" (arXiv:1707.01495), sections 3.2 and 3.3: of k + 1 draws k have a goal that was achieved later
in the episode (strategy "future"), or at its end ("final"). Deviation: the paper stores k copies of each step with other
goals; here the goal is replaced in what is drawn, as in Stable-Baselines3, so that a step meets a new one each time. Steps
of episodes that have not ended keep their own goal.

Rewards are computed again for all steps of an n-step window. Where the environment says when a goal ends the episode, so
are the ends: the window stops at the first one. Elsewhere the ends of the recorded steps hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from drl_cli.experience.ended_episodes import EndedEpisodes
from drl_cli.experience.ring_buffer import NONE

if TYPE_CHECKING:
    from drl_cli.experience.columns import Batch
    from drl_cli.experience.ring_buffer import Ring

Outcomes = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray | None]]
"""(achieved [M, G], desired [M, G]) → (reward float32 [M], whether the episode ends there bool [M], or None: not known)."""
BYTES = 4 * 4 + 1 + 4  # of a row, beside the ring's


class Relabelling(NamedTuple):
    """How goals are replaced.

    ``layout``: (achieved, desired, size), where in an observation the two goals of ``size`` numbers begin; ``share``: of the
    draws; ``strategy``: which achieved goal; ``window``: (n_step, gamma); ``outcomes``: see Outcomes.
    """

    layout: tuple[int, int, int]
    share: float
    strategy: Literal["future", "final"]
    window: tuple[int, float]
    outcomes: Outcomes


class Hindsight(EndedEpisodes):
    """A Ring of which some windows are read with another goal."""

    def __init__(self, ring: Ring, relabelling: Relabelling, rng: np.random.Generator) -> None:
        """``rng``: chooses which windows have another goal, and which; its state is saved by its owner."""
        super().__init__(ring)
        self._how, self._rng = relabelling, rng
        # The rows after the steps of ended episodes, episode by episode, in order. A row is overwritten in the ring at the
        # latest when as many others have been written; as many again, which began before it, may have ended in the meantime.
        self._following = np.zeros(2 * ring.capacity, np.int32)
        self._noted = 0  # steps ever written there
        self._slot = np.zeros(ring.capacity, np.int32)  # where in ``_following`` the row after each step is
        self._left = np.zeros(ring.capacity, np.int32)  # steps to the end of the episode, the row's own among them

    def windows(
        self, rows: np.ndarray, n_step: int, gamma: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """See ``Ring.windows``."""
        return self._ring.windows(rows, n_step, gamma)

    def draw(self, count: int, n_step: int, gamma: float, rng: np.random.Generator) -> Batch:
        """See ``Ring.draw``."""
        return self.read(*self._ring.drawn(count, n_step, gamma, rng))

    def read(self, rows: np.ndarray, reward: np.ndarray, discount: np.ndarray, last: np.ndarray) -> Batch:
        """Return the transitions as ``Ring.read``, a share of them with another goal."""
        self._settle()
        batch = self._ring.read(rows, reward, discount, last)
        which, goals = self._goals(rows)
        if not len(which):
            return batch
        _, desired, size = self._how.layout
        batch["reward"][which], batch["discount"][which], last = self._outcomes(
            rows[which], discount[which], last[which], goals
        )
        batch["next_obs"][which] = self._ring.stacks(last)
        for name in ("obs", "next_obs"):
            batch[name][which, desired : desired + size] = goals
        return batch

    def _goals(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (which of ``rows`` get another goal int [R], these goals float32 [R, G])."""
        is_other, how_far = self._rng.random((2, len(rows)))
        which = np.flatnonzero((is_other < self._how.share) & self._known[rows])
        rows = rows[which]
        left = self._left[rows]
        ahead = left - 1 if self._how.strategy == "final" else (how_far[which] * left).astype(np.int32)
        return which, self._achieved(self._following[(self._slot[rows] + ahead) % len(self._following)])

    def _achieved(self, rows: np.ndarray) -> np.ndarray:
        """Return the goals achieved in the observations of ``rows`` (int [R]), [R, G]."""
        achieved, _, size = self._how.layout
        return self._ring.stacks(rows)[:, achieved : achieved + size]

    def _outcomes(
        self, rows: np.ndarray, discount: np.ndarray, last: np.ndarray, goals: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (reward [R], discount [R], row after the window [R]) of windows with other ``goals`` [R, G].

        ``rows``, ``discount``, ``last`` [R]: those of the windows as they were recorded.
        """
        n_step, gamma = self._how.window
        reward, factor = np.zeros(len(rows)), np.ones(len(rows))
        alive, ended, at = np.ones(len(rows), bool), np.zeros(len(rows), bool), rows
        knows_ends = False
        for _ in range(n_step):
            at = np.where(alive, self._ring.link[at], at)
            gained, ends = self._how.outcomes(self._achieved(at), goals)
            reward += np.where(alive, factor * gained, 0.0)
            factor = np.where(alive, factor * gamma, factor)
            if ends is not None:
                knows_ends = True
                ended |= alive & ends
            alive &= (at != last) & ~ended
            if not alive.any():
                break
        if knows_ends:
            discount = factor * ~ended
        return reward.astype(np.float32), discount.astype(np.float32), at

    def _learn(self, rows: np.ndarray) -> np.ndarray:
        left, _, last = self._summed(rows, np.ones(len(rows)), 1.0)
        done = np.flatnonzero(last != NONE)
        order = done[np.lexsort((-left[done], last[done]))]  # episode by episode, from each first step to its last
        slots = (self._noted + np.arange(len(order))) % len(self._following)
        rows = rows[order]
        self._following[slots], self._slot[rows] = self._ring.link[rows], slots
        self._left[rows] = left[order].astype(np.int32)
        self._noted += len(order)
        return last != NONE

    def _arrays(self) -> tuple[np.ndarray, ...]:
        return self._following, self._slot, self._left, self._known, self._place
