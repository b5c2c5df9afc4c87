"""The files that a rollout writes. Used by ``drl rollout``.

``EpisodeFile``: played episodes as JSON lines, whose form ``experience.recorded.episode_lines`` reads. ``BatchFile``: the same
as RLlib's JSON lines, one batch, a whole episode, a line; workers that train write the same columns (``actors.recorder``).
``AgentsFile``: episodes of several agents, by agent.
``ProgressFile``: how far the rollout is, as RLlib 1.0.1 writes it for ``--track-progress``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from drl_cli.errors import InputError, full_or
from drl_cli.experience.recorded.json_lines import AGENTS_FORMAT, FORMAT
from drl_cli.experience.recorded.write import LineFile, line, probabilities, shifted

if TYPE_CHECKING:
    from drl_cli.analysis.play import Limits, PlayedEpisode


class EpisodeFile:
    """Writes episodes as JSON lines: one line an episode, complete as soon as the episode is.

    A line is an object: ``format`` "drl-episodes-1", ``env``, ``episode`` (number), ``seed``, ``obs`` (length + 1
    observations: before each step, and the last one), ``action`` (length actions as the environment got them),
    ``reward``, ``terminated``, ``truncated`` (length values each), and ``info`` (length objects) where infos are kept.
    """

    def __init__(self, path: Path | str, env: str, write: Callable[[str], None] | None = None) -> None:
        """Open ``path`` anew for episodes of ``env``; ``write(line)`` takes the lines instead, if given.

        Raises InputError.
        """
        self._env, self._lines = env, _Lines(path, write)

    def add(self, episode: PlayedEpisode) -> None:
        """Write one episode."""
        last = [False] * max(0, episode.length - 1)
        data = {
            "format": FORMAT,
            "env": self._env,
            "episode": episode.number,
            "seed": episode.seed,
            "obs": [_plain(obs) for obs in episode.obs],
            "action": [_plain(action) for action in episode.action],
            "reward": episode.rewards,
            "terminated": [*last, episode.terminated],
            "truncated": [*last, episode.truncated],
        }
        if episode.infos:
            data["info"] = episode.infos
        self._lines.add(data)

    def close(self) -> None:
        """Close the file."""
        self._lines.close()


class AgentsFile:
    """Writes episodes of several agents as JSON lines, one line an episode.

    A line is an object: ``format`` "drl-agents-episodes-1", ``env``, ``episode``, ``seed``, and ``agents``: by agent
    ``policy``, ``obs`` (before each step of this agent, and its last one), ``action``, ``reward`` (since it acted),
    ``terminated``, ``truncated``, and ``info`` where infos are kept.
    """

    def __init__(self, path: Path | str, env: str, write: Callable[[str], None] | None = None) -> None:
        """See ``EpisodeFile``."""
        self._lines, self._env = _Lines(path, write), env

    def add(self, episode: PlayedEpisode) -> None:
        """Write one episode."""
        agents = {}
        for agent, own in episode.steps.items():
            last = [False] * max(0, len(own.action) - 1)
            agents[agent] = {
                "policy": episode.policy_of[agent],
                "obs": [_plain(obs) for obs in own.obs],
                "action": [_plain(action) for action in own.action],
                "reward": own.rewards,
                "terminated": [*last, own.ends[0]],
                "truncated": [*last, own.ends[1]],
            } | ({"info": own.infos} if own.infos else {})
        head = {"format": AGENTS_FORMAT, "env": self._env, "episode": episode.number, "seed": episode.seed}
        self._lines.add(head | {"agents": agents})

    def close(self) -> None:
        """Close the file."""
        self._lines.close()


class _Lines:
    """A file of JSON lines, or a function that takes them."""

    def __init__(self, path: Path | str, write: Callable[[str], None] | None) -> None:
        self._file, self._write = None, write
        if write is None:
            try:
                self._file = open(path, "w", encoding="utf-8")  # noqa: SIM115 - closed by close()
            except OSError as error:
                raise full_or(error, InputError)(f"--out {path}: {error.strerror}.") from error

    def add(self, data: Mapping[str, Any]) -> None:
        line = json.dumps(data, allow_nan=False, separators=(",", ":"))
        if self._write is not None:
            self._write(line)
        elif self._file is not None:
            self._file.write(line + "\n")
            self._file.flush()

    def close(self) -> None:
        if self._file:
            self._file.close()


def _plain(array: np.ndarray) -> Any:
    """Return nested lists of an array; float32 keeps the fewest digits that give it back, so that files stay small."""
    if array.dtype == np.float32:
        return [_plain(part) for part in array] if array.ndim else float(str(array))
    return array.tolist()


class BatchFile:
    """Writes Episodes with their transitions and choices kept; images are packed, vectors are plain numbers."""

    def __init__(self, path: Path | str) -> None:
        """Open ``path`` anew. Raises InputError."""
        try:
            self._file = LineFile(path, os.O_TRUNC)
        except OSError as error:
            raise full_or(error, InputError)(f"--out {path}: {error.strerror}.") from error

    def add(self, episode: PlayedEpisode) -> None:
        """Write one Episode. Raises ResourcesExhausted or InputError; the episodes before it stay whole."""
        if not episode.length:
            return
        columns = batch(episode)
        compress = ("obs", "new_obs") if columns["obs"].ndim > 2 else ()
        try:
            self._file.write(line(columns, compress))
        except OSError as error:
            text = f"--out {self._file.path}: {error.strerror}. The episodes before #{episode.number} are there whole."
            raise full_or(error, InputError)(text) from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def batch(episode: PlayedEpisode) -> dict[str, np.ndarray]:
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
        "dones": np.asarray(ends.any(axis=0)),
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


class ProgressFile:
    """``__progress_<name>`` beside the file of transitions, one line, such as "3 / 10 episodes completed".

    ``add`` an episode; ``close`` removes the file.
    """

    def __init__(self, out: Path | str, limits: Limits) -> None:
        """``out``: the path of the transitions; ``limits``: the Limits of the rollout. Raises InputError."""
        out = Path(out).expanduser()
        self.path = out.with_name(f"__progress_{out.name}")
        self._limits, self._episodes, self._steps = limits, 0, 0
        try:
            self._write()
        except OSError as error:
            raise full_or(error, InputError)(f"--track-progress: {self.path}: {error.strerror}.") from error

    def add(self, episode: PlayedEpisode) -> None:
        """Note an Episode that has been played."""
        self._episodes += episode.complete
        self._steps += episode.length
        self._write()

    def close(self) -> None:
        """Remove the file."""
        self.path.unlink(missing_ok=True)

    def _write(self) -> None:
        if self._limits.episodes is None:
            text = f"{self._steps} / {self._limits.steps} steps completed"
        else:
            text = f"{self._episodes} / {self._limits.episodes} episodes completed"
        self.path.write_text(text, encoding="utf-8")
