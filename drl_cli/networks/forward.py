"""The forward pass of a net in NumPy: what workers, the tester, rollout and evaluate act with.

One small net on a handful of observations costs about 10 µs here against 100 to 200 µs for a session call, and needs no
TensorFlow. ``tf1.build`` computes the same numbers to a tolerance; ``tests/networks/test_parity.py`` holds both together.
"""

import numpy as np

NORM_EPSILON = 1e-6  # layer normalisation's guard against a variance of zero, the same in tf1.build


def _swish(x):
    return x / (1.0 + np.exp(-np.clip(x, -60.0, 60.0)))


def _elu(x):
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0.0)))


def _relu(x):
    return np.maximum(x, 0.0, out=x)


def _linear(x):
    return x


ACTIVATION = {"relu": _relu, "tanh": np.tanh, "elu": _elu, "swish": _swish, "linear": _linear}


class Forward:
    """A net of one copy, ready to run: ``Forward(net_spec, weights)(x)``."""

    def __init__(self, net, weights):
        """``net`` is a NetSpec, ``weights`` maps its names to float32 arrays of its shapes (ValueError otherwise)."""
        for name, shape in net.weight_shapes().items():
            if name not in weights or tuple(weights[name].shape) != shape:
                found = tuple(weights[name].shape) if name in weights else "missing"
                raise ValueError(f"{name}: expected shape {shape}, found {found}")
            if weights[name].dtype != np.float32:
                raise ValueError(f"{name}: expected float32, found {weights[name].dtype}")
        self._layers = []
        for index, layer in enumerate(net.layers):
            scope = f"{net.name}/dense_{index}"
            norm = (weights[f"{scope}/norm_scale"], weights[f"{scope}/norm_offset"]) if layer.layer_norm else None
            self._layers.append(
                (weights[f"{scope}/kernel"], weights[f"{scope}/bias"], norm, ACTIVATION[layer.activation])
            )
        # All heads are one matrix product: their kernels side by side.
        self._head_kernel = np.concatenate([weights[f"{net.name}/{head}/kernel"] for head, _ in net.heads], axis=-1)
        self._head_bias = np.concatenate([weights[f"{net.name}/{head}/bias"] for head, _ in net.heads], axis=-1)
        ends = np.cumsum([size for _, size in net.heads])
        self._slices = {head: slice(end - size, end) for (head, size), end in zip(net.heads, ends, strict=True)}

    def __call__(self, x):
        """Map inputs ``x`` float32 [N, input_size] to {head: float32 [N, size]}."""
        for kernel, bias, norm, activation in self._layers:
            x = x @ kernel
            x += bias
            if norm is not None:
                x -= x.mean(axis=-1, keepdims=True)
                x /= np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + NORM_EPSILON)
                x = x * norm[0] + norm[1]
            x = activation(x)
        out = x @ self._head_kernel
        out += self._head_bias
        return {head: out[:, part] for head, part in self._slices.items()}
