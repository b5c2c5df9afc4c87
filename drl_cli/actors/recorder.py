"""Recorder: writes a worker's fragments down as RLlib's batches, one line a fragment.

Used by ``rollout_worker``, and by ``evolution_worker``, whose fragments are whole episodes (``whole_episode``).

A step that was taken is there once: raw observation and reward, the action in the environment's units before it is clipped,
how likely it was under what acted where that is known (``Exploration.logp``), and how its episode ended. ``new_obs`` of an
episode's last step is the real last observation. An episode that broke off simply goes on nowhere.

A recording that cannot be written ends with a note; the run goes on without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from drl_cli.actors.file_keeper import output_of
from drl_cli.actors.part_records import WorkerIdentity
from drl_cli.config.sections.common import CommonKeys
from drl_cli.errors import CheckpointError
from drl_cli.experience.recorded.write import line, probabilities, shifted
from drl_cli.policies.numpy_policy import NumpyPolicy
from drl_cli.randomness import number

EPISODES = 2**21  # of one incarnation of a worker that have ids of their own; JSON's numbers hold 2**53


class Recorder:
    """The recording of one worker."""

    def __init__(
        self, config: CommonKeys, folder: Path, identity: WorkerIdentity, policy: NumpyPolicy, count: int
    ) -> None:
        """``folder``: where to; ``identity``: dict(seed, index, incarnation); ``policy``: the NumpyPolicy that acts.

        ``count``: environments of a fragment.
        """
        self._policy, self._compress = policy, tuple(config.output_compress_columns)
        self._output = output_of(folder, identity, config.output_max_file_size)
        self._index = identity["index"]
        self._base = number(identity["seed"], "worker", identity["index"], identity["incarnation"]) * EPISODES
        self._begun = 0  # episodes so far
        self._rolls = 0  # what RLlib calls unroll: what one environment did in one fragment
        self._episode = np.zeros(count, np.int64)
        self._t = np.zeros(count, np.int64)  # steps of the running episodes
        self._last_action = np.zeros((count, *policy.spec.action.shape), policy.spec.action.dtype)
        self._last_reward = np.zeros(count, np.float32)
        self._logp = {}  # step of the fragment -> log-probabilities [N], NaN where there is none
        self._ended = False
        self.notes = []  # messages for the user, taken by the worker

    def scored(self, step: int, logp: np.ndarray | None, env: int | None = None) -> None:
        """Note how likely the actions of a fragment's ``step`` were: ``logp`` [N], with ``env`` [1] of that one, or None."""
        if env is not None:
            self._logp[step][env] = np.nan if logp is None else logp[0]
        elif logp is None:
            self._logp[step] = np.full(len(self._t), np.nan, np.float32)
        else:
            self._logp[step] = logp.copy()

    def add(self, columns: Mapping[str, np.ndarray]) -> None:
        """Write a fragment: its columns as they were closed (``experience.columns``), with raw rewards."""
        if self._ended:
            return
        batch = self._batch(columns)
        self._logp = {}
        try:
            self._output.write(line(batch, self._compress))
        except OSError as error:
            self._ended = True
            self._output.close()
            self.notes.append(cannot_be_written(self._index, self._output.path, error))

    def _batch(self, columns: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """The steps of all environments, one environment after the other, as {column: array}."""
        steps, count = columns["reward"].shape
        lengths = columns.get("length", np.full(count, steps))
        action = self._policy.recorded(columns["action"])
        next_obs = observations_after(columns)
        done = columns["terminated"] | columns["truncated"]
        logp = np.stack([self._logp[step] for step in range(steps)]) if self._logp else np.full(done.shape, np.nan)
        rows = [
            self._rows(env, slice(0, int(lengths[env])), {**columns, "action": action, "done": done})
            for env in range(count)
        ]
        taken = [(slice(0, int(lengths[env])), env) for env in range(count)]

        def joined(array: np.ndarray) -> np.ndarray:
            return np.concatenate([array[at] for at in taken])

        own = {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
        return {
            "obs": joined(columns["obs"]),
            "new_obs": joined(next_obs),
            "actions": joined(action),
            "rewards": joined(columns["reward"]),
            "dones": joined(done),
            "terminateds": joined(columns["terminated"]),
            "truncateds": joined(columns["truncated"]),
            **own,
            **probabilities(joined(logp)),
        }

    def _rows(self, env: int, steps: slice, columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The columns of one environment that say where in its episodes it is."""
        done, count = columns["done"][steps, env], steps.stop
        if columns["cut"][env]:
            self._begin(env)
        t, episode = np.zeros(count, np.int64), np.zeros(count, np.int64)
        before = {
            "prev_actions": shifted(columns["action"][steps, env], self._last_action[env]),
            "prev_rewards": shifted(columns["reward"][steps, env], self._last_reward[env]),
        }
        first = 0
        for end in [*(np.flatnonzero(done) + 1).tolist(), count]:
            t[first:end] = self._t[env] + np.arange(end - first)
            episode[first:end] = self._episode[env]
            self._t[env] += end - first
            if end > first and done[end - 1]:
                self._begin(env)
                for array in before.values():
                    array[end : end + 1] = 0
            first = end
        if count and not done[-1]:
            self._last_action[env], self._last_reward[env] = (
                columns["action"][count - 1, env],
                columns["reward"][count - 1, env],
            )
        self._rolls += 1
        whole = {"unroll_id": self._rolls, "agent_index": 0}
        same = {name: np.full(count, value, np.int64) for name, value in whole.items()}
        return {"eps_id": episode, "t": t, **same, **before}

    def _begin(self, env: int) -> None:
        self._episode[env] = self._base + self._begun
        self._begun += 1
        self._t[env] = 0
        self._last_action[env], self._last_reward[env] = 0, 0.0

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return ({name: array}, facts): where in its episodes it is, and how far the files are."""
        arrays = {
            "episode": self._episode.copy(),
            "t": self._t.copy(),
            "last_action": self._last_action.copy(),
            "last_reward": self._last_reward.copy(),
        }
        return arrays, {"begun": self._begun, "rolls": self._rolls, "output": self._output.state()}

    def load(self, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> None:
        """Continue from ``state``: what was written later is removed, since those steps are taken again."""
        mine = {
            "episode": self._episode,
            "t": self._t,
            "last_action": self._last_action,
            "last_reward": self._last_reward,
        }
        try:
            for name, part in mine.items():
                if (arrays[name].shape, arrays[name].dtype) != (part.shape, part.dtype):
                    raise CheckpointError(f"The state of a recording has a {name} of another shape.")
                part[...] = arrays[name]
            self._begun, self._rolls = int(facts["begun"]), int(facts["rolls"])
            self._output.cut_back(facts["output"])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"The state of a recording is incomplete ({error}).") from error

    def close(self) -> None:
        """Close the file."""
        self._output.close()


def cannot_be_written(worker: int, path: str, error: OSError) -> str:
    """Say that the recording of a worker ends, and why."""
    return (
        f"worker {worker} stops recording, and the run continues without: {path} cannot be written ({error.strerror}). "
        "What is there is whole"
    )


def whole_episode(
    steps: Sequence[tuple[np.ndarray, np.ndarray, float]], last_obs: np.ndarray, terminated: bool
) -> dict[str, np.ndarray]:
    """Return the columns of a fragment [T, 1] that is one whole episode, for ``Recorder.add``.

    ``steps``: (obs, action, reward) of each, as a policy saw and did them; ``last_obs``: the real last observation;
    ``terminated``: whether that was a real end.
    """
    obs, action, reward = zip(*steps, strict=True)
    ends = np.zeros((2, len(steps), 1), bool)
    ends[0 if terminated else 1, -1] = True
    return {
        "obs": np.stack(obs)[:, None],
        "action": np.stack(action)[:, None],
        "reward": np.array(reward, np.float32)[:, None],
        "terminated": ends[0],
        "truncated": ends[1],
        "end_obs": last_obs[None],
        "tail_obs": last_obs[None],
        "cut": np.ones(1, bool),
    }


def observations_after(columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the observation after every step, [T, N, …]; after the last step of an episode its real last one."""
    next_obs = np.concatenate([columns["obs"][1:], columns["tail_obs"][None]])
    if "steps" in columns:
        streams = np.arange(len(columns["steps"]))
        next_obs[columns["steps"] - 1, streams] = columns["tail_obs"]
    ends = np.argwhere(columns["terminated"] | columns["truncated"])
    next_obs[tuple(ends.T)] = columns["end_obs"]
    return next_obs
