"""The ids of PettingZoo's environments, and of those that a package registers only once it is imported.

Used by ``envs.make.resolve`` before gymnasium's registry is asked, and by ``open_envs``. PettingZoo (1.27) writes
``classic/connect_four-v3``, its modules and users write ``classic/connect_four_v3``: both are one id here. The particle
environments have a package of their own, mpe2, whose environments are modules. Nothing is imported unless an id asks for it.
"""

from __future__ import annotations

import pkgutil
import re
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from drl_cli.errors import EnvError, nearest
from drl_cli.extras import require

NAMESPACES = ("atari", "butterfly", "classic", "mpe2", "sisl")
_MOVED = {
    "mpe": "The particle environments are in the package mpe2 now: write mpe2/{rest}.",
    "magent": "Magent's environments are no longer part of PettingZoo.",
}
_ID = re.compile(r"(?P<namespace>[\w.]+)/(?P<name>[\w:.-]+?)(?:[-_]v(?P<version>\d+))?")
_MODULE = re.compile(r"(?P<name>\w+)_v(?P<version>\d+)")
PROVIDERS = {"Foraging-": "lbforaging"}
"""First letters of an id → the package that registers it with gymnasium when it is imported."""


def is_pettingzoo(bare: str) -> bool:
    """Whether an id is one of PettingZoo's: of its own namespaces, or registered with it by a module that was imported."""
    match = _ID.fullmatch(bare)
    if match is None:
        return False
    return match["namespace"] in NAMESPACES or ("pettingzoo" in sys.modules and _canonical(bare) in _registered())


def resolve(bare: str, is_strict: bool = False) -> tuple[str, str | None] | None:
    """Return (the id that runs, a notice or None) for one of PettingZoo's ids, None for any other id.

    A retired or missing version becomes the newest one (``is_strict``: is refused). Raises EnvError with the nearest ids,
    InputError where PettingZoo or mpe2 is not installed.
    """
    match = _ID.fullmatch(bare)
    if match is not None and match["namespace"] in _MOVED:
        moved = _MOVED[match["namespace"]].format(rest=bare.partition("/")[2][:60])
        raise EnvError(f"There is no environment {bare[:120]!r}. {moved}")
    if match is None or not is_pettingzoo(bare):
        return None
    known, found = forms(match["namespace"]), _canonical(bare)
    if found in known:
        return found, None
    name = f"{match['namespace']}/{match['name']}"
    versions = [int(one.rpartition("-v")[2]) for one in known if one.rpartition("-v")[0] == name]
    if not versions or (match["version"] and int(match["version"]) > max(versions)):
        close = nearest(found, list(known))
        hint = f"Did you mean {' or '.join(map(repr, close))}?" if close else f"There are {', '.join(sorted(known))}."
        raise EnvError(f"There is no environment {bare[:120]!r}. {hint}")
    newest = f"{name}-v{max(versions)}"
    what = f"{bare} is retired" if match["version"] else f"{bare} has no version"
    if is_strict:
        raise EnvError(f"{what}; its current version is {newest}. Ask for that, or leave out --strict-env.")
    return newest, f"{what} and runs as {newest}."


def forms(namespace: str) -> dict[str, tuple[str, ...]]:
    """Return the ids of a namespace, each with the forms that it has: ("parallel",), ("aec",) or both, parallel first.

    Raises InputError where its package is not installed.
    """
    if namespace == "mpe2":
        return {
            f"mpe2/{match['name']}-v{match['version']}": ("parallel", "aec")
            for module in pkgutil.iter_modules(require("mpe2").__path__)
            if (match := _MODULE.fullmatch(module.name))
        }
    return {env_id: forms for env_id, forms in _registered().items() if env_id.startswith(f"{namespace}/")}


def mpe2_module(env_id: str) -> str:
    """Return the module of an id such as mpe2/simple_spread-v3."""
    return f"mpe2.{env_id.removeprefix('mpe2/').replace('-v', '_v')}"


def import_provider(bare: str) -> None:
    """Import the package that registers ``bare`` with gymnasium, where one is known. Raises InputError where it is missing."""
    for start, package in PROVIDERS.items():
        if bare.startswith(start):
            require(package)


def listed(with_games: bool = False) -> list[str]:
    """Return the ids of the packages that are installed; those of Atari games among them ``with_games``."""
    found = []
    for namespace in NAMESPACES:
        package = "mpe2" if namespace == "mpe2" else "pettingzoo"
        if find_spec(package) and (with_games or namespace != "atari"):
            found += forms(namespace)
    return found


def similar(bare: str) -> list[str]:
    """Return the ids of PettingZoo, where it is installed, that are written like ``bare`` without its namespace."""
    plain = _canonical(bare.rpartition("/")[2])
    return [env_id for env_id in listed(with_games=True) if env_id.rpartition("/")[2] == plain]


def _registered() -> dict[str, tuple[str, ...]]:
    zoo: Any = require("pettingzoo")
    registries: Mapping[str, Mapping[str, Any]] = {"parallel": zoo.parallel_registry, "aec": zoo.aec_registry}
    ids = {**registries["parallel"], **registries["aec"]}
    return {env_id: tuple(form for form, known in registries.items() if env_id in known) for env_id in ids}


def _canonical(env_id: str) -> str:
    return re.sub(r"_v(\d+)$", r"-v\1", env_id)
