"""Many updates in one session call: n ≤ K updates over staged ``[K, B, …]`` batches inside one compiled loop.

A session call costs about as much as a small update; inside the loop that is paid once for K of them, and XLA fuses
the element-wise rest. Measured on 2 cores for SAC, 2×64, batch 128, pinned to one: 759 updates/s one at a time, 2,027 in
the loop. n is an input, so that it costs nothing to vary, the bits do not depend on how updates are split over calls, and
n = 0 compiles without touching a weight. Shapes are static: every new one would compile for another two seconds.
"""

from typing import Any, NamedTuple

from drl_cli.config.update_statistics import Reducer, reducer_of
from drl_cli.tf1.graph import Batch, LearnerGraph, Rates
from drl_cli.tf1.tensorflow import Tensor, function, tf


class Repeated(NamedTuple):
    """Placeholders and fetches of the loop."""

    block: dict[str, Tensor]  # column -> placeholder [K, B, …]
    count: Tensor  # int32 scalar placeholder: how many updates to make
    rates: dict[str, Tensor]  # name -> float32 scalar placeholder
    fetches: dict[str, Any]  # "stats": {name: scalar}, "rows": {name: [K, B]}, "done": int32, "finite": bool scalar


def _merge(name: str, old: Tensor, new: Tensor) -> Tensor:
    reducer = reducer_of(name)
    if reducer is Reducer.MEAN:
        return old + new
    return tf.minimum(old, new) if reducer is Reducer.LEAST else tf.maximum(old, new)


def _output_names(graph: LearnerGraph, batch_size: int) -> tuple[list[str], list[str]]:
    """Return the names of an update's statistics and of its rows, from tracing it once in a function that never runs."""
    names: list[list[str]] = []

    def probe() -> Tensor:
        batch = {c: tf.zeros([batch_size, *shape], dtype) for c, (shape, dtype) in graph.columns.items()}
        traced = graph.gradients(batch, tf.constant(0, tf.int64))
        names.extend((sorted(traced.stats), sorted(traced.rows)))
        return tf.constant(0)

    function(probe, autograph=False).get_concrete_function()
    return names[0], names[1]


def _put(rows: Tensor, index: Tensor, row: Tensor) -> Tensor:
    """Return ``rows`` [K, B] with ``row`` [B] at ``index``."""
    return tf.tensor_scatter_nd_update(rows, [[index]], [row])  # [K, B]


def repeated(graph: LearnerGraph, most: int, batch_size: int, xla: bool) -> Repeated:
    """Build the loop of the updates of ``graph`` in the current graph.

    ``most`` is K, ``batch_size`` B; ``xla`` compiles the loop. The update number is the variable ``num_updates``, which
    counts on over all calls. The first update that is not finite is not applied and ends the loop.
    """
    names, row_names = _output_names(graph, batch_size)
    number = graph.variables["num_updates"]

    def loop(block: Batch, count: Tensor, rates: Rates) -> dict[str, Any]:
        def go_on(index: Tensor, finite: Tensor, *_: tuple[Tensor, ...]) -> Tensor:
            return tf.logical_and(index < count, finite)

        def body(
            index: Tensor, _: Tensor, sums: tuple[Tensor, ...], rows: tuple[Tensor, ...]
        ) -> tuple[Tensor, Tensor, tuple[Tensor, ...], tuple[Tensor, ...]]:
            batch = {column: values[index] for column, values in block.items()}
            step = number.read_value()
            gradients = graph.gradients(batch, step)

            def apply() -> Tensor:
                graph.apply(gradients.parts, rates, step)
                number.assign_add(1)
                return tf.constant(True)

            finite = tf.cond(gradients.finite, apply, lambda: tf.constant(False))
            sums = tuple(_merge(n, s, gradients.stats[n]) for n, s in zip(names, sums, strict=True))
            rows = tuple(_put(r, index, gradients.rows[n]) for n, r in zip(row_names, rows, strict=True))
            return index + tf.cast(finite, tf.int32), finite, sums, rows

        sums = tuple(tf.constant(reducer_of(n).start, tf.float32) for n in names)
        rows = tuple(tf.zeros([most, batch_size]) for _ in row_names)
        start = (tf.constant(0), tf.constant(True), sums, rows)
        done, finite, sums, rows = tf.while_loop(go_on, body, start, parallel_iterations=1)
        divisor = tf.cast(tf.maximum(done, 1), tf.float32)
        stats = {n: s / divisor if reducer_of(n) is Reducer.MEAN else s for n, s in zip(names, sums, strict=True)}
        return {"stats": stats, "rows": dict(zip(row_names, rows, strict=True)), "done": done, "finite": finite}

    block = {
        column: tf.placeholder(dtype, [most, batch_size, *shape], name=f"block/{column}")
        for column, (shape, dtype) in graph.columns.items()
    }
    count = tf.placeholder(tf.int32, [], name="count")
    rates = {name: tf.placeholder(tf.float32, [], name=f"rate/{name}") for name in graph.rates}
    compiled = function(loop, jit_compile=True if xla else None, autograph=False)
    return Repeated(block, count, rates, compiled(block, count, rates))
