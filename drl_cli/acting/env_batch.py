"""N environments stepped side by side: the one type of environment that workers see.

``step`` returns (obs, reward, terminated, truncated, end_obs) and resets ended environments in the same step. A new
environment object is made for every episode and seeded by (seed, worker, env, episode), so that an episode can be
replayed from its actions: ``reset(seed)`` on a used BipedalWalker differs from a fresh one in 4 of 10 cases.

An environment that raises, or whose observation or reward is not finite, spoils only its running episode: the step is
not stored, a new episode begins, the stream is cut. Failures in a row beyond a limit end the run with their first cause.
"""

import math

import numpy as np

from drl_cli.acting import envs
from drl_cli.data.randomness import number
from drl_cli.errors import CheckpointError, WorkersFailed

MAX_FAILURES = 10  # in a row, of one environment, before the run is given up


class EnvBatch:
    """The environments of one worker."""

    def __init__(self, name, count, key, horizon=None):
        """``name``: dict(id, env_config); ``count``: N; ``key``: (seed, worker index); ``horizon``: steps or None."""
        self._name, self._key, self._horizon = name, key, horizon
        self.count = count
        self.notes = []  # texts about what broke, taken by the worker
        self.bad_steps = 0
        self._failures = [0] * count
        self._first_failure = None
        self._envs = [None] * count
        self._episode = [0] * count
        self._actions = [[] for _ in range(count)]  # of the running episode, for exact resume
        self._obs = None  # [N, …], made when the shape is known

    def reset(self):
        """Begin an episode in every environment; returns obs [N, …] float32."""
        for index in range(self.count):
            self._begin(index)
        return self.obs()

    def obs(self):
        """Return the present observations, [N, …] float32."""
        return self._obs.copy()

    def step(self, index, action):
        """Step environment ``index`` with ``action`` [A] float32.

        Returns (reward, terminated, truncated, real next observation), or None when the step broke the episode: a new
        one has begun, the step has not happened, and what came before it in the stream was cut.
        """
        try:
            obs, reward, terminated, truncated, _ = self._envs[index].step(action)
            obs, reward = np.asarray(obs, np.float32), float(reward)
            if not _is_finite(obs, reward):
                raise FloatingPointError(f"observation or reward is not finite (reward {reward})")
        except (Exception, SystemExit) as error:  # foreign code: whatever it raises costs an episode, not the run
            self._failed(index, error)
            return None
        self._failures[index] = 0
        self._actions[index].append(action)
        if self._horizon is not None and len(self._actions[index]) >= self._horizon and not terminated:
            truncated = True
        if terminated or truncated:
            self._begin(index)
        else:
            self._obs[index] = obs
        return reward, bool(terminated), bool(truncated), obs

    def episode_length(self, index):
        """Return the steps of the running episode of environment ``index``."""
        return len(self._actions[index])

    def one_obs(self, index):
        """Return the present observation of environment ``index``, [1, …] float32."""
        return self._obs[index : index + 1].copy()

    def close(self):
        """Close all environments."""
        for env in self._envs:
            if env is not None:
                env.close()

    def _begin(self, index):
        while True:
            seed = self._seed(index)
            try:
                self._replace(index)
                obs, _ = self._envs[index].reset(seed=seed)
                obs = np.asarray(obs, np.float32)
                if not _is_finite(obs, 0.0):
                    raise FloatingPointError("the first observation is not finite")
                break
            except (Exception, SystemExit) as error:  # foreign code, as in step
                self._note(index, error, "reset")
        if self._obs is None:
            self._obs = np.empty((self.count, *obs.shape), np.float32)
        self._obs[index] = obs
        self._episode[index] += 1
        self._actions[index] = []

    def _replace(self, index):
        if self._envs[index] is not None:
            self._envs[index].close()
        self._envs[index] = envs.make(self._name["id"], self._name["env_config"])

    def _seed(self, index):
        return number(self._key[0], "env", self._key[1], index, self._episode[index])

    def _failed(self, index, error):
        self.bad_steps += 1
        self._note(index, error, f"step {len(self._actions[index])}")
        self._begin(index)

    def _note(self, index, error, where):
        # _episode counts begun episodes, so the running one in a step is the one before, and in a reset the next one.
        episode = self._episode[index] - (0 if where == "reset" else 1)
        seed = number(self._key[0], "env", self._key[1], index, max(episode, 0))
        text = f"{self._name['id']} failed in {where} of an episode with seed {seed}: {type(error).__name__}: {error}"
        self._first_failure = self._first_failure or text
        self._failures[index] += 1
        self.notes.append(text)
        if where == "reset":
            self._episode[index] += 1
        if self._failures[index] > MAX_FAILURES:
            raise WorkersFailed(f"{MAX_FAILURES} failures in a row; the first: {self._first_failure}") from error

    def state(self):
        """Return ({name: array}, facts): the running episodes as their actions, and how far each stream is."""
        arrays = {}
        for index in range(self.count):
            taken = self._actions[index]
            arrays[f"actions_{index}"] = np.stack(taken) if taken else np.zeros((0, 1), np.float32)
            arrays[f"obs_{index}"] = self._obs[index].copy()
        return arrays, {"episode": list(self._episode), "failures": list(self._failures)}

    def load(self, arrays, facts):
        """Replay the running episodes of ``state`` in fresh environments.

        Raises CheckpointError when an observation differs: the environment is not reproducible, or another version.
        """
        self._episode = [episode - 1 for episode in facts["episode"]]
        for index in range(self.count):
            self._begin(index)
            for step, action in enumerate(arrays[f"actions_{index}"]):
                obs, _, terminated, truncated, _ = self._envs[index].step(action)
                if terminated or truncated:
                    raise CheckpointError(self._differs(index, step))
                self._obs[index] = obs
                self._actions[index].append(action)
            if not np.array_equal(self._obs[index], arrays[f"obs_{index}"]):
                raise CheckpointError(self._differs(index, len(self._actions[index])))
        self._failures = list(facts["failures"])

    def _differs(self, index, step):
        return (
            f"{self._name['id']}: replaying the running episode of environment {index} gave another observation at step "
            f"{step}. The environment is not reproducible from its seed, or not the version that the checkpoint was made "
            "with. Continue without its running episodes: drl train --restore CHECKPOINT"
        )


def _is_finite(obs, reward):
    """Whether every element of ``obs`` and ``reward`` is finite; the sum of squares settles nearly every case at once."""
    flat = obs.ravel()
    return math.isfinite(flat.dot(flat) + reward) or (math.isfinite(reward) and bool(np.isfinite(obs).all()))
