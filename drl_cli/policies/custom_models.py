"""Custom models: a class registered under a name, which processes observations in place of a net's first layers.

``model: {custom_model: NAME, custom_model_config: {…}}`` names one. A registered class is called with the shape of one
observation, (size,) or (height, width, channels), and with ``custom_model_config`` as keyword arguments. What it makes has

    features                        how many numbers it returns for an observation, F
    variables                       {name: shape} of its weights, all float32
    graph(tf, weights, inputs)      features [B, F] of float32 observations [B, *shape] and {name: tensor}: TF1 style
                                    (``tensorflow.compat.v1``), differentiable, each row by itself, no variables of its own
    forward(weights, inputs)        optional: the same in NumPy. Without it workers run the graph in a session, and
                                    loads TensorFlow for that
    initial_weights(rng)            optional: {name: array} of those that do not begin as other layers do, Glorot-
                                    uniform with two axes or more, else zero; ``rng`` is a ``numpy.random.Generator``

Bytes of images arrive in [-1, 1] (``zero_mean``) or [0, 1], filtered observations filtered. Weights are named
NET/custom/NAME, so that they move, are averaged, copied to targets and checkpointed as all others are; after the features
come the net's other inputs, layers that are no part of ``model``, an LSTM, and the heads. No TensorFlow here:
``policies.custom_models_tf`` runs and checks graphs. Source of the keys: RLlib (MODEL_DEFAULTS, 1.0.1), whose custom
models are classes too.
"""

from __future__ import annotations

import functools
import json
import math
import operator
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np

from drl_cli.errors import ConfigError, DrlError, InputError
from drl_cli.plugins import MODELS, lacking

if TYPE_CHECKING:
    from drl_cli.config.sections.model import OwnNetwork


class HasNets(Protocol):
    """A PolicySpec, which is made of nets and therefore stands above this module."""

    @property
    def nets(self) -> Sequence[Any]: ...


SCOPE = "custom"  # between the name of a net and that of a variable
MAX_FEATURES = 65_536
MAX_WEIGHTS = 2**28  # numbers: a description from elsewhere must not make us allocate without bound
ROWS = 5  # observations that a model is tried with
TOLERANCE = 1e-4  # between NumPy and graph, and between a row alone and among others; relative to 1 + the larger number
_NAME = re.compile(r"[A-Za-z]\w*(/\w+)*", re.ASCII)
_PAGE = "docs/examples/own_network.py shows one"


def register_model(name: str, model: Any) -> None:
    """Let ``custom_model: name`` mean ``model``, a class as the module describes; one of the same name is replaced.

    Raises InputError for what cannot be such a class.
    """
    if not isinstance(model, type) or lacking(model, "graph"):
        raise InputError(
            f"register_model({str(name)[:60]!r}): a model must be a class with a method graph(tf, weights, inputs), not "
            f"{_kind(model)}; {_PAGE}."
        )
    MODELS.add(name, model)


def reference(section: OwnNetwork) -> tuple[str, str]:
    """Return (name, arguments as JSON) of the model that a section of a config names: plain data, for ``NetSpec.custom``."""
    if section.custom_model is None:
        raise ValueError("no custom model is named")
    return section.custom_model, json.dumps(section.custom_model_config, sort_keys=True)


def made(custom: Sequence[str], shape: Sequence[int]) -> Model:
    """Return the Model that ``custom``, see ``reference``, means for observations of ``shape``.

    InputError for an unknown name, ConfigError for a class that cannot be made with these arguments.
    """
    return _made(MODELS.find(custom[0]), *custom, tuple(shape))


@functools.lru_cache(maxsize=64)
def _made(model: type, name: str, arguments: str, shape: tuple[int, ...]) -> Model:
    return Model(model, name, json.loads(arguments), shape)


