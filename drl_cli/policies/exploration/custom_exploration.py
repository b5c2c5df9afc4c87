"""``register_exploration``: user explorations, under a name that ``exploration_config: {type: NAME}`` takes.

A class of exploration has, beside a constructor that is called with (settings, spec, count), the method

    act(policy, obs, state, rng, at) -> action, state, columns

which is called once a step for all environments of a worker, or for one of them. ``settings``: the values of its keys.
``spec``: the policy's ``policies.policy_spec.PolicySpec``; ``count``: environments of the worker. ``policy``:
``policies.numpy_policy.NumpyPolicy``; ``obs`` [n, …]; ``state``: of a recurrent policy, ``()`` of others; ``rng``: NumPy
generator of the worker, the only source of chance that a resumed run repeats; ``at``: (env steps of the run so far, the
slice of environments that the rows belong to). ``policy.act(obs, state, rng, explore)`` returns such a triple, whose action
may then be changed: float32 [n, A] within ``policy.bounds()``, or int32 [n].

These it may have: ``ended(index)``, called when an episode has ended in environment ``index``; ``describe(t)`` → {name: float},
which stands in results (default: nothing); ``memory``, {name: array}, what the next action depends on beside weights and
generator, changed in place: it is saved and restored (default: nothing is remembered); ``logp(policy, obs, state, action,
at)`` → [n] or None, how likely the recorded action was (default None: not known, so nothing is estimated from recordings).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from drl_cli import plugins
from drl_cli.config.schema import PlainMapping, Section, Whole, key
from drl_cli.config.sections.exploration import TYPES, OwnExplorationKeys
from drl_cli.envs.plugin_calls import called
from drl_cli.errors import InputError, PluginFailed

if TYPE_CHECKING:
    from drl_cli.policies.exploration.interface import Acted, At
    from drl_cli.policies.nets import State
    from drl_cli.policies.numpy_policy import NumpyPolicy
    from drl_cli.policies.policy_spec import PolicySpec

ACTIONS = ("Box", "Discrete", "MultiDiscrete", "MultiBinary", "Composite")
_NAME = re.compile(r"[A-Za-z]\w{0,59}")
_KINDS = {bool: bool, int: Whole, float: float, str: str, dict: PlainMapping}


class RegisteredExploration(NamedTuple):
    """What makes an exploration, the ``schema`` of its keys, and the kinds of actions that it can choose."""

    make: object
    schema: type
    actions: tuple

    def defaults(self) -> dict[str, Any]:
        """Return {key: default} of its own keys."""
        filled = self.schema().model_dump(mode="json")
        return {name: value for name, value in filled.items() if name not in OwnExplorationKeys.model_fields}


def register_exploration(
    name: str,
    make: Callable[..., Any],
    keys: type[Section] | Mapping[str, Any] | None = None,
    actions: Sequence[str] = ACTIONS,
) -> str:
    """Let ``exploration_config: {type: name}`` choose the exploration that ``make`` makes; returns the name.

    ``make``: the class, see the module. ``keys``: {key: default}, whose kinds of values are those of the defaults (true or
    false, whole numbers, numbers, strings, mappings), or a subclass of ``config.schema.Section`` that also has bounds and
    meanings; they stand beside ``type``, and are checked as all others are. ``actions``: the kinds of actions that it can
    choose. The keys random_timesteps and hold_steps, the random phase at the start of a run, it has anyway.

    Raises InputError for a name that is taken, for keys that cannot be, and for what is no class or function.
    """
    where = f"register_exploration: {str(name)[:60]}"
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(f"{where!r} is no name: letters, digits and _, at most 60.")
    if name in TYPES:
        raise InputError(f"{where}: a built-in exploration has that name; choose another one.")
    if not callable(make) or (isinstance(make, type) and not hasattr(make, "act")):
        raise InputError(f"{where}: {str(make)[:60]!r} is not a class with a method act.")
    unknown = [kind for kind in actions if kind not in ACTIONS]
    if unknown or isinstance(actions, str):
        raise InputError(f"{where}: actions {actions!r} is not a tuple of {', '.join(ACTIONS)}.")
    own = keys if isinstance(keys, type) and issubclass(keys, Section) else _schema(name, keys or {}, where)
    taken = sorted(set(own.model_fields) & set(OwnExplorationKeys.model_fields))
    if taken:
        raise InputError(f"{where}: the key {taken[0]} is a key of every exploration; omit it.")
    bases: tuple[Any, ...] = (own, OwnExplorationKeys)
    schema = type(f"{name}Keys", bases, {"__doc__": own.__doc__, "__module__": __name__})
    plugins.EXPLORATIONS.add(name, RegisteredExploration(make, schema, tuple(actions)))
    return name


def _schema(name: str, keys: type[Section] | Mapping[str, Any] | None, where: str) -> type[Section]:
    """Return the Section of ``keys`` {key: default}."""
    if not isinstance(keys, dict):
        raise InputError(f"{where}: keys {str(keys)[:60]!r} are neither {{key: default}} nor a subclass of Section.")
    wrong = [word for word in keys if not isinstance(word, str) or not word.isidentifier() or word.startswith("_")]
    wrong += [word for word, value in keys.items() if type(value) not in _KINDS and word not in wrong]
    if wrong:
        raise InputError(
            f"{where}: the key {wrong[0]!r} with the default {keys[wrong[0]]!r} cannot be: keys are words, their defaults "
            "true, false, numbers, strings or mappings. Others need a subclass of drl_cli.config.schema.Section."
        )
    fields = {word: key(value, f"A key of {name}.") for word, value in keys.items()}
    notes = {word: _KINDS[type(value)] for word, value in keys.items()}
    return type(f"{name}OwnKeys", (Section,), {**fields, "__annotations__": notes, "__module__": __name__})


class CustomExploration:
    """A registered exploration as the worker wants it: what it lacks is filled in, what it returns is checked."""

    def __init__(self, settings: Mapping[str, Any], spec: PolicySpec, count: int) -> None:
        """``settings``: of ``config.sections.exploration_settings``."""
        self.name, self._action = settings["type"], spec.action
        registered = plugins.EXPLORATIONS.find(self.name)
        own = {name: settings[name] for name in registered.defaults()}
        self._own = called(f"The exploration {self.name}", registered.make, own, spec, count)
        self.memory = getattr(self._own, "memory", {})

    def act(self, policy: NumpyPolicy, obs: np.ndarray, state: State, rng: np.random.Generator, at: At) -> Acted:
        """See the module."""
        made = self._ask("act", policy, obs, state, rng, at)
        if not isinstance(made, tuple) or len(made) != 3:
            raise PluginFailed(f"The exploration {self.name}: act returned no (action, state, columns).")
        action, state, columns = made
        action, shape = np.asarray(action, self._action.dtype), (len(obs), *self._action.shape)
        if action.shape != shape:
            raise PluginFailed(
                f"The exploration {self.name}: act returned actions of shape {action.shape}, not {shape}."
            )
        return action, state, columns

    def logp(self, policy: NumpyPolicy, obs: np.ndarray, state: State, action: np.ndarray, at: At) -> np.ndarray | None:
        """See the module."""
        return self._ask("logp", policy, obs, state, action, at)

    def ended(self, index: int) -> None:
        """See the module."""
        self._ask("ended", index)

    def describe(self, t: int) -> dict[str, float]:
        """See the module."""
        return {name: float(value) for name, value in (self._ask("describe", t) or {}).items()}

    def _ask(self, method: str, *args: Any) -> Any:
        """Call what it may have; None where it has not."""
        known = getattr(self._own, method, None)
        return called(f"The exploration {self.name}: {method}", known, *args) if known else None
