"""Registered components that an environment in a process of its own is made of: named by module, and imported there.

Used by ``envs.remote_env`` and ``envs.remote_env_process``. Nothing is pickled: a class of a module is found there by its
name, or registered by the module itself as it is imported. What the main program holds (``__main__``) cannot be imported, and
is refused before a run (``misfits``).
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from drl_cli import plugins
from drl_cli.envs import custom_envs

PROGRAM = "__main__"
_KINDS = {
    "env": (plugins.ENVIRONMENTS, "the environment"),
    "observation_fn": (plugins.OBSERVATION_FNS, "the observation function"),
    "wrapper": (plugins.ENV_WRAPPERS, "the wrapper"),
    "preprocessor": (plugins.PREPROCESSORS, "the preprocessor"),
}


def references(setup: Mapping[str, Any]) -> list[list[Any]]:
    """Return what ``register`` needs for the environment of ``setup`` (an EnvSetup), as plain data.

    A row is [kind, name, module, qualified name, keywords of an environment's registration].
    """
    return [[kind, name, *_place(thing), _keywords(thing)] for kind, name, thing in _needed(setup)]


def register(rows: Sequence[Sequence[Any]]) -> None:
    """Import the modules of ``references``, and register what these do not register themselves."""
    for kind, name, module, path, keywords in rows:
        registry = _KINDS[kind][0]
        if name in registry.known():
            continue
        held = importlib.import_module(module)
        if name in registry.known() or "<" in path or keywords is None:  # it is for the module to register it
            continue
        thing = attrgetter(path)(held)
        if kind == "env":
            custom_envs.register_env(name, thing, **keywords)
        else:
            registry.add(name, thing)


def misfits(setup: Mapping[str, Any]) -> list[str]:
    """Return one line for each thing that the main program itself holds, [] for none."""
    return [
        f"remote_worker_envs: {_KINDS[kind][1]} {name} is defined in the program itself, and the processes of the environments "
        "import modules only. Move it to a module which the program imports, or set remote_worker_envs to false."
        for kind, name, thing in _needed(setup)
        if _place(thing)[0] in (None, PROGRAM)
    ]


def _needed(setup: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield (kind, name, thing) for what an environment is made of and is registered here."""
    inside, plan = setup.get("env_config") or {}, setup.get("preprocessing") or {}
    named = [("env", str(setup["id"]).rpartition(":")[2]), ("env", inside.get("env"))]
    named += [("observation_fn", inside.get("observation_fn"))]
    named += [("wrapper", name) for name, _ in plan.get("wrappers", ())]
    named += [("preprocessor", plan["preprocessor"][0])] if "preprocessor" in plan else []
    for kind, name in named:
        known = _KINDS[kind][0].known()
        if isinstance(name, str) and name in known:
            yield kind, name, known[name]


def _place(thing: Any) -> tuple[str | None, str]:
    """Return (module, qualified name) of a class or function, of another object those of its class."""
    thing = thing.creator.create if isinstance(thing, custom_envs.RegisteredEnv) else thing
    if not hasattr(thing, "__qualname__"):
        return getattr(type(thing), "__module__", None), f"<{type(thing).__name__}>"
    return getattr(thing, "__module__", None), thing.__qualname__


def _keywords(thing: Any) -> dict[str, Any] | None:
    """Return the keywords with which an environment was registered, None where they are no plain data."""
    try:
        return json.loads(json.dumps(thing.spec)) if isinstance(thing, custom_envs.RegisteredEnv) else {}
    except TypeError:
        return None
