"""Graphs of custom models (``policies.custom_models``): checked once before a run learns, and run where no NumPy forward is.

Used by ``actors.session_state``, which checks, and by ``policies.numpy_policy``, which loads ``SessionFeatures`` by
name for models without a ``forward``. One thread computes: a handful of rows is not worth more, and one order of sums
repeats bit for bit.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from drl_cli.policies import custom_distributions
from drl_cli.tf1.session import new_session
from drl_cli.tf1.tensorflow import Tensor, tf

if TYPE_CHECKING:
    from drl_cli.policies.custom_models import Model
    from drl_cli.policies.forward_tf import Tensors
    from drl_cli.policies.nets import Weights
    from drl_cli.policies.policy_spec import PolicySpec

_ONE_THREAD = {"intra_op_parallelism_threads": 1, "inter_op_parallelism_threads": 1, "device_count": {"GPU": 0}}


class SessionFeatures:
    """What ``Model.forward`` would be, through a session: ``run(weights, inputs)`` → float32 [N, features]."""

    def __init__(self, model: Model, differentiated: bool = False) -> None:
        """``model``: a ``policies.custom_models.Model``; ``differentiated``: for ``slopes``.

        Raises ConfigError where its graph cannot be built or differentiated.
        """
        self._model, self._loaded, self._lock = model, None, threading.Lock()
        graph = tf.Graph()
        with graph.as_default(), tf.device("/CPU:0"):
            self._inputs = tf.placeholder(tf.float32, [None, *model.shape])
            made = {
                name: tf.Variable(np.zeros(shape, np.float32), name=name, use_resource=True)
                for name, shape in model.shapes.items()
            }
            self._new = {name: tf.placeholder(tf.float32, shape) for name, shape in model.shapes.items()}
            self._take = tf.group(*[variable.assign(self._new[name]) for name, variable in made.items()])
            weights = {name: variable.read_value() for name, variable in made.items()}
            self._features = model.graph(tf, weights, self._inputs)
            self.gradients = self._differentiated(weights) if differentiated else []
        graph.finalize()
        self._session = new_session(graph, _ONE_THREAD)

    def __call__(self, weights: Weights, inputs: np.ndarray) -> np.ndarray:
        """``weights``: {name: array}, taken over whenever they are other ones than before; ``inputs``: [N, *shape]."""
        with self._lock:
            return self._run(self._features, weights, inputs)

    def _differentiated(self, weights: Tensors) -> list[Tensor]:
        try:
            gradients = tf.gradients(self._features, list(weights.values())) if weights else []
        except LookupError as error:  # an operation without a gradient
            self._model.refuse(f"graph cannot be differentiated: {str(error).splitlines()[0][:300].rstrip('.')}")
        for name, gradient in zip(weights, gradients, strict=True):
            if gradient is None:
                self._model.refuse(
                    f"no gradient reaches its variable {name}: graph does not use it, or stops the gradient"
                )
        return gradients

    def slopes(self, weights: Weights, inputs: np.ndarray) -> list[np.ndarray]:
        """Return [array], the gradient of the sum of all features by each variable."""
        return self._run(self.gradients, weights, inputs)

    def _run(self, fetches: Any, weights: Weights, inputs: np.ndarray) -> Any:
        try:
            if weights is not self._loaded:
                self._session.run(self._take, {self._new[name]: weights[name] for name in self._new})
                self._loaded = weights
            return self._session.run(fetches, {self._inputs: inputs})
        except tf.errors.OpError as error:
            self._model.refuse(f"graph failed: {first_line(error)}")

    def close(self) -> None:
        """End the session."""
        self._session.close()


def check(spec: PolicySpec) -> None:
    """Refuse a custom model of ``spec`` (PolicySpec) whose graph cannot be learnt from or is not what its forward is.

    ConfigError with what is wrong; a model sees the same of all nets, so that one of them stands for all.
    """
    if not spec.nets[0].custom:
        return
    model = spec.nets[0].own
    weights, inputs = model.trial()
    running = SessionFeatures(model, differentiated=True)
    try:
        found = model.check("graph", lambda rows: running(weights, rows), inputs)
        if not all(np.isfinite(slope).all() for slope in running.slopes(weights, inputs)):
            model.refuse("graph has non-finite gradients for ordinary observations and weights near the initial ones")
        if model.has_forward:
            model.compare(model.forward(weights, inputs), found)
    finally:
        running.close()


@contextlib.contextmanager
def blamed(spec: PolicySpec, xla: bool) -> Iterator[None]:
    """Refuse the custom model of ``spec`` (PolicySpec) for what the body could not build or compile, else its distribution.

    ``xla``: whether it compiles.
    """
    try:
        yield
    except LookupError as error:
        refuse = _refusing(spec)
        if refuse is None or "gradient" not in str(error):
            raise
        text = str(error).splitlines()[0][:200].rstrip(".")
        refuse(f"graph cannot be differentiated as often as this algorithm does: {text}")
    except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError) as error:
        refuse = _refusing(spec)
        if refuse is None or not xla:
            raise
        refuse(f"XLA cannot compile its graph: {_uncompiled(error)}. Set xla: false")


def _refusing(spec: PolicySpec) -> Callable[[str], NoReturn] | None:
    """Return what refuses the model of ``spec`` that is a user's own, or its distribution; None where neither is."""
    if spec.nets[0].custom:
        return spec.nets[0].own.refuse
    return custom_distributions.of(spec).refuse if spec.custom else None


def first_line(error: Any) -> str:
    """Return what TensorFlow says of an error of its own in one line, without its headings and the stack of each node."""
    lines = [line.strip() for line in error.message.splitlines() if line.strip() and not line.strip().endswith(":")]
    behind = [index + 1 for index, line in enumerate(lines[:-1]) if line.startswith("Node: ")]
    lines = lines[behind[0] :] if behind else lines
    return lines[0][:200].rstrip(".") if lines else type(error).__name__


def _uncompiled(error: Any) -> str:
    """Return which operations XLA has no code for, as an error of the first call says."""
    _, found, names = first_line(error).partition("unsupported operations")
    return f"it has no {names.partition(': ')[2].partition(' ')[0]}" if found else first_line(error)
