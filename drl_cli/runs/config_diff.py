"""Two experiments key by key: what differs, and which values are defaults. User: ``drl diff``.

A side is a run's records or an experiment of a file. The config is compared as it is resolved, so that a key that a file
leaves out counts with its default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drl_cli.algorithms import table
from drl_cli.algorithms.table import Algorithm
from drl_cli.config import search_space
from drl_cli.config.parse import read, refuse
from drl_cli.config.search_space import filled
from drl_cli.errors import ConfigError, DrlError, InputError
from drl_cli.extras import load
from drl_cli.runs.run_folder import read_record

if TYPE_CHECKING:
    from drl_cli.config.origins import Where
    from drl_cli.config.sections.common import CommonKeys
    from drl_cli.runs.run_summary import Run

MISSING = object()
SETTINGS = ("checkpoint_freq", "keep_checkpoints_num", "checkpoint_score_attr", "restore")
OF_SEARCHES = ("num_samples", "max_failures", "resources_per_trial")
RECORDED = ("drl", "python", "platform", "packages", "git")  # of versions.json


@dataclass
class Side:
    """One of the two: name (a run's folder, a file as it was typed), a short label, kind ("run", "file", "search"), its keys.

    values: {"config.gamma": value, "stop.timesteps_total": …}, flat. defaults: the same keys with the algorithm's
    defaults, config only.
    """

    name: str
    label: str
    kind: str
    algorithm: str
    env: str
    values: dict[str, Any] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)

    def is_default(self, key: str) -> bool:
        """Whether this side's value of ``key`` is the default of its algorithm."""
        return key in self.defaults and key in self.values and self.defaults[key] == self.values[key]


def side_of_run(run: Run) -> Side:
    """Return the Side of a Run (see ``runs.run_summary``), with the versions of what it ran on."""
    params = run.params
    config = {name: value for name, value in run.config.items() if name != "env"}
    values = {"run": run.algorithm, "env": run.env, **_under("stop", params.get("stop") or {})}
    values |= _under("pass_criteria", params.get("pass_criteria") or {})
    values |= _under("config", config)
    values |= {name: params[name] for name in SETTINGS if name in params}
    versions = read_record(run.path / "versions.json") or {}
    values |= _under("versions", {name: versions[name] for name in RECORDED if versions.get(name) is not None})
    return Side(
        run.path.name, f"{run.algorithm} {run.id}", "run", run.algorithm, run.env, values, _defaults(run.algorithm)
    )


def side_of_file(name: Path | str, mapping: Mapping[str, Any], where: Where, kind: str = "file") -> Side:
    """Return the Side of an experiment of a file: ``mapping`` as it was read, ``where`` its Where.

    A key that is searched over has the search itself for its value, ``{"grid_search": [1, 2]}``. ``kind``: "search" for what
    the record of a search holds. Raises ConfigError with everything that is wrong in its config.
    """
    samplers, wrong = search_space.find(mapping)
    refuse([f"{_dotted(path)}: {why} ({where.place(path)})." for path, why in wrong.items()], str(name))
    first = _filled(mapping, {path: sampler.extremes()[0] for path, sampler in samplers.items()})
    for key in ("run", "env"):
        if not isinstance(first.get(key), str):
            raise ConfigError(f"{name}: {key} is missing ({where.place()}).")
    for key in ("stop", "pass_criteria"):
        if not isinstance(first.get(key) or {}, dict):
            raise ConfigError(f"{name}: {key} is no mapping of result fields to numbers ({where.place((key,))}).")
    try:
        row = table.find(first["run"])
    except InputError as error:
        raise ConfigError(f"{name}: {error} ({where.place(('run',))})") from error
    plain = _values(row, first, where, name)
    values = dict(plain)
    for path, sampler in samplers.items():
        searched = {sampler.kind: list(sampler.arguments)}
        last = _filled(first, {path: sampler.extremes()[-1]})
        if path in (("run",), ("env",)):
            values[path[0]] = searched
            continue
        # Another value of a key shows which resolved keys it sets, whatever name it was given by.
        other = _values(row, last, where, name)
        values |= {key: searched for key in plain if key not in other or other[key] != plain[key]}
    return Side(str(name), str(name), kind, row.name, first["env"], values, _defaults(row.name))


def _values(row: Algorithm, mapping: Mapping[str, Any], where: Where, name: Path | str) -> dict[str, Any]:
    """Return the flat keys of an experiment in which nothing is searched over."""
    config, problems, _ = read(row, mapping.get("config", {}), where.inside("config"), table.rows())
    refuse(problems, str(name))
    if config is None:
        raise ConfigError(f"{name}: its config cannot be read.")
    values = {"run": row.name, "env": mapping["env"], **_under("stop", mapping.get("stop") or {})}
    values |= _under("pass_criteria", mapping.get("pass_criteria") or {})
    values |= _under("config", _plain_config(config))
    return values | {key: mapping[key] for key in (*SETTINGS, *OF_SEARCHES) if key in mapping}


def _filled(mapping: Mapping[str, Any], values: Mapping[tuple, Any]) -> dict[str, Any]:
    """Return a copy of ``mapping`` with ``values`` ({path: value}) in their places."""
    paths = {_dotted(path): list(path) for path in values}
    point = {"values": {_dotted(path): value for path, value in values.items()}, "seed": None}
    return filled({"mapping": mapping, "paths": paths}, point)


def _dotted(path: Iterable[str | int]) -> str:
    return ".".join(map(str, path))


def differences(a: Side, b: Side, everything: bool = False) -> tuple[list[tuple[str, Any, Any]], int]:
    """Return (rows, hidden): the keys in which two Sides differ, in the order of ``a``.

    A row is (key, value of a, value of b), MISSING where a side does not have the key. hidden: the number of keys that
    only one algorithm has and that are at their defaults there; they are no rows unless ``everything``, which also
    brings the keys that are equal.
    """
    rows, hidden = [], 0
    for key in [*a.values, *(key for key in b.values if key not in a.values)]:
        if key.startswith("versions.") and {a.kind, b.kind} != {"run"} and not everything:
            continue  # a file has none
        left, right = a.values.get(key, MISSING), b.values.get(key, MISSING)
        if left == right and type(left) is type(right) and not everything:
            continue
        only = b if left is MISSING else a if right is MISSING else None
        if only is not None and (only.is_default(key) or _is_unset(key, only)) and not everything:
            hidden += 1
            continue
        if _same_number(left, right) and not everything:
            continue
        rows.append((key, left, right))
    return rows, hidden


def _is_unset(key: str, side: Side) -> bool:
    if key == "num_samples":
        return side.values[key] == 1
    return key in (*SETTINGS, *OF_SEARCHES) and side.values[key] in (None, 0, False)


def _same_number(left: object, right: object) -> bool:
    numbers = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in (left, right))
    return numbers and left == right


def _under(prefix: str, mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten a nested mapping; empty ones stay, so that {} and {a: 1} differ."""
    flat = {}
    for key, value in mapping.items():
        if isinstance(value, dict) and value:
            flat |= _under(f"{prefix}.{key}", value)
        else:
            flat[f"{prefix}.{key}"] = value
    return flat


def _plain_config(config: CommonKeys) -> dict[str, Any]:
    plain = config.model_dump(mode="json", by_alias=True)
    plain.pop("env", None)
    return plain


def _defaults(algorithm: str) -> dict[str, Any]:
    try:
        return _under("config", _plain_config(load(table.find(algorithm).config)()))
    except DrlError:
        return {}  # an algorithm of another version
