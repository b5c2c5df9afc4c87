"""Several passes over one batch in minibatches, every one a gradient step, as one loop of the graph.

Used by the algorithms that learn from trajectories (PPO, IMPALA, APPO). What is shuffled are rows: single steps, or whole
sequences where a policy is recurrent. Rows without a valid step come last in every order and are never visited; the rest
is spread evenly, so that no minibatch is much smaller than the others. All shapes are static, whatever the mask says.

Source: Schulman et al. 2017, "Proximal Policy Optimization Algorithms" (arXiv 1707.06347), algorithm 1.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from drl_cli.tf1.stateless_random import stateless_bits
from drl_cli.tf1.tensorflow import Tensor, tf

_SHUFFLE = 63  # stream of random bits, away from those that an update's own draws count from 0
_INDEX_BITS = 31


class Plan(NamedTuple):
    """How passes go over a batch."""

    passes: int  # over all rows
    size: int  # most rows of a minibatch
    width: int  # rows that its tensors have: ``size``, or more where towers want a multiple
    shuffle: bool


MinibatchStep: TypeAlias = Callable[[dict[str, Tensor], Tensor], tuple[dict[str, Tensor], Tensor]]


class Passed(NamedTuple):
    """The outcome of all passes."""

    first: dict[str, Tensor]  # name -> scalar: the statistics of the first minibatch, before any step
    last: dict[str, Tensor]  # name -> scalar: their means over the last pass that was begun
    updates: Tensor  # int32 scalar: the steps taken
    finite: Tensor  # bool scalar


def orders(present: Tensor, plan: Plan, seed: int, number: Tensor) -> Tensor:
    """Return for each pass the rows in the order of their turn, int32 [passes, S]; absent ones last.

    ``present``: bool [S]; ``seed`` and ``number``, an int64 scalar, key the permutations.
    """
    count = present.shape[0]
    index = tf.range(count, dtype=tf.int64)  # [S]
    # One sort of whole numbers instead of an argsort of draws, which XLA runs several times as slowly: absence above
    # random bits above the row's own index, which is read back from below.
    keys = tf.where(present, index, index + (1 << 62))  # [S]
    keys = tf.tile(tf.expand_dims(keys, 0), [plan.passes, 1])  # [passes, S]
    if plan.shuffle:
        bits = stateless_bits([plan.passes, count], seed, number, _SHUFFLE)  # [passes, S]
        random = tf.cast(tf.bitwise.right_shift(bits, tf.constant(2, tf.uint32)), tf.int64)  # [passes, S]
        keys = tf.sort(keys + random * (1 << _INDEX_BITS), axis=1)  # [passes, S]
    else:
        keys = tf.sort(keys, axis=1)  # [passes, S]
    return tf.cast(keys % (1 << _INDEX_BITS), tf.int32)  # [passes, S]


def epochs(
    rows: Mapping[str, Tensor], plan: Plan, key: tuple[int, Tensor], names: Sequence[str], step: MinibatchStep
) -> Passed:
    """Go over ``rows`` as ``plan`` says and call ``step(minibatch, index)`` for every minibatch; returns Passed.

    ``rows``: {column: tensor [S, …]} with ``mask`` [S] or [S, L], 1 for valid steps. ``key``: (seed, int64 number) of the
    permutations. ``step`` gets {column: [width, …]}, in which the mask of what lies beyond the minibatch is 0, and the
    int32 number of the minibatch; it takes its gradient step itself if that is finite, and returns ({name: scalar} for
    ``names``, whether it was finite). The first that was not ends the loop. A batch without a valid step takes none.
    """
    mask = rows["mask"]
    total = mask.shape[0]
    present = (mask if mask.shape.rank == 1 else tf.reduce_max(mask, axis=1)) > 0  # [S]
    order = tf.reshape(orders(present, plan, *key), [-1])  # [passes·S]
    count = tf.reduce_sum(tf.cast(present, tf.int32))
    each = (count + plan.size - 1) // plan.size  # minibatches of a pass
    least, larger = count // tf.maximum(each, 1), count % tf.maximum(each, 1)

    def minibatch(index: Tensor) -> dict[str, Tensor]:
        turn, number = index // each, index % each
        start = number * least + tf.minimum(number, larger)
        at = start + tf.range(plan.width)  # [width]
        inside = at < start + least + tf.cast(number < larger, tf.int32)  # [width]
        chosen = tf.gather(order, turn * total + tf.minimum(at, total - 1))  # [width]
        found = {name: tf.gather(values, chosen) for name, values in rows.items()}
        inside = tf.cast(tf.reshape(inside, [-1] + [1] * (mask.shape.rank - 1)), tf.float32)
        return found | {"mask": found["mask"] * inside}

    def body(
        index: Tensor, _: Tensor, first: list[Tensor], sums: list[Tensor]
    ) -> tuple[Tensor, Tensor, list[Tensor], list[Tensor]]:
        by_name, finite = step(minibatch(index), index)
        stats = [by_name[name] for name in names]
        first = [tf.where(tf.equal(index, 0), new, old) for new, old in zip(stats, first, strict=True)]
        fresh = tf.equal(index % each, 0)
        sums = [tf.where(fresh, new, old + new) for new, old in zip(stats, sums, strict=True)]
        return index + tf.cast(finite, tf.int32), finite, first, sums

    def go_on(index: Tensor, finite: Tensor, *_: list[Tensor]) -> Tensor:
        return tf.logical_and(index < plan.passes * each, finite)

    zeros = [tf.zeros([])] * len(names)
    start = (tf.constant(0), tf.constant(True), zeros, zeros)
    done, finite, first, sums = tf.while_loop(go_on, body, start, parallel_iterations=1)
    # A minibatch that was not finite is not counted, but is part of the sums, so that they show it.
    visited = tf.maximum(done + tf.cast(tf.logical_not(finite), tf.int32), 1)
    of_last = tf.cast((visited - 1) % tf.maximum(each, 1) + 1, tf.float32)
    last = {name: total / of_last for name, total in zip(names, sums, strict=True)}
    return Passed(dict(zip(names, first, strict=True)), last, done, finite)
