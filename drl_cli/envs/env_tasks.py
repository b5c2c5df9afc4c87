"""Curricula: environments whose task can be set (``set_task``, or ``set_phase``), and functions that choose the next one.

Used by ``env_batch``, the tester and ``runtime.curriculum``. An environment has the methods of RLlib's TaskSettableEnv,
``set_task(task)`` and ``get_task()``, or ``set_phase(phase)``. A task is plain data, so that it can be in a checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from drl_cli import plugins
from drl_cli.envs import bundled_envs
from drl_cli.envs.env_spec import EnvSetup
from drl_cli.envs.plugin_calls import called, plain_data
from drl_cli.errors import EnvError, InputError

if TYPE_CHECKING:
    from drl_cli.config.sections.common import CommonKeys

SETTERS = ("set_task", "set_phase")
TaskFn = Callable[[Mapping[str, Any], "CurrentTask", Mapping[str, Any]], Any]


class CurrentTask:
    """What an ``env_task_fn`` is given as environment: the task that all environments of the run have."""

    def __init__(self, task: Any) -> None:
        self._task = task

    def get_task(self) -> Any:
        """Return the task; None before one is set where the environment has no ``get_task``."""
        return self._task


def register_env_task_fn(name: str, function: TaskFn) -> None:
    """Let ``env_task_fn: name`` mean ``function``; one of the same name is replaced.

    ``function(train_results, task_settable_env, env_ctx)``, as RLlib calls it, returns the task for all environments: it is
    called after every iteration with its result, with an object whose ``get_task()`` returns the present task, and with the
    env_config. Raises InputError for what cannot be called.
    """
    if not callable(function):
        raise InputError(f"register_env_task_fn: {name}: {str(function)[:60]!r} is not a function.")
    plugins.ENV_TASK_FNS.add(name, function)


def find(name: str) -> TaskFn:
    """Return the function of this name: a registered one, or one that comes with an environment of this program.

    Raises InputError.
    """
    return bundled_envs.TASK_FNS.get(name) or plugins.ENV_TASK_FNS.find(name)


def problems(config: CommonKeys) -> list[str]:
    """Return one line for an ``env_task_fn`` that is not registered, [] for none."""
    try:
        if config.env_task_fn is not None:
            find(config.env_task_fn)
    except InputError as error:
        return [f"env_task_fn: {error}"]
    return []


def give(env: Any, task: Any) -> None:
    """Set the task of an environment. Raises EnvError where it has no method for it, PluginFailed where that fails."""
    setter = _setter(env)
    if setter is None:
        name = env.spec.id if getattr(env, "spec", None) else type(env).__name__
        raise EnvError(f"{name} has neither set_task nor set_phase, so its task cannot be set. Leave env_task_fn out.")
    called("set_task of the environment", setter, task)


def task_of(env: Any) -> Any:
    """Return what ``get_task`` of an environment returns, None where it has none."""
    method = _method(env, "get_task")
    return None if method is None else plain_data(called("get_task of the environment", method), "get_task")


def is_settable(env: Any) -> bool:
    """Whether an environment has ``set_task`` or ``set_phase``."""
    return _setter(env) is not None


def _setter(env: Any) -> Callable[[Any], Any] | None:
    return next((method for name in SETTERS if (method := _method(env, name))), None)


def _method(env: Any, name: str) -> Callable[..., Any] | None:
    """Return a method of an environment or of a wrapper in it."""
    while env is not None:
        if name in dir(type(env)):
            return getattr(env, name)
        env = getattr(env, "env", None)
    return None


class EnvTasks:
    """The tasks of the environments of one batch, and when each was set, so that running episodes can be replayed."""

    def __init__(self, setup: EnvSetup, count: int) -> None:
        """``setup`` may have ``task``: a list with the task of the run, where one was set before."""
        self._task: list[Any] = list(setup.get("task", ()))  # [] or [task]
        self._envs: list[Any] = [None] * count  # to which a task was given
        # By environment: (actions since its last seed, task); -1 stands for before that reset.
        self._set: list[list[tuple[int, Any]]] = [[] for _ in range(count)]

    def set(self, task: Any, envs: list[Any], lengths: Any) -> None:
        """Set ``task`` on all ``envs``, None where there is none yet; ``lengths``: of them, actions since the last seed."""
        self._task = [task]
        for index, env in enumerate(envs):
            if env is not None:
                self._give(index, env, int(lengths[index]))

    def begin(self, index: int, env: Any) -> None:
        """Environment ``index`` is about to be reset with a seed; a new object gets the task."""
        self._set[index] = []
        if self._task and self._envs[index] is env:
            self._set[index] = [(-1, self._task[0])]
        elif self._task:
            self._give(index, env, -1)

    def _give(self, index: int, env: Any, length: int) -> None:
        give(env, self._task[0])
        self._envs[index] = env
        self._set[index].append((length, self._task[0]))

    def replaying(self, facts: Mapping[str, Any], index: int) -> dict[int, list[Any]]:
        """Return {actions since the last seed: tasks set then} of the episode of ``state`` that is about to be replayed."""
        found: dict[int, list[Any]] = {}
        for length, task in facts.get("tasks", {}).get(str(index), ()):
            found.setdefault(length, []).append(task)
        self._task = found.get(-1, [])
        return found

    def again(self, index: int, env: Any, length: int, tasks: list[Any]) -> None:
        """Set ``tasks`` one after the other in a replayed episode after ``length`` actions."""
        for task in tasks:
            self._task = [task]
            self._give(index, env, length)

    def state(self) -> dict[str, Any]:
        """Return plain data, {} where no task was ever set."""
        if not self._task:
            return {}
        return {"task": self._task, "tasks": {str(index): list(map(list, own)) for index, own in enumerate(self._set)}}

    def load(self, facts: Mapping[str, Any]) -> None:
        """Go on with the task of ``state`` after the replay."""
        self._task = list(facts.get("task", ()))
