"""Functions of a program that run on a worker, in its process: ``apply`` and ``foreach_env`` of every worker.

User: ``runtime.worker_set``, through a handle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from drl_cli.envs.multi_agent.remote_agents import RemoteAgents
from drl_cli.envs.plugin_calls import called
from drl_cli.envs.remote_env import RemoteEnv
from drl_cli.errors import InputError


def apply(worker: Any, function: Callable[..., Any], *args: Any) -> Any:
    """Return ``function(worker, *args)``. Raises PluginFailed where it fails."""
    return called("A function of foreach_worker", function, worker, *args)


def to_envs(function: Callable[[Any], Any], envs: Sequence[Any]) -> list[Any]:
    """Return [function(env)]. Raises PluginFailed where it fails, InputError for environments in processes of their own."""
    if any(isinstance(env, (RemoteEnv, RemoteAgents)) for env in envs):
        raise InputError(
            "foreach_env cannot reach environments in processes of their own: set remote_worker_envs to false."
        )
    return [called("A function of foreach_env", function, env) for env in envs]
