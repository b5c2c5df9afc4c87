"""Adam over a list of resource variables, applied with the fused kernel, its state in variables of our own names.

Source: Kingma & Ba 2015, algorithm 1, in the form that ``ResourceApplyAdam`` computes (the bias corrections folded into
the step size). State is kept in ordinary variables so that checkpoints hold it by name.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from drl_cli.tf1.tensorflow import Tensor, Variable, tf

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8


class Adam:
    """The optimiser of one part: ``weights`` is {name: variable}; its slots are named ``<part>_adam/…``."""

    def __init__(
        self, part: str, weights: Mapping[str, Variable], epsilon: float = EPSILON, beta_1: float = BETA_1
    ) -> None:
        """``epsilon``, ``beta_1``: the paper's ε and β₁."""
        self._epsilon, self._beta_1 = epsilon, beta_1
        self._weights = list(weights.values())
        self.variables: dict[str, Variable] = {}
        self._slots: list[list[Variable]] = []
        for name, variable in weights.items():
            slots = []
            for slot in ("m", "v"):
                full = f"{part}_adam/{name}/{slot}"
                zeros = np.zeros(variable.shape.as_list(), np.float32)
                slots.append(tf.Variable(zeros, name=full, use_resource=True, trainable=False))
                self.variables[full] = slots[-1]
            self._slots.append(slots)
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


def clipped(gradients: Sequence[Tensor], most: float | None) -> tuple[list[Tensor], Tensor]:
    """Return (gradients scaled to a global norm of at most ``most``, their norm before); None for ``most`` scales nothing."""
    norm = tf.sqrt(tf.add_n([tf.reduce_sum(tf.square(gradient)) for gradient in gradients]))  # scalar
    if most is None:
        return list(gradients), norm
    scale = tf.minimum(1.0, most / tf.maximum(norm, 1e-12))  # scalar
    return [gradient * scale for gradient in gradients], norm
