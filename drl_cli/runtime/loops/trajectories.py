"""The loop over trajectories: workers sample, a learner trains on whole batches, and a plan schedules the two.

``loops.sync`` and ``loops.stream`` make it with their plans, see ``TrajectoryPlan``.

Fragments are self-contained: no stream continues from one to the next, and losing a worker truncates none.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from drl_cli.actors.part_records import BatchUpdateResult
from drl_cli.config.sections.deterministic import is_deterministic
from drl_cli.config.sections.on_policy import TrajectoryKeys, fragments_of_batch
from drl_cli.contracts import Call, Cluster, Handle
from drl_cli.errors import RunFailed
from drl_cli.experience.columns import Token
from drl_cli.runtime.block_pool import SamplePool
from drl_cli.runtime.ledger import Ledger


class Requested(NamedTuple):
    """What is requested from the workers."""

    fragments: int
    version: int = 0  # that the weights must have at least
    among: Collection[int] | None = None  # indices of the workers that may be asked; None: all


class PlannedBatch(NamedTuple):
    """What is learnt from in one call."""

    tokens: list[Token]  # of its fragments
    seen: list[Any]  # what the filters of the workers saw for each fragment
    columns: list[Call]
    fresh: int  # fragments that are learnt from for the first time
    is_first: bool = True  # whether no earlier call learnt from it


class TrajectoryPlan(Protocol):
    """Decides what to request from the workers, and when a batch is complete."""

    patience: float | None
    """Seconds for which the learner may go without a batch."""

    @property
    def stored(self) -> int:
        """Env steps that wait."""
        ...

    @property
    def is_begun(self) -> bool:
        """Whether a batch has been begun: the loop does not come to rest before it is learnt from."""
        ...

    def wanted(self, pool: SamplePool, is_busy: bool, is_closing: bool) -> Requested:
        """Return what to request from the workers of ``pool``.

        ``is_busy``: an update is running, ``is_closing``: the loop comes to rest.
        """
        ...

    def took(self, token: Token, columns: Call) -> bool:
        """Take a fragment; returns whether its steps count as sampled."""
        ...

    def batch(self, pool: SamplePool) -> PlannedBatch | None:
        """Return what to learn from next, or None."""
        ...

    def learns(self, batch: PlannedBatch, newest: int) -> None:
        """Note that the learner begins with ``batch``; ``newest``: version of its weights."""

    def learnt(self, result: BatchUpdateResult) -> int:
        """Return the env steps that this call of the learner saw for the first time."""
        ...

    def info(self) -> dict[str, Any]:
        """Return the plan's fields of a result."""
        ...

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps, as plain data."""
        ...

    def load(self, facts: Mapping[str, Any], newest: int) -> None:
        """Continue from ``state`` with weights of the version ``newest``."""


class TrajectoryLoop:
    """``step`` issues all allowed calls and waits for one of them to complete.

    With aggregators, each of them joins a batch ahead of the learner, which takes them in the order in which they were planned.
    """

    def __init__(
        self,
        cluster: Cluster,
        pool: SamplePool,
        learner: Handle,
        config: TrajectoryKeys,
        plan: TrajectoryPlan,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``pool``: SamplePool; ``learner``: handle of a BatchLearner; ``clock``: seconds."""
        self._cluster, self._pool, self._learner, self._config = cluster, pool, learner, config
        self._plan, self._clock = plan, clock
        self._in_order = not cluster.is_remote or is_deterministic(config)  # whether timing must decide nothing
        self._running = None  # reference of the learner's call
        self._aggregators: Sequence[Handle] = ()
        self._joining: Call | None = None  # how the learner wants fragments joined
        # Batches that wait for the learner: (what was planned, whether it is joined, what is learnt from).
        self._joined: deque[tuple[PlannedBatch, Call, Call]] = deque()
        self._joins, self._join_s = 0, 0.0  # calls of aggregators, and the seconds that those that are over took
        self._fresh = 0  # fragments that it learns from for the first time
        self._ready, self._started = None, False
        self.ledger = Ledger(config)
        self._fed = clock()  # when the learner last had something to do

    def aggregate(self, aggregators: Sequence[Handle]) -> None:
        """Have batches joined by ``aggregators`` (handles of Aggregator), one ahead of the learner for each of them."""
        self._aggregators = aggregators

    def start(self) -> None:
        """Let the learner build its graph; sampling can begin at once."""
        config = self._config
        streams = fragments_of_batch(config) * config.num_envs_per_worker
        self._ready = self._learner.call("prepare", streams, config.rollout_fragment_length)
        if self._aggregators:
            self._joining = self._learner.call("joining")
        self._started = True

    @property
    def sampled(self) -> int:
        """Env steps sampled."""
        return self.ledger.sampled

    @property
    def stored(self) -> int:
        """Env steps that wait for the learner."""
        return self._plan.stored + sum(token.steps for batch, _, _ in self._joined for token in batch.tokens)

    @property
    def is_learning(self) -> bool:
        """Whether the learner has built its graph."""
        return self._started and self._ready is None

    def trained(self) -> int:
        """Env steps learnt from, however many passes were made over them."""
        return self.ledger.trained

    def step(self, timeout: float = 0.25) -> None:
        """Ask for what is allowed, wait up to ``timeout`` s for something to be done, and deal with it."""
        self._go_on(timeout, closing=False)
        self._watch()

    def quiesce(self) -> None:
        """Come to rest as the plan wants it: afterwards no call is outstanding."""
        while self._pending() or self._joined or self._pool.outstanding or self._plan.is_begun:
            self._go_on(0.25, closing=True)

    def settle(self) -> None:
        """Deal with what is being learnt from: what the learner holds then belongs to the counters."""
        if self._running is not None:
            self._deal([self._running])

    def waiting(self) -> str:
        """Return in a few words what waits for what, or an empty string."""
        if self._ready is not None:
            return "" if self._pool.outstanding else "workers are waiting for the learner to load"
        if self._running is None:
            return "learner is waiting for samples"
        return "" if self._pool.outstanding else "workers are waiting for the learner"

    def info(self) -> dict[str, Any]:
        """Return the loop's own fields of a result."""
        if not self._aggregators:
            return self._plan.info()
        seconds, self._join_s = self._join_s, 0.0
        return self._plan.info() | {"aggregate_s": seconds, "batches_joined": len(self._joined)}

    def state(self) -> dict[str, Any]:
        """Return the counters that a checkpoint keeps, as plain data; what waits for the learner is not kept."""
        return self.ledger.state() | {"plan": self._plan.state()}

    def load(self, facts: Mapping[str, Any], with_replay: bool) -> None:
        """Continue from ``state``; ``with_replay`` is what a checkpoint of another loop would have."""
        self.ledger.load(facts)
        self._plan.load(facts["plan"], self.ledger.version)

    def _go_on(self, timeout: float, closing: bool) -> None:
        self._learn()
        wanted = self._plan.wanted(self._pool, self._running is not None, closing)
        if wanted.fragments > 0:
            # A worker must not see weights that a running update happens to have pushed already, or not yet.
            most = self.ledger.version if self._in_order else None
            self._pool.request(wanted.fragments, wanted.version, most, wanted.among)
        self._deal(self._cluster.wait(self._pending(), timeout))
        self._pool.watch()

    def _pending(self) -> list[Call]:
        # In order, what is sampled comes before the learner, whether that has done its work by then or not.
        if self._in_order and self._pool.outstanding:
            return self._pool.references()
        last = [reference for reference in (self._running, self._ready) if reference is not None]
        if not last and self._joined:
            last = [self._joined[0][1]]
        return self._pool.references() + last

    def _learn(self) -> None:
        if self._ready is not None:
            return
        if self._aggregators:
            self._learn_joined()
        elif self._running is None:
            batch = self._plan.batch(self._pool)
            if batch is not None:
                self._begin(batch, "learn", *batch.columns)

    def _learn_joined(self) -> None:
        """Begin with the oldest batch if it is joined, and have the next ones joined, as many as there are aggregators."""
        if self._running is None and self._joined and self._joined[0][1].done():
            batch, seconds, joined = self._joined.popleft()
            self._join_s += seconds.result()
            self._begin(batch, "learn_joined", joined)
        while len(self._joined) < len(self._aggregators):
            batch = self._plan.batch(self._pool)
            if batch is None:
                return
            aggregator = self._aggregators[self._joins % len(self._aggregators)]
            seconds, joined = aggregator.call("join", self._joining, *batch.columns, returns=2)
            self._joined.append((batch, seconds, joined))
            self._joins += 1

    def _begin(self, batch: PlannedBatch, method: str, *columns: Call) -> None:
        self._plan.learns(batch, self.ledger.version)
        self._fresh = batch.fresh
        self._running = self._learner.call(method, self.sampled, batch.seen, *columns)

    def _deal(self, done: Iterable[Call]) -> None:
        for reference in done:
            if reference is self._running:
                self._running, self._fed, result = None, self._clock(), reference.result()
                self.ledger.learnt(result, self._plan.learnt(result))
                self.ledger.fragments += self._fresh
            elif reference is self._ready:
                self._ready, self._fed = None, self._clock()
                self.ledger.loaded(reference.result())
            elif self._joined and reference is self._joined[0][1]:
                continue  # ``_learn`` takes it
            else:
                self._take(reference)
        self._pool.lost_workers.clear()

    def _take(self, reference: Call) -> None:
        taken = self._pool.take(reference)
        # A worker that serves external simulators may have nothing yet.
        if taken is not None and taken[0].steps and self._plan.took(*taken):
            self.ledger.stored(taken[0], taken[0].steps)

    def _watch(self) -> None:
        patience = self._plan.patience
        if patience is None or self._running is not None or self._ready is not None:
            return
        idle = self._clock() - self._fed
        if idle > patience:
            raise RunFailed(
                f"The learner has had no train batch for {idle:.0f} s (learner_queue_timeout). Raise it for a slow "
                "environment, or lower rollout_fragment_length or train_batch_size."
            )


def seen_of(tokens: Iterable[Token]) -> list[Any]:
    """Return what the observation filters of the workers saw for each of ``tokens``."""
    return [token.seen for token in tokens]
