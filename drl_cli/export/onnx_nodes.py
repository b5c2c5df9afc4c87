"""The nodes of an ONNX graph as they come: each call adds one operation and returns the name of its output.

Used by ``onnx_net`` and ``onnx_policy``. Source: the ONNX operator specification, opset 17.
"""

import numpy as np
from onnx import helper, numpy_helper

OPSET, IR_VERSION = 17, 8  # of 2022: what runtimes of the last years read


class Nodes:
    """``nodes("MatMul", a, b, transA=0) → name``; arrays among the inputs become constants, equal ones the same."""

    def __init__(self):
        self.nodes, self.constants, self._known = [], [], {}

    def __call__(self, operation, *given, into=None, count=1, **attributes):
        """Add ``operation`` on ``given`` (names or arrays); returns its output's name, or a list of ``count`` names.

        ``into``: the name of the output, where it has to be a certain one.
        """
        names = [value if isinstance(value, str) else self.constant(value) for value in given]
        stem = f"{operation}_{len(self.nodes)}"
        made = [into or (stem if count == 1 else f"{stem}_{index}") for index in range(count)]
        self.nodes.append(helper.make_node(operation, names, made, name=stem, **attributes))
        return made[0] if count == 1 else made

    def constant(self, value):
        """Return the name of a constant that holds the array ``value``."""
        value = np.asarray(value)
        key = (value.dtype.str, value.shape, value.tobytes())
        if key not in self._known:
            self._known[key] = f"constant_{len(self.constants)}"
            self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), self._known[key]))
        return self._known[key]

    def columns(self, x, start, end):
        """Return the columns ``start`` to ``end`` (excluded) of ``x`` [N, size]."""
        return self("Slice", x, np.int64([start]), np.int64([end]), np.int64([1]))

    def reshaped(self, x, shape):
        """Return ``x`` in another shape; -1 stands for the rows."""
        return self("Reshape", x, np.int64(shape))
