"""From files and flags to config trees: the keys of an experiment, nested, each with the place where it was given.

A tree is one experiment of a file, the record of a run that is resumed, or the bare command, with the flags laid over it:
``--config`` and ``--stop`` objects, then ``-s`` and ``--stop field=value``, then the flags that have names of their own.
A command without ``--run`` gets an algorithm and keys chosen for its environment (``experiments.algorithm_choice``).
``experiments.spec`` makes a run of a tree, ``experiments.search_spec`` a search.

``Flags`` holds what was typed; a missing key or None means that it was not:

    run, env, experiment_name, local_dir, storage_path, restore, checkpoint_score_attr, export_formats   str
    config                       string of --config, or a list of strings, laid over one another
    set                          list of "a.b=c"
    stop                         list of objects or "field=threshold"
    checkpoint_freq, keep_checkpoints_num, num_samples, max_failures   int      checkpoint_at_end   bool      strict_env   bool
    resume                       True for the newest unfinished run of the experiment, or the path of a run
    ray_address                  str    ray_num_cpus, ray_num_gpus, ray_object_store_memory   numbers
    local_mode, queue_trials     bool   asserts   list of "field>=threshold"
    defaults                     names of flags that come from the user's preferences; a file takes precedence over them
    imports                      list of modules    verbose   0, 1, 2    command   list of words, as typed
    loggers                      list of names      log_format   "text" or "json"
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drl_cli.config.assignments import parse_assignment, parse_object
from drl_cli.config.origins import Layers, Where
from drl_cli.envs import make
from drl_cli.errors import ConfigError
from drl_cli.experiments import algorithm_choice, experiment_files
from drl_cli.experiments.resume import Recorded, find_run
from drl_cli.runs.run_folder import results_folder

Flags = Mapping[str, Any]

OWN = (
    "run",
    "env",
    "local_dir",
    "storage_path",
    "checkpoint_freq",
    "checkpoint_at_end",
    "keep_checkpoints_num",
    "checkpoint_score_attr",
    "export_formats",
    "restore",
    "num_samples",
    "max_failures",
    "loggers",
)
"""Flags that fill the experiment's key of the same name."""

LOG_LEVELS = {1: "INFO", 2: "DEBUG"}
COMMAND = Where("the command")
FILLED = "filled in by drl"
"""The place of a value that was not given."""


@dataclasses.dataclass(frozen=True)
class ConfigTree:
    """One experiment as it was given: its name and its Layers, which hold the keys and the place of each.

    ``recorded``: what the run recorded that is resumed, or None. ``is_from_file``: whether the experiment is one of a file.
    """

    name: str
    layers: Layers
    recorded: Recorded | None = None
    is_from_file: bool = False


def read(path_or_name: Path | str | None, flags: Flags) -> list[ConfigTree]:
    """Return the trees of a file of experiments, or of the command where there is none; the flags are laid over each.

    ``path_or_name``: a path, or the name of a tuned file that comes with the program. Imports the modules of ``--import``,
    which register environments. Raises ConfigError, RunFolderError.
    """
    if path_or_name is not None and flags.get("resume"):
        raise ConfigError("--resume continues an existing run; omit -f, or start a new run without --resume.")
    import_modules(flags)
    name = flags.get("experiment_name")
    if path_or_name is not None:
        given = None if "experiment_name" in (flags.get("defaults") or ()) else name
        return [
            ConfigTree(given or own, with_flags(mapping, where, flags), is_from_file=True)
            for own, mapping, where in experiment_files.load(path_or_name)
        ]
    name = name or "default"
    if not flags.get("resume"):
        layers = with_flags({}, COMMAND, flags)
        algorithm_choice.complete(layers, flags)
        return [ConfigTree(name, layers)]
    recorded = Recorded(find_run(flags["resume"], results_folder(flags.get("local_dir")), name))
    return [ConfigTree(recorded.experiment, with_flags(recorded.mapping, recorded.where, flags), recorded)]


def import_modules(flags: Flags) -> None:
    """Import the modules of ``--import``, which register environments."""
    for module in flags.get("imports") or ():
        make.import_module(module)


def with_flags(mapping: Mapping[str, Any], where: Where, flags: Flags) -> Layers:
    """Return the Layers of an experiment: ``mapping`` (keys from ``where``), then the flags. Raises ConfigError."""
    layers = Layers(*_with_env_on_top(mapping, where))
    _add_config(layers, flags)
    for text in flags.get("stop") or ():
        _add_stop(layers, text)
    preferred = flags.get("defaults") or ()
    for name in OWN:
        if flags.get(name) is not None and not (name in preferred and name in layers.data):
            flag = "--logger" if name == "loggers" else "--" + name.replace("_", "-")
            layers.set((name,), flags[name], Where(flag))
    if flags.get("local_mode"):
        layers.set(("config", "num_workers"), 0, Where("--local-mode"))
        for name, value in (("learner_actor", False), ("num_learners", 1), ("num_aggregation_workers", 0)):
            if name in layers.data["config"]:
                layers.set(("config", name), value, Where("--local-mode"))
    verbose = min(int(flags.get("verbose") or 0), 2)
    is_given = "verbose" in preferred and "log_level" in (layers.data.get("config") or {})
    if verbose and not is_given:
        layers.set(("config", "log_level"), LOG_LEVELS[verbose], Where("-" + "v" * verbose))
    return layers


def _add_config(layers: Layers, flags: Flags) -> None:
    given = flags.get("config") or ()
    for text in (given,) if isinstance(given, str) else given:
        data, origin = parse_object(text, "--config")
        if "env" in data:
            layers.set(("env",), data.pop("env"), origin.inside("env"))
        layers.add(data, origin, ("config",))
    for text in flags.get("set") or ():
        path, value = parse_assignment(text, "-s")
        layers.set(path if path == ("env",) else ("config", *path), value, Where("-s"))


def _add_stop(layers: Layers, text: str) -> None:
    """Lay one ``--stop`` over the rules: an object replaces all of them, ``field=value`` sets one."""
    if text.strip().startswith(("{", "<", "@")):
        data, origin = parse_object(text, "--stop")
        layers.replace("stop", data, origin)
        return
    path, value = parse_assignment(text, "--stop")
    layers.set(("stop", ".".join(path)), value, Where("--stop"))


def _with_env_on_top(mapping: Mapping[str, Any], where: Where) -> tuple[Mapping[str, Any], Where]:
    """Return (mapping, where) with ``config.env`` moved up to ``env``, its one place from then on."""
    config = mapping.get("config")
    if not isinstance(config, dict) or "env" not in config:
        return mapping, where
    env = config["env"]
    if mapping.get("env", env) != env:
        raise ConfigError(
            f"env: two environments, {mapping['env']!r} ({where.place(('env',))}) and {env!r} "
            f"({where.place(('config', 'env'))}). Keep one of them."
        )
    rest = {name: value for name, value in config.items() if name != "env"}
    place = where.place(("env",) if "env" in mapping else ("config", "env"))
    return {**mapping, "config": rest, "env": env}, where.over({("env",): place})
