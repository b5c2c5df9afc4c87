"""Nets as plain data: layers, inputs, heads, the names and shapes of their weights, and the initial weights.

``policies.forward`` runs a net in NumPy, ``policies.forward_tf`` makes it of graph variables; the names of
``weight_shapes`` are the wire protocol between the two. Used by the algorithms (which describe nets) and
``policies.policy_spec`` (policies made of them).

Sources: noisy layers, Fortunato et al. 2018 (arXiv 1706.10295), factorised form; batch normalisation of every layer's
input, Bhatt et al. 2024, "CrossQ" (arXiv 1902.05605); state-dependent exploration, Raffin et al. 2020 (arXiv 2005.05719);
batch
normalisation between kernel and activation, kernels on the unit sphere, Palenicek et al. 2025, "XQC" (arXiv 2509.25174);
initial kernels, Glorot & Bengio 2010, eq. 16; LSTM, Gers et al. 2000 (no peepholes), whose forget gates begin open with a
bias of 1 (Jozefowicz et al. 2015, section 2.2). Orthogonal initial weights of actor-critics: Saxe et al. 2014 (arXiv
1312.6120); the gains √2 after hidden layers, 0.01 at the policy's heads and 1 at the value's, Engstrom et al. 2020 (arXiv
2005.12729) and Andrychowicz et al. 2021 (arXiv 2006.05990, section 3.2: the policy's last layer a hundred times smaller). An
LSTM's kernels are orthogonal gate by gate. Residual blocks: Lee et al. 2024, "SimBa" (arXiv 2410.09754), section 4; their
initial kernels are those of its authors' code, orthogonal in the embedding and, in the blocks, normal with the variance
2/fan-in of He et al. 2015 (arXiv 1502.01852, eq. 10), but not truncated.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import ClassVar, TypeAlias

import numpy as np

from drl_cli.policies import custom_models

Heads: TypeAlias = dict[str, np.ndarray]  # {head: float32 [N, size]}, or [C, N, size] for C copies
Weights: TypeAlias = Mapping[str, np.ndarray]  # {name: float32 array}
State: TypeAlias = tuple[np.ndarray, ...]  # recurrent, [N, …] each; () for feed-forward nets
Shapes: TypeAlias = dict[str, tuple[int, ...]]  # {name of a weight: shape}


ACTIVATIONS = ("relu", "tanh", "elu", "swish", "linear")
RUNNING = ("mean", "var")  # running statistics of batch normalisation: not trained, but part of the weights
_ONES = ("norm_scale", "scale", "var")


HIDDEN_GAIN, POLICY_GAIN, VALUE_GAIN = math.sqrt(2.0), 0.01, 1.0
EXPANSION = 4  # of the inner layer of a residual block


@dataclasses.dataclass(frozen=True)
class Dense:
    """A fully connected layer: ``units`` outputs, optional layer normalisation before the activation, optional noise.

    ``noisy``: the weights are μ + σ·ε with factorised noise ε, drawn anew where the net is run with noise.
    """

    units: int
    activation: str = "relu"
    layer_norm: bool = False
    noisy: bool = False


@dataclasses.dataclass(frozen=True)
class Residual:
    """SimBa's stack: a linear embedding of ``units``, ``blocks`` residual blocks, a layer normalisation.

    A block adds to its input x a function of it, layer normalisation → 4·``units`` with the ``activation`` → ``units``. Within
    the scope of the layer, "kernel" and "bias" are the embedding's, "norm_scale" and "norm_offset" those of the last
    normalisation; "block_0" and so on hold those of a block's normalisation, and "wide" and "narrow" its two affine maps.
    """

    units: int
    blocks: int
    activation: str = "relu"
    noisy: ClassVar[bool] = False

    @property
    def wide(self) -> int:
        """Units of the inner layer of a block."""
        return EXPANSION * self.units

    def shapes(self, width: int) -> Shapes:
        """Return {name within the scope: shape} for ``width`` inputs."""
        units, norm = (self.units,), {"norm_scale": (self.units,), "norm_offset": (self.units,)}
        block = {"wide/kernel": (self.units, self.wide), "wide/bias": (self.wide,)}
        block |= {"narrow/kernel": (self.wide, self.units), "narrow/bias": units}
        found: Shapes = {"kernel": (width, self.units), "bias": units}
        for index in range(self.blocks):
            found |= {f"block_{index}/{name}": shape for name, shape in (norm | block).items()}
        return found | norm


Layer: TypeAlias = Dense | Residual


@dataclasses.dataclass(frozen=True)
class Conv:
    """A convolution with a square ``kernel``; ``padding`` "same" or "valid" as TensorFlow means them."""

    filters: int
    kernel: int
    stride: int
    activation: str = "relu"
    padding: str = "same"

    def output(self, side: int) -> int:
        """Return the length of a side that was ``side`` pixels long."""
        return -(-side // self.stride) if self.padding == "same" else (side - self.kernel) // self.stride + 1

    def padding_of(self, side: int) -> tuple[int, int]:
        """Return how many zeros stand before and after a side of ``side`` pixels.

        TensorFlow's "same" is as much as the last window needs, the odd pixel after.
        """
        if self.padding == "valid":
            return 0, 0
        total = max((self.output(side) - 1) * self.stride + self.kernel - side, 0)
        return total // 2, total - total // 2


@dataclasses.dataclass(frozen=True)
class NetSpec:
    """One net: its inputs are concatenated along the last axis, run through ``layers`` and end in linear ``heads``.

    ``inputs`` and ``heads`` are pairs (name, size). With ``copies > 1`` every variable has a leading axis of that
    length: twin critics are one batched matmul.

    With ``image`` (height, width, channels) the first input is an image of that shape. It is scaled (uint8 to [-1, 1) with
    ``zero_mean``, else to [0, 1]; floats are taken as they are), run through ``convs`` and flattened before the other
    inputs join it. Where the first input is a vector that holds the image, ``image_at`` is its first column there, and all
    other columns join after the convolutions. ``head_layers`` come before every head's linear output, for each head its own;
    ``noisy_heads`` makes these outputs noisy. ``batch_norm`` normalises the input of every dense layer and head. With ``sde``
    the head "log_std" has no affine output: it is ½·log(φ²·exp(2K) + 1e-6) for the last features φ, and φ is a head too.

    ``lstm`` puts so many recurrent cells between ``layers`` and heads, 0 none; its gates are columns of one kernel in the
    order input, forget, output, candidate. Such a net has one copy and neither ``batch_norm`` nor ``sde``.

    With ``unit_kernels``, which needs ``batch_norm``, the layers are XQC's: a kernel without a bias, batch normalisation,
    the activation; the heads' input is not normalised. Each column of these kernels, and of the affine heads', has length 1.
    The normalisation before the first kernel has no offset.

    ``free_heads`` names heads that are the same whatever comes in: a vector that is learnt by itself.

    ``custom`` (see ``policies.custom_models.reference``) names a network of one's own that sees the first input, an
    image or not, in the place of ``convs``; the other inputs join its features, and ``layers`` follow. It has copies as
    all else.
    """

    name: str
    inputs: tuple[tuple[str, int], ...]
    layers: tuple[Layer, ...]
    heads: tuple[tuple[str, int], ...]
    copies: int = 1
    image: tuple[int, ...] = ()
    convs: tuple[Conv, ...] = ()
    zero_mean: bool = True
    head_layers: tuple[Dense, ...] = ()
    noisy_heads: bool = False
    batch_norm: bool = False
    sde: bool = False
    lstm: int = 0
    free_heads: tuple[str, ...] = ()
    custom: tuple[str, ...] = ()
    image_at: int = 0
    unit_kernels: bool = False

    @property
    def own(self) -> custom_models.Model:
        """The ``policies.custom_models.Model`` of ``custom``. Raises InputError where this process does not know it."""
        return custom_models.made(self.custom, self.image or (self.inputs[0][1],))

    @property
    def state_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the recurrent state of one row, (output, cell); ``()`` without an LSTM."""
        return ((self.lstm,), (self.lstm,)) if self.lstm else ()

    @property
    def input_size(self) -> int:
        """Number of input columns, an image's pixels counted."""
        return sum(size for _, size in self.inputs)

    @property
    def beside(self) -> int:
        """Columns of the first input that are beside its image."""
        return self.inputs[0][1] - math.prod(self.image) if self.image else 0

    def image_shapes(self) -> list[tuple[int, ...]]:
        """Return the shapes (height, width, channels) in front of each convolution and after the last one."""
        shapes = [tuple(self.image)]
        for conv in self.convs:
            height, width, _ = shapes[-1]
            shapes.append((conv.output(height), conv.output(width), conv.filters))
        return shapes

    def dense_inputs(self) -> int:
        """Number of columns that enter the first dense layer."""
        others = sum(size for _, size in self.inputs[1:]) + self.beside
        if self.custom:
            return self.own.features + others
        return math.prod(self.image_shapes()[-1]) + others if self.image else self.input_size

    def own_names(self) -> dict[str, str]:
        """Return {name of a weight: name of the custom model's variable}; {} without one."""
        return {f"{self.name}/{custom_models.SCOPE}/{name}": name for name in self.own.shapes} if self.custom else {}

    def weight_shapes(self) -> Shapes:
        """Return {variable name: shape} in the order in which the net uses them."""
        shapes, width = {}, self.dense_inputs()
        shapes |= {name: self.own.shapes[variable] for name, variable in self.own_names().items()}
        for index, (conv, (_, _, channels)) in enumerate(zip(self.convs, self.image_shapes()[:-1], strict=True)):
            scope = f"{self.name}/conv_{index}"
            shapes[f"{scope}/kernel"] = (conv.kernel, conv.kernel, channels, conv.filters)
            shapes[f"{scope}/bias"] = (conv.filters,)
        for index, layer in enumerate(self.layers):
            self._norm(shapes, index, width)
            width = self._layer(shapes, f"{self.name}/dense_{index}", width, layer)
        self._norm(shapes, len(self.layers), width)
        if self.lstm:
            shapes[f"{self.name}/lstm/kernel"] = (width + self.lstm, 4 * self.lstm)
            shapes[f"{self.name}/lstm/bias"] = (4 * self.lstm,)
            width = self.lstm
        for head, size in self.heads:
            self._head(shapes, head, size, width)
        lead = (self.copies,) if self.copies > 1 else ()
        return {name: (*lead, *shape) for name, shape in shapes.items()}

    def affine_heads(self) -> tuple[tuple[str, int], ...]:
        """Return the pairs (name, size) of the heads that have a linear output of their own."""
        return tuple(
            head for head in self.heads if head[0] not in self.free_heads and not (self.sde and head[0] == "log_std")
        )

    def _head(self, shapes: Shapes, head: str, size: int, width: int) -> None:
        if head in self.free_heads:
            shapes[f"{self.name}/{head}/free"] = (size,)
            return
        if self.sde and head == "log_std":
            shapes[f"{self.name}/log_std/kernel"] = (width, size)
            return
        for index, layer in enumerate(self.head_layers):
            width = self._dense(shapes, f"{self.name}/{head}/dense_{index}", width, layer)
        self._dense(shapes, f"{self.name}/{head}", width, Dense(size, "linear", noisy=self.noisy_heads))

    def _layer(self, shapes: Shapes, scope: str, width: int, layer: Layer) -> int:
        if self.unit_kernels:
            shapes[f"{scope}/kernel"] = (width, layer.units)
        elif isinstance(layer, Dense):
            self._dense(shapes, scope, width, layer)
        else:
            shapes |= {f"{scope}/{name}": shape for name, shape in layer.shapes(width).items()}
        return layer.units

    def _dense(self, shapes: Shapes, scope: str, width: int, layer: Dense) -> int:
        shapes[f"{scope}/kernel"], shapes[f"{scope}/bias"] = (width, layer.units), (layer.units,)
        if layer.noisy:
            shapes[f"{scope}/kernel_sigma"], shapes[f"{scope}/bias_sigma"] = (width, layer.units), (layer.units,)
        if layer.layer_norm:
            shapes[f"{scope}/norm_scale"], shapes[f"{scope}/norm_offset"] = (layer.units,), (layer.units,)
        return layer.units

    def _norm(self, shapes: Shapes, index: int, width: int) -> None:
        if self.batch_norm:
            # What a kernel makes of an offset of all rows is taken away by the normalisation after it.
            shifted = not (self.unit_kernels and self.layers and index == 0)
            for part in ("scale", *(("offset",) if shifted else ()), *RUNNING):
                shapes[f"{self.name}/norm_{index}/{part}"] = (width,)

    def trainable(self) -> list[str]:
        """Return the names of the weights that gradients change: all but running statistics."""
        own = self.own_names()
        return [name for name in self.weight_shapes() if name in own or name.rpartition("/")[2] not in RUNNING]

    def unit_names(self) -> list[str]:
        """Return the names of the kernels whose columns have length 1; [] without ``unit_kernels``."""
        scopes = [f"dense_{index}" for index in range(len(self.layers))] + [head for head, _ in self.affine_heads()]
        return [f"{self.name}/{scope}/kernel" for scope in scopes] if self.unit_kernels else []

    def initial_weights(
        self, rng: np.random.Generator, head_scale: float = 1.0, sigma: float = 0.5, log_std: float = -3.0
    ) -> dict[str, np.ndarray]:
        """Return {name: float32 array}: Glorot-uniform kernels (eq. 16), zero biases; those of residual blocks as SimBa's.

        ``rng`` is a ``numpy.random.Generator``; ``head_scale`` multiplies the kernels of the heads. A noisy layer of p inputs
        has means in ±1/√p and deviations of ``sigma``/√p (section 3.2). ``log_std`` fills the state-dependent deviations.
        Initial weights are drawn in NumPy so that they exist before TensorFlow is loaded and do not depend on its version.
        """
        shapes = self.weight_shapes()
        heads = tuple(f"{self.name}/{head}/kernel" for head, _ in self.heads)
        weights = self._own_weights(rng) | self._residual_kernels(rng, shapes)
        for name, shape in shapes.items():
            if name in weights:
                continue
            part = name.rpartition("/")[2]
            noisy = f"{name.removesuffix('_sigma')}_sigma" in shapes
            if self.sde and name == f"{self.name}/log_std/kernel":
                weights[name] = np.full(shape, log_std, np.float32)
            elif noisy:
                fan_in = shapes[f"{name.rpartition('/')[0]}/kernel"][-2]
                drawn = rng.uniform(-1.0, 1.0, shape) if not part.endswith("_sigma") else np.full(shape, sigma)
                weights[name] = (drawn / math.sqrt(fan_in)).astype(np.float32)
            elif part == "kernel":
                field = math.prod(shape[-4:-2]) if "/conv_" in name else 1  # a kernel's pixels all feed one output
                limit = math.sqrt(6.0 / (field * (shape[-2] + shape[-1]))) * (head_scale if name in heads else 1.0)
                weights[name] = rng.uniform(-limit, limit, shape).astype(np.float32)
            else:
                weights[name] = np.full(shape, 1.0 if part in _ONES else 0.0, np.float32)
        if self.lstm:
            weights[f"{self.name}/lstm/bias"][self.lstm : 2 * self.lstm] = 1.0  # the forget gates begin open
        for name in self.unit_names():
            weights[name] /= np.linalg.norm(weights[name], axis=-2, keepdims=True)
        return weights

    def _own_weights(self, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """The first weights of a custom model, each copy's drawn by itself."""
        if not self.custom:
            return {}
        each = [self.own.initial_weights(rng) for _ in range(self.copies)]
        names = self.own_names().items()
        return {name: np.stack([one[v] for one in each]) if self.copies > 1 else each[0][v] for name, v in names}

    def _residual_kernels(self, rng: np.random.Generator, shapes: Shapes) -> dict[str, np.ndarray]:
        """The first kernels of residual blocks: each copy's embedding orthogonal by itself, the blocks' normal (He et al.)."""
        kernels = {}
        for index, layer in enumerate(self.layers):
            if isinstance(layer, Dense):
                continue
            scope = f"{self.name}/dense_{index}"
            shape = shapes[f"{scope}/kernel"]
            each = [orthogonal(rng, shape[-2:], 1.0) for _ in range(self.copies)]
            kernels[f"{scope}/kernel"] = np.stack(each) if self.copies > 1 else each[0]
            for name in (
                f"{scope}/{name}" for name in layer.shapes(1) if name.endswith(("wide/kernel", "narrow/kernel"))
            ):
                spread = math.sqrt(2.0 / shapes[name][-2])
                kernels[name] = (spread * rng.standard_normal(shapes[name])).astype(np.float32)
        return kernels


def orthogonal_weights(net: NetSpec, rng: np.random.Generator, log_std: float = 0.0) -> dict[str, np.ndarray]:
    """Return {name: float32 array} for ``net`` (NetSpec) of one copy: orthogonal kernels, else as its ``initial_weights``.

    ``rng``: a ``numpy.random.Generator``. Layers without an activation have gain 1. ``log_std`` fills state-dependent
    deviations, or what the heads "log_std…" begin with: their bias, or the free variable.
    """
    weights = net.initial_weights(rng, log_std=log_std)
    for head, _ in net.heads:
        if head.startswith("log_std") and not net.sde:
            weights[f"{net.name}/{head}/{'free' if head in net.free_heads else 'bias'}"][:] = log_std
    activations = [(f"{net.name}/conv_{index}", conv.activation) for index, conv in enumerate(net.convs)]
    activations += [
        (f"{net.name}/dense_{index}", layer.activation)
        for index, layer in enumerate(net.layers)
        if isinstance(layer, Dense)  # residual blocks have their own
    ]
    gains = {scope: 1.0 if activation == "linear" else HIDDEN_GAIN for scope, activation in activations}
    gains |= {f"{net.name}/{head}": VALUE_GAIN if head == "value" else POLICY_GAIN for head, _ in net.affine_heads()}
    for scope, gain in gains.items():
        kernel = weights[f"{scope}/kernel"]
        weights[f"{scope}/kernel"] = orthogonal(rng, kernel.shape, gain)
    if net.lstm:
        rows, cells = weights[f"{net.name}/lstm/kernel"].shape[0], net.lstm
        gates = [[orthogonal(rng, (size, cells), 1.0) for size in (rows - cells, cells)] for _ in range(4)]
        weights[f"{net.name}/lstm/kernel"] = np.concatenate([np.concatenate(gate) for gate in gates], axis=1)
    return weights


def orthogonal(rng: np.random.Generator, shape: tuple[int, ...], gain: float) -> np.ndarray:
    """Return float32 of ``shape`` […, units], as a matrix of the rest by units: orthogonal, of length ``gain`` each way."""
    rows, units = math.prod(shape[:-1]), shape[-1]
    drawn = rng.standard_normal((max(rows, units), min(rows, units)))
    q, r = np.linalg.qr(drawn)
    q = q * np.sign(np.diag(r))  # so that all orthogonal matrices are equally likely
    return (gain * (q if rows >= units else q.T)).reshape(shape).astype(np.float32)
