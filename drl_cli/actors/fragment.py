"""The columns of one fragment while a worker fills them (``data.columns`` says what they are), and first priorities.

Used by ``rollout_worker``. A policy acts on stacks of frames; the fragment holds single ones.
"""

import numpy as np

from drl_cli.acting.priorities import first_priorities
from drl_cli.data.windows import n_step


class Fragment:
    """T steps of N environments."""

    def __init__(self, spec, shape, cut, judged):
        """``spec``: PolicySpec; ``shape``: (T, N); ``cut``: whether it continues nothing; ``judged``: priorities are wanted."""
        obs, dtype = tuple(spec.obs_shape), spec.obs_dtype
        self._shape, self._channels = shape, obs[-1]
        self.columns = {
            "obs": np.empty((*shape, *obs), dtype),
            "action": np.empty((*shape, *spec.action.shape), spec.action.dtype),
            "reward": np.empty(shape, np.float32),
            "terminated": np.zeros(shape, bool),
            "truncated": np.zeros(shape, bool),
            "cut": np.full(shape[1], cut),
        }
        self._ends = {}
        self._is_stacked = spec.frames > 1
        self._stacks = None
        if judged:
            self._stacks = np.empty((*shape, *spec.stacked_shape), dtype) if self._is_stacked else self.columns["obs"]

    def acted(self, step, stacked, action, env=None):
        """Note what was seen, [N, *stacked_shape], and done before a step; with ``env`` [1, …] of that one alone."""
        at = (step, slice(None)) if env is None else (step, slice(env, env + 1))
        self.columns["obs"][at] = stacked[..., -self._channels :] if self._is_stacked else stacked
        self.columns["action"][at] = action
        if self._is_stacked and self._stacks is not None:
            self._stacks[at] = stacked

    def remember(self, step, position, state, env=None):
        """Note what a recurrent policy acted from: ``position`` [N] in the episode and ``state`` before the step."""
        if "position" not in self.columns:
            self.columns["position"] = np.zeros(self._shape, np.int32)
            for index, part in enumerate(state):
                self.columns[f"state_{index}"] = np.zeros((*self._shape, *part.shape[1:]), np.float32)
        at = (step, slice(None)) if env is None else (step, slice(env, env + 1))
        self.columns["position"][at] = position
        for index, part in enumerate(state):
            self.columns[f"state_{index}"][at] = part

    def stepped(self, step, env, reward, ends, next_obs):
        """Note what came of it; ``ends``: (terminated, truncated), ``next_obs``: the real next frame."""
        self.columns["reward"][step, env] = reward
        if ends[0] or ends[1]:
            self.columns["terminated"][step, env], self.columns["truncated"][step, env] = ends
            self._ends[step, env] = next_obs

    def broken(self, step, env):
        """Forget a step that broke its episode: what came before it in this stream ends there, cut short."""
        columns = self.columns
        if step == 0:
            columns["cut"][env] = True
        elif not (columns["terminated"][step - 1, env] or columns["truncated"][step - 1, env]):
            columns["truncated"][step - 1, env] = True
            self._ends[step - 1, env] = columns["obs"][step, env].copy()

    def close(self, tail_obs):
        """Add the columns that are known at the end, and return all."""
        ends, (_, _, *obs) = self._ends, self.columns["obs"].shape
        self.columns["end_obs"] = (
            np.stack([ends[key] for key in sorted(ends)]) if ends else np.empty((0, *obs), self.columns["obs"].dtype)
        )
        self.columns["tail_obs"] = tail_obs
        return self.columns

    def judge(self, policy, tail_stacked, window, scale):
        """Add ``priority`` [T, N] float32 of the transitions that begin here (see ``acting.priorities``).

        ``window``: (gamma, steps): windows have up to so many steps, fewer before the end of the fragment. ``tail_stacked``:
        what the policy sees behind the last step. Rewards are divided by ``scale``.
        """
        windows = n_step(self.columns, *window)
        behind = np.concatenate([self._stacks[1:], tail_stacked[None]])  # [T, N, …]
        for (step, env), frame in self._ends.items():
            behind[step, env] = self._pushed(self._stacks[step, env], frame)
        next_obs = behind[windows.last, np.arange(self._shape[1])]
        columns = (self._stacks, self.columns["action"], windows.reward / scale, windows.discount, next_obs)
        flat = (column.reshape(-1, *column.shape[2:]) for column in columns)
        self.columns["priority"] = first_priorities(policy, *flat).reshape(self._shape)

    def _pushed(self, stack, frame):
        return np.concatenate([stack[..., self._channels :], frame], axis=-1) if self._is_stacked else frame
