"""Weights in and out of a graph by exact name, through Ray's ``TensorFlowVariables``.

Ray's class gives an unknown name to the variable of equal shape whose name resembles it most (seen: the weights of
``policy_target/x`` landed in ``policy/x``), and finds variables by walking the graph from an output. Hence this wrapper:
the variables are passed explicitly, the sets of names are compared first, and any difference is an error.

The class lives in ``ray.rllib.utils.tf_utils`` since Ray 2.44; importing it costs about a second and all of Ray. Runs
without Ray use ``PlainVariables``, a twin with the same two methods. Construct either before the graph is finalized.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from drl_cli.extras import load
from drl_cli.tf1.tensorflow import Session, Variable, tf

RAY_CLASS = "ray.rllib.utils.tf_utils:TensorFlowVariables"


class PlainVariables:
    """Twin of Ray's ``TensorFlowVariables`` for graph mode: the same constructor, ``get_weights`` and ``set_weights``."""

    def __init__(self, output: object, sess: Session, input_variables: Sequence[Variable]) -> None:
        """``output`` is ignored (Ray's class walks the graph from it), ``input_variables`` a list of variables."""
        self.sess = sess
        self.variables = {variable.op.name: variable for variable in input_variables}
        self.placeholders = {n: tf.placeholder(v.dtype, v.shape) for n, v in self.variables.items()}
        self.assignment_nodes = {n: v.assign(self.placeholders[n]) for n, v in self.variables.items()}

    def get_weights(self) -> dict[str, np.ndarray]:
        """Return {name: array}."""
        return self.sess.run(self.variables)

    def set_weights(self, new_weights: Mapping[str, np.ndarray]) -> None:
        """Assign {name: array}."""
        feeds = {self.placeholders[name]: value for name, value in new_weights.items()}
        self.sess.run([self.assignment_nodes[name].op for name in new_weights], feed_dict=feeds)


class Weights:
    """The named ``variables`` ({exact name: variable}) of a session's graph, read and written as one dict."""

    def __init__(self, session: Session, variables: Mapping[str, Variable], with_ray: bool) -> None:
        """``with_ray`` moves them through Ray's own class, else through its twin."""
        wrong = [name for name, variable in variables.items() if variable.op.name != name]
        if wrong:
            raise ValueError(f"variables that TensorFlow named otherwise than the graph says: {', '.join(wrong)}")
        made = load(RAY_CLASS) if with_ray else PlainVariables
        self._variables = made([], session, list(variables.values()))
        self._names = set(variables)

    def get(self) -> dict[str, np.ndarray]:
        """Return {name: array}, copies of the present values."""
        return dict(self._variables.get_weights())

    def set(self, values: Mapping[str, np.ndarray]) -> None:
        """Assign ``values`` ({name: array}); ValueError when a name is missing or unknown or a shape or dtype differs."""
        missing, unknown = self._names - set(values), set(values) - self._names
        if missing or unknown:
            raise ValueError(f"weights do not match: missing {sorted(missing)[:5]}, unknown {sorted(unknown)[:5]}")
        for name, variable in self._variables.variables.items():
            if tuple(values[name].shape) != tuple(variable.shape.as_list()):
                raise ValueError(
                    f"{name}: shape {tuple(values[name].shape)}, expected {tuple(variable.shape.as_list())}"
                )
            if values[name].dtype != variable.dtype.base_dtype.as_numpy_dtype:
                raise ValueError(f"{name}: {values[name].dtype}, expected {variable.dtype.base_dtype.name}")
        self._variables.set_weights(values)
