"""Environment objects that are used again for the next episode. Users: ``actors.whole_episodes``, the tester, playback.

An object whose ``reset`` or ``step`` raised is closed and made anew; where every episode is to have a new object, each is
closed after its episode. (``env_batch``, whose environments may be in processes of their own, has the same rules.)
"""

import time
from collections.abc import Callable

import gymnasium

from drl_cli.envs.env_smoke_test import close


class KeptEnvs:
    """Up to any number of environments, by their index."""

    def __init__(self, make: Callable[[], gymnasium.Env], is_fresh: bool = False) -> None:
        """``make()`` returns a new environment; ``is_fresh``: every episode is to have a new one."""
        self._make, self._is_fresh = make, is_fresh
        self._envs: dict[int, gymnasium.Env] = {}
        self._made: set[int] = set()
        self.making_s = 0.0  # that went into objects which took the place of others

    def __getitem__(self, index: int) -> gymnasium.Env:
        """The environment that plays at present."""
        return self._envs[index]

    def begin(self, index: int) -> gymnasium.Env:
        """Return the environment for the next episode; who calls this resets it. Raises EnvError."""
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
