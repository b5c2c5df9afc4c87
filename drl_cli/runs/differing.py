"""Two experiments key by key: what differs, and which values are defaults. User: ``drl diff``.

A side is a run's records or an experiment of a file. The config is compared as it is resolved, so that a key that a file
leaves out counts with its default.
"""

from dataclasses import dataclass, field

from drl_cli.algorithms import table
from drl_cli.checkpoint.run_folder import read_record
from drl_cli.configs.parse import read, refuse
from drl_cli.errors import ConfigError, DrlError
from drl_cli.loading import load

MISSING = object()
SETTINGS = ("checkpoint_freq", "keep_checkpoints_num", "checkpoint_score_attr", "restore")
RECORDED = ("drl", "python", "platform", "packages", "git")  # of versions.json


@dataclass
class Side:
    """One of the two: name (a run's folder, a file as it was typed), a short label, kind "run" or "file", and its keys.

    values: {"config.gamma": value, "stop.timesteps_total": …}, flat. defaults: the same keys with the algorithm's
    defaults, config only.
    """

    name: str
    label: str
    kind: str
    algorithm: str
    env: str
    values: dict = field(default_factory=dict)
    defaults: dict = field(default_factory=dict)

    def is_default(self, key):
        """Whether this side's value of ``key`` is the default of its algorithm."""
        return key in self.defaults and key in self.values and self.defaults[key] == self.values[key]


def side_of_run(run):
    """Return the Side of a Run (see ``runs.reading``), with the versions of what it ran on."""
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


def side_of_file(name, mapping, where):
    """Return the Side of an experiment of a file: ``mapping`` as it stands there, ``where`` its Where.

    Raises ConfigError with everything that is wrong in its config.
    """
    for key in ("run", "env"):
        if not isinstance(mapping.get(key), str):
            raise ConfigError(f"{name}: {key} is missing ({where.place()}).")
    row = table.find(mapping["run"])
    config, problems, _ = read(row, mapping.get("config", {}), where.inside("config"), table.rows())
    refuse(problems, str(name))
    values = {"run": row.name, "env": mapping["env"], **_under("stop", mapping.get("stop") or {})}
    values |= _under("pass_criteria", mapping.get("pass_criteria") or {})
    values |= _under("config", _plain_config(config))
    values |= {key: mapping[key] for key in SETTINGS if key in mapping}
    return Side(str(name), str(name), "file", row.name, mapping["env"], values, _defaults(row.name))


def differences(a, b, everything=False):
    """Return (rows, hidden): the keys in which two Sides differ, in the order of ``a``.

    A row is (key, value of a, value of b), MISSING where a side does not have the key. hidden: the number of keys that
    only one algorithm has and that are at their defaults there; they are no rows unless ``everything``, which also
    brings the keys that are equal.
    """
    rows, hidden = [], 0
    for key in [*a.values, *(key for key in b.values if key not in a.values)]:
        if key.startswith("versions.") and "file" in (a.kind, b.kind) and not everything:
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


def _is_unset(key, side):
    return key in SETTINGS and side.values[key] in (None, 0, False)


def _same_number(left, right):
    numbers = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in (left, right))
    return numbers and left == right


def _under(prefix, mapping):
    """Flatten a nested mapping; empty ones stay, so that {} and {a: 1} differ."""
    flat = {}
    for key, value in mapping.items():
        if isinstance(value, dict) and value:
            flat |= _under(f"{prefix}.{key}", value)
        else:
            flat[f"{prefix}.{key}"] = value
    return flat


def _plain_config(config):
    plain = config.model_dump(mode="json", by_alias=True)
    plain.pop("env", None)
    return plain


def _defaults(algorithm):
    try:
        return _under("config", _plain_config(load(table.find(algorithm).config)()))
    except DrlError:
        return {}  # an algorithm of another version
