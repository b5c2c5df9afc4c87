"""The rollout workers of a run, as RLlib's programs call them: functions on each of them and on their environments.

Users: ``api.trainer``, callbacks. With ``num_workers: 0`` there is one worker, in this process. With Ray, functions and
results travel between processes. Deviation from RLlib: no further worker without environments stands beside the remote ones.
"""

from collections.abc import Callable, Mapping
from typing import Any

from drl_cli.contracts import Handle
from drl_cli.errors import InputError


class WorkerSet:
    """The workers of a Trainer; a call begins its run, if it has not begun, and waits for fragments that are under way."""

    def __init__(self, handles: Callable[[], Mapping[int, Handle]]) -> None:
        """``handles()`` returns the running workers by index."""
        self._handles = handles

    def foreach_worker(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return [function(worker)] of all workers, in the order of their index.

        A worker has ``policy`` (except those of several agents and of evolution strategies) and ``foreach_env``. Raises
        PluginFailed where ``function`` raises, PartLost where a worker dies.
        """
        return self._each("apply", function, with_index=False)

    def foreach_worker_with_index(self, function: Callable[[Any, int], Any]) -> list[Any]:
        """Return [function(worker, index)], see ``foreach_worker``."""
        return self._each("apply", function, with_index=True)

    def foreach_env(self, function: Callable[[Any], Any]) -> list[list[Any]]:
        """Return [[function(env)]]: a list for each worker, with the results of its environments.

        ``env`` has the wrappers of training around it: ``env.unwrapped`` is the environment itself. What is changed in it lasts
        as long as the object; checkpoints do not hold it. Raises PluginFailed where ``function`` raises, InputError with
        ``remote_worker_envs``, PartLost where a worker dies.
        """
        return self._each("foreach_env", function, with_index=False)

    def _each(self, method: str, function: Callable[..., Any], with_index: bool) -> list[Any]:
        if not callable(function):
            raise InputError(f"{str(function)[:60]!r} is not a function.")
        handles = sorted(self._handles().items())
        calls = [handle.call(method, function, *([index] if with_index else [])) for index, handle in handles]
        return [call.result() for call in calls]
