"""Adam and RMSProp over a list of resource variables, applied with the fused kernels, the gradient's norm, and projections.

State is kept in ordinary variables of our own names, so that checkpoints hold it by name.

- Adam: Kingma & Ba 2015, algorithm 1, in the form that ``ResourceApplyAdam`` computes (the bias corrections folded into the
  step size).
- RMSProp: Tieleman & Hinton 2012, lecture 6.5, with momentum as in ``tf.train.RMSPropOptimizer``:
  ms ← decay·ms + (1 − decay)·g²; mom ← momentum·mom + rate·g/√(ms + ε); w ← w − mom. ε stands under the root, as in
  TensorFlow's optimiser, whose constants the published ones of IMPALA and A3C are. There ms begins at 1, which like ε is meant
  for the gradients of sums over a batch: with those of means, both want to be smaller by its size squared.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from drl_cli.tf1.tensorflow import Tensor, Variable, tf

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8
ROUNDING = 5e-7  # of the length of a column of float32, four times the resolution of 1


class Adam:
    """The optimiser of one part: ``weights`` is {name: variable}; its slots are named ``<part>_adam/…``."""

    def __init__(
        self, part: str, weights: Mapping[str, Variable], epsilon: float = EPSILON, beta_1: float = BETA_1
    ) -> None:
        """``epsilon``, ``beta_1``: the paper's ε and β₁."""
        self._epsilon, self._beta_1 = epsilon, beta_1
        self._weights = list(weights.values())
        self._slots, self.variables = _slots(f"{part}_adam", weights, {"m": 0.0, "v": 0.0})
        count = f"{part}_adam/count"
        self._count = tf.Variable(np.int64(0), name=count, use_resource=True, trainable=False)
        self.variables[count] = self._count

    def apply(self, gradients: Iterable[Tensor], rate: Tensor) -> None:
        """Take one step with ``gradients`` (tensors in the order of the weights) and learning rate ``rate`` (scalar)."""
        count = tf.cast(self._count.assign_add(1, read_value=True), tf.float32)
        beta_1_power, beta_2_power = tf.pow(self._beta_1, count), tf.pow(BETA_2, count)
        for weight, (m, v), gradient in zip(self._weights, self._slots, gradients, strict=True):
            tf.raw_ops.ResourceApplyAdam(
                var=weight.handle,
                m=m.handle,
                v=v.handle,
                beta1_power=beta_1_power,
                beta2_power=beta_2_power,
                lr=rate,
                beta1=self._beta_1,
                beta2=BETA_2,
                epsilon=self._epsilon,
                grad=gradient,
            )


def _slots(
    prefix: str, weights: Mapping[str, Variable], first: Mapping[str, float]
) -> tuple[list[list[Variable]], dict[str, Variable]]:
    """Return the slots of each weight, in the order of ``first`` {slot: value to begin with}, and {name: variable} of all."""
    made: dict[str, Variable] = {}
    for name, variable in weights.items():
        for slot, value in first.items():
            full = f"{prefix}/{name}/{slot}"
            array = np.full(variable.shape.as_list(), value, np.float32)
            made[full] = tf.Variable(array, name=full, use_resource=True, trainable=False)
    return [[made[f"{prefix}/{name}/{slot}"] for slot in first] for name in weights], made


def clipped(gradients: Sequence[Tensor], most: float | None) -> tuple[list[Tensor], Tensor]:
    """Return (gradients scaled to a global norm of at most ``most``, their norm before); None for ``most`` scales nothing."""
    norm = tf.sqrt(tf.add_n([tf.reduce_sum(tf.square(gradient)) for gradient in gradients]))  # scalar
    if most is None:
        return list(gradients), norm
    scale = tf.minimum(1.0, most / tf.maximum(norm, 1e-12))  # scalar
    return [gradient * scale for gradient in gradients], norm


def project_columns(kernels: Iterable[Variable]) -> None:
    """Divide every column of ``kernels``, [(C,) I, U] each, by its length, which is 1 afterwards.

    A column whose length differs from 1 by rounding alone stays as it is, so that what is not learnt does not change.

    Source: Palenicek et al. 2025, "Scaling Off-Policy Reinforcement Learning with Batch and Weight Normalization" (arXiv
    2502.07523), section 4: the projection onto the unit sphere after each step of the optimiser.
    """
    for kernel in kernels:
        length = tf.sqrt(tf.reduce_sum(tf.square(kernel), axis=-2, keepdims=True))  # [(C,) 1, U]
        length = tf.where(tf.abs(length - 1.0) < ROUNDING, tf.ones_like(length), length)
        kernel.assign(kernel / tf.maximum(length, 1e-12))  # [(C,) I, U]


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
        self._slots, self.variables = _slots(f"{part}_rmsprop", weights, {"ms": start, "mom": 0.0})

    def apply(self, gradients: Iterable[Tensor], rate: Tensor) -> None:
        """Take one step with ``gradients`` (tensors in the order of the weights) and learning rate ``rate`` (scalar)."""
        for weight, (ms, mom), gradient in zip(self._weights, self._slots, gradients, strict=True):
            tf.raw_ops.ResourceApplyRMSProp(
                var=weight.handle, ms=ms.handle, mom=mom.handle, lr=rate, grad=gradient, **self._constants
            )
