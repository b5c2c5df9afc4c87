"""``register_action_dist``: action distributions under a name that ``model: {custom_action_dist: NAME}`` takes.

A distribution is two classes: one in NumPy, with which workers act, and one in TensorFlow, which is loaded only where the graph
is built. The NumPy class is called with (action, options): ``action`` is one of ``policies.action_specs`` (of a Box ``size``
dimensions A and ``policy_bounds()``, float32 [A] each, between which the policy acts), ``options`` the plain data of
``model.custom_model_config``. What it makes has

    heads                       {name: size}: what the network returns for an observation, each float32 [N, size] below
    greedy(heads)               the action without exploration, a row each: float32 [N, A] of a Box, else whole numbers [N, …]
    sample(heads, rng)          one draw per row; ``rng`` is a ``numpy.random.Generator``, the only source of chance
    logp(heads, action)         the log-probability (of a Box the log-density within ``policy_bounds()``), [N]
    entropy(heads)              optional, [N], for ``Trainer.get_policy()``

The TensorFlow class is called with (tf, action, options), where ``tf`` is ``tensorflow.compat.v1``, and has

    logp(heads, action)         as above, of tensors, [B], differentiable
    entropy(heads)              in nats, [B], differentiable
    kl(old, new)                KL(old ‖ new) of two {name: [B, size]}, [B], differentiable
    greedy(heads)               optional, [B, …]: exports need it
    approximate                 optional: True where entropy and kl have no closed form, and are not compared with draws

Neither keeps a state between calls: rows are those of any observations. ``try_out`` checks the NumPy form before a run, and
``policies.custom_distributions_tf.check`` compares both before the first update. Source of the key: RLlib (MODEL_DEFAULTS,
1.0.1), whose distributions are one class over tensors.
"""

from __future__ import annotations

import functools
import itertools
import json
import operator
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

import numpy as np

from drl_cli.envs.plugin_calls import called
from drl_cli.errors import ConfigError, InputError, PluginFailed
from drl_cli.plugins import ACTION_DISTS, lacking
from drl_cli.policies.action_specs import Actions, ActionSpec, DiscreteSpec, MultiBinarySpec, MultiDiscreteSpec

if TYPE_CHECKING:
    from drl_cli.policies.nets import Heads


class HasDistribution(Protocol):
    """A PolicySpec, which is made of heads and therefore stands above this module."""

    @property
    def custom(self) -> tuple[str, ...]: ...

    @property
    def action(self) -> Actions: ...


METHODS, TF_METHODS = ("greedy", "sample", "logp"), ("logp", "entropy", "kl")
TAKEN = ("value", "allowed", "features", "obs", "state")  # names of other heads and inputs of the nets
MAX_HEAD = 65_536
ROWS = 5  # observations whose heads a distribution is tried with
TOLERANCE = 1e-3  # in nats, relative to 1 + the number
MOST_ACTIONS = 4096  # of which the probabilities are summed
_NAME = re.compile(r"[A-Za-z]\w{0,59}", re.ASCII)
_CLASS = re.compile(r"[A-Za-z_]\w*(\.\w+)*:[A-Za-z_]\w*", re.ASCII)
_PAGE = "docs/examples/own_distribution.py shows one"


class RegisteredDistribution(NamedTuple):
    """The class in NumPy, and the one in TensorFlow or its dotted name."""

    numpy: type
    graph: type | str


def register_action_dist(name: str, numpy: type, graph: type | str) -> None:
    """Let ``model: {custom_action_dist: name}`` mean the classes ``numpy`` and ``graph``; one of the same name is replaced.

    Both: see the module. ``graph`` may be "package.module:Class", which is imported only where a graph is built, for classes
    whose module imports TensorFlow itself. Raises InputError for what cannot be such a pair.
    """
    where = f"register_action_dist({str(name)[:60]!r})"
    lacking = _lacking(numpy, METHODS)
    if lacking:
        raise InputError(f"{where}: numpy must be a class with {', '.join(METHODS)}; {lacking}; {_PAGE}.")
    if isinstance(graph, str):
        if not _CLASS.fullmatch(graph):
            raise InputError(f"{where}: graph {graph[:60]!r} is not a dotted name such as 'my_package.beta_tf:TFBeta'.")
    elif lacking := _lacking(graph, TF_METHODS):
        raise InputError(f"{where}: graph must be a class with {', '.join(TF_METHODS)}; {lacking}; {_PAGE}.")
    ACTION_DISTS.add(name, RegisteredDistribution(numpy, graph))


