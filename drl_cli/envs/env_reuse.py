"""Environment objects that are used again for the next episode, and what happens to those that fail.

An object whose ``reset`` or ``step`` raised is closed and made anew; with ``fresh_envs`` every episode has a new object.
``KeptEnvs`` serves ``actors.whole_episodes``, the tester and playback, the rest ``envs.env_batch``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import gymnasium

from drl_cli.envs import make
from drl_cli.envs.env_smoke_test import close
from drl_cli.envs.env_spec import EnvSetup
from drl_cli.envs.remote_env import RemoteEnv
from drl_cli.errors import WorkersFailed, failure
from drl_cli.randomness import number

FOREIGN = (Exception, SystemExit)  # an environment is foreign code: whatever it raises costs an episode, not the run
MAX_FAILURES = 10  # in a row, of one environment, before the run is given up


class KeptEnvs:
    """Up to any number of environments, by their index."""

    def __init__(self, make: Callable[[], gymnasium.Env], is_fresh: bool = False) -> None:
        """``make()`` returns a new environment; ``is_fresh``: every episode is to have a new one."""
        self._make, self._is_fresh = make, is_fresh
        self._envs: dict[int, gymnasium.Env] = {}
        self._made: set[int] = set()
        self.making_s = 0.0  # spent on objects that replaced others

    def __getitem__(self, index: int) -> gymnasium.Env:
        """The environment that plays at present."""
        return self._envs[index]

    def objects(self) -> list[gymnasium.Env]:
        """Return those that are there, in the order of their index."""
        return [self._envs[index] for index in sorted(self._envs)]

    def begin(self, index: int) -> gymnasium.Env:
        """Return the environment for the next episode; the caller resets it. Raises EnvError."""
        if self._is_fresh:
            self.discard(index)
        if index not in self._envs:
            began = time.perf_counter()
            self._envs[index] = self._make()
            if index in self._made:
                self.making_s += time.perf_counter() - began
            self._made.add(index)
        return self._envs[index]

    def discard(self, index: int) -> None:
        """Close an environment, if there is one: what is left of one that raised may be in any state."""
        env = self._envs.pop(index, None)
        if env is not None:
            close(env)

    def close(self) -> None:
        """Close all environments."""
        for index in list(self._envs):
            self.discard(index)


class EnvMaker:
    """Makes the environments of a batch: here, or each in a process of its own."""

    def __init__(self, setup: EnvSetup, count: int) -> None:
        """``count``: how many environments the batch has; a single one always stays in this process."""
        self._setup = setup
        self.is_remote = bool(setup.get("remote")) and count > 1
        self._spaces: tuple[gymnasium.Space, gymnasium.Space] | None = None

    def made(self, render_mode: str | None = None) -> gymnasium.Env:
        """Return a new environment in this process. Raises EnvError."""
        setup = self._setup
        return make.make(setup["id"], setup["env_config"], render_mode, setup.get("preprocessing"))

    def renewed(self, env: RemoteEnv | None) -> RemoteEnv:
        """Return an environment that is being made anew: ``env`` itself while its process lives, else another one."""
        if env is not None and env.is_alive():
            if not env.is_new:
                env.renew()
            return env
        if env is not None:
            env.close()
        if self._spaces is None:
            local = self.made()
            self._spaces = local.observation_space, local.action_space
            local.close()
        return RemoteEnv(self._setup, self._spaces)


class EpisodeSeeds:
    """The seeds of the episodes of N environments, and how often each environment has failed in a row.

    A seed is made of (seed, worker, env, episode). Too many failures in a row end the run with their first cause.
    """

    def __init__(self, env_id: str, key: tuple[int, int], count: int) -> None:
        """``key``: (seed, worker index); ``count``: N."""
        self._env_id, self._key = env_id, key
        self.used = [0] * count  # seeds so far: the last part of the next one
        self.failures = [0] * count  # in a row
        self._first: list[str | None] = [None] * count  # of the present row

    def next(self, index: int) -> int:
        """Return the seed of the next episode of environment ``index``."""
        return self._of(index, self.used[index])

    def worked(self, indices: Iterable[int]) -> None:
        """Note that the environments ``indices`` have taken a step without failing."""
        for index in indices:
            self.failures[index] = 0

    def failed(self, index: int, error: BaseException, where: str) -> str:
        """Count a failure of environment ``index``; returns a note for the user.

        ``where``: "reset" with the next seed, which then counts as used, or a part of the running episode. Raises
        WorkersFailed beyond MAX_FAILURES.
        """
        episode = self.used[index] - (0 if where == "reset" else 1)
        seed = self._of(index, max(episode, 0))
        text = f"{self._env_id} failed in {where} of an episode with seed {seed}: {failure(error)}"
        first = self._first[index]
        if self.failures[index] == 0 or first is None:
            self._first[index] = first = text
        self.failures[index] += 1
        if where == "reset":
            self.used[index] += 1
        if self.failures[index] > MAX_FAILURES:
            raise WorkersFailed(f"more than {MAX_FAILURES} failures in a row; the first: {first}") from error
        return text

    def _of(self, index: int, episode: int) -> int:
        return number(self._key[0], "env", self._key[1], index, episode)
