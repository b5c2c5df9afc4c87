"""Layers of a graph that are more than a product: an LSTM over sequences, and the noise of noisy layers.

Used by ``policies.forward_tf`` and the graphs of DQN and R2D2. Sources: Gers et al. 2000, "Learning to Forget", without
peepholes; the gates are columns of one kernel in the order input, forget, output, candidate. Fortunato et al. 2018
(arXiv 1706.10295), section 3.1: factorised noise with f(ε) = sign(ε)·√|ε|.

Unrolled, a sequence is a chain of small operations, which TensorFlow runs in a third of the time of its own loop (32 × 43
steps, 64 cells, one core: 15 ms an update against 46). XLA compiles such a chain for 23 s into something slower still, and a
loop in 2 s into something as fast as the chain. Hence both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from drl_cli.tf1.stateless_random import stateless_normal
from drl_cli.tf1.tensorflow import Tensor, tf

if TYPE_CHECKING:
    from drl_cli.policies.nets import NetSpec

Noise: TypeAlias = Callable[[Sequence[int]], Tensor]  # fresh f(ε) float32 of a shape


def lstm(
    x: Tensor, state: Sequence[Tensor], weights: Sequence[Tensor], begins: Tensor | None = None, looped: bool = False
) -> tuple[Tensor, Sequence[Tensor]]:
    """Run an LSTM over ``x`` [S, B, F], time first; return (outputs [S, B, H], next state).

    ``state``: (output, cell) before the first step, [B, H] each; ``weights``: (kernel [F + H, 4H], bias [4H]); ``begins``:
    float32 [S, B], 1 where an episode begins, before which the state is 0, or None. ``looped``: for XLA.
    """
    kernel, bias = weights
    cells = state[0].shape[-1]
    rows = x.shape[-1]
    # What does not depend on the state is one product for all steps.
    entering = tf.tensordot(x, kernel[:rows], 1) + bias  # [S, B, 4H]
    kept = None if begins is None else tf.expand_dims(1.0 - begins, 2)  # [S, B, 1]
    if looped:
        return _looped(entering, state, kernel[rows:], kept, cells)
    outputs = []
    factors = [None] * entering.shape[0] if kept is None else tf.unstack(kept)
    for gates, factor in zip(tf.unstack(entering), factors, strict=True):
        state = _step(gates, state, kernel[rows:], factor, cells)
        outputs.append(state[0])
    return tf.stack(outputs), state  # [S, B, H]


def one_step(x: Tensor, state: Sequence[Tensor], weights: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Run one step for ``x`` [B, F], where the number of rows need not be known; arguments as for ``lstm``; the next state."""
    kernel, bias = weights
    rows = x.shape[-1]
    return _step(tf.matmul(x, kernel[:rows]) + bias, state, kernel[rows:], None, state[0].shape[-1])


def _step(
    gates: Tensor, state: Sequence[Tensor], kernel: Tensor, kept: Tensor | None, cells: int
) -> tuple[Tensor, Tensor]:
    """One step: ``gates`` [B, 4H] as far as the input makes them, ``kept`` [B, 1]: 0 where the state is forgotten."""
    output, cell = state if kept is None else (part * kept for part in state)  # [B, H], [B, H]
    gates = gates + tf.matmul(output, kernel)  # [B, 4H]
    into, keep, out = tf.split(tf.sigmoid(gates[:, : 3 * cells]), 3, axis=1)  # [B, H] each
    cell = keep * cell + into * tf.tanh(gates[:, 3 * cells :])  # [B, H]
    return out * tf.tanh(cell), cell


def _looped(
    entering: Tensor, state: Sequence[Tensor], kernel: Tensor, kept: Tensor | None, cells: int
) -> tuple[Tensor, Sequence[Tensor]]:
    steps = entering.shape[0]
    outputs = tf.TensorArray(tf.float32, steps, element_shape=state[0].shape)

    def step(index: Tensor, output: Tensor, cell: Tensor, outputs: Any) -> tuple[Tensor, ...]:
        factor = None if kept is None else kept[index]
        output, cell = _step(entering[index], (output, cell), kernel, factor, cells)
        return index + 1, output, cell, outputs.write(index, output)

    start = (tf.constant(0), *state, outputs)
    # The bound is what lets XLA differentiate a loop.
    _, *state, outputs = tf.while_loop(lambda index, *_: index < steps, step, start, maximum_iterations=steps)
    return outputs.stack(), tuple(state)  # [S, B, H]


def layer_noise(net: NetSpec, seed: Tensor, number: Tensor, stream: int) -> Noise | None:
    """Return ``noise(shape)`` for one pass of ``net`` (NetSpec) through ``policies.forward_tf.TFNet``, or None when no
    layer is noisy.

    ``seed``, ``number`` and ``stream`` as in ``stateless_normal``: passes of other streams or updates draw independently.
    One long draw cut into pieces takes one stream for any number of layers.
    """
    # a layer of p inputs and q outputs takes p and q numbers
    sizes = [shape for name, shape in net.weight_shapes().items() if name.endswith("/kernel_sigma")]
    total = sum(math.prod(shape[:-2]) * (shape[-2] + shape[-1]) for shape in sizes)
    if not total:
        return None

    def draw() -> Tensor:
        normal = stateless_normal([total], seed, number, stream)  # [total]
        return tf.sign(normal) * tf.sqrt(tf.abs(normal))  # [total]

    # A conditional, though always true: what it returns is stored. XLA would else fuse the draw into the layers' weights
    # and compute it anew for every element of them: 260 µs of CPU instead of 370 for a dueling update of 2x64, batch 64.
    drawn = tf.cond(number >= 0, draw, lambda: tf.zeros([total]))  # [total]
    used = 0

    def noise(shape: Sequence[int]) -> Tensor:
        nonlocal used
        begin, used = used, used + math.prod(shape)
        return tf.reshape(drawn[begin:used], shape)  # shape

    return noise