def of(spec: HasDistribution) -> CustomDistribution:
    """Return the distribution that ``spec`` (PolicySpec) names.

    InputError for an unknown name, ConfigError for a class that cannot be made.
    """
    return made(spec.custom, spec.action)


def made(custom: tuple[str, ...], action: Actions) -> CustomDistribution:
    """Return the distribution over ``action`` that ``custom``, (name, options as JSON), means; raises as ``of``."""
    return _made(ACTION_DISTS.find(custom[0]), *custom, action)


@functools.lru_cache(maxsize=64)
def _made(registered: RegisteredDistribution, name: str, options: str, action: Actions) -> CustomDistribution:
    return CustomDistribution(registered, name, json.loads(options), action)


class CustomDistribution:
    """A registered distribution over one kind of actions: what its class returns is checked, what it raises is one line.

    While a run samples such a line is a PluginFailed, before a run a ConfigError.
    """

    def __init__(self, registered: RegisteredDistribution, name: str, options: dict[str, Any], action: Actions) -> None:
        """``options``: plain data of the config. Raises ConfigError where the class cannot be made, or has no such heads."""
        self.about, self.registered, self.options, self._action = (
            f"model.custom_action_dist {name}",
            registered,
            options,
            action,
        )
        try:
            self._own = called(f"{self.about}: its class", registered.numpy, action, options)
        except PluginFailed as error:
            raise ConfigError(str(error)) from error
        self.heads = self._sizes(getattr(self._own, "heads", None))
        self._names = [head for head, _ in self.heads]

    def greedy(self, heads: Heads) -> np.ndarray:
        """Return the action without exploration, float32 [N, A] or int32 [N, …]."""
        return self._as_action("greedy", self._asked("greedy", self._own_of(heads)), _rows(heads))

    def sample(self, heads: Heads, rng: np.random.Generator) -> np.ndarray:
        """Return one draw per row, float32 [N, A] or int32 [N, …]."""
        return self._as_action("sample", self._asked("sample", self._own_of(heads), rng), _rows(heads))

    def logp(self, heads: Heads, action: np.ndarray) -> np.ndarray:
        """Return the log-probability of ``action`` [N, …], float32 [N]; -inf of what cannot be drawn."""
        return self._as_numbers("logp", self._asked("logp", self._own_of(heads), action), len(action), least=-np.inf)

    def entropy(self, heads: Heads) -> np.ndarray:
        """Return the entropy in nats, float32 [N]. Raises InputError where the class has none."""
        if lacking(self._own, "entropy"):
            raise InputError(f"{self.about}: its NumPy class has no entropy(heads).")
        return self._as_numbers("entropy", self._asked("entropy", self._own_of(heads)), _rows(heads))

    def refuse(self, problem: str) -> NoReturn:
        """Raise a ConfigError that names the distribution."""
        raise ConfigError(f"{self.about}: {problem}.")

    def trial_heads(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Return heads to try the distribution with, standard normal float32 [ROWS, size] each, always the same."""
        rng = np.random.default_rng(seed)
        return {head: rng.standard_normal((ROWS, size), dtype=np.float32) for head, size in self.heads}

    def try_out(self) -> None:
        """Refuse (ConfigError) what can be found to be wrong without TensorFlow."""
        heads = self.trial_heads()
        given = {head: values.copy() for head, values in heads.items()}
        try:
            with np.errstate(all="ignore"):  # what is not finite is said
                self.greedy(given)
                drawn = self.sample(given, np.random.default_rng(1))
                again = self.sample(given, np.random.default_rng(1))
                logp = self.logp(given, drawn)
                alone = self.logp({head: values[:1] for head, values in given.items()}, drawn[:1])
                total = self._total(given)
        except PluginFailed as error:
            raise ConfigError(str(error)) from error
        if not all(np.array_equal(heads[head], given[head]) for head in heads):
            self.refuse("it modifies the heads that it is given; let it work on a copy")
        if not np.array_equal(drawn, again):
            self.refuse("sample draws from something else than rng: the same generator gave two different actions")
        if not np.isfinite(logp).all():
            self.refuse(f"logp is {logp[~np.isfinite(logp)][0]} for an action that sample drew")
        if not np.allclose(logp[:1], alone, rtol=TOLERANCE, atol=TOLERANCE):
            self.refuse("logp of a row depends on the other rows; each must be by itself")
        if total is not None and abs(total - 1.0) > 0.01:
            self.refuse(f"the probabilities of all actions, exp(logp), sum to {total:.3g} instead of 1")

    def _total(self, heads: Heads) -> float | None:
        """What the probabilities of all actions sum to, in the row that is farthest from 1; None where they are too many."""
        actions = _all_actions(self._action)
        if actions is None:
            return None
        sums = np.zeros(ROWS)
        for action in actions:
            rows = np.tile(np.asarray(action, np.int32), (ROWS, *[1] * len(self._action.shape)))
            sums += np.exp(self.logp(heads, rows).astype(np.float64))
        return float(sums[np.argmax(np.abs(sums - 1.0))])

    def _own_of(self, heads: Heads) -> dict[str, np.ndarray]:
        return {head: heads[head] for head in self._names}

    def _asked(self, method: str, *args: Any) -> np.ndarray:
        return np.asarray(called(f"{self.about}: {method}", getattr(self._own, method), *args))

    def _as_action(self, method: str, found: np.ndarray, rows: int) -> np.ndarray:
        is_box, shape = isinstance(self._action, ActionSpec), (rows, *self._action.shape)
        if found.shape != shape or found.dtype.kind not in ("f" if is_box else "iu"):
            kind = "floating-point numbers" if is_box else "whole numbers"
            raise PluginFailed(
                f"{self.about}: {method} returned {found.dtype} of shape {found.shape}, not {kind} {shape}."
            )
        if is_box:
            if not np.isfinite(found).all():
                raise PluginFailed(f"{self.about}: {method} returned an action that is not finite (NaN or infinity).")
            return found.astype(np.float32, copy=False)
        if ((found < 0) | (found >= _counts(self._action))).any():
            raise PluginFailed(f"{self.about}: {method} returned an action outside of {str(self._action)[:120]}.")
        return found.astype(np.int32, copy=False)

    def _as_numbers(self, method: str, found: np.ndarray, rows: int, least: float | None = None) -> np.ndarray:
        if found.shape != (rows,) or found.dtype.kind != "f":
            raise PluginFailed(
                f"{self.about}: {method} returned {found.dtype} of shape {found.shape}, not floating-point numbers ({rows},)."
            )
        if not (np.isfinite(found) | (found == least)).all():
            raise PluginFailed(f"{self.about}: {method} returned a number that is not finite (NaN or infinity).")
        return found.astype(np.float32, copy=False)

    def _sizes(self, given: Any) -> tuple[tuple[str, int], ...]:
        if not isinstance(given, dict) or not given:
            self.refuse(f"its heads must be {{name: size}} with one or more of them, not {str(given)[:60]!r}; {_PAGE}")
        for head, size in given.items():
            if not isinstance(head, str) or not _NAME.fullmatch(head) or head in TAKEN:
                self.refuse(
                    f"{str(head)[:60]!r} is no name of a head: letters, digits and _, none of {', '.join(TAKEN)}"
                )
            try:
                fits = 1 <= operator.index(size) <= MAX_HEAD
            except TypeError:
                fits = False
            if not fits:
                self.refuse(
                    f"the head {head} has the size {str(size)[:60]!r}; it takes a whole number in [1, {MAX_HEAD}]"
                )
        return tuple((head, operator.index(size)) for head, size in given.items())


def try_out(spec: HasDistribution) -> None:
    """Try a custom distribution of ``spec`` (PolicySpec) without TensorFlow; ConfigError where it is wrong."""
    if spec.custom:
        of(spec).try_out()


def _lacking(made: object, methods: tuple[str, ...]) -> str | None:
    """Why something is no class with ``methods``, or None."""
    if not isinstance(made, type):
        return f"it is a {type(made).__name__}"
    missing = lacking(made, *methods)
    return f"{made.__name__} has no {missing[0]}" if missing else None


def _rows(heads: Heads) -> int:
    return len(next(iter(heads.values())))


def _counts(action: Actions) -> np.ndarray:
    """How many values each part of an action of whole numbers has."""
    if isinstance(action, MultiDiscreteSpec):
        return np.asarray(action.nvec)
    return np.asarray(2 if isinstance(action, MultiBinarySpec) else action.size)


def _all_actions(action: Actions) -> Iterator[Any] | None:
    if isinstance(action, DiscreteSpec) and action.n <= MOST_ACTIONS:
        return iter(range(action.n))
    if isinstance(action, MultiDiscreteSpec) and np.prod(action.nvec, dtype=float) <= MOST_ACTIONS:
        return itertools.product(*map(range, action.nvec))
    if isinstance(action, MultiBinarySpec) and 2.0**action.n <= MOST_ACTIONS:
        return itertools.product((0, 1), repeat=action.n)
    return None
