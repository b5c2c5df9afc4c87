"""Whole episodes side by side, each from a seed of its own to its own end. User: ``actors.evolution_worker``.

``EnvBatch`` steps streams that never end; here nothing begins after an end, and what an episode is depends on its key alone,
not on the worker or on what was played before, as far as a reset with a seed forgets that. Environments are used again; with
``fresh_envs`` every episode has a new one.

An environment that raises, or whose observation or reward is not finite, breaks its episode: it begins again from another
seed of the same key. Failures in a row beyond a limit end the run with their first cause.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from drl_cli.envs import make, preprocessors
from drl_cli.envs.callback_episodes import CallbackEpisodes
from drl_cli.envs.env_reuse import FOREIGN, MAX_FAILURES, KeptEnvs
from drl_cli.envs.frame_stack import FrameStack
from drl_cli.envs.spaces import seen_dtype
from drl_cli.envs.steps import as_action, as_actions, as_number, is_finite, not_finite_error
from drl_cli.errors import WorkersFailed, failure
from drl_cli.randomness import number


class Episodes:
    """The environments of one worker, one for each episode that is under way."""

    def __init__(
        self, name: Mapping[str, Any], horizon: int | None = None, watch: CallbackEpisodes | None = None
    ) -> None:
        """``name``: dict(id, env_config, preprocessing, fresh_envs); ``horizon``: most steps of an episode, or None.

        ``watch``: the CallbackEpisodes of callbacks, or None.
        """
        self._name, self._horizon, self._watch = name, horizon, watch
        self._plan = name.get("preprocessing") or preprocessors.NOTHING
        self._envs, self._room = KeptEnvs(self._make, bool(name.get("fresh_envs"))), None
        self._keys, self._attempts = [], []
        self.lengths = np.zeros(0, np.int64)  # steps of each episode so far
        self.terminated = np.zeros(0, bool)  # whether each has come to a real end, not to a time limit
        self.notes, self.bad_steps = [], 0  # taken by the worker

    def begin(self, keys: Sequence[tuple]) -> None:
        """Begin an episode for each of ``keys``, (seed, whole numbers …); whatever was under way is forgotten."""
        self._keys, self._attempts = list(keys), [0] * len(keys)
        self.lengths, self.terminated = np.zeros(len(keys), np.int64), np.zeros(len(keys), bool)
        for index in range(len(keys)):
            self._begin(index)

    def objects(self) -> list[Any]:
        """Return the environments that are there: those of the last round, none before the first."""
        return self._envs.objects()

    def stacked(self) -> np.ndarray:
        """Return what the policies act on, [N, …]: a copy."""
        return self._stacks.stacked()

    def newest(self) -> np.ndarray:
        """Return the present observations [N, …]: a copy."""
        return self._stacks.newest()

    def step(self, actions: np.ndarray, going: list[int]) -> tuple[np.ndarray, list[int], list[int]]:
        """Step the episodes of the indices ``going`` with their rows of ``actions`` [N, …].

        Returns (rewards [N] float64, 0 for those that stood still or broke; indices that have ended; indices that broke and
        have begun again).
        """
        rewards, ended, failed, infos = [0.0] * len(self._keys), [], {}, {}
        given, made, put = as_actions(actions), self._envs, self._stacks.put
        for index in going:
            try:
                obs, reward, terminated, truncated, infos[index] = made[index].step(given[index])
                put(index, obs)
                rewards[index] = reward if type(reward) is float else as_number(reward)
                if terminated or truncated:
                    ended.append(index)
                    self.terminated[index] = terminated
            except FOREIGN as error:
                failed[index] = error
        bad = self._stacks.not_finite()
        if bad or not math.isfinite(sum(rewards)):
            for index in set(going).difference(failed):
                if index in bad or not math.isfinite(rewards[index]):
                    failed[index] = not_finite_error(rewards[index])
        self.lengths[going] += 1
        if self._horizon is not None:
            late = np.flatnonzero(self.lengths >= self._horizon).tolist()
            ended += sorted(set(late).intersection(going).difference(ended))
        if self._watch is not None:
            for index in going:
                if index not in failed:
                    self._watch.stepped(index, as_action(actions[index]), float(rewards[index]), infos[index])
                    if index in ended:
                        self._watch.ended(index)
        for index in failed:
            rewards[index] = 0.0
            self._again(index, failed[index], f"step {self.lengths[index] - 1}")
        return np.array(rewards), [index for index in ended if index not in failed], sorted(failed)

    def close(self) -> None:
        """Close all environments."""
        self._envs.close()

    def take_making_s(self) -> float:
        """Return the seconds that went into new objects since the last time, the first ones left out."""
        seconds, self._envs.making_s = self._envs.making_s, 0.0
        return seconds

    def _again(self, index: int, error: BaseException, where: str) -> None:
        """Begin an episode again whose environment broke."""
        self.bad_steps += 1
        self._failed(index, error, where)
        self._begin(index)

    def _begin(self, index: int) -> None:
        while True:
            try:
                obs = self._reset(index)
                break
            except FOREIGN as error:
                self._failed(index, error, "reset")
        self._stacks.begin(index, obs)
        self.lengths[index], self.terminated[index] = 0, False
        if self._watch is not None:
            self._watch.began(index, self._envs[index], lambda: self._stacks.newest(slice(index, index + 1))[0])

    def _reset(self, index: int) -> np.ndarray:
        env = self._envs.begin(index)
        self._make_room(env.observation_space)
        obs = self._stacks.seen(env.reset(seed=self._seed(index))[0])
        if not is_finite(obs, 0.0):
            raise FloatingPointError("the first observation is not finite")
        return obs

    def _make(self) -> gymnasium.Env:
        name = self._name
        return make.make(name["id"], name["env_config"], preprocessing=name.get("preprocessing"))

    @property
    def _stacks(self) -> FrameStack:
        if self._room is None:
            raise RuntimeError("no episode has begun")
        return self._room

    def _make_room(self, space: gymnasium.Space) -> None:
        rows = len(self._keys)
        if self._room is None or len(self._room.newest()) != rows:
            # Only where the first episode of another number of them begins.
            self._room = FrameStack(rows, space.shape or (), seen_dtype(space), self._plan["frames"])

    def _seed(self, index: int) -> int:
        seed, *rest = self._keys[index]
        return number(seed, "env", *rest, self._attempts[index])

    def _failed(self, index: int, error: BaseException, where: str) -> None:
        name = self._name["id"]
        text = f"{name} failed in {where} of an episode with seed {self._seed(index)}: {failure(error)}"
        self.notes.append(text)
        self._envs.discard(index)
        self._attempts[index] += 1
        if self._attempts[index] > MAX_FAILURES:
            raise WorkersFailed(
                f"{MAX_FAILURES} environments failed in one episode's place; the last: {text}"
            ) from error
