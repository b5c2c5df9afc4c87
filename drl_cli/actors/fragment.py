"""The columns of one fragment while a worker fills them (see ``experience.columns``), and initial priorities.

Used by ``rollout_worker``. A policy acts on stacks of frames; the fragment holds single ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from drl_cli.actors.initial_priorities import first_priorities
from drl_cli.experience.advantages import n_step
from drl_cli.policies.nets import Heads
from drl_cli.policies.numpy_policy import NumpyPolicy
from drl_cli.policies.policy_spec import PolicySpec

HEAD = "head/"
"""Before the names of columns of heads, which stand there until log-probabilities are made of them."""


class Fragment:
    """T steps of N environments; T grows with ``grow``."""

    def __init__(self, spec: PolicySpec, shape: tuple[int, int], cut: np.ndarray, judged: bool) -> None:
        """``spec``: PolicySpec; ``shape``: (T, N); ``cut``: whether it continues nothing; ``judged``: priorities are wanted."""
        obs, dtype = tuple(spec.obs_shape), spec.obs_dtype
        self._channels = obs[-1]
        self.columns = {
            "obs": np.empty((*shape, *obs), dtype),
            "action": np.empty((*shape, *spec.action.shape), spec.action.dtype),
            "reward": np.zeros(shape, np.float32),
            "terminated": np.zeros(shape, bool),
            "truncated": np.zeros(shape, bool),
        }
        if spec.scored:
            self.columns["logp"] = np.zeros(shape, np.float32)
        if spec.state:
            self.columns["position"] = np.zeros(shape, np.int32)
        self._drawn_from = shape[0]  # the first step whose action was drawn from the policy's heads
        self._cut = np.full(shape[1], cut)
        self._ends = {}  # (step, env) -> (the real last observation, the state with which to look at it)
        self._is_stacked, self._is_scored = spec.frames > 1, spec.scored
        self._first_stacks = np.empty((0, *spec.stacked_shape), dtype)  # of the first step, once it is there
        self._stacks: np.ndarray | None = None
        self.is_judged = judged
        if judged:
            self._stacks = np.empty((*shape, *spec.stacked_shape), dtype) if self._is_stacked else self.columns["obs"]

    @property
    def shape(self) -> tuple[int, int]:
        """(T, N)."""
        return self.columns["reward"].shape

    def grow(self) -> None:
        """Make room for twice as many steps."""
        self.columns = {name: np.concatenate([array, np.zeros_like(array)]) for name, array in self.columns.items()}

    def shorten(self, steps: int) -> None:
        """Leave out what comes after the first ``steps``, which were not taken."""
        self.columns = {name: array[:steps] for name, array in self.columns.items()}
        self._stacks = None if self._stacks is None else self._stacks[:steps]

    def acted(
        self,
        step: int,
        stacked: np.ndarray,
        action: np.ndarray,
        scores: Mapping[str, np.ndarray] | None = None,
        env: int | None = None,
    ) -> None:
        """Note what was seen, [N, *stacked_shape], and done before a step; with ``env`` [1, …] of that one alone.

        ``scores``: of policies with ``spec.scored``, {"logp": [N]}, or {head: [N, …]} of which ``close`` makes that.
        """
        at = step if env is None else (step, slice(env, env + 1))
        columns = self.columns
        columns["obs"][at] = stacked[..., -self._channels :] if self._is_stacked else stacked
        columns["action"][at] = action
        if self._is_scored and scores is not None:
            if "logp" in scores:
                columns["logp"][at] = scores["logp"]
            else:
                self._drawn(step, at, scores)
        if self._is_stacked:
            if self._stacks is not None:
                self._stacks[at] = stacked
            if step == 0 and env is None:
                self._first_stacks = stacked.copy()
            elif step == 0:
                self._first_stacks[env] = stacked[0]

    def _drawn(self, step: int, at: int | tuple[int, slice], heads: Mapping[str, np.ndarray]) -> None:
        self._drawn_from = min(self._drawn_from, step)
        for name, values in heads.items():
            column = HEAD + name
            if column not in self.columns:
                self.columns[column] = np.zeros((*self.shape, *values.shape[1:]), values.dtype)
            self.columns[column][at] = values

    def remember(
        self, step: int, position: np.ndarray | int, state: tuple[np.ndarray, ...], env: int | None = None
    ) -> None:
        """Note what a recurrent policy acted from: ``position`` [N] in the episode and ``state`` before the step."""
        at = step if env is None else (step, slice(env, env + 1))
        self.columns["position"][at] = position
        for index, part in enumerate(state):
            name = f"state_{index}"
            if name not in self.columns:
                self.columns[name] = np.zeros((*self.shape, *part.shape[1:]), np.float32)
            self.columns[name][at] = part

    def rewarded(self, step: int, rewards: np.ndarray | Sequence[float]) -> None:
        """Note the rewards [N] of a step."""
        self.columns["reward"][step] = rewards

    def ended(
        self, step: int, env: int, ends: tuple[bool, bool], last_obs: np.ndarray, state: tuple[np.ndarray, ...] = ()
    ) -> None:
        """Note that an episode ended after a step.

        ``ends``: (terminated, truncated); ``last_obs``: the real last frame; ``state``: recurrent parts [N, …] after the step.
        """
        self.columns["terminated"][step, env], self.columns["truncated"][step, env] = ends
        self._ends[step, env] = (last_obs, tuple(part[env].copy() for part in state))

    def broken(self, step: int, env: int) -> None:
        """Forget a step that broke its episode: what came before it in this stream ends there, cut short."""
        columns = self.columns
        if step == 0:
            self._cut[env] = True
        elif not (columns["terminated"][step - 1, env] or columns["truncated"][step - 1, env]):
            columns["truncated"][step - 1, env] = True
            state = tuple(columns[name][step, env].copy() for name in sorted(columns) if name.startswith("state_"))
            self._ends[step - 1, env] = (columns["obs"][step, env].copy(), state)

    def close(
        self,
        tail_obs: np.ndarray,
        tail_state: tuple[np.ndarray, ...] = (),
        lengths: np.ndarray | None = None,
        score: Callable[[Heads, np.ndarray], Heads] | None = None,
    ) -> dict[str, np.ndarray]:
        """Add the columns that are known at the end, and return all.

        ``tail_state``: the recurrent state after the last steps; ``lengths`` [N]: of complete episodes, their real steps.
        ``score``: ``NumpyPolicy.scores`` of the policy whose heads came with the steps, if any did.
        """
        if lengths is not None:
            self.shorten(int(lengths.max()))
        if score is not None:
            self._score(score)
        columns = self.columns
        if lengths is not None:
            padding = np.arange(lengths.max())[:, None] >= lengths
            for name in columns:
                columns[name][padding] = 0
            columns["length"] = lengths
        ends = [self._ends[key] for key in sorted(self._ends)]
        columns["cut"] = self._cut
        columns["end_obs"] = _stacked([obs for obs, _ in ends], tail_obs)
        columns["tail_obs"] = tail_obs
        if self._is_scored:
            for index, part in enumerate(tail_state):
                columns[f"end_state_{index}"] = _stacked([state[index] for _, state in ends], part)
                columns[f"tail_state_{index}"] = part.copy()
            if self._is_stacked:
                columns["stack"] = self._first_stacks
        self.columns = columns
        return columns

    def _score(self, score: Callable[[Heads, np.ndarray], Heads]) -> None:
        """Put the log-probabilities of drawn actions in the place of their heads: one call for all costs a tenth."""
        heads = {name: self.columns.pop(name) for name in list(self.columns) if name.startswith(HEAD)}
        if heads:
            first = self._drawn_from

            def rows(column: np.ndarray) -> np.ndarray:
                return column[first:].reshape(-1, *column.shape[2:])

            given = {name.removeprefix(HEAD): rows(column) for name, column in heads.items()}
            found = score(given, rows(self.columns["action"]))["logp"]
            self.columns["logp"][first:] = found.reshape(-1, self.shape[1])

    def judge(
        self, policy: NumpyPolicy, tail_stacked: np.ndarray, window: tuple[float, int], scale: np.float32 | float
    ) -> None:
        """Add ``priority`` [T, N] float32 of the transitions that begin here (see ``actors.initial_priorities``).

        ``window``: (gamma, steps): windows have up to so many steps, fewer before the end of the fragment. ``tail_stacked``:
        what the policy sees after the last step. Rewards are divided by ``scale``.
        """
        if self._stacks is None:
            raise RuntimeError("this fragment does not keep the frame stacks that initial priorities need")
        windows, stacks = n_step(self.columns, *window), self._stacks
        after = np.concatenate([stacks[1:], tail_stacked[None]])  # [T, N, …]
        for (step, env), (frame, _) in self._ends.items():
            after[step, env] = self._pushed(stacks[step, env], frame)
        next_obs = after[windows.last, np.arange(self.shape[1])]
        columns = (stacks, self.columns["action"], windows.reward / scale, windows.discount, next_obs)
        flat = (column.reshape(-1, *column.shape[2:]) for column in columns)
        self.columns["priority"] = first_priorities(policy, *flat).reshape(self.shape)

    def _pushed(self, stack: np.ndarray, frame: np.ndarray) -> np.ndarray:
        return np.concatenate([stack[..., self._channels :], frame], axis=-1) if self._is_stacked else frame


def _stacked(rows: Sequence[np.ndarray], like: np.ndarray) -> np.ndarray:
    """Return ``rows`` as one array [E, …] of the row shape and dtype of ``like`` [N, …]."""
    return np.stack(rows) if rows else np.empty((0, *like.shape[1:]), like.dtype)
