"""``register_env``: user environments under names of their own, without a call of ``gymnasium.register``.

Used by ``drl_cli`` (the public face), modules of ``--import``, plug-ins, and ``api`` for a class that it is given.
What is registered goes into gymnasium's registry, so that everything that takes an id takes the name; workers receive it
through ``plugins`` (``envs.make.make_ready``). A creator is called as RLlib calls it, with the env_config, or as gymnasium
does, with what is in it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
from gymnasium.envs.registration import parse_env_id

from drl_cli import plugins
from drl_cli.errors import InputError, suggestion

SPEC = ("max_episode_steps", "reward_threshold", "nondeterministic", "order_enforce", "additional_wrappers", "kwargs")
_MAPPING = ("config", "env_config")
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Creator:
    """What gymnasium calls to make the environment of a registered name."""

    def __init__(self, name: str, create: Callable[..., Any]) -> None:
        """``create``: see ``register_env``."""
        self.name, self.create = name, create
        metadata = getattr(create, "metadata", None)
        if isinstance(metadata, dict):
            self.metadata = metadata  # gymnasium looks there for what can be rendered
        try:
            self._parameters = inspect.signature(create).parameters
        except (TypeError, ValueError):  # something compiled: called as RLlib would
            self._parameters = inspect.signature(lambda env_config: None).parameters
        self._first = next((p for p in self._parameters.values() if p.kind in _POSITIONAL), None)

    def __call__(self, render_mode: str | None = None, **env_config: Any) -> gymnasium.Env:
        """Return a new environment; ``render_mode`` is passed on to a creator that knows it."""
        made = self.made(render_mode, **env_config)
        if not isinstance(made, gymnasium.Env):
            raise TypeError(f"{self.name} made {type(made).__name__}, which is not a gymnasium.Env")
        return made

    def made(self, render_mode: str | None = None, **env_config: Any) -> Any:
        """Return what the creator makes: a gymnasium environment, or one with several agents (``envs.multi_agent``)."""
        rendering = {"render_mode": render_mode} if render_mode is not None and self._renders() else {}
        if self._takes_mapping(env_config):
            return self.create(env_config, **rendering)
        return self.create(**env_config, **rendering)

    def _renders(self) -> bool:
        anything = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in self._parameters.values())
        return "render_mode" in self._parameters or anything

    def _takes_mapping(self, env_config: Any) -> bool:
        """Whether the first parameter is the env_config itself."""
        first = self._first
        if first is None:
            return False
        return first.name in _MAPPING or (first.default is inspect.Parameter.empty and first.name not in env_config)


class RegisteredEnv(NamedTuple):
    """A ``creator`` and the ``spec``, the keywords of gymnasium's registration."""

    creator: Creator
    spec: dict


def register_env(name: str, creator: Callable[..., Any], **spec: Any) -> str:
    """Let ``--env`` and configs name the environments that ``creator`` makes; returns the name.

    ``creator``: a class or function. Where its first parameter is called env_config or config, or has no default, it gets
    the mapping ``env_config``, as RLlib's creators do; others get what is in it as keywords, as gymnasium's do. One with a
    parameter render_mode gets it. ``spec``: gymnasium's own keywords, ``max_episode_steps`` (env steps after which an
    episode is truncated), ``reward_threshold`` (mean episode reward that solves it), and those of ``SPEC``.

    Raises InputError for a name that gymnasium cannot hold or that belongs to another environment, and for other keywords.
    """
    _check_name(name)
    if not callable(creator):
        raise InputError(f"register_env: {name}: {str(creator)[:60]!r} is not callable; pass a class or a function.")
    for key in spec:
        if key not in SPEC:
            raise InputError(
                f"register_env: {name}: unknown keyword {key!r}.{suggestion(key, SPEC)} It takes {', '.join(SPEC)}; "
                f"arguments of the environment itself go into env_config."
            )
    known = gymnasium.registry.get(name)
    if known is not None and not isinstance(known.entry_point, Creator):
        raise InputError(
            f"register_env: {name} is already the name of another environment ({known.entry_point}); take another one."
        )
    plugins.ENVIRONMENTS.add(name, RegisteredEnv(Creator(name, creator), spec))
    _register(name)
    return name


def put_into_gymnasium() -> None:
    """Register with gymnasium what another process has registered (``plugins``)."""
    for name, registered in plugins.ENVIRONMENTS.known().items():
        known = gymnasium.registry.get(name)
        if known is None or known.entry_point is not registered.creator:
            _register(name)


def name_of(creator: Callable[..., Any]) -> str:
    """Return the name under which a class or function is registered that was given without one."""
    word = re.sub(r"\W+", "", plugins.name_of(creator)) or "Environment"
    return "Environment" if word == "lambda" else word


def _register(name: str) -> None:
    creator, spec = plugins.ENVIRONMENTS.known()[name]
    gymnasium.registry.pop(name, None)  # without it gymnasium warns that one is replaced
    gymnasium.register(id=name, entry_point=creator, **spec)


def _check_name(name: str) -> None:
    try:
        if ":" in name:
            raise ValueError
        parse_env_id(name)
    except (TypeError, ValueError, gymnasium.error.Error) as error:
        raise InputError(
            f"register_env: {str(name)[:60]!r} is no name for an environment: letters, digits, '_', '.' and '-', and a "
            "version if you like (Corridor, Corridor-v1, mine/Corridor-v1)."
        ) from error
