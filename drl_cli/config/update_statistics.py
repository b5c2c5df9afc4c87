"""How a statistic of many updates is made of those of each: the first letters of its name say so.

Used by ``tf1.repeat``, within one session call, and by ``runtime.meters``, over the calls of an iteration.
"""

from __future__ import annotations

import enum
import math


class Reducer(enum.Enum):
    """The value is the prefix of the names; all other statistics are means, weighted by updates."""

    LEAST = "min_"
    GREATEST = "max_"
    MEAN = ""

    @property
    def start(self) -> float:
        """What to begin with, before the first update."""
        return {Reducer.LEAST: math.inf, Reducer.GREATEST: -math.inf, Reducer.MEAN: 0.0}[self]

    def joined(self, so_far: float | None, value: float, updates: int) -> float:
        """Return what ``so_far`` (None: nothing) becomes with the ``value`` of ``updates`` more; of means it is the sum."""
        if self is Reducer.MEAN:
            return (0.0 if so_far is None else so_far) + value * updates
        if so_far is None:
            return value
        return min(so_far, value) if self is Reducer.LEAST else max(so_far, value)

    def closed(self, joined: float, updates: int) -> float:
        """Return the statistic of ``updates`` in all, from what ``joined`` made of them."""
        return joined / updates if self is Reducer.MEAN else joined


def reducer_of(name: str) -> Reducer:
    """Return the Reducer of the statistic ``name``, or ``policy/name``."""
    name = name.rpartition("/")[2]
    return next(
        (reducer for reducer in (Reducer.LEAST, Reducer.GREATEST) if name.startswith(reducer.value)), Reducer.MEAN
    )
