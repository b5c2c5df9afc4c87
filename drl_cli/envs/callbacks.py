"""Callbacks: user code that is called for episodes, steps and results during a run.

Subclass ``Callbacks``, override what is needed, ``register_callbacks("mine", Mine)`` in a module, and train with
``--import MODULE -s callbacks=mine``. Every part of a run has an object of its own: each rollout worker, the tester, and the
driver, which alone calls ``on_train_result``; without workers too. What a worker's object finds out reaches the driver as
``episode.custom_metrics`` and ``episode.hist_data``, not as attributes of the object.

A hook that raises ends the run with one line that names it, its file and its line (exit code 3): a callback that fails
silently would be worse. Users: ``envs.callback_episodes``, ``runtime.driver``. Names are RLlib's (``DefaultCallbacks``, 1.0);
``on_postprocess`` is its ``on_postprocess_trajectory``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from drl_cli import plugins
from drl_cli.envs.plugin_calls import called, plain_data
from drl_cli.errors import ConfigError, InputError, PluginFailed, suggestion

if TYPE_CHECKING:
    import numpy as np

    from drl_cli.config.sections.common import CommonKeys


class Callbacks:
    """The hooks. All arguments come by name; take ``**more`` as well, so that a hook may be given more one day."""

    def on_episode_start(self, *, episode: Any, **more: Any) -> None:
        """An episode has begun: ``episode.env`` has been reset, nothing has been done yet.

        ``episode``: a ``callback_episodes.CallbackEpisode``, with several agents a
        ``multi_agent.agents_callbacks.AgentsCallbackEpisode``; the same object in all hooks of an episode;
        ``episode.in_evaluation`` says whether the tester plays it. A life that is lost is no end: lives that training takes
        for episodes are one here. The hooks of episodes also get ``env``, the environment; ``worker``, the rollout worker
        (None in evaluations); and ``policy``, the NumpyPolicy that acts (None with several agents).
        """

    def on_episode_step(self, *, episode: Any, **more: Any) -> None:
        """``episode.env`` has taken a step; ``episode.last_obs``, ``last_action``, ``last_reward``, ``last_info`` are of it."""

    def on_episode_end(self, *, episode: Any, **more: Any) -> None:
        """The episode is over, and its environment not reset yet; numbers in ``episode.custom_metrics`` count from now on.

        Not called for an episode that its environment broke.
        """

    def on_postprocess(self, *, episode: Any, steps: dict[str, np.ndarray], gamma: float, **more: Any) -> None:
        """The steps of one episode within a fragment, just before they are sent away. Changes to them are what is learnt from.

        ``steps``: {column of ``experience.columns``: array [L, …]}: ``obs``, ``action``, ``reward``, what else the
        algorithm keeps, and ``next_obs`` [L, …], a copy. ``terminated`` and ``truncated`` cannot be written to.
        ``gamma``: the discount. With several agents these are steps of one of them, and the hook also gets ``agent_id`` and
        ``policy_id``, strings.
        ``episode`` is None where steps are read from files.

        It runs once for each step, in the worker, after ``clip_rewards`` and before ``reward_scaling``, first priorities,
        n-step sums and advantages, all of which see what is left here. A replay stores what is left here: a row that is drawn
        again and again does not come by again. Files that ``output`` records, and reported rewards, are the environment's.
        An episode that goes on over several fragments comes in as many parts; a lost life ends a part.
        """

    def on_sample_end(self, *, samples: dict[str, np.ndarray], worker_index: int, **more: Any) -> None:
        """A fragment is about to be sent: ``samples`` {column of ``experience.columns``: array [T, N, …]}, to be
        changed in place. With several agents it is one policy's, and the hook also gets ``policy_id``."""

    def on_train_result(self, *, result: dict[str, Any], **more: Any) -> None:
        """An iteration is over. In the driver, and nowhere else.

        ``result``: the nested dict that is about to be written; what is added (numbers, strings, lists, dicts) is written too,
        and ``result["done"] = True`` ends the run. The hook also gets ``workers`` (``foreach_worker``, ``foreach_env``, as
        ``Trainer.workers``) and ``trainer``, with ``config``, ``iteration``, ``workers``, ``get_task()``, ``set_task(task)``:
        the task is set on every environment, those of evaluations too, and is in checkpoints.
        """

    def state(self) -> Any:
        """Return plain data to keep of this object in checkpoints, or None. Not called for a tester's object."""
        return None

    def load(self, state: Any) -> None:
        """Go on from ``state``, with ``--resume`` of a run that goes on exactly (without workers).

        The running episodes are played again then, and call their hooks again (``episode.is_replayed``): that brings
        ``user_data`` back, and what hooks do to environments. ``load`` is called before and once more after that.
        """


OF_EPISODES = ("on_episode_start", "on_episode_step", "on_episode_end")
OF_STEPS = ("on_postprocess", "on_sample_end")
HOOKS = (*OF_EPISODES, *OF_STEPS, "on_train_result")
MORE = ("worker", "policy", "env", "trainer", "workers")


