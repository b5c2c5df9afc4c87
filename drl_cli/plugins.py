"""What others add under names of their own: environments, models, explorations, callbacks, loggers, evaluations, algorithms.

A module that was named on the command line (``--import``), the entry points of installed packages (group ``drl_cli.plugins``)
and Python programs call the ``register_…`` functions of ``drl_cli``; a name in a config is looked up here, never imported.
Entry points are loaded only when a name is not known otherwise, or when names are listed: without plug-ins nothing is slower.
What is registered in one process is carried to the others of a run (``registered``, ``adopt``).
"""

import threading
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

from drl_cli.errors import InputError, NotRegistered, failure, suggestion

GROUP = "drl_cli.plugins"
_lock = threading.RLock()
_failures: list[str] | None = None  # errors of installed plug-ins; None before they were loaded


class Registry:
    """Things of one ``kind`` ("model") by name."""

    def __init__(self, kind: str, function: str) -> None:
        """``function``: name of the one that registers such a thing, for messages."""
        self.kind, self._function = kind, function
        self._things: dict[str, Any] = {}

    def add(self, name: str, thing: Any) -> None:
        """Keep ``thing`` as ``name``; one of the same name is replaced, so that a module may be run again."""
        if not isinstance(name, str) or not name.strip():
            raise InputError(f"{self._function}: a {self.kind} is registered under a name, not {str(name)[:60]!r}.")
        self._things[name] = thing

    def known(self) -> dict[str, Any]:
        """Return {name: thing} of what this process has registered so far; loads no entry points."""
        return dict(self._things)

    def all(self) -> dict[str, Any]:
        """Return {name: thing}, those of installed packages included."""
        discover()
        return dict(self._things)

    def find(self, name: str) -> Any:
        """Return what is registered as ``name``; raises NotRegistered with the nearest name and how to register one."""
        if name in self._things or name in self.all():
            return self._things[name]
        hint = suggestion(name, self._things)
        has = f" Registered: {', '.join(sorted(self._things)[:8])}." if self._things and not hint else ""
        broken = "".join(f" {text}" for text in failures())
        raise NotRegistered(
            f"No {self.kind} is registered as {str(name)[:60]!r}.{hint}{has} Register it with drl_cli.{self._function} in a "
            f"module, and name that module: --import MODULE.{broken}"
        )


ENVIRONMENTS = Registry("environment", "register_env")
MODELS = Registry("model", "register_model")
ACTION_DISTS = Registry("action distribution", "register_action_dist")
PREPROCESSORS = Registry("preprocessor", "register_preprocessor")
EXPLORATIONS = Registry("exploration", "register_exploration")
CALLBACKS = Registry("class of callbacks", "register_callbacks")
LOGGERS = Registry("logger", "register_logger")
EVALUATIONS = Registry("evaluation", "register_evaluation")
ALGORITHMS = Registry("algorithm", "register_algorithm")
POLICY_MAPPINGS = Registry("mapping of agents to policies", "register_policy_mapping")
OBSERVATION_FNS = Registry("observation function", "register_observation_fn")
OPPONENTS = Registry("opponent", "register_opponent")
ENV_TASK_FNS = Registry("task function", "register_env_task_fn")
ENV_WRAPPERS = Registry("environment wrapper", "register_env_wrapper")
_HERE = ("algorithm", "logger")  # used by the process that drives a run, and by no other
_OF_ENVS = (POLICY_MAPPINGS, OBSERVATION_FNS, OPPONENTS, ENV_TASK_FNS, ENV_WRAPPERS, PREPROCESSORS)
_OF_RUNS = (ENVIRONMENTS, MODELS, ACTION_DISTS, EXPLORATIONS, CALLBACKS, LOGGERS, EVALUATIONS, ALGORITHMS)
_ALL = {registry.kind: registry for registry in (*_OF_RUNS, *_OF_ENVS)}


def name_of(thing: object) -> str:
    """Return the name of a class or function; of another object that of its class."""
    return getattr(thing, "__name__", type(thing).__name__)


def lacking(thing: object, *methods: str) -> list[str]:
    """Return those of ``methods`` that ``thing``, a class or object of the user's, does not have."""
    return [method for method in methods if not callable(getattr(thing, method, None))]


def discover() -> None:
    """Load the entry points of installed packages, once; a module registers while it is imported, a function is called."""
    global _failures
    with _lock:
        if _failures is not None:
            return
        _failures = []  # before anything is loaded: a plug-in may look names up itself
        for entry in entry_points(group=GROUP):
            try:
                found = entry.load()
                if callable(found):
                    found()
            except Exception as error:
                _failures.append(f"The plug-in {entry.name} ({entry.value}) failed: {failure(error)}")


def failures() -> tuple[str, ...]:
    """Return a line for each installed plug-in that could not be loaded; empty before ``discover``."""
    return tuple(_failures or ())


def registered() -> dict[str, dict[str, Any]]:
    """Return {kind: {name: thing}} of what is registered here and the other processes of a run need."""
    return {kind: registry.known() for kind, registry in _ALL.items() if registry.known() and kind not in _HERE}


def adopt(things: Mapping[str, Mapping[str, Any]] | None) -> None:
    """Register what another process has, see ``registered``; None is nothing."""
    for kind, named in (things or {}).items():
        for name, thing in named.items():
            _ALL[kind].add(name, thing)
