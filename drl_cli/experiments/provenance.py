"""Where each value of a run came from: recorded when it starts (provenance.json), told by ``drl explain``.

A place is a file and line, a flag, or nothing for a default; what the program filled in itself is known by its key.
"""

from drl_cli.algorithms import table
from drl_cli.config import key_description, plain_data
from drl_cli.config.experiment_keys import ExperimentKeys
from drl_cli.config.parse import origins
from drl_cli.config.sections.common import min_iter_seconds
from drl_cli.config.sections.replay import intensity
from drl_cli.errors import InputError, RunFolderError, suggestion
from drl_cli.experiments import experiment_files, resume
from drl_cli.experiments.searched_experiment import FILLED
from drl_cli.extras import load
from drl_cli.runs import records
from drl_cli.runs.run_folder import is_params, read_record, results_folder

RECORD = "provenance.json"
_TOP = ("run", "env", "checkpoint_freq", "checkpoint_at_end", "keep_checkpoints_num", "checkpoint_score_attr")
_RESOLVED = {"training_intensity": intensity, "min_iter_time_s": min_iter_seconds}  # what their null stands for
DRAWN, UNRECORDED = "drawn for this run", "given; the run did not record where"


def collect(mapping, where, schema):
    """Return {dotted key: place} of what an experiment's ``mapping`` gives; keys of its config begin with ``config.``."""
    found = {name: where.place((name,)) for name in (*_TOP, "restore", "local_dir") if name in mapping}
    for section in ("stop", "pass_criteria"):
        rules = mapping.get(section)
        found |= {f"{section}.{field}": where.place((section, field)) for field in rules or ()}
    given = mapping.get("config") or {}
    config = origins(schema, given, where.inside("config"))
    for row in key_description.own_keys(given):
        config[row["key"]] = where.place(("config", *row["key"].split(".")))
    return found | {f"config.{name}": place for name, place in config.items()}


def joined(before, places):
    """Return the record of a resumed run: what it recorded, and the flags that were typed this time."""
    typed = {key: place for key, place in places.items() if place.startswith("-")}
    return {**(before or {}), **typed}


def of_file(path_or_name, flags):
    """Return one explanation for each experiment of a file with ``flags`` over it, see ``explained``.

    Where values are searched over, it has ``trials`` too, how many there are, and such a value is what stands in the file.
    """
    search = load("drl_cli.experiments.search_spec").asked(path_or_name, flags, {})
    if search is None or not any(experiment["paths"] for experiment in search.data["experiments"]):
        made = load("drl_cli.experiments.spec").from_file(path_or_name, flags)
        return [explained(records.params(spec), spec.origins, spec.config) for spec in made]
    trials = [[] for _ in search.data["experiments"]]
    for point, spec in zip(search.data["points"], search.specs, strict=True):
        trials[point["experiment"]].append(spec)
    return [_searched(*pair) for pair in zip(search.data["experiments"], trials, strict=True)]


def _searched(experiment, specs):
    """The explanation of one experiment of a search: of its first trial, but for what differs between them."""
    first = specs[0]
    found = explained(records.params(first), first.origins, first.config)
    paths = [list(map(str, path)) for path in experiment["paths"].values()]
    for row in found["rows"]:
        own = row["key"].split(".")
        if any(path[: len(own)] == own for path in paths):
            row["value"] = plain_data.value_at(experiment["mapping"], own)
        elif row["key"] == "config.seed" and "seed" not in experiment["mapping"]["config"]:
            row["from"] = DRAWN
    return {**found, "trials": len(specs)}


def of_run(folder):
    """Return [the explanation] of a run's folder, with its path as ``folder``. Raises RunFolderError."""
    params = read_record(folder / "params.json")
    if not is_params(params):
        raise RunFolderError(f"{folder}: its params.json holds no run of drl.")
    recorded = read_record(folder / RECORD)
    return [{**explained(params, (recorded or {}).get("from")), "folder": str(folder)}]


def find(target):
    """Return ("run", its folder) or ("file", its path) of what ``target`` names. Raises InputError."""
    local_dir = results_folder()
    try:
        return "run", resume.find_run(target, local_dir, "default")
    except RunFolderError as no_run:
        try:
            return "file", experiment_files.find(target)
        except InputError:
            hint = suggestion(str(target).removesuffix(".yaml"), experiment_files.shipped())
            text = f"{target}: neither a run (looked in {local_dir}) nor a file of experiments nor a tuned file."
            raise InputError(text + (hint or " drl example list shows the tuned files.")) from no_run


def explained(params, places, config=None):
    """Return {"run", "env", "env_asked", "rows"} of what params.json holds.

    ``places``: {dotted key: place}, None where the run recorded none. ``config``: the frozen config where it is at hand. Each
    row: key, value, from (a place, DRAWN, FILLED, or None for a default), default, unit, meaning, rllib and why where RLlib
    differs, stands_for: what a null is resolved to.
    """
    schema = load(table.find(params["run"]).config)
    rows = [_top(name, params.get(name), places) for name in _TOP]
    for section in ("stop", "pass_criteria"):
        rows += [_rule(f"{section}.{field}", value, places) for field, value in (params.get(section) or {}).items()]
    for key in [*key_description.keys(schema), *key_description.own_keys(params["config"])]:
        path = key["key"].split(".")
        value = plain_data.value_at(params["config"], path)
        row = {**key, "key": f"config.{key['key']}", "value": value}
        row["from"] = _place(row["key"], value, key["default"], places)
        if config is not None and value is None and key["key"] in _RESOLVED:
            row["stands_for"] = _RESOLVED[key["key"]](config)
        if key["key"] != "env":  # it stands above its config
            rows.append(row)
    return {"run": params["run"], "env": params["env"], "env_asked": params.get("env_asked"), "rows": rows}


def _top(name, value, places):
    default = ExperimentKeys.model_fields[name].default
    meaning = ExperimentKeys.model_fields[name].description
    row = {"key": name, "value": value, "default": default, "unit": None, "meaning": meaning}
    return {**row, "from": _place(name, value, default, places)}


def _rule(key, value, places):
    row = {"key": key, "value": value, "default": None, "unit": None, "meaning": "A rule of when the run ends."}
    return {**row, "from": _place(key, value, None, places)}


def _place(key, value, default, places):
    if places is None:
        return None if value == default else UNRECORDED
    if key in places:
        return places[key]
    if value == default:
        return None
    return DRAWN if key == "config.seed" else FILLED
