"""A policy as an ONNX file: written with the package onnx, loaded again and run with onnxruntime (extra ``drl-cli[onnx]``)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper

from drl_cli.checkpoints.files import write_new
from drl_cli.errors import InputError
from drl_cli.export import signature
from drl_cli.export.onnx_net import IR_VERSION, OPSET, Nodes
from drl_cli.export.onnx_policy import OnnxPolicy
from drl_cli.version import __version__

if TYPE_CHECKING:
    from drl_cli.policies.policy_spec import PolicySpec

MAX_BYTES = 2_000_000_000  # of a protobuf message, which such a file is


def write(spec: PolicySpec, weights: Mapping[str, np.ndarray], path: Path, about: Mapping[str, Any]) -> None:
    """Write ``spec`` (PolicySpec) with ``weights`` ({name: float32 array}) as the file ``path``, which must not be there.

    ``about``: plain data that goes into the model's metadata under the key "drl".
    """
    size = sum(array.nbytes for array in weights.values())
    if size > MAX_BYTES:
        raise InputError(f"The policy's weights take {size:,} bytes; an ONNX file holds {MAX_BYTES:,}.")
    if spec.nets[0].custom:
        raise InputError(
            f"The policy's network is a custom one (model.custom_model {spec.nets[0].custom[0]}), which exists only "
            f"as a TensorFlow graph. Export it as savedmodel or tflite."
        )
    if spec.custom:
        raise InputError(
            f"The policy's action distribution is a custom one (model.custom_action_dist {spec.custom[0]}), which exists only "
            f"as a TensorFlow graph. Export it as savedmodel or tflite."
        )
    nodes = Nodes()
    OnnxPolicy(nodes, spec, weights).build()
    ports = [[_value(port) for port in side] for side in (signature.inputs(spec), signature.outputs(spec))]
    graph = helper.make_graph(nodes.nodes, "policy", *ports, initializer=nodes.constants)
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="drl",
        producer_version=__version__,
    )
    helper.set_model_props(model, {"drl": json.dumps(about, sort_keys=True)})
    onnx.checker.check_model(model, full_check=True)
    write_new(path, [model.SerializeToString(deterministic=True)])


def _value(port: signature.Port) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(port.dtype))
    return helper.make_tensor_value_info(port.name, kind, ["rows", *port.shape], doc_string=port.meaning)


class OnnxModel:
    """An ONNX file that was read back: ``model({name: array [B, …]}) → {name: array [B, …]}``."""

    def __init__(self, path: Path | str) -> None:
        """``path``: the file."""
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self._outputs = [output.name for output in self._session.get_outputs()]

    def __call__(self, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run the graph."""
        found = self._session.run(self._outputs, given)
        return {name: np.asarray(array) for name, array in zip(self._outputs, found, strict=True)}

    def close(self) -> None:
        """Nothing to close."""


def read(path: Path | str) -> OnnxModel:
    """Return what was written as the function that it holds."""
    return OnnxModel(path)
