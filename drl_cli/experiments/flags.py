"""The flags of ``drl train`` laid over an experiment's mapping.

Used by ``experiments.spec``, whose header lists the flags. ``--config`` and ``--stop`` objects, then ``-s`` and
``--stop field=value``, then the flags that have names of their own.
"""

from drl_cli.config.assignments import parse_assignment, parse_object
from drl_cli.config.origins import Layers, Where
from drl_cli.errors import ConfigError

OWN = (
    "run",
    "env",
    "local_dir",
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


def with_flags(mapping, where, flags):
    """Return the Layers of an experiment: ``mapping`` (keys from ``where``), then the flags. Raises ConfigError."""
    layers = Layers(*_with_env_on_top(mapping, where))
    given = flags.get("config") or ()
    for text in (given,) if isinstance(given, str) else given:
        data, origin = parse_object(text, "--config")
        if "env" in data:
            layers.set(("env",), data.pop("env"), origin.inside("env"))
        layers.add(data, origin, ("config",))
    for text in flags.get("set") or ():
        path, value = parse_assignment(text, "-s")
        layers.set(path if path == ("env",) else ("config", *path), value, Where("-s"))
    for text in flags.get("stop") or ():
        _add_stop(layers, text)
    preset = flags.get("defaults") or ()
    for name in OWN:
        if flags.get(name) is not None and not (name in preset and name in layers.data):
            flag = "--logger" if name == "loggers" else "--" + name.replace("_", "-")
            layers.set((name,), flags[name], Where(flag))
    if flags.get("local_mode"):
        layers.set(("config", "num_workers"), 0, Where("--local-mode"))
        if "learner_actor" in layers.data["config"]:
            layers.set(("config", "learner_actor"), False, Where("--local-mode"))
    verbose = min(int(flags.get("verbose") or 0), 2)
    is_said = "verbose" in preset and "log_level" in (layers.data.get("config") or {})
    if verbose and not is_said:
        layers.set(("config", "log_level"), LOG_LEVELS[verbose], Where("-" + "v" * verbose))
    return layers


def _add_stop(layers, text):
    """An object replaces the stop rules, ``field=value`` sets one of them."""
    if text.strip().startswith(("{", "<", "@")):
        data, origin = parse_object(text, "--stop")
        layers.replace("stop", data, origin)
        return
    path, value = parse_assignment(text, "--stop")
    layers.set(("stop", ".".join(path)), value, Where("--stop"))


def _with_env_on_top(mapping, where):
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
