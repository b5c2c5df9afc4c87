"""``register_policy_mapping``, ``register_observation_fn`` and ``register_opponent``: functions of one's own that a ``multiagent`` block names.

A mapping is called as ``function(agent_id, episode)`` as each episode begins, once for every agent, and returns the id of the
policy that acts for it until the episode ends; ``episode`` has ``number``, ``env_index``, ``worker_index``, ``agents`` and a
seeded ``rng`` (``episode_mapping.MappedEpisode``), so that opponents can be drawn anew and a run repeats bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drl_cli.errors import InputError
from drl_cli.plugins import OBSERVATION_FNS, OPPONENTS, POLICY_MAPPINGS


def register_policy_mapping(name: str, function: Callable[[str, Any], str]) -> None:
    """Let ``multiagent: {policy_mapping_fn: name}`` mean ``function``; one of the same name is replaced.

    ``function(agent_id, episode)`` returns a policy id. Raises InputError for what cannot be called.
    """
    _check("register_policy_mapping", name, function)
    POLICY_MAPPINGS.add(name, function)


def register_observation_fn(name: str, function: Callable[..., Any]) -> None:
    """Let ``multiagent: {observation_fn: name}`` mean ``function``; one of the same name is replaced.

    ``function(observations)`` gets {agent: float32 vector} of the agents that are observed, and returns the float32 vector that
    a central critic sees. Raises InputError for what cannot be called.
    """
    _check("register_observation_fn", name, function)
    OBSERVATION_FNS.add(name, function)


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
