"""The reverse pass of ``policies.forward`` in NumPy, for nets of dense layers: what A3C's workers compute gradients with.

TensorFlow in a worker costs seven seconds of CPU to import and a session call for every gradient; a dense net of two layers
is differentiated here by a dozen matrix products. ``tests/policies/test_backward.py`` compares it with TensorFlow's
gradients, and with differences.

Source: the chain rule, layer by layer, backwards (Rumelhart et al. 1986). Deviations from the forward pass:
- No convolutions, residual blocks, recurrent cells, noise, batch normalisation, state-dependent deviations, custom models or
  several copies: ``is_differentiable`` says so, and the graph differentiates those.
- What is computed is kept, so no activation works in place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from drl_cli.policies.forward import NORM_EPSILON
from drl_cli.policies.nets import Dense

if TYPE_CHECKING:
    from drl_cli.policies.nets import Heads, NetSpec, Weights


def is_differentiable(net: NetSpec) -> bool:
    """Whether ``Backward`` can run ``net``, a NetSpec."""
    dense = all(isinstance(layer, Dense) and not layer.noisy for layer in (*net.layers, *net.head_layers))
    special = net.image or net.custom or net.lstm or net.batch_norm or net.sde or net.noisy_heads or net.copies > 1
    return dense and not special


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 * np.tanh(0.5 * x) + 0.5  # cannot overflow


# {activation: (y of z, dy/dz of z and y)}
ACTIVATION = {
    "relu": (lambda z: np.maximum(z, 0.0), lambda z, y: (y > 0).astype(y.dtype)),
    "tanh": (np.tanh, lambda z, y: 1.0 - y * y),
    "elu": (lambda z: np.where(z > 0, z, np.expm1(np.minimum(z, 0.0))), lambda z, y: np.where(z > 0, 1.0, y + 1.0)),
    "swish": (lambda z: z * _sigmoid(z), lambda z, y: _sigmoid(z) * (1.0 - y) + y),
    "linear": (lambda z: z, None),
}


class Backward:
    """A dense net that can be run and differentiated: ``heads, tape = net(x)``, then ``net.gradients(tape, of_heads)``."""

    def __init__(self, net: NetSpec, weights: Weights) -> None:
        """``net``: a NetSpec that ``is_differentiable`` (ValueError otherwise); ``weights``: {name: float32 array} of it."""
        if not is_differentiable(net):
            raise ValueError(f"the net {net.name} has parts that are differentiated by the graph only")
        trunk = [layer for layer in net.layers if isinstance(layer, Dense)]  # all of them
        self._trunk = [_Layer(f"{net.name}/dense_{index}", layer, weights) for index, layer in enumerate(trunk)]
        self._heads, self._free = {}, {}
        for head, size in net.heads:
            scope = f"{net.name}/{head}"
            if head in net.free_heads:
                self._free[head] = (f"{scope}/free", weights[f"{scope}/free"])
                continue
            own = [_Layer(f"{scope}/dense_{index}", layer, weights) for index, layer in enumerate(net.head_layers)]
            self._heads[head] = [*own, _Layer(scope, Dense(size, "linear"), weights)]

    def __call__(self, x: np.ndarray) -> tuple[Heads, Any]:
        """Map ``x`` float32 [N, input_size] to ({head: float32 [N, size]}, a tape for ``gradients``)."""
        trunk, features = _run(self._trunk, x)
        heads, tapes = {}, {}
        for head, layers in self._heads.items():
            tapes[head], heads[head] = _run(layers, features)
        for head, (_, values) in self._free.items():
            heads[head] = np.broadcast_to(values, (len(x), len(values)))
        return heads, (trunk, tapes)

    def gradients(self, tape: Any, of_heads: Heads) -> dict[str, np.ndarray]:
        """Return {weight name: float32 array}, the gradient of Σ of_heads · heads over all rows and heads.

        ``of_heads``: {head: float32 [N, size]}, what the heads' values are worth; a head that is missing is worth nothing,
        and its own weights get no gradient.
        """
        trunk, tapes = tape
        found, into = {}, None
        for head, of_head in of_heads.items():
            if head in self._free:
                found[self._free[head][0]] = of_head.sum(axis=0)
                continue
            passed = _back(self._heads[head], tapes[head], of_head, found, bool(self._trunk))
            into = passed if into is None else into + passed
        if self._trunk and into is not None:
            _back(self._trunk, trunk, into, found, False)
        return found


def _run(layers: list[_Layer], x: np.ndarray) -> tuple[list, np.ndarray]:
    """Return (what each layer keeps, the last output)."""
    tape = []
    for layer in layers:
        kept, x = layer.forward(x)
        tape.append(kept)
    return tape, x


def _back(layers: list[_Layer], tape: Any, of_output: np.ndarray, found: Heads, further: bool) -> np.ndarray | None:
    """Put the gradients of ``layers`` into ``found``; returns that of their input if ``further``."""
    of_input: np.ndarray | None = of_output
    for index in reversed(range(len(layers))):
        if of_input is not None:  # as it is of the first layer alone, at the end
            of_input = layers[index].backward(tape[index], of_input, found, further or index > 0)
    return of_input


class _Layer:
    """One dense layer: an affine map, optional layer normalisation, an activation."""

    def __init__(self, scope: str, layer: Dense, weights: Weights) -> None:
        self._scope, self._normed = scope, layer.layer_norm
        self._kernel, self._bias = weights[f"{scope}/kernel"], weights[f"{scope}/bias"]
        if layer.layer_norm:
            self._scale, self._offset = weights[f"{scope}/norm_scale"], weights[f"{scope}/norm_offset"]
        self._activation, self._slope = ACTIVATION[layer.activation]

    def forward(self, x: np.ndarray) -> tuple[tuple, np.ndarray]:
        """Map [N, I] to (what ``backward`` needs, [N, U])."""
        z = x @ self._kernel
        z += self._bias
        unit = deviation = None
        if self._normed:
            z -= z.mean(axis=-1, keepdims=True)
            deviation = np.sqrt(np.square(z).mean(axis=-1, keepdims=True) + NORM_EPSILON)
            unit = z / deviation
            z = unit * self._scale + self._offset
        y = self._activation(z)
        return (x, z, y, unit, deviation), y

    def backward(self, kept: Any, of_output: np.ndarray, found: Heads, further: bool) -> np.ndarray | None:
        """Note the gradients of the weights in ``found``; returns that of the input [N, I] if ``further``."""
        x, z, y, unit, deviation = kept
        of_z = of_output if self._slope is None else of_output * self._slope(z, y)
        if self._normed:
            found[f"{self._scope}/norm_scale"] = (of_z * unit).sum(axis=0)
            found[f"{self._scope}/norm_offset"] = of_z.sum(axis=0)
            of_unit = of_z * self._scale
            # Neither a shift nor a stretch of z changes the output: what points along them is taken out.
            along = unit * (of_unit * unit).mean(axis=-1, keepdims=True)
            of_z = (of_unit - of_unit.mean(axis=-1, keepdims=True) - along) / deviation
        found[f"{self._scope}/kernel"] = x.T @ of_z
        found[f"{self._scope}/bias"] = of_z.sum(axis=0)
        return of_z @ self._kernel.T if further else None