class Model:
    """A registered class made for one shape of observations; whatever it does wrong is a ConfigError of one line."""

    def __init__(self, model: type, name: str, arguments: dict[str, Any], shape: tuple[int, ...]) -> None:
        """``arguments``: dict of keyword arguments."""
        self._about, self.shape = f"model.custom_model {name}", shape
        self._file: str = getattr(getattr(model.graph, "__code__", None), "co_filename", "")
        making = f"cannot be made for observations of shape {shape} with {arguments}"
        self._model = self._asked(making, lambda: model(shape, **arguments))
        self.features = self._width()
        self.shapes = self._shapes()
        self.has_forward = not lacking(self._model, "forward")

    def graph(self, tf: Any, weights: Mapping[str, Any], inputs: Any) -> Any:
        """Return what the model's graph makes of ``inputs`` [B, *shape] with ``weights`` {name: tensor}, [B, features]."""
        # The gradient of a reshape is an array, also where that of what reads from it (a gather) is a list of rows.
        given = {name: tf.reshape(value, self.shapes[name]) for name, value in weights.items()}
        out = self._asked("failed in graph", lambda: tf.convert_to_tensor(self._model.graph(tf, given, inputs)))
        if out.dtype != tf.float32 or not out.shape.is_compatible_with([inputs.shape[0], self.features]):
            self.refuse(f"graph returned {out.dtype.name} of shape {out.shape}; {self._owed()}")
        out.set_shape([inputs.shape[0], self.features])
        return out

    def forward(self, weights: Mapping[str, Any], inputs: Any) -> np.ndarray:
        """Return the same in NumPy of arrays, float32 [N, features]."""
        out = self._asked("failed in forward", lambda: np.asarray(self._model.forward(weights, inputs)))
        if out.shape != (len(inputs), self.features) or out.dtype.kind not in "fiu":
            self.refuse(
                f"forward returned {out.dtype} of shape {out.shape} for {len(inputs)} observations; {self._owed()}"
            )
        return out.astype(np.float32, copy=False)

    def initial_weights(self, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Return {name: float32 array} for all variables, drawn with ``rng``."""
        given = {}
        if not lacking(self._model, "initial_weights"):
            given = self._asked("failed in initial_weights", lambda: dict(self._model.initial_weights(rng)))
        for name in given:
            if name not in self.shapes:
                self.refuse(f"initial_weights returned {name!r:.60}, which is none of its variables")
        return {
            name: self._initial(name, given[name]) if name in given else _drawn(rng, shape)
            for name, shape in self.shapes.items()
        }

    def refuse(self, problem: str) -> NoReturn:
        """Raise a ConfigError that names the model."""
        raise ConfigError(f"{self._about}: {problem}.")

    def trial(self) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Return (weights, float32 [ROWS, *shape]) to try the model with, always the same.

        The weights are near the first ones, but none is 0: a bias that is left out must show.
        """
        rng = np.random.default_rng(0)
        weights = {name: _moved(rng, value) for name, value in self.initial_weights(rng).items()}
        inputs = (
            rng.uniform(-1, 1, (ROWS, *self.shape)) if len(self.shape) == 3 else rng.normal(size=(ROWS, *self.shape))
        )
        return weights, inputs.astype(np.float32)

    def check(self, what: str, run: Callable[[np.ndarray], np.ndarray], inputs: Any) -> np.ndarray:
        """Return ``run(inputs)``; refuse numbers that are not finite, rows that look at others, and inputs written into."""
        given = inputs.copy()
        with np.errstate(all="ignore"):  # what is not finite is said below
            found, alone = run(given), run(given[:1])
        if not np.array_equal(given, inputs):
            self.refuse(f"{what} modifies its input observations; let it work on a copy")
        if not np.isfinite(found).all():
            self.refuse(
                f"{what} returns non-finite numbers for ordinary observations and weights near the initial ones"
            )
        if difference(found[:1], alone) > TOLERANCE:
            self.refuse(
                f"{what} makes something else of an observation alone than beside others (by {_apart(found[:1], alone):.3g}); "
                "each row must be by itself, as acting and learning have different numbers of them"
            )
        return found

    def compare(self, numpy: np.ndarray, graph: np.ndarray) -> None:
        """Refuse a ``forward`` whose outcome is not that of ``graph``, arrays of one shape."""
        if difference(numpy, graph) > TOLERANCE:
            self.refuse(
                f"forward and graph disagree: with the same weights and observations they differ by up to "
                f"{_apart(numpy, graph):.3g}. Make them agree, or omit forward, so that workers use the graph"
            )

    def _owed(self) -> str:
        return f"it must be float32 [rows, {self.features}], as its features say"

    def _width(self) -> int:
        width: Any = getattr(self._model, "features", None)
        try:
            width = operator.index(width)
        except TypeError:
            what = "it has none" if width is None else f"they are {width!r:.60}"
            self.refuse(f"features must be the number of outputs per observation, and {what}; {_PAGE}")
        if not 1 <= width <= MAX_FEATURES:
            self.refuse(f"it has {width} features; they are counted from 1 to {MAX_FEATURES}")
        return width

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        given = getattr(self._model, "variables", None)
        if not isinstance(given, dict):
            what = "it has none" if given is None else f"they are {_kind(given)}"
            self.refuse(f"its variables must be a dict {{name: shape}}, and {what}; {_PAGE}")
        shapes = {}
        for name, shape in given.items():
            if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > 100:
                self.refuse(f"{name!r:.60} is not a valid variable name: letters, digits, _ and / between them")
            try:
                shapes[name] = tuple(operator.index(side) for side in shape)
            except TypeError:
                self.refuse(f"the variable {name} has the shape {shape!r:.60}, which is no tuple of whole numbers")
            if any(side < 1 for side in shapes[name]):
                self.refuse(f"the variable {name} has the shape {shapes[name]}, a side of which is below 1")
        if sum(map(math.prod, shapes.values())) > MAX_WEIGHTS:
            self.refuse(f"its variables hold more than {MAX_WEIGHTS:,} numbers")
        return shapes

    def _initial(self, name: str, value: Any) -> np.ndarray:
        value = self._asked("failed in initial_weights", lambda: np.asarray(value, np.float32))
        if value.shape != self.shapes[name] or not np.isfinite(value).all():
            problem = f"shape {value.shape}" if value.shape != self.shapes[name] else "numbers that are not finite"
            self.refuse(f"initial_weights returned {problem} for {name}; it needs float32 of shape {self.shapes[name]}")
        return value

    def _asked(self, failing: str, ask: Callable[[], Any]) -> Any:
        """Return ``ask()``, which runs the class's own code; what it raises becomes one line, ``failing`` and its place."""
        try:
            return ask()
        except DrlError:
            raise
        except Exception as error:
            said = " ".join(str(error).split())[:300]
            text = f"{failing}: {type(error).__name__}: {said}".rstrip(".")
            if isinstance(error, KeyError) and hasattr(self, "shapes"):
                text += f"; its variables are {', '.join(self.shapes)[:200]}"
            frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == self._file]
            place = f" ({Path(self._file).name}, line {frames[-1].lineno})" if frames else ""
            raise ConfigError(f"{self._about} {text}{place}.") from error


