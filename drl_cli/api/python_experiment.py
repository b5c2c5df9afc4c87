"""The arguments of ``Trainer`` and ``run_search`` as an experiment: the same checks and messages as for flags and files.

Users: ``api.trainer`` and ``api.python_search``.
"""

import sys
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from drl_cli.actors import custom_evaluation
from drl_cli.config.experiment_keys import ExperimentKeys
from drl_cli.config.origins import Layers, Where
from drl_cli.envs import callbacks
from drl_cli.envs.custom_envs import name_of, register_env
from drl_cli.envs.custom_preprocessors import register_preprocessor
from drl_cli.errors import ConfigError, InputError, suggestion
from drl_cli.experiments.config_tree import ConfigTree
from drl_cli.experiments.spec import ExperimentSpec, from_trees
from drl_cli.policies.custom_models import register_model

OWN = {"callbacks": callbacks.name_of, "custom_eval_function": custom_evaluation.name_of}
"""Keys that are names of what a program may pass as a class or function: what registers it, and returns its name."""
RAY = ("ray_address", "ray_num_cpus", "ray_num_gpus", "ray_object_store_memory")
SEARCH = ("seeds", "scheduler", "scheduler_config", "search", "search_space")
OPTIONS = {"Trainer": ("verbose",), "run_search": ("imports", *SEARCH)}
SETTINGS = tuple(name for name in ExperimentKeys.model_fields if name not in ("run", "env", "config"))


def spec_of(
    algorithm: str, env: Any, config: Mapping[str, Any] | None, name: str, settings: Mapping[str, Any]
) -> ExperimentSpec:
    """Return the ExperimentSpec of ``algorithm`` on ``env`` with ``config``; no stop rules unless ``settings`` has some.

    See ``tree_of``. Raises ConfigError, EnvError and other InputErrors with everything that is wrong.
    """
    tree, flags = tree_of("Trainer", algorithm, env, config, name, {"stop": {}, **settings})
    (spec,) = from_trees([tree], flags, "what Trainer was given")
    return spec


def tree_of(
    user: str, algorithm: str, env: Any, config: Mapping[str, Any] | None, name: str, settings: Mapping[str, Any]
) -> tuple[ConfigTree, dict[str, Any]]:
    """Return an experiment as a ConfigTree, and the flags beside it.

    ``user``: whose arguments these are, for messages. ``env``: an id, a registered name, or a class or function that makes
    environments, which is registered here; so are a class of callbacks and a function that evaluates, in ``config``.
    ``name``: of the experiment. ``settings``: keys of an experiment file beside these, and those of ``RAY``. Raises
    ConfigError and other InputErrors.
    """
    for key in settings:
        if key not in (*SETTINGS, *RAY):
            known = ("algorithm", "env", "config", "experiment_name", *OPTIONS[user], *SETTINGS, *RAY)
            raise ConfigError(
                f"{user}: unknown argument {key!r}.{suggestion(key, known)} Keys of the algorithm: config={{…}}."
            )
    if config is not None and not isinstance(config, dict):
        raise ConfigError(f"{user}: config {str(config)[:60]!r} is not a mapping of keys to values.")
    config = dict(config or {})
    inside = config.pop("env", None)
    if env is not None and inside is not None and inside != env:
        raise ConfigError(f"{user}: two environments, env={env!r} and config['env'] = {inside!r}. Keep one of them.")
    env = _named(user, inside if env is None else env)
    flags = {key: settings[key] for key in RAY if settings.get(key) is not None}
    flags |= {"env": env, "command": ["python", *sys.argv]}  # a program may import what an id of its own names
    given = {key: value for key, value in settings.items() if key not in RAY and value is not None}
    mapping = {**given, "run": algorithm, "config": _with_names(config)}
    if env is not None:
        mapping["env"] = env
    return ConfigTree(name, Layers(_plain(mapping), Where(user, overlay={("config",): "config"}))), flags


def _named(user: str, env: Any) -> str | None:
    """Return the id of an environment; a class or function is registered, and its id returned."""
    if env is None or isinstance(env, str):
        return env
    if not callable(env):
        raise InputError(
            f"{user}: env {str(env)[:60]!r} is neither the id of an environment nor a class or function that "
            f"creates one. A run creates several environments: pass the class or function."
        )
    return register_env(name_of(env), env)


def _with_names(config: dict[str, Any]) -> dict[str, Any]:
    """Return ``config`` with names for the classes and functions in it, which are registered, as in RLlib's configs."""
    named = {key: name_for(config[key]) for key, name_for in OWN.items() if callable(config.get(key))}
    model = config.get("model")
    if isinstance(model, dict) and callable(model.get("custom_model")):
        made = model["custom_model"]
        register_model(made.__name__, made)
        named["model"] = model = {**model, "custom_model": made.__name__}
    if isinstance(model, dict) and callable(model.get("custom_preprocessor")):
        own = model["custom_preprocessor"]
        register_preprocessor(name_of(own), own)
        named["model"] = {**model, "custom_preprocessor": name_of(own)}
    return config | named


def _plain(value: Any) -> Any:
    """Return ``value`` as in a file: lists for tuples, Python's numbers for NumPy's, strings for paths."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if isinstance(value, PurePath):
        return str(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    return value
