"""A policy as TensorFlow's SavedModel: written from the graph of ``policies.greedy_tf``, loaded again and run.

The signature is "serving_default", its inputs and outputs are those of ``export.signature``. Weights are constants of the
graph, so that the folder holds nothing that has to be initialised; a graph holds less than 2 GB.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from drl_cli.errors import InputError
from drl_cli.export import signature
from drl_cli.policies.greedy_tf import Greedy
from drl_cli.tf1.session import new_session
from drl_cli.tf1.tensorflow import Tensor, tf

if TYPE_CHECKING:
    from drl_cli.policies.policy_spec import PolicySpec

SIGNATURE = "serving_default"
MAX_BYTES = 2_000_000_000
CPU = {"intra_op_parallelism_threads": 1, "inter_op_parallelism_threads": 1, "device_count": {"GPU": 0}}


def write(spec: PolicySpec, weights: Mapping[str, np.ndarray], path: Path, _about: Mapping[str, Any]) -> None:
    """Write ``spec`` (PolicySpec) with ``weights`` ({name: float32 array}) as the folder ``path``, which must not be there."""
    size = sum(array.nbytes for array in weights.values())
    if size > MAX_BYTES:
        raise InputError(f"The policy's weights take {size:,} bytes; a TensorFlow graph holds {MAX_BYTES:,}. Use ONNX.")
    with tf.Graph().as_default() as graph:
        given = {port.name: _placeholder(port) for port in signature.inputs(spec)}
        state = tuple(tensor for name, tensor in given.items() if name.startswith("state_"))
        action, state = Greedy(spec, weights)(given["obs"], state, given.get("reward"))
        found = {
            port.name: tf.ensure_shape(tensor, [None, *port.shape], name=port.name)
            for port, tensor in zip(signature.outputs(spec), (action, *state), strict=True)
        }
        with new_session(graph, CPU) as session:
            builder = tf.saved_model.Builder(str(path))
            made = tf.saved_model.predict_signature_def(given, found)
            builder.add_meta_graph_and_variables(
                session, [tf.saved_model.SERVING], {SIGNATURE: made}, strip_default_attrs=True
            )
            builder.save()
    (Path(path) / "variables").rmdir()  # empty: an archive would lose it anyhow, and loaders do without


def _placeholder(port: signature.Port) -> Tensor:
    return tf.placeholder(np.dtype(port.dtype), [None, *port.shape], name=port.name)


class SavedModel:
    """A SavedModel that was read back: ``model({name: array [B, …]}) → {name: array [B, …]}``."""

    def __init__(self, path: Path | str) -> None:
        """``path``: the folder."""
        self._session = new_session(tf.Graph(), CPU)
        with self._session.graph.as_default():
            loaded = tf.saved_model.load(self._session, [tf.saved_model.SERVING], str(path))
        made = loaded.signature_def[SIGNATURE]
        self._inputs = {name: tensor.name for name, tensor in made.inputs.items()}
        self._outputs = {name: tensor.name for name, tensor in made.outputs.items()}

    def __call__(self, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run the signature."""
        return self._session.run(self._outputs, {self._inputs[name]: array for name, array in given.items()})

    def close(self) -> None:
        """Close the session."""
        self._session.close()


def read(path: Path | str) -> SavedModel:
    """Return what was written as the function that it holds."""
    return SavedModel(path)
