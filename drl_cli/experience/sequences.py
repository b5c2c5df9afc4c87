"""Sequences of a ring's steps for recurrent policies: drawn whole, with the recurrent state before them.

Used by ``actors.replay_buffer`` in place of the ring that it holds; it has the same methods. Source: Kapturowski et al.
2019, "Recurrent Experience Replay in Distributed Reinforcement Learning" (R2D2), section 2.3 and 3: stored states, burn-in,
neighbours that overlap by half.

A sequence has ``burn_in`` steps that only bring the state up to date, then ``learnt`` steps, then the ``n_step``
observations that the last of these are bootstrapped from. What is learnt begins at every ⌈learnt/2⌉th step of an episode, from
its first one on: every step but those at the start is learnt from in two sequences. No sequence crosses an episode's
border: the burn-in is shorter where the episode began later, with a reset where it did, and after the end comes padding.
Deviation: the paper's sequences include their burn-in, so that the first steps of an episode are never learnt from.

The worker says each step's ``position`` in its episode, and the ``state_<i>`` before it; both are kept for every row (8
bytes a cell and env step), because which of them a burn-in begins with is not known when they are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from drl_cli.experience.columns import expect
from drl_cli.experience.ring_buffer import MAX_DRAWS, NONE, STEP, TERMINATED
from drl_cli.experience.ring_view import RingView

if TYPE_CHECKING:
    from drl_cli.experience.columns import Batch, Columns
    from drl_cli.experience.ring_buffer import Ring


class Sequences(RingView):
    """A Ring that sequences are drawn from; the ring must look back (``back``)."""

    def __init__(self, ring: Ring, burn_in: int, learnt: int, state_shapes: Sequence[tuple[int, ...]] = ()) -> None:
        """``burn_in`` ≥ 0, ``learnt`` ≥ 1 steps; ``state_shapes``: those of the stored states, ``()``: none are stored."""
        super().__init__(ring)
        self._burn_in, self._learnt = burn_in, learnt
        self._stride = -(-learnt // 2)
        self._columns: dict[str, np.ndarray] = {"position": np.zeros(ring.capacity, np.int32)}
        for index, shape in enumerate(state_shapes):
            self._columns[f"state_{index}"] = np.zeros((ring.capacity, *shape), np.float32)

    def add(self, worker: int, columns: Columns) -> int:
        """Append a fragment with ``position`` and states, as ``Ring.add``; ValueError where one is missing or misshapen."""
        for name, mine in self._columns.items():
            if name not in columns or columns[name].shape[2:] != mine.shape[1:]:
                found = columns[name].shape if name in columns else "missing"
                raise ValueError(f"a fragment's {name} is {found}; the replay holds {mine.shape[1:]} a step")
        first = self._ring.add(worker, columns)
        rows = (first + np.arange(columns["reward"].size)) % self.capacity
        for name, mine in self._columns.items():
            mine[rows] = columns[name].reshape(len(rows), *mine.shape[1:])
        return first

    def may_begin(self, rows: np.ndarray) -> np.ndarray:
        """Whether the learnt part of a sequence begins in each of ``rows`` (int [M]), bool [M]."""
        return self._ring.may_begin(rows) & (self._columns["position"][rows] % self._stride == 0)

    def windows(
        self, rows: np.ndarray, n_step: int, gamma: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Follow the sequences whose learnt part begins in ``rows`` (int [M]).

        Returns (reward [M, learnt] float32, discount [M, learnt] float32, chain [M, learnt + n_step] int: the rows of the
        steps and what lies after them, valid [M] bool). Rewards are n-step, as in ``Ring.windows``; after the episode's
        end they are 0. A sequence is valid when nothing that it needs has yet to come or is gone.
        """
        ring, learnt = self._ring, self._learnt
        chain = np.empty((len(rows), learnt + n_step), np.int64)
        chain[:, 0] = rows
        valid = self.may_begin(rows)
        for step in range(1, learnt + n_step):
            before = chain[:, step - 1]
            following = ring.link[before]
            chain[:, step] = np.where(following == NONE, before, following)
            valid &= (following != NONE) | ((ring.flags[before] & STEP) == 0)  # after an end row nothing is to come
        valid &= self._rows_before(rows)[1]
        alive = (ring.flags[chain] & STEP) > 0
        each = np.where(alive, ring.reward[chain], 0.0).astype(np.float64)
        reward, factor, goes_on = np.zeros((len(rows), learnt)), np.ones((len(rows), learnt)), alive[:, :learnt].copy()
        for step in range(n_step):
            now = slice(step, step + learnt)
            reward += factor * each[:, now]
            factor = np.where(alive[:, now], factor * gamma, factor)
            goes_on &= ~(alive[:, now] & ((ring.flags[chain[:, now]] & TERMINATED) > 0))
        return reward.astype(np.float32), (factor * goes_on).astype(np.float32), chain, valid

    def _rows_before(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return ([M, burn_in] the rows before ``rows``, an episode's first again and again; bool [M]: they are there)."""
        position, back = self._columns["position"][rows], self._ring.looks_back()
        serial = self.serials(rows)
        found = np.empty((len(rows), self._burn_in), np.int64)
        for step in range(1, self._burn_in + 1):
            at = serial % self.capacity
            serial = np.where(position >= step, serial - back[at], serial)
            found[:, self._burn_in - step] = serial % self.capacity
        return found, self._ring.are_whole(serial)

    def draw(self, count: int, n_step: int, gamma: float, rng: np.random.Generator) -> Batch:
        """Return ``count`` sequences drawn uniformly, as {column: array [count, …]}, see ``experience.columns``."""
        chosen, found = [], 0
        for _ in range(MAX_DRAWS):
            rows = rng.integers(0, len(self), size=(count - found) * self._stride + 64)
            rows = rows[self.may_begin(rows)]
            reward, discount, chain, valid = self.windows(rows, n_step, gamma)
            keep = np.flatnonzero(valid)[: count - found]
            chosen.append((rows[keep], reward[keep], discount[keep], chain[keep]))
            found += len(keep)
            if found >= count:
                break
        else:
            raise ValueError(f"no {count} complete sequences of {self._learnt} steps in {len(self)} rows")
        return self.read(*(np.concatenate(parts) for parts in zip(*chosen, strict=True)))

    def read(self, rows: np.ndarray, reward: np.ndarray, discount: np.ndarray, chain: np.ndarray) -> Batch:
        """Return the sequences of ``windows`` as {column: array [M, …]}, see ``experience.columns``."""
        ring, learnt, burn_in = self._ring, self._learnt, self._burn_in
        whole = np.concatenate([self._rows_before(rows)[0], chain], axis=1)  # [M, S]
        position = self._columns["position"][rows]
        begins = np.zeros(whole.shape, np.float32)
        near = np.flatnonzero(position <= burn_in)
        begins[near, burn_in - position[near]] = 1.0
        alive = (ring.flags[chain] & STEP) > 0
        ahead = sum(alive[:, step : step + learnt].astype(np.int32) for step in range(chain.shape[1] - learnt))
        mask, action = alive[:, :learnt], ring.action[chain[:, :learnt]]
        action[~mask] = 0  # after an end there is none
        columns = {
            "obs": ring.stacks(whole.ravel()).reshape(*whole.shape, *ring.stacked_shape),
            "action": action,
            "reward": reward,
            "discount": np.where(mask, discount, 0.0).astype(np.float32),
            "ahead": np.where(mask, ahead, 0).astype(np.int32),
            "mask": mask.astype(np.float32),
            "begins": begins,
        }
        states = {name: stored[whole[:, 0]] for name, stored in self._columns.items() if name != "position"}
        return columns | states

    def _arrays(self) -> Iterable[np.ndarray]:
        return self._columns.values()

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """See ``Ring.state``."""
        arrays, facts = self._ring.state()
        return arrays | {name: stored[: len(self)] for name, stored in self._columns.items()}, facts

    def load(self, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> None:
        """See ``Ring.load``."""
        size = min(facts["written"], self.capacity) if isinstance(facts["written"], int) else 0
        for name, stored in self._columns.items():
            expect(name, arrays, (size, *stored.shape[1:]), stored.dtype)
        if size and arrays["position"].min() < 0:
            raise ValueError("a step of the replay before its episode's first")
        self._ring.load(arrays, facts)
        for name, stored in self._columns.items():
            stored[:size] = arrays[name]
