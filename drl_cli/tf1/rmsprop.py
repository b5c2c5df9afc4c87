"""RMSProp over a list of resource variables, applied with the fused kernel, its state in variables of our own names.

Twin of ``tf1.adam``. Source: Tieleman & Hinton 2012, lecture 6.5, with momentum as in ``tf.train.RMSPropOptimizer``:
ms ← decay·ms + (1 − decay)·g²; mom ← momentum·mom + rate·g/√(ms + ε); w ← w − mom. ε stands under the root, as in TensorFlow's
optimiser, whose constants the published ones of IMPALA and A3C are. There ms begins at 1, which like ε is meant for the
gradients of sums over a batch: with those of means, both want to be smaller by its size squared.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from drl_cli.tf1.tensorflow import Tensor, Variable, tf


class RMSProp:
    """The optimiser of one part: ``weights`` is {name: variable}; its slots are named ``<part>_rmsprop/…``."""

    def __init__(
        self,
        part: str,
        weights: Mapping[str, Variable],
        decay: float,
        momentum: float,
        epsilon: float,
        start: float = 1.0,
    ) -> None:
        """``decay``, ``momentum``, ``epsilon`` and ``start`` (of ms): see the module."""
        self._constants = {"rho": decay, "momentum": momentum, "epsilon": epsilon}
        self._weights = list(weights.values())
        self.variables: dict[str, Variable] = {}
        self._slots: list[list[Variable]] = []
        for name, variable in weights.items():
            slots = []
            for slot, value in (("ms", start), ("mom", 0.0)):
                full = f"{part}_rmsprop/{name}/{slot}"
                first = np.full(variable.shape.as_list(), value, np.float32)
                slots.append(tf.Variable(first, name=full, use_resource=True, trainable=False))
                self.variables[full] = slots[-1]
            self._slots.append(slots)

    def apply(self, gradients: Iterable[Tensor], rate: Tensor) -> None:
        """Take one step with ``gradients`` (tensors in the order of the weights) and learning rate ``rate`` (scalar)."""
        for weight, (ms, mom), gradient in zip(self._weights, self._slots, gradients, strict=True):
            tf.raw_ops.ResourceApplyRMSProp(
                var=weight.handle, ms=ms.handle, mom=mom.handle, lr=rate, grad=gradient, **self._constants
            )
