"""A NetSpec as graph variables and its forward pass: ``policies.forward`` as graph tensors, for learning.

Layers are variables and ``matmul`` (TensorFlow's compat layer no longer has ``tf.layers``). With ``copies > 1`` all
variables have a leading axis and one batched matmul runs every copy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from drl_cli.policies.forward import BATCH_EPSILON, NORM_EPSILON, SDE_EPSILON
from drl_cli.policies.layers_tf import lstm, one_step
from drl_cli.policies.nets import Dense
from drl_cli.tf1.tensorflow import Tensor, Variable, tf

if TYPE_CHECKING:
    from drl_cli.policies.layers_tf import Noise
    from drl_cli.policies.nets import Conv, NetSpec, Residual, Weights

Tensors: TypeAlias = dict[str, Tensor]  # heads, weights or the columns of a batch, by name
Dropout: TypeAlias = Callable[[Tensor], Tensor]
"""Drops some outputs of a dense layer, [(C,) B, U], before its normalisation and activation; called layer by layer."""


ACTIVATION = {"relu": tf.nn.relu, "tanh": tf.tanh, "elu": tf.nn.elu, "swish": tf.nn.swish, "linear": tf.identity}


def variables_of(
    shapes: Mapping[str, Sequence[int]], initial: Weights, scope: str = "", trainable: bool = True
) -> dict[str, Variable]:
    """Create one float32 resource variable per entry of ``shapes`` ({name: shape}) in the current graph.

    ``initial`` maps the same names to arrays of these shapes; the variable's name is ``scope + name``. Returns
    {name: variable} with the names as given. Resource variables, because XLA refuses reference ones.
    """
    made = {}
    for name, shape in shapes.items():
        if tuple(initial[name].shape) != tuple(shape):
            raise ValueError(f"{name}: initial value of shape {initial[name].shape}, expected {shape}")
        made[name] = tf.Variable(
            initial[name], name=scope + name, dtype=tf.float32, use_resource=True, trainable=trainable
        )
    return made


def values_of(variables: Mapping[str, Variable]) -> dict[str, Tensor]:
    """Return {name: tensor}: the present values, read once, to differentiate by and to compute with."""
    return {name: variable.read_value() for name, variable in variables.items()}


class TFNet:
    """The forward pass of ``net`` (NetSpec) with the given {name: variable or tensor}."""

    def __init__(
        self,
        net: NetSpec,
        weights: Tensors,
        noise: Noise | None = None,
        training: bool = False,
        dropout: Dropout | None = None,
    ) -> None:
        """``noise(shape)``: returns fresh f(ε) float32 for noisy layers, in the order of the layers; None: their means.

        ``training``: batch normalisation uses the statistics of its batch, which ``statistics`` then holds by the names of
        the running ones; otherwise the running ones.
        """
        self._net, self._weights, self._noise, self._training = net, weights, noise, training
        self._dropout = dropout
        self.statistics = {}

    def __call__(self, *inputs: Tensor) -> Tensors:
        """Map inputs, tensors [B, size] in the order of the spec, to {head: [B, size]}, or [copies, B, size].

        Copies may have rows of their own: inputs [copies, B, size].

        An image comes first, [B, H, W, channels] of uint8 or float32. Nets with an LSTM have ``sequence``.
        """
        return self._heads(self._features(inputs))

    def of_rows(self, rows: slice, *inputs: Tensor) -> Tensors:
        """Map inputs as a call does, to {head: [(C,) R, size]} of the R ``rows`` alone; batch statistics are of all."""
        return self._heads(self._features(inputs)[..., rows, :])

    def several(self, obs: Tensor, action: Tensor) -> Tensors:
        """Map ``obs`` [B, …] and several actions in each, [B, M, A], to {head: [(C,) B, M, size]}: each layer one product.

        Of an image the convolutions run once, whatever M is.
        """
        net, (rows, count, size) = self._net, action.shape.as_list()
        each = [tf.repeat(x, count, axis=0) for x in self._seen(obs)]  # [B·M, F] each
        joined = [tf.concat([x, tf.reshape(action, [rows * count, size])], axis=-1) for x in each]
        x = tf.stack(joined) if len(joined) > 1 else self._to_copies(joined[0])  # [(C,) B·M, I]
        heads = self._heads(self._hidden(x))
        lead = [net.copies] if net.copies > 1 else []
        return {head: tf.reshape(y, [*lead, rows, count, y.shape[-1]]) for head, y in heads.items()}

    def sequence(
        self,
        obs: Tensor,
        state: Sequence[Tensor],
        begins: Tensor | None = None,
        skip: int = 0,
        looped: bool = False,
        beside: Sequence[Tensor] = (),
    ) -> tuple[Tensors, Sequence[Tensor]]:
        """Return ({head: [B, S − skip, size]}, state after the last step) of ``memories``, whose arguments these are."""
        memories, state = self.memories(obs, state, begins, skip, looped, beside)
        rows, steps, _ = memories.shape.as_list()
        heads = self._heads(tf.reshape(memories, [rows * steps, self._net.lstm]))  # [B·(S − skip), …]
        return {head: tf.reshape(y, [rows, steps, y.shape[-1]]) for head, y in heads.items()}, state

    def memories(
        self,
        obs: Tensor,
        state: Sequence[Tensor],
        begins: Tensor | None = None,
        skip: int = 0,
        looped: bool = False,
        beside: Sequence[Tensor] = (),
    ) -> tuple[Tensor, Sequence[Tensor]]:
        """Run layers and LSTM over sequences of ``obs`` [B, S, …], and of the other inputs ``beside`` it, [B, S, size] each.

        ``state``: (output, cell) before the first step, [B, lstm] each; ``begins``: float32 [B, S], 1 where an episode
        begins, before which the state is forgotten, or None; ``looped``: for XLA. The first ``skip`` steps only bring the
        state up to date: no gradient flows through them. Returns (outputs of the LSTM [B, S − skip, lstm], its last state).
        """
        rows, steps = obs.shape[:2].as_list()
        flat = [tf.reshape(given, [rows * steps, *given.shape[2:]]) for given in (obs, *beside)]  # [B·S, …] each
        x = self._features(flat)  # [B·S, U]
        x = tf.transpose(tf.reshape(x, [rows, steps, x.shape[-1]]), [1, 0, 2])  # [S, B, U]
        begins = None if begins is None else tf.transpose(begins)  # [S, B]
        weights = self._cells()
        if skip:
            first = None if begins is None else begins[:skip]  # [skip, B]
            _, state = lstm(tf.stop_gradient(x[:skip]), state, weights, first, looped)
            state = tuple(tf.stop_gradient(part) for part in state)  # [B, lstm] each
        rest = None if begins is None else begins[skip:]  # [S − skip, B]
        x, state = lstm(x[skip:], state, weights, rest, looped)  # [S − skip, B, lstm]
        return tf.transpose(x, [1, 0, 2]), state  # [B, S − skip, lstm]

    def step(self, inputs: Sequence[Tensor], state: Sequence[Tensor]) -> tuple[Tensors, tuple[Tensor, Tensor]]:
        """Run a net with an LSTM for one step: ``inputs`` as for a call, ``state`` (output, cell), [B, lstm] each.

        Returns ({head: [B, size]}, next state), as ``policies.forward.Forward.run`` does.
        """
        state = one_step(self._features(inputs), state, self._cells())  # [B, lstm] each
        return self._heads(state[0]), state

    def _cells(self) -> list[Tensor]:
        """Kernel and bias of the LSTM."""
        return [self._weights[f"{self._net.name}/lstm/{part}"] for part in ("kernel", "bias")]

    def _features(self, inputs: Sequence[Tensor]) -> Tensor:
        """What the heads see, or an LSTM before them, [(C,) B, U]."""
        return self._hidden(self._joined(inputs))  # [(C,) B, U]

    def _hidden(self, x: Tensor) -> Tensor:
        """The layers on their joined inputs [(C,) B, I], [(C,) B, U]."""
        net = self._net
        x = self._normed(x, 0)  # [(C,) B, I]
        for index, layer in enumerate(net.layers):
            scope = f"{net.name}/dense_{index}"
            if net.unit_kernels:
                x = tf.matmul(x, self._weights[f"{scope}/kernel"])  # [(C,) B, U]
                x = ACTIVATION[layer.activation](self._normed(x, index + 1))  # [(C,) B, U]
                continue
            dense = isinstance(layer, Dense)
            x = self._dense(x, scope, layer) if dense else self._residual(x, scope, layer)  # [(C,) B, U]
            x = self._normed(x, index + 1)  # [(C,) B, U]
        return x

    def _heads(self, x: Tensor) -> Tensors:
        net = self._net
        heads = {head: self._head(x, head) for head, _ in net.affine_heads()}
        for head in net.free_heads:
            values = self._row(self._weights[f"{net.name}/{head}/free"])  # [A] or [C, 1, A]
            heads[head] = values + tf.zeros_like(x[..., :1])  # [(C,) B, A]
        if net.sde:
            variances = tf.exp(2.0 * self._weights[f"{net.name}/log_std/kernel"])  # [U, A]
            # The deviations learn from the likelihood alone; the features do not (Raffin et al. 2020, section 3).
            squares = tf.square(tf.stop_gradient(x))  # [B, U]
            heads["log_std"] = 0.5 * tf.math.log(tf.matmul(squares, variances) + SDE_EPSILON)  # [B, A]
            heads["features"] = x
        return heads

    def _head(self, x: Tensor, head: str) -> Tensor:
        net = self._net
        for index, layer in enumerate(net.head_layers):
            x = self._dense(x, f"{net.name}/{head}/dense_{index}", layer)
        return self._affine(x, f"{net.name}/{head}", net.noisy_heads)

    def _joined(self, inputs: Sequence[Tensor]) -> Tensor:
        net = self._net
        if not net.image and not net.custom:
            return self._to_copies(tf.concat(inputs, axis=-1) if len(inputs) > 1 else inputs[0])
        image, *others = inputs
        each = [tf.concat([x, *others], axis=-1) for x in self._seen(image)]
        joined = tf.stack(each) if net.copies > 1 else each[0]
        joined.set_shape([*joined.shape[:-1], net.dense_inputs()])
        return joined

    def _seen(self, obs: Tensor) -> list[Tensor]:
        """What a dense layer sees of an observation, [B, F]: one that all copies share, of an image one for each copy.

        Of whatever a custom model sees, one for each copy too.
        """
        net = self._net
        if net.custom:
            x = scaled(obs, net.zero_mean) if net.image else obs
            return [net.own.graph(tf, self._own_weights(copy), x) for copy in range(net.copies)]
        if not net.image:
            return [obs]
        rows, beside = obs.shape[0] if obs.shape[0] is not None else tf.shape(obs)[0], []
        if net.beside:
            begin, end = net.image_at, net.image_at + math.prod(net.image)
            beside = [obs[:, :begin], obs[:, end:]]  # [B, …] each
            obs = tf.reshape(obs[:, begin:end], [rows, *net.image])  # [B, H, W, I]
        x = scaled(obs, net.zero_mean)  # [B, H, W, I]
        each = [x] * net.copies
        for index, conv in enumerate(net.convs):
            each = [self._convolved(x, f"{net.name}/conv_{index}", conv, copy) for copy, x in enumerate(each)]
        return [tf.concat([tf.reshape(x, [rows, -1]), *beside], axis=-1) for x in each]

    def _own_weights(self, copy: int) -> dict[str, Tensor]:
        """The custom model's weights of one copy, {name: tensor}."""
        found = {name: tf.convert_to_tensor(self._weights[full]) for full, name in self._net.own_names().items()}
        return {name: value[copy] for name, value in found.items()} if self._net.copies > 1 else found

    def _to_copies(self, x: Tensor) -> Tensor:
        """The same for every copy, [(C,) B, I] of [B, I]; rows of its own for each where ``x`` is [C, B, I]."""
        shared = self._net.copies > 1 and x.shape.rank == 2
        return tf.broadcast_to(x, [self._net.copies, *x.shape]) if shared else x

    def _convolved(self, x: Tensor, scope: str, conv: Conv, copy: int) -> Tensor:
        kernel, bias = self._weights[f"{scope}/kernel"], self._weights[f"{scope}/bias"]
        if self._net.copies > 1:
            kernel, bias = kernel[copy], bias[copy]
        x = tf.nn.conv2d(x, kernel, strides=conv.stride, padding=conv.padding.upper())  # [B, H, W, O]
        return ACTIVATION[conv.activation](x + bias)

    def _dense(self, x: Tensor, scope: str, layer: Dense) -> Tensor:
        x = self._affine(x, scope, layer.noisy)
        if self._dropout is not None:
            x = self._dropout(x)
        if layer.layer_norm:
            x = self._layer_normed(x, scope)
        return ACTIVATION[layer.activation](x)

    def _residual(self, x: Tensor, scope: str, layer: Residual) -> Tensor:
        x = self._affine(x, scope)  # [(C,) B, U]
        for within in (f"{scope}/block_{block}" for block in range(layer.blocks)):
            wide = self._affine(self._layer_normed(x, within), f"{within}/wide")  # [(C,) B, 4U]
            x = x + self._affine(ACTIVATION[layer.activation](wide), f"{within}/narrow")  # [(C,) B, U]
        return self._layer_normed(x, scope)  # [(C,) B, U]

    def _affine(self, x: Tensor, scope: str, noisy: bool = False) -> Tensor:
        kernel, bias = self._weights[f"{scope}/kernel"], self._weights[f"{scope}/bias"]
        if noisy and self._noise is not None:
            *lead, rows, units = kernel.shape.as_list()
            into, out = self._noise([*lead, rows, 1]), self._noise([*lead, 1, units])
            kernel = kernel + self._weights[f"{scope}/kernel_sigma"] * into * out
            bias = bias + self._weights[f"{scope}/bias_sigma"] * tf.reshape(out, [*lead, units])
        return tf.matmul(x, kernel) + self._row(bias)

    def _row(self, values: Tensor) -> Tensor:
        """Values per unit [(C,) U], to be added to rows [(C,) B, U]."""
        return tf.expand_dims(values, 1) if self._net.copies > 1 else values

    def _layer_normed(self, x: Tensor, scope: str) -> Tensor:
        scale, offset = (self._row(self._weights[f"{scope}/{part}"]) for part in ("norm_scale", "norm_offset"))
        x = x - tf.reduce_mean(x, axis=-1, keepdims=True)
        x = x / tf.sqrt(tf.reduce_mean(tf.square(x), axis=-1, keepdims=True) + NORM_EPSILON)
        return x * scale + offset

    def _normed(self, x: Tensor, index: int) -> Tensor:
        """Batch normalisation ``index`` of those of a net; the identity in nets without it."""
        if not self._net.batch_norm:
            return x
        scope = f"{self._net.name}/norm_{index}"
        scale, offset = self._row(self._weights[f"{scope}/scale"]), self._weights.get(f"{scope}/offset")
        if self._training:
            mean = tf.reduce_mean(x, axis=-2)  # [(C,) U]
            var = tf.reduce_mean(tf.square(x - self._row(mean)), axis=-2)  # [(C,) U]
            self.statistics[f"{scope}/mean"], self.statistics[f"{scope}/var"] = mean, var
        else:
            mean, var = self._weights[f"{scope}/mean"], self._weights[f"{scope}/var"]
        x = (x - self._row(mean)) * (scale / tf.sqrt(self._row(var) + BATCH_EPSILON))
        return x if offset is None else x + self._row(offset)


def scaled(image: Tensor, zero_mean: bool) -> Tensor:
    """Return a uint8 image as float32 in [-1, 1) with ``zero_mean``, else in [0, 1]; floats as they are."""
    if image.dtype != tf.uint8:
        return image
    x = tf.cast(image, tf.float32)
    return (x - 128.0) / 128.0 if zero_mean else x / 255.0
