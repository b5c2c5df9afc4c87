"""``register_policy_mapping``, ``register_observation_fn`` and ``register_opponent``: functions of one's own, by name.

A mapping is called as ``function(agent_id, episode)`` as each episode begins, once for every agent, and returns the id of the
policy that acts for it until the episode ends; ``episode`` has ``number``, ``env_index``, ``worker_index``, ``agents`` and a
seeded ``rng`` (``policy_choice.MappedEpisode``), so that opponents can be drawn anew and a run repeats bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from drl_cli.envs.plugin_calls import called, place
from drl_cli.errors import InputError, PluginFailed
from drl_cli.plugins import OBSERVATION_FNS, OPPONENTS, POLICY_MAPPINGS


def register_policy_mapping(name: str, function: Callable[[str, Any], str]) -> None:
    """Let ``multiagent: {policy_mapping_fn: name}`` mean ``function``; one of the same name is replaced.

    ``function(agent_id, episode)`` returns a policy id. Raises InputError for what cannot be called.
    """
    _check("register_policy_mapping", name, function)
    POLICY_MAPPINGS.add(name, function)


def register_observation_fn(name: str, function: Callable[..., Any]) -> None:
    """Let ``multiagent: {observation_fn: name}`` mean ``function``; one of the same name is replaced.

    ``function(observations)`` gets {agent: float32 vector} of the agents that are observed, those that have just ended
    included, and returns what a central critic sees as the state: a vector of numbers, always as many. Raises InputError for
    what cannot be called.
    """
    _check("register_observation_fn", name, function)
    OBSERVATION_FNS.add(name, function)


class StateFunction:
    """The observation function of one environment."""

    def __init__(self, name: str) -> None:
        """``name``: under which it is registered. Raises InputError for an unknown one."""
        self._what = f"observation_fn {name!r}"
        self._function = OBSERVATION_FNS.find(name)
        self._size: int | None = None  # of what it returned first

    def state(self, obs: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the state, float32 [S], for the observations of agents. Raises PluginFailed for what cannot be one."""
        found = called(self._what, self._function, dict(obs))
        try:
            state = np.asarray(found, np.float32)
        except (TypeError, ValueError):  # of a shape that is refused below
            state = np.zeros((0, 0))
        where = place(self._function)
        if state.ndim != 1 or not state.size:
            raise PluginFailed(f"{self._what} returned {str(found)[:60]!r}; a vector of numbers is needed ({where}).")
        if self._size not in (None, state.size):
            raise PluginFailed(f"{self._what} returned {state.size} numbers, and {self._size} before ({where}).")
        if not np.isfinite(state).all():
            raise PluginFailed(f"{self._what} returned a number that is not finite ({where}).")
        self._size = state.size
        return state


def register_opponent(name: str, function: Callable[..., Any]) -> None:
    """Let ``name`` be an opponent in self-play and of ``drl evaluate --against``; one of the same name is replaced.

    ``function(obs, legal, rng)`` returns an action, a whole number from 0: ``obs`` is what the agent sees, as its policy would,
    ``legal`` bool [n], which of its n actions are allowed, ``rng`` a seeded ``numpy.random.Generator``. Raises InputError for
    what cannot be called.
    """
    _check("register_opponent", name, function)
    OPPONENTS.add(name, function)


def _check(registering: str, name: str, function: object) -> None:
    if not callable(function):
        raise InputError(f"{registering}: {str(name)[:60]}: {str(function)[:60]!r} cannot be called; give a function.")
