"""The pool of a deterministic run: blocks of environments on whichever workers there are.

Fragments are numbered: number k is of block k mod B, acts with the weights whose version was the newest when it was requested,
and is taken in the order of the numbers. A block stays on the worker that has its environments. With each fragment the driver
gets the block's state after it (the actions of running episodes, generators, exploration), so that what a worker had
in hand when it died is computed again, with the same weights, by another one or by its successor.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

from drl_cli.actors.block_worker import State
from drl_cli.contracts import Call, Cluster, Handle
from drl_cli.experience.columns import Token
from drl_cli.runtime.cluster import PartLost
from drl_cli.runtime.pool import Standing, WorkerPool


class _Fragment:
    """A fragment that was requested and has not been taken."""

    def __init__(self, block: int, version: int) -> None:
        self.block, self.version = block, version
        self.worker: int | None = None  # that computes it, or has done so
        self.reference: Call | None = None  # to its token
        self.found: tuple[Token, Call] | None = None


class BlockPool:
    """``blocks`` over the workers of a WorkerPool, in its place for the loops that sample."""

    def __init__(self, pool: WorkerPool, cluster: Cluster, blocks: int) -> None:
        """``pool``: of BlockWorkers, which have not been started."""
        self._pool, self._is_remote, self.size = pool, cluster.is_remote, blocks
        self._cluster = cluster
        self._queue: collections.deque[_Fragment] = collections.deque()  # in the order of their numbers
        self._called: list[collections.deque[_Fragment]] = [collections.deque() for _ in range(pool.size)]  # by worker
        self._next = 0  # block of the next fragment
        self._at: dict[int, int] = {}  # worker that has the environments of a block
        self._states: dict[int, State] = {}  # of each block, after the last of its fragments that has come
        self._incarnations: dict[int, int] = {}
        self.requested = self.taken = 0
        self.lost_workers: list[int] = []  # no stream is cut

    # -- what is known of the workers -----------------------------------------------------------------------------

    @property
    def outstanding(self) -> int:
        """Fragments that were requested and have not been taken."""
        return len(self._queue)

    @property
    def healthy(self) -> int:
        """Workers that have an incarnation running."""
        return self._pool.healthy

    @property
    def restarts(self) -> int:
        """Successors of workers that died."""
        return self._pool.restarts

    @property
    def fragments_lost(self) -> int:
        """None: what a worker had in hand is computed again."""
        return 0

    def under_way(self, version: int) -> int:
        """Return the fragments that were requested with weights of ``version`` or newer and have not been taken."""
        return sum(fragment.version >= version for fragment in self._queue)

    def late(self, version: int) -> frozenset[int]:
        """Return that none is late: all are waited for."""
        del version
        return frozenset()

    def incarnations(self) -> dict[int, int]:
        """Return {block: how often the run went on without its running episodes}."""
        return self._incarnations

    def delivered(self) -> frozenset[int]:
        """Return the indices of the workers that have delivered a fragment."""
        return self._pool.delivered()

    def placed(self) -> dict[int, Handle]:
        """Handles of the workers whose actors run already, by index."""
        return self._pool.placed()

    def handles(self) -> dict[int, Handle]:
        """Handles of the running workers by index."""
        return self._pool.handles()

    # -- life -----------------------------------------------------------------------------------------------------

    def start(self, incarnations: Mapping[str, int], standing: Callable[[int], Standing] | None = None) -> None:
        """Spawn all workers; ``incarnations``: {str(block): number} that a checkpoint knew, {} for none.

        What ``standing`` returns now holds for the blocks of successors too.
        """
        self._incarnations = {block: incarnations.get(str(block), 0) for block in range(self.size)}
        first = standing(0) if standing else Standing()
        self._pool.start({}, lambda _: first)

    def states(self) -> dict[int, State]:
        """Return {block: state} of all blocks, while none of their fragments is under way; a lost worker's may be missing."""
        for block in range(self.size):
            if block in self._states and self._is_remote:
                continue
            handle = self._pool.placed().get(self._at.get(block, self._home(block)))
            if handle is not None:
                try:
                    self._states[block] = handle.call("state", block, self._incarnations[block]).result()
                except PartLost:  # the pool will find out and replace it
                    continue
        return dict(self._states)

    def load(self, states: Mapping[int, State]) -> int:
        """Continue every block from ``states``; returns how many running episodes begin anew."""
        self._states = dict(states)
        self._next = sum(facts["sequence"] for _, facts in states.values()) % self.size  # each counts its fragments
        handles, differing = self._pool.handles(), 0
        self._at = {block: self._home(block) for block in states}
        calls = [
            handles[self._at[block]].call("load", block, self._incarnations[block], state)
            for block, state in states.items()
        ]
        while calls:
            for done in self._cluster.wait(calls, 0.25):
                differing += done.result()
                calls.remove(done)
            self._pool.watch()
        return differing

    # -- fragments ------------------------------------------------------------------------------------------------

    def request(
        self, count: int, min_version: int = 0, max_version: int | None = None, among: Collection[int] | None = None
    ) -> None:
        """Ask for ``count`` fragments of the blocks in turn, with weights of exactly ``max_version``; ``among``: not used."""
        del among
        version = min_version if max_version is None else max_version
        for _ in range(count):
            self._queue.append(_Fragment(self._next, version))
            self._next = (self._next + 1) % self.size
        self.requested += max(0, count)
        self._call()

    def references(self) -> list[Call]:
        """Return the reference to wait for: the token of the oldest fragment; [] while no worker has it in hand."""
        reference = self._queue[0].reference if self._queue else None
        return [] if reference is None else [reference]

    def take(self, reference: Call) -> tuple[Token, Call] | None:
        """Return (token, columns reference) of the oldest fragment, None when its worker was lost."""
        fragment = self._queue[0]
        while fragment.found is None:
            if fragment.worker is None or fragment.reference is not reference:
                return None  # it is computed again
            self._arrive(fragment.worker)
        self._queue.popleft()
        self.taken += 1
        return fragment.found

    def watch(self) -> None:
        """Take what has arrived, replace workers that are lost or silent, and hand out what waits."""
        for worker, reference in self._pool.oldest().items():
            if reference.done():
                self._arrive(worker)
        self._pool.watch()
        self._call()

    def _home(self, block: int) -> int:
        """Return the worker that a block is on when all are there."""
        return block * self._pool.size // self.size

    def _arrive(self, worker: int) -> None:
        """Take the oldest token of ``worker``, which is waited for."""
        found = self._pool.take(self._pool.oldest()[worker])
        if found is None:
            self._take_back()
            return
        token, columns = found
        fragment = self._called[worker].popleft()
        if token.state is not None:
            self._states[fragment.block] = token.state
        fragment.found = (token._replace(state=None), columns)

    def _take_back(self) -> None:
        """Let what lost workers had in hand be computed again."""
        for worker in self._pool.lost_workers:
            for fragment in self._called[worker]:
                fragment.worker = fragment.reference = None
            self._called[worker].clear()
            self._at = {block: at for block, at in self._at.items() if at != worker}
        self._pool.lost_workers.clear()

    def _call(self) -> None:
        """Call workers for the fragments that none has in hand, as long as one is free."""
        self._take_back()
        waiting = set()  # blocks with a fragment that must come first
        under_way = {fragment.block for called in self._called for fragment in called}
        for fragment in self._queue:
            if fragment.reference is not None:
                continue
            block = fragment.block
            worker = None if block in waiting else self._free(block, block in under_way)
            if worker is None:
                waiting.add(block)
                continue
            state = None if self._at.get(block) == worker else self._states.get(block, ())
            args = (fragment.version, block, self._incarnations[block], state, self._is_remote)
            self._pool.ask({worker}, *args)
            fragment.worker, fragment.reference = worker, self._pool.newest(worker)
            self._called[worker].append(fragment)
            self._at[block] = worker
            under_way.add(block)

    def _free(self, block: int, is_under_way: bool) -> int | None:
        """Return the worker to call for ``block``: that which computes it, or its own, or while that is away any other."""
        if is_under_way:
            return self._pool.free({self._at[block]})
        home = self._home(block)
        return self._pool.free({home} if self._pool.runs(home) else None)


SamplePool: TypeAlias = WorkerPool | BlockPool
"""What a loop that samples requests fragments from."""
