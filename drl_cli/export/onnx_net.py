"""A NetSpec's forward pass as ONNX nodes: the counterpart of ``policies.forward`` for one copy of the net, without noise.

Used by ``onnx_policy``. Written from the spec, operation by operation, rather than converted from a TensorFlow graph:
converters lag behind TensorFlow and NumPy, and a net is a dozen kinds of nodes. Source: the ONNX operator specification,
opset 17.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import helper, numpy_helper

from drl_cli.policies.forward import BATCH_EPSILON, NORM_EPSILON
from drl_cli.policies.nets import Conv, Dense, NetSpec, Residual

if TYPE_CHECKING:
    pass

OPSET, IR_VERSION = 17, 8  # of 2022: supported by the runtimes of the last years
_OPERATIONS = {"relu": "Relu", "tanh": "Tanh", "elu": "Elu"}


class Nodes:
    """``nodes("MatMul", a, b, transA=0) → name``; arrays among the inputs become constants, equal ones the same."""

    def __init__(self) -> None:
        self.nodes, self.constants, self._known = [], [], {}

    def __call__(
        self,
        operation: str,
        *given: str | np.ndarray | np.generic,
        into: str | None = None,
        count: int = 1,
        **attributes: Any,
    ) -> Any:
        """Add ``operation`` on ``given`` (names or arrays); returns its output's name, or a list of ``count`` names.

        ``into``: the name of the output, where it has to be a certain one.
        """
        names = [value if isinstance(value, str) else self.constant(value) for value in given]
        stem = f"{operation}_{len(self.nodes)}"
        made = [into or (stem if count == 1 else f"{stem}_{index}") for index in range(count)]
        self.nodes.append(helper.make_node(operation, names, made, name=stem, **attributes))
        return made[0] if count == 1 else made

    def constant(self, value: np.ndarray | np.generic) -> str:
        """Return the name of a constant that holds the array ``value``."""
        value = np.asarray(value)
        key = (value.dtype.str, value.shape, value.tobytes())
        if key not in self._known:
            self._known[key] = f"constant_{len(self.constants)}"
            self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), self._known[key]))
        return self._known[key]

    def columns(self, x: str, start: int, end: int) -> str:
        """Return the columns ``start`` to ``end`` (excluded) of ``x`` [N, size]."""
        return self("Slice", x, _int64([start]), _int64([end]), _int64([1]))

    def reshaped(self, x: str, shape: Sequence[int]) -> str:
        """Return ``x`` in another shape; -1 is the rows."""
        return self("Reshape", x, _int64(shape))


class OnnxNet:
    """The acting net: ``features`` once, then the heads that are needed."""

    def __init__(self, nodes: Nodes, net: NetSpec, weights: Mapping[str, np.ndarray]) -> None:
        """``nodes``: Nodes; ``net``: NetSpec of one copy; ``weights``: {name: float32 array}."""
        self._nodes, self._net, self._weights = nodes, net, weights

    def features(self, inputs: Sequence[str]) -> str:
        """Return what the heads see, or an LSTM before them, [N, F], of names of inputs [N, …] in the spec's order."""
        x = self._normed(self._joined(inputs), 0)
        for index, layer in enumerate(self._net.layers):
            scope = f"dense_{index}"
            if self._net.unit_kernels:
                x = self._normed(self._nodes("MatMul", x, self._of(f"{scope}/kernel")), index + 1)
                x = self._active(x, layer.activation)
                continue
            x = self._dense(x, scope, layer) if isinstance(layer, Dense) else self._residual(x, scope, layer)
            x = self._normed(x, index + 1)
        return x

    def step(self, x: str, state: tuple[str, str]) -> tuple[str, tuple[str, str]]:
        """One step of the LSTM: features [N, F] and state, (output, cell) [N, H] each, to (output, next state)."""
        nodes, cells = self._nodes, self._net.lstm
        output, cell = state
        joined = nodes("Concat", x, output, axis=-1)
        gates = nodes("Gemm", joined, self._of("lstm/kernel"), self._of("lstm/bias"))
        into, keep, out, candidate = nodes("Split", gates, _int64([cells] * 4), count=4, axis=-1)
        into, keep, out = (nodes("Sigmoid", gate) for gate in (into, keep, out))
        kept, entering = nodes("Mul", keep, cell), nodes("Mul", into, nodes("Tanh", candidate))
        cell = nodes("Add", kept, entering)
        output = nodes("Mul", out, nodes("Tanh", cell))
        return output, (output, cell)

    def head(self, x: str, name: str) -> str:
        """Return the head ``name`` [N, size] for features [N, F]."""
        size = dict(self._net.heads)[name]
        if name in self._net.free_heads:  # the same in every row: the rows are those of the features
            rows = self._nodes("ReduceSum", self._nodes("Mul", x, np.float32(0.0)), _int64([-1]), keepdims=1)
            return self._nodes("Add", rows, self._of(f"{name}/free")[None])
        for index, layer in enumerate(self._net.head_layers):
            x = self._dense(x, f"{name}/dense_{index}", layer)
        return self._dense(x, name, Dense(size, "linear"))

    def _joined(self, inputs: Sequence[str]) -> str:
        if not self._net.image:
            return self._nodes("Concat", *inputs, axis=-1) if len(inputs) > 1 else inputs[0]
        image, *others = inputs
        if self._net.beside:
            begin, end = self._net.image_at, self._net.image_at + int(np.prod(self._net.image))
            sides = [(0, begin), (end, self._net.inputs[0][1])]
            others = [*(self._nodes.columns(image, *side) for side in sides if side[0] < side[1]), *others]
            image = self._nodes.columns(image, begin, end)
        x = self._nodes.reshaped(image, [-1, *self._net.image])
        if self._net.convs:
            x = self._nodes("Transpose", x, perm=[0, 3, 1, 2])  # [N, C, H, W]
            for index, conv in enumerate(self._net.convs):
                x = self._convolved(x, index, conv)
            x = self._nodes("Transpose", x, perm=[0, 2, 3, 1])  # flattened as TensorFlow does
        x = self._nodes.reshaped(x, [-1, int(np.prod(self._net.image_shapes()[-1]))])
        return self._nodes("Concat", x, *others, axis=-1) if others else x

    def _convolved(self, x: str, index: int, conv: Conv) -> str:
        kernel = np.transpose(self._of(f"conv_{index}/kernel"), (3, 2, 0, 1))  # [O, I, k, k]
        sides = self._net.image_shapes()[index][:2]
        pads = [conv.padding_of(side) for side in sides]
        y = self._nodes(
            "Conv",
            x,
            kernel,
            self._of(f"conv_{index}/bias"),
            strides=[conv.stride] * 2,
            pads=[pads[0][0], pads[1][0], pads[0][1], pads[1][1]],
        )
        return self._active(y, conv.activation)

    def _dense(self, x: str, scope: str, layer: Dense) -> str:
        x = self._affine(x, scope)
        if layer.layer_norm:
            x = self._layer_normed(x, scope)
        return self._active(x, layer.activation)

    def _residual(self, x: str, scope: str, layer: Residual) -> str:
        x = self._affine(x, scope)
        for within in (f"{scope}/block_{block}" for block in range(layer.blocks)):
            wide = self._active(self._affine(self._layer_normed(x, within), f"{within}/wide"), layer.activation)
            x = self._nodes("Add", x, self._affine(wide, f"{within}/narrow"))
        return self._layer_normed(x, scope)

    def _affine(self, x: str, scope: str) -> str:
        return self._nodes("Gemm", x, self._of(f"{scope}/kernel"), self._of(f"{scope}/bias"))

    def _layer_normed(self, x: str, scope: str) -> str:
        x = self._nodes("Sub", x, self._mean(x))
        variance = self._nodes("Add", self._mean(self._nodes("Mul", x, x)), np.float32(NORM_EPSILON))
        x = self._nodes("Div", x, self._nodes("Sqrt", variance))
        x = self._nodes("Mul", x, self._of(f"{scope}/norm_scale"))
        return self._nodes("Add", x, self._of(f"{scope}/norm_offset"))

    def _mean(self, x: str) -> str:
        return self._nodes("ReduceMean", x, axes=[-1], keepdims=1)

    def _normed(self, x: str, index: int) -> str:
        """Batch normalisation with running statistics, folded into one factor and one offset."""
        if not self._net.batch_norm:
            return x
        scale, mean, var = (self._of(f"norm_{index}/{part}") for part in ("scale", "mean", "var"))
        offset = self._weights.get(f"{self._net.name}/norm_{index}/offset", np.float32(0.0))
        factor = scale / np.sqrt(var + np.float32(BATCH_EPSILON))
        return self._nodes("Add", self._nodes("Mul", x, factor), offset - mean * factor)

    def _active(self, x: str, activation: str) -> str:
        if activation == "linear":
            return x
        if activation == "swish":
            return self._nodes("Mul", x, self._nodes("Sigmoid", x))
        return self._nodes(_OPERATIONS[activation], x)

    def _of(self, name: str) -> np.ndarray:
        return self._weights[f"{self._net.name}/{name}"]


def _int64(values: Sequence[int]) -> np.ndarray:
    return np.asarray(values, np.int64)
