"""The forward pass of a net in NumPy: what workers, the tester, rollout and evaluate act with.

One small net on a handful of observations costs about 10 µs here against 100 to 200 µs for a session call, and needs no
TensorFlow. ``policies.forward_tf`` computes the same numbers to a tolerance; ``tests/policies/test_parity.py`` compares
them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from drl_cli.policies.nets import Dense, Residual

if TYPE_CHECKING:
    from drl_cli.policies.nets import Conv, Heads, Layer, NetSpec, State, Weights

Inputs: TypeAlias = "np.ndarray | Sequence[np.ndarray]"
"""What a net takes: rows of numbers, or a list of its inputs, an image first."""
OwnForward: TypeAlias = "Callable[[Weights, np.ndarray], np.ndarray]"
"""Runs a custom model: (weights, float32 [N, …]) → float32 [N, features]."""
Acting: TypeAlias = "Callable[..., Heads]"
"""A net that acts, (inputs, rng or None) → heads; ``Forward`` is one."""
_Ready: TypeAlias = "tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...] | None, Callable, str | None]"


NORM_EPSILON = 1e-6  # layer normalisation's guard against a variance of zero, the same in forward_tf
BATCH_EPSILON = 1e-3  # batch normalisation's, as in its authors' code
SDE_EPSILON = 1e-6  # least variance of state-dependent exploration


def _swish(x: np.ndarray) -> np.ndarray:
    return x / (1.0 + np.exp(-np.clip(x, -60.0, 60.0)))


def _elu(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0.0)))


def _relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0.0, out=x)


def _linear(x: np.ndarray) -> np.ndarray:
    return x


ACTIVATION = {"relu": _relu, "tanh": np.tanh, "elu": _elu, "swish": _swish, "linear": _linear}


class Forward:
    """A net, ready to run: ``Forward(net_spec, weights)(x)``."""

    def __init__(self, net: NetSpec, weights: Weights, own: OwnForward | None = None) -> None:
        """``net`` is a NetSpec, ``weights`` maps its names to float32 arrays of its shapes (ValueError otherwise).

        ``own(weights, x)`` runs a custom model that has no ``forward`` in NumPy: {name: array} of its variables and float32
        [N, …] to float32 [N, features]. ValueError where it is missing.
        """
        for name, shape in net.weight_shapes().items():
            if name not in weights or tuple(weights[name].shape) != shape:
                found = tuple(weights[name].shape) if name in weights else "missing"
                raise ValueError(f"{name}: expected shape {shape}, found {found}")
            if weights[name].dtype != np.float32:
                raise ValueError(f"{name}: expected float32, found {weights[name].dtype}")
        self._net, self._weights = net, weights
        self._custom = self._own_copies(own) if net.custom else ()
        # With ``unit_kernels`` those of the layers are part of their kernels.
        separate = 1 if net.unit_kernels else len(net.layers) + 1
        self._norms = {index: self._folded(index) for index in range(separate if net.batch_norm else 0)}
        self._layers = [self._ready(index, layer) for index, layer in enumerate(net.layers)]
        affine = net.affine_heads()
        # Where heads share their input, all are one matrix product: their kernels side by side.
        self._together = not net.head_layers and not net.noisy_heads
        if self._together:
            parts = [[self._of(f"{head}/{part}") for head, _ in affine] for part in ("kernel", "bias")]
            kernel, bias = (np.concatenate(values, axis=-1) for values in parts)
            self._head_kernel, self._head_bias = kernel, self._row(bias)
            ends = np.cumsum([size for _, size in affine])
            self._slices = {head: slice(end - size, end) for (head, size), end in zip(affine, ends, strict=True)}
        else:
            self._own = {head: self._layers_of(head, size) for head, size in affine}
        self._free = {head: self._row(self._of(f"{head}/free")) for head in net.free_heads}
        self._variances = np.exp(2.0 * self._of("log_std/kernel")) if net.sde else None
        self._lstm = (self._of("lstm/kernel"), self._of("lstm/bias")) if net.lstm else None

    def _own_copies(self, own: OwnForward | None) -> list[Callable[[np.ndarray], np.ndarray]]:
        """A function of observations, float32 [N, …] → [N, features], for each copy of a custom model."""
        model, names = self._net.own, self._net.own_names()
        if own is None and not model.has_forward:
            raise ValueError(f"the custom model of {self._net.name} runs in a graph only")
        run, single = own or model.forward, self._net.copies == 1
        each = [
            {variable: self._weights[name] if single else self._weights[name][copy] for name, variable in names.items()}
            for copy in range(self._net.copies)
        ]
        return [functools.partial(run, weights) for weights in each]

    def _layers_of(self, head: str, size: int) -> list:
        """The layers of a head of its own, its linear output last."""
        own = [self._layer(f"{head}/dense_{index}", layer) for index, layer in enumerate(self._net.head_layers)]
        return [*own, self._layer(head, Dense(size, "linear", noisy=self._net.noisy_heads))]

    def __call__(self, x: Inputs, rng: np.random.Generator | None = None) -> Heads:
        """Map inputs to {head: float32 [N, size]}, or [C, N, size] for C copies; nets with an LSTM have ``run``.

        ``x``: float32 [N, input_size], or a list of the inputs: an image [N, H, W, channels] (uint8 or float32) comes first.
        With ``rng`` noisy layers draw their weights anew; without it they use the means.
        """
        return self.heads(self.features(x, rng), rng)

    def run(self, x: Inputs, state: State, rng: np.random.Generator | None = None) -> tuple[Heads, State]:
        """Map inputs and the recurrent ``state`` to (heads as for a call, the next state); ``()`` without an LSTM.

        The state is (output, cell), float32 [N, lstm] each; the next one is made of arrays of its own.
        """
        features = self.features(x, rng)
        if self._lstm is not None:
            features, state = self._recurrent(features, state, *self._lstm)
        return self.heads(features, rng), state

    def _recurrent(self, x: np.ndarray, state: State, kernel: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, State]:
        """One step of the LSTM: features [N, F] and state to (output [N, lstm], next state)."""
        (output, cell), cells = state, self._net.lstm
        gates = np.concatenate([x, output], axis=-1) @ kernel
        gates += bias
        gates[:, : 3 * cells] *= 0.5  # σ(x) = ½·(1 + tanh(x/2)), which cannot overflow
        gates = np.tanh(gates, out=gates)
        gates[:, : 3 * cells] *= 0.5
        gates[:, : 3 * cells] += 0.5
        into, keep, out, candidate = (gates[:, at : at + cells] for at in range(0, 4 * cells, cells))
        cell = keep * cell + into * candidate
        output = out * np.tanh(cell)
        return output, (output, cell)

    def features(self, x: Inputs, rng: np.random.Generator | None = None) -> np.ndarray:
        """Map inputs to what the heads see, or an LSTM before them, float32 [N, F] or [C, N, F]; arguments as for a call."""
        x = self._normed(self._joined(x), 0)
        for index, layer in enumerate(self._layers, 1):
            x = self._dense(x, layer, rng) if isinstance(layer, tuple) else layer(x)
            x = self._normed(x, index)
        return x

    def heads(self, x: np.ndarray, rng: np.random.Generator | None = None) -> Heads:
        """Map ``features`` to {head: float32 [N, size]}, or [C, N, size] for C copies."""
        heads = self._all_heads(x) if self._together else self._each_head(x, rng)
        for head, row in self._free.items():
            shape = (*x.shape[:-1], row.shape[-1])
            heads[head] = row if row.shape == shape else np.broadcast_to(row, shape)
        if self._variances is not None:
            heads["log_std"] = 0.5 * np.log(np.square(x) @ self._variances + SDE_EPSILON)
            heads["features"] = x
        return heads

    def _all_heads(self, x: np.ndarray) -> Heads:
        out = _product(x, self._head_kernel)
        out += self._head_bias
        return {head: out[..., part] for head, part in self._slices.items()}

    def _each_head(self, x: np.ndarray, rng: np.random.Generator | None) -> Heads:
        heads = {}
        for head, layers in self._own.items():
            y = x
            for layer in layers:
                y = self._dense(y, layer, rng)
            heads[head] = y
        return heads

    def _joined(self, x: Inputs) -> np.ndarray:
        """Scale an image, run the convolutions, put all inputs side by side: float32 [N, I]."""
        if self._custom:
            return self._seen_by_own(x)
        if not self._net.image:
            return x if isinstance(x, np.ndarray) else np.concatenate(x, axis=-1)
        image, *others = [x] if isinstance(x, np.ndarray) else x
        if self._net.beside:
            begin, end = self._net.image_at, self._net.image_at + math.prod(self._net.image)
            others = [image[:, :begin], image[:, end:], *others]
            image = image[:, begin:end]
        y = scaled(image.reshape(len(image), *self._net.image), self._net.zero_mean)
        for index, conv in enumerate(self._net.convs):
            y = self._convolved(y, index, conv)
        if self._net.copies > 1 and self._net.convs:
            y = y.reshape(self._net.copies, len(image), -1)
            others = [np.broadcast_to(other, (self._net.copies, *other.shape)) for other in others]
        else:
            y = y.reshape(len(image), -1)
        return np.concatenate([y, *others], axis=-1) if others else y

    def _seen_by_own(self, x: Inputs) -> np.ndarray:
        """The custom model's features of the first input with the others beside them, float32 [(C,) N, I]."""
        obs, *others = [x] if isinstance(x, np.ndarray) else x
        axes = 4 if self._net.image else 2
        each = obs if obs.ndim > axes else [obs] * self._net.copies  # rows of its own for each copy
        if self._net.image:
            each = [scaled(rows.reshape(len(rows), *self._net.image), self._net.zero_mean) for rows in each]
        seen = [run(rows) for run, rows in zip(self._custom, each, strict=True)]
        y = np.stack(seen) if self._net.copies > 1 else seen[0]
        others = [np.broadcast_to(other, (*y.shape[:-1], other.shape[-1])) for other in others]
        return np.concatenate([y, *others], axis=-1) if others else y

    def _convolved(self, x: np.ndarray, index: int, conv: Conv) -> np.ndarray:
        kernel, bias = self._of(f"conv_{index}/kernel"), self._of(f"conv_{index}/bias")
        if self._net.copies == 1:
            return ACTIVATION[conv.activation](convolution(x, kernel, conv) + bias)
        each = x if x.ndim == 5 else [x] * self._net.copies
        out = [convolution(part, k, conv) + b for part, k, b in zip(each, kernel, bias, strict=True)]
        return ACTIVATION[conv.activation](np.stack(out))

    def _dense(self, x: np.ndarray, layer: Any, rng: np.random.Generator | None) -> np.ndarray:
        kernel, bias, norm, activation, noisy = layer
        if noisy and rng is not None:
            kernel, bias = self._drawn(noisy, rng)
        x = _product(x, kernel)
        x += bias
        if norm is not None:
            x -= x.mean(axis=-1, keepdims=True)
            x /= np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + NORM_EPSILON)
            x = x * norm[0] + norm[1]
        return activation(x)

    def _drawn(self, scope: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return kernel and bias of a noisy layer with fresh factorised noise."""
        kernel, bias = self._of(f"{scope}/kernel"), self._of(f"{scope}/bias")
        lead, (rows, units) = kernel.shape[:-2], kernel.shape[-2:]
        into, out = noise_of(rng, (*lead, rows, 1)), noise_of(rng, (*lead, 1, units))
        bias = bias + self._of(f"{scope}/bias_sigma") * out.reshape(bias.shape)
        return kernel + self._of(f"{scope}/kernel_sigma") * into * out, self._row(bias)

    def _ready(self, index: int, layer: Layer) -> _Ready | _ResidualForward:
        scope = f"dense_{index}"
        if self._net.unit_kernels:
            factor, offset = self._folded(index + 1)
            return self._of(f"{scope}/kernel") * factor, offset, None, ACTIVATION[layer.activation], None
        if isinstance(layer, Dense):
            return self._layer(scope, layer)
        values = {name: self._of(f"{scope}/{name}") for name in layer.shapes(1)}
        return _ResidualForward(layer, {n: v if n.endswith("kernel") else self._row(v) for n, v in values.items()})

    def _layer(self, scope: str, layer: Dense) -> _Ready:
        """Return (kernel, bias, normalisation or None, activation, scope if the layer is noisy)."""
        norm = None
        if layer.layer_norm:
            norm = tuple(self._row(self._of(f"{scope}/{part}")) for part in ("norm_scale", "norm_offset"))
        kernel, bias = self._of(f"{scope}/kernel"), self._row(self._of(f"{scope}/bias"))
        return kernel, bias, norm, ACTIVATION[layer.activation], scope if layer.noisy else None

    def _normed(self, x: np.ndarray, index: int) -> np.ndarray:
        norm = self._norms.get(index)
        return x if norm is None else x * norm[0] + norm[1]

    def _folded(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Batch normalisation with running statistics as one factor and one offset."""
        scale, mean, var = (self._of(f"norm_{index}/{part}") for part in ("scale", "mean", "var"))
        offset = self._weights.get(f"{self._net.name}/norm_{index}/offset", np.float32(0.0))
        factor = scale / np.sqrt(var + BATCH_EPSILON)
        return self._row(factor), self._row(offset - mean * factor)

    def _of(self, name: str) -> np.ndarray:
        return self._weights[f"{self._net.name}/{name}"]

    def _row(self, values: np.ndarray) -> np.ndarray:
        """Values per unit [(C,) U] as [(C,) 1, U], to be added to rows [(C,) N, U]; equal shapes (N = 1) cost a fifth."""
        return values[..., None, :]


class _ResidualForward:
    """The residual blocks of a ``nets.Residual``, ready to run."""

    def __init__(self, layer: Residual, values: Weights) -> None:
        """``values``: {name within the layer: float32}, kernels [(C,) I, U], all others as rows, [(C,) 1, U]."""
        self._blocks, self._values = [f"block_{index}" for index in range(layer.blocks)], values
        self._activation = ACTIVATION[layer.activation]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Map float32 [(C,) N, I] to [(C,) N, U]."""
        x = self._affine(x, "")
        for block in self._blocks:
            wide = self._activation(self._affine(self._normed(x, f"{block}/"), f"{block}/wide/"))
            x = x + self._affine(wide, f"{block}/narrow/")
        return self._normed(x, "")

    def _affine(self, x: np.ndarray, scope: str) -> np.ndarray:
        x = _product(x, self._values[f"{scope}kernel"])
        x += self._values[f"{scope}bias"]
        return x

    def _normed(self, x: np.ndarray, scope: str) -> np.ndarray:
        x = x - x.mean(axis=-1, keepdims=True)
        x /= np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + NORM_EPSILON)
        return x * self._values[f"{scope}norm_scale"] + self._values[f"{scope}norm_offset"]


class BlockForward:
    """A net that computes only the rows that are needed, in blocks of constant size; the heads of all others are 0.

    The rounding of a matrix product depends on its number of rows. That being constant, what comes out for one row does not
    depend on how many others are needed.
    """

    def __init__(self, net: Acting, rows: np.ndarray, block: int) -> None:
        """``rows``: int [n], at least one; ``block``: rows of a block."""
        self._net, self._rows, self._block = net, rows, block

    def __call__(self, x: np.ndarray, rng: np.random.Generator | None = None) -> Heads:
        """Map inputs, float32 [N, input_size], to {head: float32 [N, size]}; see ``Forward``."""
        rows, block = self._rows, self._block
        whole = np.resize(rows, -(-len(rows) // block) * block)  # filled up with the first ones again
        parts = [self._net(x[whole[at : at + block]], rng) for at in range(0, len(whole), block)]
        heads = {}
        for head, first in parts[0].items():
            heads[head] = np.zeros((len(x), *first.shape[1:]), first.dtype)
            heads[head][rows] = np.concatenate([part[head] for part in parts])[: len(rows)]
        return heads


def _product(x: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """Return ``x @ kernel``; ``dot`` has the same bits for two matrices, and costs a third for a few rows."""
    return x.dot(kernel) if x.ndim == 2 == kernel.ndim else x @ kernel


def noise_of(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return float32 f(ε) = sign(ε)·√|ε| of standard normals (Fortunato et al. 2018, section 3.1)."""
    noise = rng.standard_normal(shape, dtype=np.float32)
    return np.sign(noise) * np.sqrt(np.abs(noise))


def scaled(image: np.ndarray, zero_mean: bool) -> np.ndarray:
    """Return a uint8 image as float32 in [-1, 1) with ``zero_mean``, else in [0, 1]; floats as they are."""
    if image.dtype != np.uint8:
        return image
    x = image.astype(np.float32)
    return (x - 128.0) / 128.0 if zero_mean else x / 255.0


def convolution(x: np.ndarray, kernel: np.ndarray, conv: Conv) -> np.ndarray:
    """Return the convolution of ``x`` float32 [N, H, W, I] with ``kernel`` [k, k, I, O], [N, H′, W′, O]."""
    if conv.padding == "same":
        pads = [conv.padding_of(side) for side in x.shape[1:3]]
        x = np.pad(x, ((0, 0), *pads, (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (conv.kernel, conv.kernel), axis=(1, 2))
    windows = windows[:, :: conv.stride, :: conv.stride]  # [N, H', W', I, k, k]
    rows, height, width = windows.shape[:3]
    columns = windows.transpose(0, 1, 2, 4, 5, 3).reshape(rows * height * width, -1)
    return (columns @ kernel.reshape(-1, kernel.shape[-1])).reshape(rows, height, width, -1)
