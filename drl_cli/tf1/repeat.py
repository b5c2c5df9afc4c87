"""Many updates in one session call: n ≤ K updates over staged ``[K, B, …]`` batches inside one compiled loop.

A session call costs about as much as a small update; inside the loop that is paid once for K of them, and XLA fuses
the element-wise rest. Measured on 2 cores for SAC, 2×64, batch 128, pinned to one: 759 updates/s one at a time, 2,027 in
the loop. n is an input, so that it costs nothing to vary, the bits do not depend on how updates are split over calls, and
n = 0 compiles without touching a weight. Shapes are static: every new one would compile for another two seconds.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from drl_cli.config.update_statistics import Reducer, reducer_of
from drl_cli.tf1.graph import Batch, LearnerGraph, Rates
from drl_cli.tf1.tensorflow import Tensor, function, tf

SLOTS = 64  # statistics of one reducer that an update may have
JOINED = {Reducer.LEAST: tf.minimum, Reducer.GREATEST: tf.maximum, Reducer.MEAN: tf.add}


class Repeated(NamedTuple):
    """Placeholders and fetches of the loop."""

    block: dict[str, Tensor]  # column -> placeholder [K, B, …]
    count: Tensor  # int32 scalar placeholder: how many updates to make
    rates: dict[str, Tensor]  # name -> float32 scalar placeholder
    fetches: dict[str, Any]  # "stats": {name: scalar}, "rows": {name: [K, B]}, "done": int32, "finite": bool scalar


class _Packed:
    """Statistics and rows of an update as loop variables of fixed shapes: their names are known only once the loop's body
    has been traced, and tracing an update takes longer than all else of building the loop."""

    def __init__(self) -> None:
        self._stats: dict[Reducer, list[str]] = {}
        self._rows: list[str] = []

    def start(self) -> list[Tensor]:
        """Return the variables before the first update: a float32 [SLOTS] for each reducer."""
        return [tf.constant(reducer.start, tf.float32, [SLOTS]) for reducer in Reducer]

    def merged(self, so_far: Sequence[Tensor], stats: Mapping[str, Tensor]) -> list[Tensor]:
        """Return ``so_far`` with the statistics of one more update, {name: float32 scalar}."""
        self._stats = {r: sorted(name for name in stats if reducer_of(name) is r) for r in Reducer}
        if max(map(len, self._stats.values())) > SLOTS:
            raise ValueError(f"an update has {len(stats)} statistics; the loop has room for {SLOTS} of a kind")
        return [
            JOINED[reducer](old, _filled([stats[name] for name in names], reducer.start)) if names else old
            for old, (reducer, names) in zip(so_far, self._stats.items(), strict=True)
        ]

    def with_row(self, so_far: Tensor, index: Tensor, rows: Mapping[str, Tensor]) -> Tensor:
        """Return ``so_far`` [K, B] with the row [B] of ``rows`` at ``index``, if there is one."""
        if len(rows) > 1:
            raise ValueError(f"an update has the rows {', '.join(sorted(rows))}; the loop has room for one")
        self._rows = list(rows)
        for row in rows.values():
            so_far = tf.tensor_scatter_nd_update(so_far, [[index]], [row])
        return so_far

    def stats(self, merged: Sequence[Tensor], updates: Tensor) -> dict[str, Tensor]:
        """Return {name: float32 scalar} of what ``updates`` updates have merged; means are divided by their number."""
        divisor = tf.cast(tf.maximum(updates, 1), tf.float32)
        found = {}
        for values, (reducer, names) in zip(merged, self._stats.items(), strict=True):
            whole = values / divisor if reducer is Reducer.MEAN else values
            found |= dict(zip(names, tf.unstack(whole)[: len(names)], strict=True))
        return found

    def rows(self, filled: Tensor) -> dict[str, Tensor]:
        """Return {name: float32 [K, B]} of the rows that updates have."""
        return dict.fromkeys(self._rows, filled)


def _filled(values: Sequence[Tensor], rest: float) -> Tensor:
    """Return float32 [SLOTS]: ``values``, then ``rest`` as often as there is room."""
    return tf.pad(tf.stack(values), [[0, SLOTS - len(values)]], constant_values=rest)


def repeated(graph: LearnerGraph, most: int, batch_size: int, xla: bool) -> Repeated:
    """Build the loop of the updates of ``graph`` in the current graph.

    ``most`` is K, ``batch_size`` B; ``xla`` compiles the loop. The update number is the variable ``num_updates``, which
    counts on over all calls. The first update that is not finite is not applied and ends the loop.
    """
    packed = _Packed()
    number = graph.variables["num_updates"]

    def loop(block: Batch, count: Tensor, rates: Rates) -> dict[str, Any]:
        def go_on(index: Tensor, finite: Tensor, *_: Any) -> Tensor:
            return tf.logical_and(index < count, finite)

        def body(
            index: Tensor, _: Tensor, sums: list[Tensor], row: Tensor
        ) -> tuple[Tensor, Tensor, list[Tensor], Tensor]:
            batch = {column: values[index] for column, values in block.items()}
            step = number.read_value()
            gradients = graph.gradients(batch, step)

            def apply() -> Tensor:
                graph.apply(gradients.parts, rates, step)
                number.assign_add(1)
                return tf.constant(True)

            finite = tf.cond(gradients.finite, apply, lambda: tf.constant(False))
            row = packed.with_row(row, index, gradients.rows)
            return index + tf.cast(finite, tf.int32), finite, packed.merged(sums, gradients.stats), row

        start = (tf.constant(0), tf.constant(True), packed.start(), tf.zeros([most, batch_size]))
        done, finite, sums, row = tf.while_loop(go_on, body, start, parallel_iterations=1)
        return {"stats": packed.stats(sums, done), "rows": packed.rows(row), "done": done, "finite": finite}

    block = {
        column: tf.placeholder(dtype, [most, batch_size, *shape], name=f"block/{column}")
        for column, (shape, dtype) in graph.columns.items()
    }
    count = tf.placeholder(tf.int32, [], name="count")
    rates = {name: tf.placeholder(tf.float32, [], name=f"rate/{name}") for name in graph.rates}
    compiled = function(loop, jit_compile=True if xla else None, autograph=False)
    return Repeated(block, count, rates, compiled(block, count, rates))
