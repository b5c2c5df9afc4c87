"""Polyak (soft) updates of variables: target networks and running averages, at every update or every so many.

Sources: soft targets, Lillicrap et al. 2016 (arXiv 1509.02971), section 3; averaged iterates, Polyak & Juditsky 1992.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from drl_cli.tf1.tensorflow import Tensor, Variable, tf

PACE = "average_pace"  # name and collection of the variable that slows averages down


def polyak_update(targets: Sequence[Variable], sources: Sequence[Variable | Tensor], share: float | Tensor) -> None:
    """Move each target by ``share`` (the papers' τ) of the way to its source, in the same order; 1 copies."""
    for target, source in zip(targets, sources, strict=True):
        target.assign((1.0 - share) * target + share * source)


def new_pace() -> Variable:
    """Create the variable by which the steps of all averages that this graph gets later are multiplied; 1 at first."""
    pace = tf.Variable(np.float32(1.0), name=PACE, use_resource=True, trainable=False)
    tf.add_to_collection(PACE, pace)
    return pace


def move_average(averages: Sequence[Variable], sources: Sequence[Variable | Tensor], kept: float) -> None:
    """Move running averages of ``sources``, in the same order, by an update: ``kept`` of them stays, more at a lower pace."""
    share: Any = 1.0 - kept
    for pace in tf.get_collection(PACE):
        share *= pace.read_value()
    polyak_update(averages, sources, share)


def every(count: int, number: Tensor, action: Callable[[], None], phase: int = 0) -> None:
    """Run ``action()`` at updates whose ``number`` (int64 scalar) is ``phase`` modulo ``count``.

    With ``count`` 1 it runs without a conditional, which costs more than a small update's step.
    """
    if count == 1:
        action()
        return

    def act() -> Tensor:
        action()
        return tf.constant(0)

    tf.cond(tf.equal(number % count, phase), act, lambda: tf.constant(0))