def register_callbacks(name: str, callbacks: type[Callbacks]) -> type[Callbacks]:
    """Make the class ``callbacks`` known as ``name``, for the config key ``callbacks``; returns the class.

    Raises InputError for what is no subclass of Callbacks, and for a method that looks like a hook and is none.
    """
    if not (isinstance(callbacks, type) and issubclass(callbacks, Callbacks)):
        raise InputError(f"register_callbacks: {str(callbacks)[:80]!r} is not a subclass of drl_cli.Callbacks.")
    for method in dir(callbacks):
        if method.startswith("on_") and method not in HOOKS:
            wrong = "on_postprocess" if method == "on_postprocess_trajectory" else ""
            hint = f" Did you mean '{wrong}'?" if wrong else suggestion(method, HOOKS)
            raise InputError(
                f"register_callbacks: {callbacks.__name__}.{method} is no hook.{hint} {', '.join(HOOKS)} are."
            )
    plugins.CALLBACKS.add(name, callbacks)
    return callbacks


def name_of(callbacks: type[Callbacks] | str | None) -> str | None:
    """Return the name for the config key ``callbacks`` of a class, registering it where that is needed, or of a name."""
    if isinstance(callbacks, str) or callbacks is None:
        return callbacks
    name = plugins.name_of(callbacks)
    register_callbacks(name, callbacks)
    return name


def problems(config: CommonKeys, row: Any) -> list[str]:
    """Return one line for what ``config.callbacks`` names and a run of the algorithm ``row`` could not call, [] for none."""
    if config.callbacks is None:
        return []
    try:
        found = plugins.CALLBACKS.find(config.callbacks)
    except InputError as error:
        return [f"callbacks: {error}"]
    idle = [hook for hook in OF_STEPS if is_overridden(found, hook)] if row.postprocess == "fitness" else []
    if idle:
        return [
            f"callbacks: {config.callbacks} has {' and '.join(idle)}, and {row.name} has nothing to call it with: its "
            "workers send the returns of whole episodes, no steps. Use callbacks without it."
        ]
    return []


def is_overridden(callbacks: type[Callbacks], hook: str) -> bool:
    """Whether the class ``callbacks`` has a ``hook`` of its own."""
    return getattr(callbacks, hook) is not getattr(Callbacks, hook)


class Hooks:
    """One object of callbacks, called by ``plugin_calls.called``."""

    def __init__(self, name: str) -> None:
        """Make an object of the class that is registered as ``name``. Raises ConfigError, PluginFailed."""
        try:
            found = plugins.CALLBACKS.find(name)
        except InputError as error:
            raise ConfigError(f"callbacks: {error}") from error
        self.name = name
        self._object = called(f"callbacks {name!r}", found)
        self._has = {hook for hook in HOOKS if is_overridden(found, hook)}
        self._takes = {hook: _taken(getattr(found, hook)) for hook in self._has}

    def has(self, *hooks: str) -> bool:
        """Whether any of ``hooks`` does something."""
        return not self._has.isdisjoint(hooks)

    def call(self, hook: str, more: Mapping[str, Any] = MappingProxyType({}), **arguments: Any) -> None:
        """Call ``hook`` if it does something; what is in ``more`` is for hooks that take it. Raises PluginFailed."""
        if hook in self._has:
            method = getattr(self._object, hook)
            taken = {name: value for name, value in more.items() if name in self._takes[hook]}
            called(f"callbacks {self.name!r}: {hook}", method, **arguments, **taken)

    def train_result(self, result: dict[str, Any], **more: Any) -> None:
        """Call ``on_train_result`` with ``result``, to which it may add. Raises PluginFailed if something is missing then."""
        before = set(result)
        self.call("on_train_result", more, result=result)
        if gone := sorted(before.difference(result)):
            raise PluginFailed(f"callbacks {self.name!r}: on_train_result removed {', '.join(gone)} from the result.")

    def state(self) -> Any:
        """Return what the object keeps in checkpoints, plain data or None. Raises PluginFailed."""
        what = f"callbacks {self.name!r}: state"
        return plain_data(called(what, self._object.state), what)

    def load(self, state: Any) -> None:
        """Hand ``state`` to the object, unless it is None."""
        if state is not None:
            called(f"callbacks {self.name!r}: load", self._object.load, state)


def _taken(hook: Callable[..., Any]) -> frozenset[str]:
    """Return the arguments of ``MORE`` that a hook takes: one of an older release takes none of them."""
    parameters = inspect.signature(hook).parameters
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
        return frozenset(MORE)
    return frozenset(MORE).intersection(parameters)


def make(config: CommonKeys) -> Hooks | None:
    """Return the Hooks that ``config`` asks for, None for none."""
    return None if config.callbacks is None else Hooks(config.callbacks)
