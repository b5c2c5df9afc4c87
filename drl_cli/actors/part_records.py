"""What parts are made with and what their calls return, where more than one file reads it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypedDict

import numpy as np

from drl_cli.config.sections.off_policy import BufferedKeys
from drl_cli.config.sections.on_policy import TrajectoryKeys
from drl_cli.contracts import Handle
from drl_cli.envs.env_spec import SelfPlaySetup
from drl_cli.policies.filters import Moments

SampledConfig = TrajectoryKeys | BufferedKeys
"""The config of an algorithm whose workers step environments and send fragments."""


class _Updates(TypedDict):
    updates: int  # gradient steps taken
    stats: dict[str, float]  # over these updates: the mean, of min_… and max_… the smallest and the largest
    seconds: float  # that the call took
    version: int  # of the newest weights that were pushed


class UpdateResult(_Updates, total=False):
    """What a call of a learner that makes updates returns; ``serial`` and ``priority`` where the replay is prioritized."""

    serial: np.ndarray  # int64 [M]: rows that were learnt from
    priority: np.ndarray  # float32 [M]: |TD error| of each of them


class BatchUpdateResult(_Updates):
    """What a call of a learner returns that learns from whole batches of trajectories or episodes."""

    steps: int  # env steps learnt from


class RoundResult(BatchUpdateResult):
    """What a worker returns that has learnt beside others."""

    digest: int  # checksum of every variable


class Begun(NamedTuple):
    """What a worker says of the fragment with which it begins to learn beside others."""

    rows: int  # steps, or sequences of an LSTM, that have something to learn from
    advantages: Moments  # of its steps, before they are standardized
    stats: dict[str, float]  # statistics of its estimates


class LearntBy(TypedDict):
    """The algorithm of a worker that learns itself."""

    graph: Any  # the dotted name of its graph module, or what this would name
    nets: Any  # likewise of its nets


class _Worker(TypedDict):
    seed: int
    index: int  # of the worker; of a reader, which share of the files it reads
    incarnation: int  # how often its predecessors were lost
    random_steps: int  # env steps of each environment with uniform actions
    stream: int  # number of its first environment among all of the run
    streams: int  # environments of the run
    base: int  # env steps of the run when it was made


class WorkerIdentity(_Worker, total=False):
    """The place of a worker in its run."""

    output: Any  # folder to record into, where it does
    keeper: Handle  # what writes the files of workers on other nodes, where there are some
    learns: LearntBy  # of a worker that learns itself


class ReaderIdentity(WorkerIdentity):
    """The place of a worker that reads files."""

    number: int  # the worker number that its fragments carry
    workers: int  # that share the files
    behind: int  # fragments to pass over: a predecessor brought them


class _Learner(TypedDict):
    seed: int
    with_ray: bool  # whether weights leave the graph through Ray's class


class LearnerIdentity(_Learner, total=False):
    """What a learner is made with beside the algorithm's graph."""

    plugins: Any  # of ``plugins.registered``
    self_play: SelfPlaySetup  # who plays against the policy that learns, where it does
    policy: str  # id of the policy, ``default_policy`` where there is one
    replicas: Sequence[Handle]  # the other learners, where there are several
    is_patient: bool  # whether they are waited for without end
    postprocess: Callable  # of a registered algorithm: (batch, config) -> more columns


class ScoredEpisode(NamedTuple):
    """One scored episode; ``reward`` is the sum of raw rewards."""

    reward: float
    length: int
    seed: int
    terminated: bool
    custom_metrics: dict = {}  # {name: number} and {name: list of numbers}: from callbacks
    hist_data: dict = {}
    is_cut: bool = False  # by the bound of an evaluation (``envs.bound_of``): the reward is that of its first part
    policy_rewards: dict[str, list[float]] = {}  # of several agents: the returns of each policy's agents
    success: bool | None = None  # whether it reached its goal, where the environment says so
