"""What parts are made with and what their calls return, where more than one file reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NotRequired, TypedDict

import numpy as np


class UpdateResult(TypedDict):
    """What a call of a learner that makes updates returns."""

    updates: int  # gradient steps taken
    stats: dict[str, float]  # over these updates: the mean, of min_… and max_… the smallest and the largest
    seconds: float  # that the call took
    version: int  # of the newest weights that were pushed
    steps: NotRequired[int]  # env steps learnt from, where whole batches of trajectories are
    serial: NotRequired[np.ndarray]  # int64 [M]: rows of a prioritized replay that were learnt from
    priority: NotRequired[np.ndarray]  # float32 [M]: |TD error| of each of them


class WorkerIdentity(TypedDict):
    """The place of a worker in its run."""

    seed: int
    index: int  # of the worker, or the share of the files that a reader reads
    incarnation: int  # how often its predecessors were lost
    random_steps: NotRequired[int]  # env steps of each environment with uniform actions
    stream: NotRequired[int]  # number of its first environment among all of the run
    streams: NotRequired[int]  # environments of the run
    base: NotRequired[int]  # env steps of the run when it was made
    output: NotRequired[Any]  # folder to record into
    number: NotRequired[int]  # of a reader: the worker number that its fragments carry
    workers: NotRequired[int]  # of a reader: workers that share the files
    behind: NotRequired[int]  # of a reader: fragments to pass over


class LearnerIdentity(TypedDict):
    """What a learner is made with beside the algorithm's graph."""

    seed: int
    with_ray: bool  # whether weights leave the graph through Ray's class
    plugins: NotRequired[Any]  # of ``plugins.registered``
    postprocess: NotRequired[Callable]  # of a registered algorithm: (batch, config) -> more columns
