"""Figures that other projects have published, with their sources and conditions. User: ``drl compare --against published``.

The figures are data (``published.json``, part of the package); a figure is compared with runs on the same environment, of any
version, and the versions are shown. What was measured differs from source to source ("evaluation" of trained agents,
"training" episodes, the "best evaluation" of each seed), which ``conditions`` says and a reader has to mind. A source whose
figures are no returns summed over all agents has a ``metric``; its figures are shown apart and never ranked.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

_VERSION = re.compile(r"[-_]v\d+\Z")  # PettingZoo's ids are also written with an underscore
FILE = Path(__file__).with_name("published.json")


@functools.cache
def load_file() -> dict[str, Any]:
    """Return the content of the data file: sources, versions, columns, figures."""
    return json.loads(FILE.read_text("utf-8"))


def figures(algorithms: Collection[str] | None = None, env: str | None = None) -> list[dict[str, Any]]:
    """Return the published figures for ``algorithms`` (names; None: all) on ``env`` (an id of any version; None: all).

    Each is a dict: source, algorithm, env (as published), mean, sd (None where none is given), steps (env steps of
    training, None where it is not stated), note (None, or what was special), measures, seeds (None where not stated), sd_over
    ("seeds", "episodes", None), metric (None: the return, summed over all agents; or what else it is).
    """
    data = load_file()
    found = []
    for row in data["figures"]:
        figure = dict(zip(data["columns"], row, strict=True))
        if algorithms is not None and figure["algorithm"] not in algorithms:
            continue
        if env is not None and family(figure["env"]) != family(env):
            continue
        source = data["sources"][figure["source"]]
        known = {name: source[name] for name in ("measures", "seeds", "sd_over")}
        found.append({**figure, **known, "metric": source.get("metric")})
    return found


def sources(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return {name: its facts} for the sources ``names``: name, url, conditions, and when it was read."""
    return {name: load_file()["sources"][name] for name in dict.fromkeys(names)}


def version_notice(env: str, found: Iterable[dict[str, Any]]) -> str | None:
    """Return a sentence about ``env`` when ``found`` figures are of another version of it, or None."""
    others = sorted({figure["env"] for figure in found} - {env, env.rpartition("/")[2]})
    if not others:
        return None
    known = load_file()["versions"].get(family(env))
    return f"{env} is compared with {', '.join(others)}" + (f": {known}." if known else ".")


def family(env: str) -> str:
    """Return an environment's id without its version and its namespace: ``ALE/Pong-v5`` → ``Pong``."""
    return _VERSION.sub("", env.rpartition("/")[2]).removesuffix("NoFrameskip")