def try_out(spec: HasNets) -> None:
    """Run what can be run of a custom model of ``spec`` (PolicySpec) without TensorFlow: its first weights, and ``forward``.

    ConfigError with what is wrong. A model sees the same for all nets, so that one of them stands for all.
    """
    if not spec.nets[0].custom:
        return
    model = spec.nets[0].own
    weights, inputs = model.trial()
    if model.has_forward:
        model.check("forward", lambda rows: model.forward(weights, rows), inputs)


def difference(one: np.ndarray, other: np.ndarray) -> float:
    """Return the largest difference of two arrays, relative to 1 + the larger number; infinity where one is not finite."""
    apart = np.abs(one - other) / (1.0 + np.maximum(np.abs(one), np.abs(other)))
    return float(apart.max()) if np.isfinite(apart).all() else math.inf


def _apart(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one - other).max())


def _drawn(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Glorot-uniform float32 (2010, eq. 16) of two axes or more, the last two from inputs to outputs; else zeros."""
    if len(shape) < 2:
        return np.zeros(shape, np.float32)
    limit = math.sqrt(6.0 / (math.prod(shape[:-2]) * (shape[-2] + shape[-1])))
    return rng.uniform(-limit, limit, shape).astype(np.float32)


def _moved(rng: np.random.Generator, value: Any) -> np.ndarray:
    """``value`` with each number a tenth off, zeros 0.1 above or below; no sign changes, so that deviations stay some."""
    off = np.float32(0.1) * rng.choice(np.array([-1, 1], np.float32), value.shape)
    return np.where(value == 0, off, value * (1 + off)).astype(np.float32)


def _kind(thing: object) -> str:
    return f"the class {thing.__name__} without one" if isinstance(thing, type) else f"a {type(thing).__name__}"
