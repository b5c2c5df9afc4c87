"""Where each value of a run came from, of a run's record (provenance.json) or of a file: what ``drl explain`` shows.

A place is a file and line, a flag, or nothing for a default; what the program filled in itself is known by its key.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drl_cli.algorithms import table
from drl_cli.config import key_description, plain_data
from drl_cli.config.experiment_keys import ExperimentKeys
from drl_cli.config.result_names import flatten
from drl_cli.config.sections.common import CommonKeys, min_iter_seconds
from drl_cli.config.sections.replay import intensity
from drl_cli.errors import InputError, RunFolderError, suggestion
from drl_cli.experiments import experiment_files, resume, run_records, search_spec, spec, tuned_files
from drl_cli.experiments.config_tree import FILLED, Flags
from drl_cli.experiments.draft import TOP_KEYS
from drl_cli.experiments.open_run import RECORD
from drl_cli.experiments.search_data import ExperimentData
from drl_cli.experiments.search_spec import SearchSpec
from drl_cli.experiments.spec import ExperimentSpec
from drl_cli.extras import load
from drl_cli.runs.run_folder import is_params, read_record, results_folder

_RESOLVED = {"training_intensity": intensity, "min_iter_time_s": min_iter_seconds}  # what their null stands for
DRAWN, UNRECORDED = "drawn for this run", "given; the run did not record where"


def of_file(path_or_name: Path | str, flags: Flags) -> list[dict[str, Any]]:
    """Return one explanation for each experiment of a file with ``flags`` over it, see ``explained``.

    Where values are searched over, it has ``trials`` too, how many there are, and such a value is what is written in the file.
    """
    found = search_spec.read(path_or_name, flags, {})
    if isinstance(found, ExperimentSpec):
        return [_of_spec(found)]
    if not any(experiment["paths"] for experiment in found.data["experiments"]):
        return [_of_spec(one) for one in spec.from_file(path_or_name, flags)]  # without what a search adds to them
    return _of_search(found)


def _of_spec(one: ExperimentSpec) -> dict[str, Any]:
    return explained(run_records.params(one), one.origins, one.config)


def _of_search(found: SearchSpec) -> list[dict[str, Any]]:
    """Return the explanation of each experiment of a search: of its first trial, but for what differs between them."""
    trials: list[list[ExperimentSpec]] = [[] for _ in found.data["experiments"]]
    for point, one in zip(found.data["points"], found.specs, strict=True):
        trials[point["experiment"]].append(one)
    return [_searched(*pair) for pair in zip(found.data["experiments"], trials, strict=True)]


def _searched(experiment: ExperimentData, specs: list[ExperimentSpec]) -> dict[str, Any]:
    found = _of_spec(specs[0])
    paths = [list(map(str, path)) for path in experiment["paths"].values()]
    for row in found["rows"]:
        own = row["key"].split(".")
        if any(path[: len(own)] == own for path in paths):
            row["value"] = plain_data.value_at(experiment["mapping"], own)
        elif row["key"] == "config.seed" and "seed" not in experiment["mapping"]["config"]:
            row["from"] = DRAWN
    return {**found, "trials": len(specs)}


def of_run(folder: Path) -> list[dict[str, Any]]:
    """Return [the explanation] of a run's folder, with its path as ``folder``. Raises RunFolderError."""
    params = read_record(folder / "params.json")
    if params is None or not is_params(params):
        raise RunFolderError(f"{folder}: its params.json holds no run of drl.")
    places = (read_record(folder / RECORD) or {}).get("from")
    if places is not None and not _are_places(places):
        raise RunFolderError(
            f"{folder / RECORD}: does not say where settings came from. Remove it, and drl explains the rest."
        )
    return [{**explained(params, places), "folder": str(folder)}]


def _are_places(data: Any) -> bool:
    return isinstance(data, dict) and all(place is None or isinstance(place, str) for place in data.values())


def find(target: str) -> tuple[str, Path]:
    """Return ("run", its folder) or ("file", its path) of what ``target`` names. Raises InputError."""
    local_dir = results_folder()
    try:
        return "run", resume.find_run(target, local_dir, "default")
    except RunFolderError as no_run:
        try:
            return "file", experiment_files.find(target)
        except InputError:
            hint = suggestion(str(target).removesuffix(".yaml"), tuned_files.shipped())
            text = f"{target}: neither a run (looked in {local_dir}) nor a file of experiments nor a tuned file."
            raise InputError(text + (hint or " drl example list shows the tuned files.")) from no_run


def explained(
    params: Mapping[str, Any], places: Mapping[str, str] | None, config: CommonKeys | None = None
) -> dict[str, Any]:
    """Return {"run", "env", "env_asked", "rows"} of what params.json holds.

    ``places``: {dotted key: place}, None where the run recorded none. ``config``: the frozen config where it is at hand. Each
    row: key, value, from (a place, DRAWN, FILLED, or None for a default), default, unit, meaning, rllib and why where RLlib
    differs, stands_for: what a null is resolved to.
    """
    schema = load(table.find(params["run"]).config)
    rows = [_top(name, params.get(name), places) for name in TOP_KEYS]
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
        if key["key"] == "multiagent.policies":
            rows += _of_policies(value or {}, row["from"])
    return {"run": params["run"], "env": params["env"], "env_asked": params.get("env_asked"), "rows": rows}


def _of_policies(policies: Mapping[str, Any], place: str | None) -> list[dict[str, Any]]:
    """Return a row for each key in which a policy differs from the run."""
    rows = []
    for policy, own in policies.items():
        for path, value in flatten(own).items():
            name = path.replace("/", ".")
            row = {"key": f"config.multiagent.policies.{policy}.{name}", "value": value, "default": None, "unit": None}
            rows.append({**row, "meaning": f"{name} of the policy {policy}, in place of the run's.", "from": place})
    return rows


def _top(name: str, value: Any, places: Mapping[str, str] | None) -> dict[str, Any]:
    default = ExperimentKeys.model_fields[name].default
    meaning = ExperimentKeys.model_fields[name].description
    row = {"key": name, "value": value, "default": default, "unit": None, "meaning": meaning}
    return {**row, "from": _place(name, value, default, places)}


def _rule(key: str, value: Any, places: Mapping[str, str] | None) -> dict[str, Any]:
    row = {"key": key, "value": value, "default": None, "unit": None, "meaning": "A rule of when the run ends."}
    return {**row, "from": _place(key, value, None, places)}


def _place(key: str, value: Any, default: Any, places: Mapping[str, str] | None) -> str | None:
    if places is None:
        return None if value == default else UNRECORDED
    if key in places:
        return places[key]
    if value == default:
        return None
    return DRAWN if key == "config.seed" else FILLED
