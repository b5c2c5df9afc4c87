"""The columns of one policy's fragment while agents act at their own times (see ``experience.columns``).

A step of an agent is open from the moment it acts until it is observed again or ends; rewards that come meanwhile, those of the
steps of others too, are summed, as in RLlib. Used by ``actors.policy_slots``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import DTypeLike

from drl_cli.policies.policy_spec import PolicySpec

HALVINGS = 3  # of a whole fragment, for streams that are all shorter: each length is compiled once, so few are better


class AgentFragment:
    """Steps of S streams, each with as many as its agent took: up to ``steps`` + 1, of complete episodes any number."""

    def __init__(
        self,
        spec: PolicySpec,
        steps: int,
        streams: int,
        is_whole: bool = False,
        noted: Mapping[str, DTypeLike] = MappingProxyType({}),
    ) -> None:
        """``spec``: of the policy; ``steps``: env steps of a fragment; ``streams``: S; ``is_whole``: of complete episodes.

        ``noted``: name → dtype of further columns, one number for each step.
        """
        self._spec, self._most, self._is_whole, self._noted = spec, steps, is_whole, noted
        shape = (steps + 1, streams)
        self._channels = spec.obs_shape[-1]
        self._columns = {
            "obs": np.zeros((*shape, *spec.obs_shape), spec.obs_dtype),
            "action": np.zeros((*shape, *spec.action.shape), spec.action.dtype),
            "reward": np.zeros(shape, np.float32),
            "terminated": np.zeros(shape, bool),
            "truncated": np.zeros(shape, bool),
        }
        self._columns |= {name: np.zeros(shape, dtype) for name, dtype in noted.items()}
        if spec.scored:
            self._columns["logp"] = np.zeros(shape, np.float32)
        if spec.state:
            self._columns["position"] = np.zeros(shape, np.int32)
            for index, part in enumerate(spec.state):
                self._columns[f"state_{index}"] = np.zeros((*shape, *part), np.float32)
        self._is_stacked = spec.frames > 1
        self._stack = np.zeros((streams, *spec.stacked_shape), spec.obs_dtype)
        self.length = np.zeros(streams, np.int64)  # steps that are closed
        self.is_open = np.zeros(streams, bool)  # whether a further one is open, in the row after them
        self._cut = np.ones(streams, bool)
        self._ends: dict[tuple[int, int], tuple[np.ndarray, tuple[np.ndarray, ...]]] = {}

    def open(
        self,
        streams: np.ndarray,
        stacked: np.ndarray,
        action: np.ndarray,
        scores: Mapping[str, np.ndarray],
        memory: tuple[np.ndarray, Sequence[np.ndarray]],
    ) -> None:
        """Note what the agents of ``streams`` (int [n]) saw, [n, *stacked_shape], and did; none of them has an open step.

        ``scores``: {"logp": [n]} of scored policies, and what else is noted of each step; ``memory``: (position [n] in the
        episode, recurrent parts [n, …]).
        """
        if self._is_whole and self.length[streams].max() == len(self._columns["reward"]):
            self._columns = {name: np.concatenate([one, np.zeros_like(one)]) for name, one in self._columns.items()}
        at, columns = (self.length[streams], streams), self._columns
        columns["obs"][at] = stacked[..., -self._channels :] if self._is_stacked else stacked
        columns["action"][at] = action
        columns["reward"][at] = 0.0
        for name, values in scores.items():
            if name in columns:
                columns[name][at] = values
        if "position" in columns:
            columns["position"][at] = memory[0]
            for index, part in enumerate(memory[1]):
                columns[f"state_{index}"][at] = part
        if self._is_stacked:
            first = self.length[streams] == 0
            self._stack[streams[first]] = stacked[first]
        self.is_open[streams] = True

    def rewarded(self, stream: int, reward: float) -> None:
        """Add to the reward of the open step of a stream; without one nothing is learnt from it."""
        if self.is_open[stream]:
            self._columns["reward"][self.length[stream], stream] += reward

    def open_reward(self, stream: int) -> float:
        """Return the reward of the open step of a stream so far."""
        return float(self._columns["reward"][self.length[stream], stream])

    def closed(self, streams: np.ndarray | int) -> None:
        """Close the open steps of ``streams`` (int [n], or one), whose agents have been observed again."""
        self.length[streams] += self.is_open[streams]
        self.is_open[streams] = False

    def ended(
        self, stream: int, ends: tuple[bool, bool], last_obs: np.ndarray, state: Sequence[np.ndarray] = ()
    ) -> None:
        """Close the open step of a stream with the end of its agent: (terminated, truncated), the real last frame."""
        if not self.is_open[stream]:
            return  # it never acted
        step = int(self.length[stream])
        self._columns["terminated"][step, stream], self._columns["truncated"][step, stream] = ends
        self._ends[step, stream] = (last_obs, tuple(state))
        self.length[stream] += 1
        self.is_open[stream] = False

    def broken(self, stream: int, seen: np.ndarray, state: Sequence[np.ndarray] = ()) -> None:
        """Forget the open step of a stream whose episode was broken off: what came before it ends there, cut short.

        ``seen``: the frame after the last closed step where none is open; ``state``: the recurrent parts there.
        """
        step, columns = int(self.length[stream]) - 1, self._columns
        if self.is_open[stream]:
            seen = columns["obs"][step + 1, stream].copy()
            state = [columns[f"state_{index}"][step + 1, stream].copy() for index in range(len(state))]
        self.is_open[stream] = False
        if step < 0:
            self._cut[stream] = True
        elif not (columns["terminated"][step, stream] or columns["truncated"][step, stream]):
            columns["truncated"][step, stream] = True
            self._ends[step, stream] = (seen, tuple(state))

    def close(self, frames: np.ndarray, state: Sequence[np.ndarray]) -> tuple[dict[str, np.ndarray], AgentFragment]:
        """Return the columns of all closed steps, and the fragment that goes on with the open ones.

        ``frames`` [S, …]: the newest observation of every stream; ``state``: recurrent parts [S, …] after the last acts.
        """
        after = AgentFragment(self._spec, self._most, len(self.length), self._is_whole, self._noted)
        after._cut[:] = False
        streams = np.flatnonzero(self.is_open)
        at = (self.length[streams], streams)
        for name, column in self._columns.items():
            after._columns[name][0, streams] = column[at]
        after.is_open[streams] = True
        tail = frames.copy()
        tail[streams] = self._columns["obs"][at]
        tails = [part.copy() for part in state]
        for index, part in enumerate(tails):
            part[streams] = self._columns[f"state_{index}"][at]
        if self._is_stacked:
            after._stack[streams] = self._open_stacks(streams)
        return self._closed_columns(tail, tails), after

    def _closed_columns(self, tail: np.ndarray, tails: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        longest = int(self.length.max(initial=0))
        if self._is_whole:
            return self._with_ends(self._padded(max(longest, 1)) | {"length": self.length.copy()}, tail, tails)
        lengths = [self._most >> halvings for halvings in range(HALVINGS, -1, -1)]
        rows = next((length for length in lengths if length >= max(longest, 1)), longest)
        columns = self._padded(rows)
        if rows != longest or (self.length != longest).any():
            columns["steps"] = self.length.copy()
        return self._with_ends(columns, tail, tails)

    def _padded(self, rows: int) -> dict[str, np.ndarray]:
        """Return the first ``rows`` of all columns, zeros after each stream's last step."""
        padding = np.arange(rows)[:, None] >= self.length
        columns = {name: column[:rows].copy() for name, column in self._columns.items()}
        for column in columns.values():
            column[padding] = 0
        return columns

    def _with_ends(
        self, columns: dict[str, np.ndarray], tail: np.ndarray, tails: Sequence[np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Return ``columns`` with what was seen after the last steps and after each end."""
        ends = [self._ends[key] for key in sorted(self._ends)]
        columns["cut"], columns["tail_obs"] = self._cut, tail
        columns["end_obs"] = _stacked([obs for obs, _ in ends], tail)
        if self._spec.scored:
            for index, part in enumerate(tails):
                columns[f"end_state_{index}"] = _stacked([state[index] for _, state in ends], part)
                columns[f"tail_state_{index}"] = part
            if self._is_stacked:
                columns["stack"] = self._stack
        return columns

    def _open_stacks(self, streams: np.ndarray) -> np.ndarray:
        """Return what the agents of open steps saw, [n, *stacked_shape], from the frames that lead there."""
        repeats = self._spec.frames
        found = []
        for stream in streams.tolist():
            stack = self._stack[stream]
            for step in range(1, int(self.length[stream]) + 1):
                frame = self._columns["obs"][step, stream]
                is_first = self._columns["terminated"][step - 1, stream] or self._columns["truncated"][step - 1, stream]
                older = [frame] * (repeats - 1) if is_first else [stack[..., self._channels :]]
                stack = np.concatenate([*older, frame], axis=-1)
            found.append(stack)
        return np.stack(found) if found else self._stack[:0]

    def state(self) -> dict[str, np.ndarray]:
        """Return {name: array} of a fragment of which no step is closed: the open ones."""
        arrays = {name: column[0].copy() for name, column in self._columns.items()}
        return arrays | {"open": self.is_open.copy(), "cut": self._cut.copy(), "stack": self._stack.copy()}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from ``state``. Raises KeyError or ValueError for what is none."""
        for name, column in self._columns.items():
            column[0] = arrays[name]
        self.is_open[:], self._cut[:], self._stack[:] = arrays["open"], arrays["cut"], arrays["stack"]


def _stacked(rows: Sequence[np.ndarray], like: np.ndarray) -> np.ndarray:
    """Return ``rows`` as one array [E, …] of the row shape and dtype of ``like`` [N, …]."""
    return np.stack(rows) if rows else np.empty((0, *like.shape[1:]), like.dtype)
