"""Episodes that were played, as a file of RLlib's JSON lines: one batch, a whole episode, a line.

Used by ``drl rollout --out FILE.json``; workers that train write the same columns (``actors.recorder``).
"""

import os

import numpy as np

from drl_cli.errors import InputError, ResourcesExhausted
from drl_cli.experience.recorded.write import LineFile, is_full, line, probabilities, shifted


class BatchFile:
    """Writes Episodes with their transitions and choices kept; images are packed, vectors are plain numbers."""

    def __init__(self, path):
        """Open ``path`` anew. Raises InputError."""
        try:
            self._file = LineFile(path, os.O_TRUNC)
        except OSError as error:
            raise InputError(f"--out {path}: {error.strerror}.") from error

    def add(self, episode):
        """Write one Episode. Raises ResourcesExhausted or InputError; the episodes before it stay whole."""
        if not episode.length:
            return
        columns = batch(episode)
        compress = ("obs", "new_obs") if columns["obs"].ndim > 2 else ()
        try:
            self._file.write(line(columns, compress))
        except OSError as error:
            text = f"--out {self._file.path}: {error.strerror}. The episodes before #{episode.number} are there whole."
            raise (ResourcesExhausted if is_full(error) else InputError)(text) from error

    def close(self):
        """Close the file."""
        self._file.close()


def batch(episode):
    """Return the columns of an Episode that was played with its choices kept, {name: array [T, …]}."""
    steps = episode.length
    obs, action = np.stack(episode.obs), np.stack(episode.chosen)
    reward = np.asarray(episode.rewards, np.float32)
    ends = np.zeros((2, steps), bool)
    ends[:, -1] = episode.terminated, episode.truncated
    scored = all(logp is not None for logp in episode.logp)
    return {
        "obs": obs[:-1],
        "new_obs": obs[1:],
        "actions": action,
        "rewards": reward,
        "dones": ends.any(axis=0),
        "terminateds": ends[0],
        "truncateds": ends[1],
        "eps_id": np.full(steps, episode.seed, np.int64),
        "t": np.arange(steps),
        "unroll_id": np.full(steps, episode.number, np.int64),
        "agent_index": np.zeros(steps, np.int64),
        "prev_actions": shifted(action, np.zeros_like(action[0])),
        "prev_rewards": shifted(reward, np.float32(0.0).reshape(())),
        **probabilities(np.asarray(episode.logp, np.float32) if scored else None),
    }
