"""The task of a run's environments: chosen after an iteration, set on all of them, kept in checkpoints.

Users: ``runtime.driver``; ``experiments.env_facts`` for ``can_set_tasks``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any

from drl_cli import events
from drl_cli.algorithms.row import Algorithm
from drl_cli.config.sections.common import CommonKeys
from drl_cli.config.sections.offline import samples
from drl_cli.config.sections.rollout import RolloutKeys
from drl_cli.config.sections.served_input import is_served
from drl_cli.contracts import Handle
from drl_cli.envs import env_tasks
from drl_cli.envs.plugin_calls import called, plain_data
from drl_cli.errors import InputError
from drl_cli.runtime.worker_set import WorkerSet

KEY = "task"  # of the environment's setup: a list with the task, where one was set
NEEDED = "tasks are for environments of one agent that workers step in their own process (remote_worker_envs false)"


def can_set_tasks(row: Algorithm, config: CommonKeys, has_agents: bool) -> bool:
    """Return whether the workers of a run can set the task of their environments; ``has_agents``: several of them."""
    if row.loop == "evolution" or has_agents or is_served(config) or not samples(config):
        return False
    return not (isinstance(config, RolloutKeys) and config.remote_worker_envs)


class Curriculum:
    """The one task that all environments have."""

    def __init__(
        self,
        row: Algorithm,
        config: CommonKeys,
        env: MutableMapping[str, Any],
        workers: WorkerSet,
        handles: Callable[[], Iterable[Handle]],
    ) -> None:
        """``env``: the setup of which new workers and testers are made; ``handles()``: those that there are."""
        self._name, self._env, self._workers, self._handles = config.env_task_fn, env, workers, handles
        self._can_set = can_set_tasks(row, config, "agents" in env)
        self._first: list[Any] = []  # the task that environments began with, once it is known

    @property
    def task(self) -> list[Any]:
        """What a checkpoint keeps: a list with the task that was set; [] before."""
        return self._env.get(KEY) or []

    def load(self, task: list[Any] | None) -> None:
        """Begin with ``task``, as a checkpoint holds it; before workers and testers are made."""
        if task:
            self._env[KEY] = task

    def get_task(self) -> Any:
        """Return the task that was set last; before, what the first environment says of itself, or None."""
        if self.task:
            return self.task[0]
        if not self._first:
            found = [task for tasks in self._workers.foreach_env(env_tasks.task_of) for task in tasks]
            self._first = found[:1] or [None]
        return self._first[0]

    def set_task(self, task: Any) -> None:
        """Set the task of every environment of workers and testers, from now on. Raises InputError, PluginFailed."""
        if not self._can_set:
            raise InputError(f"set_task: {NEEDED}.")
        task = plain_data(task, "the task")
        self._env[KEY] = [task]
        for call in [handle.call("set_task", task) for handle in self._handles()]:
            call.result()
        events.report("notice", text=f"task {task} from now on")

    def advance(self, result: Mapping[str, Any]) -> None:
        """After an iteration: set what ``env_task_fn`` returns, if it is another task."""
        if self._name is None:
            return
        current, what = self.get_task(), f"env_task_fn {self._name!r}"
        env = env_tasks.CurrentTask(current)
        task = plain_data(called(what, env_tasks.find(self._name), result, env, dict(self._env["env_config"])), what)
        if task != current:
            self.set_task(task)
