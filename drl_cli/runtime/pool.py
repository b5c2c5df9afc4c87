"""The rollout workers of a run: their outstanding calls, and a successor for each one that dies.

A worker is disposable: what it had in flight is lost and counted, a new incarnation takes its place at once (after 1, 2, 4
… 30 s when it dies again before it delivered anything), and the others go on. Until its process runs, which without room on
the cluster's nodes may be long, the others get its calls. A worker that fails ten times in a row is given up; when none is
left, the run fails with the first cause.
"""

from __future__ import annotations

import contextlib
import enum
import math
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, Protocol

from drl_cli import events
from drl_cli.contracts import Call, Cluster, Handle
from drl_cli.errors import ClusterUnavailable, WorkersFailed
from drl_cli.experience.columns import Token
from drl_cli.runtime.cluster import PartLost
from drl_cli.runtime.pool_rules import USUAL, PoolRules

MAX_DEATHS = 10  # of one worker in a row without a fragment
MAX_DELAY_S = 30.0  # before a worker that died is started again; doubled from death to death
SILENCE_S = 60.0  # for a fragment after its first a worker may take so long, or 20 times as long as for its slowest
PLACEMENT_S, PLACEMENT_NOTE_S = 120.0, 10.0  # until a cluster without room ends the run, or is worth a line


class Standing(NamedTuple):
    """Where a run stands when a worker is made."""

    sampled: int = 0  # env steps
    behind: int = 0  # fragments of its files that a predecessor brought


class Make(Protocol):
    """Spawns workers."""

    def __call__(self, index: int, incarnation: int, standing: Standing) -> Handle:
        """Return the handle of worker ``index`` as its ``incarnation``-th."""
        ...


class State(enum.Enum):
    """Where a worker is.

    ``spawned_as`` goes to RUNNING, a successor that has others beside it to STARTING, and to RUNNING when its process runs.
    ``die`` goes to VACANT or to GIVEN_UP.
    """

    VACANT = "no incarnation is there; the next one is made when it is due"
    STARTING = "an incarnation waits for a place or for its process, and gets no calls until it runs"
    RUNNING = "an incarnation is there"
    GIVEN_UP = "no incarnation will come"


class _Asked(NamedTuple):
    """A call of a worker that is outstanding."""

    token: Call
    columns: Call
    version: int  # that the weights must have at least


class _Member:
    """One worker index over its incarnations."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.incarnation = 0
        self.state = State.VACANT
        self.handle: Handle | None = None  # while STARTING or RUNNING
        self.calls: list[_Asked] = []  # oldest first
        self.deaths = 0  # in a row, without a fragment between them
        self.due = 0.0  # while VACANT: when to make the next incarnation
        self.ready: Call | None = None  # done when the actor runs; None once that is known
        self.answered = self.spawned = 0.0
        self.slowest = 0.0
        self.cause = ""  # of the first of these deaths
        self.is_missed = False  # reported as without a place

    def spawned_as(self, handle: Handle, now: float, has_others: bool) -> None:
        """Go to STARTING where others have its calls meanwhile, else to RUNNING."""
        self.handle, self.spawned, self.answered = handle, now, now
        self.ready = handle.ready() if handle.is_remote else None
        self.state = State.STARTING if has_others and self.is_waiting else State.RUNNING

    def die(self, due: float | None) -> None:
        """Go to VACANT until ``due``, with None to GIVEN_UP."""
        self.handle = None
        if due is None:
            self.state = State.GIVEN_UP
        else:
            self.state, self.due = State.VACANT, due

    @property
    def is_waiting(self) -> bool:
        """Whether its actor has no place yet."""
        return self.handle is not None and self.ready is not None and not self.ready.done()


class WorkerPool:
    """``size`` workers, each with at most ``most`` calls outstanding."""

    def __init__(
        self,
        cluster: Cluster,
        make: Make,
        size: int,
        most: int,
        clock: Callable[[], float] = time.monotonic,
        rules: PoolRules = USUAL,
    ) -> None:
        """``make``: makes a worker; ``clock``: seconds."""
        self._cluster, self._make, self._most, self._clock, self._rules = cluster, make, most, clock, rules
        self._members = [_Member(index) for index in range(size)]
        self._standing: Callable[[int], Standing] = lambda index: Standing()
        self._first: dict[int, int] = {}  # incarnation by worker that this process began with
        self.restarts = 0
        # Of fragments: each that was requested is taken, lost with its worker, or under way.
        self.requested = self.taken = self.fragments_lost = 0
        self.lost_workers: list[int] = []  # indices whose streams were cut since the loop last looked
        self._noted = self._had_one = 0.0  # when workers without a place were reported; when a worker was last placed
        self._first_cause = ""  # of all deaths

    def start(self, incarnations: Mapping[str, int], standing: Callable[[int], Standing] | None = None) -> None:
        """Spawn all workers; ``incarnations`` ({str(index): number}) are those that a checkpoint knew, {} for none.

        ``standing(index)`` returns where the run stands whenever a worker is made.
        """
        self._standing = standing or self._standing
        for member in self._members:
            member.incarnation = self._first[member.index] = incarnations.get(str(member.index), 0)
            self._spawn(member)

    def incarnations(self) -> dict[int, int]:
        """Return {index: incarnation} of all workers."""
        return {member.index: member.incarnation for member in self._members}

    def delivered(self) -> frozenset[int]:
        """Return the indices of the workers of which a fragment has been taken, of whichever incarnation."""
        return frozenset(member.index for member in self._members if member.slowest)

    @property
    def outstanding(self) -> int:
        """Fragments under way."""
        return sum(len(member.calls) for member in self._members)

    @property
    def size(self) -> int:
        """Workers of the run, whether they are there or not."""
        return len(self._members)

    def under_way(self, version: int) -> int:
        """Return the fragments under way that were requested with weights of ``version`` or newer."""
        return sum(call.version >= version for member in self._members for call in member.calls)

    def late(self, version: int) -> frozenset[int]:
        """Return the indices of the workers that still owe a fragment of weights older than ``version``."""
        return frozenset(m.index for m in self._members if m.calls and m.calls[0].version < version)

    @property
    def healthy(self) -> int:
        """Workers that have an incarnation running."""
        return sum(member.state is State.RUNNING for member in self._members)

    def handles(self) -> dict[int, Handle]:
        """Handles of the running workers by index."""
        return {member.index: member.handle for member in self._members if member.handle is not None}

    def placed(self) -> dict[int, Handle]:
        """Handles of the workers whose actors run already, by index: a call to another one may wait for ever."""
        return {
            m.index: m.handle for m in self._members if m.handle is not None and (m.ready is None or m.ready.done())
        }

    def load(self, states: Mapping[int, tuple[Any, Any]]) -> int:
        """Continue every worker from ``states`` {index: (arrays, facts)}; waits until they are placed and have done so.

        Returns how many running episodes could not be brought back, and begin anew.
        """
        differing = 0
        calls = [handle.call("load", *states[index]) for index, handle in self.handles().items()]
        while calls:
            for done in self._cluster.wait(calls, 0.25):
                differing += done.result() or 0  # only workers with environments of their own have any
                calls.remove(done)
            self.watch()
        return differing

    def request(
        self, count: int, min_version: int = 0, max_version: int | None = None, among: Collection[int] | None = None
    ) -> None:
        """Ask for up to ``count`` fragments, the least busy workers first (versions: see ``RolloutWorker.collect``).

        ``among``: indices of the workers that may be called; None: all.
        """
        self._revive()
        for _ in range(count):
            member = self._least_busy(among)
            if member is None:
                return
            # A successor's first act is with the newest weights, not with uniform actions.
            barrier = 1 if member.incarnation and min_version == 0 else min_version
            self._call(member, barrier, max_version)

    def states(self) -> dict[int, tuple[Any, Any]]:
        """Return {index: (arrays, facts)} of the workers whose actors run, those left out that are just lost."""
        calls, found = {index: handle.call("state") for index, handle in self.placed().items()}, {}
        for index, call in calls.items():
            with contextlib.suppress(PartLost):  # ``watch`` or ``take`` will find out
                found[index] = call.result()
        return found

    def runs(self, index: int) -> bool:
        """Return whether worker ``index`` has an incarnation running, or can be given one now."""
        self._revive()
        return self._members[index].state is State.RUNNING

    def free(self, among: Collection[int] | None) -> int | None:
        """Return the least busy worker of the indices ``among`` (None: of all) that may be called, or None."""
        self._revive()
        member = self._least_busy(among)
        return None if member is None else member.index

    def ask(self, among: Collection[int], *args: Any) -> int | None:
        """Call ``collect`` with ``args`` on the least busy worker of the indices ``among``; its index, None if none is free."""
        self._revive()
        member = self._least_busy(among)
        if member is None:
            return None
        self._call(member, *args)
        return member.index

    def _least_busy(self, among: Collection[int] | None) -> _Member | None:
        free = [m for m in self._members if m.state is State.RUNNING and len(m.calls) < self._most]
        if among is not None:
            free = [m for m in free if m.index in among]
        return min(free, key=lambda m: (len(m.calls), m.index), default=None)

    def _call(self, member: _Member, *args: Any) -> None:
        if member.handle is None:
            raise RuntimeError(f"worker {member.index} is not there")
        if not member.calls:
            member.answered = self._clock()
        token, columns = member.handle.call("collect", *args, returns=2)
        self.requested += 1
        member.calls.append(_Asked(token, columns, args[0]))

    def references(self) -> list[Call]:
        """References to wait for: the oldest token of every worker."""
        return list(self.oldest().values())

    def oldest(self) -> dict[int, Call]:
        """Return {index: reference to the oldest token} of the workers that have calls."""
        return {member.index: member.calls[0].token for member in self._members if member.calls}

    def newest(self, index: int) -> Call:
        """Return the reference to the token that worker ``index`` was asked for last."""
        return self._members[index].calls[-1].token

    def take(self, reference: Call) -> tuple[Token, Call] | None:
        """Return (token, columns reference) of a reference that is done, or None when its worker was lost."""
        member = next(m for m in self._members if m.calls and m.calls[0].token is reference)
        try:
            token = reference.result()
        except PartLost as lost:
            self._lose(member, str(lost))
            return None
        columns = member.calls.pop(0).columns
        self.taken += 1
        now = self._clock()
        member.slowest = max(member.slowest, now - member.answered)
        member.answered, member.deaths, member.ready = now, 0, None
        return token, columns

    def lose(self, index: int, text: str, unlearnt: int = 0) -> None:
        """Take note that worker ``index`` has died outside of ``collect``, and why.

        ``unlearnt``: its fragments that were taken, but not learnt from: they count as lost.
        """
        member = self._members[index]
        if member.handle is not None:
            self._cluster.kill(member.handle)
            self.taken -= unlearnt
            self.fragments_lost += unlearnt
            self._lose(member, text)

    def watch(self) -> None:
        """Replace workers that are silent for too long, and report those that the cluster has not placed."""
        now = self._clock()
        first_s = math.inf if self._rules.first_s is None else self._rules.first_s
        for member in self._members:
            if member.is_waiting:
                member.answered = now  # it cannot answer yet
            elif member.state is State.STARTING:
                self._started(member)
            limit = max(SILENCE_S, 20 * member.slowest) if member.slowest else first_s
            if member.handle is not None and member.calls and now - member.answered > limit:
                self._cluster.kill(member.handle)
                self._lose(member, f"silent for {now - member.answered:.0f} s")
        if self._cluster.is_remote:
            self._watch_placement(now)

    def _watch_placement(self, now: float) -> None:
        starting = [m for m in self._members if m.state is State.STARTING]
        if self._is_any_placed:
            self._had_one = now
            self._miss([m for m in starting if now - m.spawned >= PLACEMENT_NOTE_S and not m.is_missed])
            waiting = [m for m in self._members if m.is_waiting and m.state is State.RUNNING]
        else:
            waiting = [m for m in self._members if m.is_waiting]
        if not waiting:
            return
        longest = now - max(min(member.spawned for member in waiting), self._had_one if starting else 0.0)
        if longest < PLACEMENT_NOTE_S or now - self._noted < PLACEMENT_NOTE_S:
            return
        self._noted = now
        everything, free = self._cluster.resources()
        figures = f"the cluster has {everything.get('CPU', 0):g} CPUs, {free.get('CPU', 0):g} of them free"
        if self._rules.memory:
            total, left = (amounts.get("memory", 0) / 2**30 for amounts in (everything, free))
            figures += f", and {total:.1f} GiB of memory, {left:.1f} of them free"
        text = f"waiting for {len(waiting)} of {len(self._members)} workers to be placed; {figures}"
        if longest > PLACEMENT_S and not self._cluster.is_patient:
            raise ClusterUnavailable(
                f"After {longest:.0f} s still {text}. Lower num_workers, num_cpus_per_worker (0 or a fraction is allowed) or "
                "memory_per_worker, or wait for longer with --queue-trials."
            )
        events.report("warning", text=text)

    @property
    def _is_any_placed(self) -> bool:
        return any(m.state is State.RUNNING and not m.is_waiting for m in self._members)

    def _miss(self, members: list[_Member]) -> None:
        """Report once that lost workers have found no place."""
        if not members:
            return
        for member in members:
            member.is_missed = True
        those = f"worker {members[0].index} has" if len(members) == 1 else f"{len(members)} workers have"
        left = f"the run goes on with {self.healthy} of {self.size} workers, and with more when there is room"
        events.report("warning", text=f"{those} found no place for {PLACEMENT_NOTE_S:.0f} s: {left}")

    def _started(self, member: _Member) -> None:
        """Let a worker take part whose process runs."""
        member.state, member.is_missed = State.RUNNING, False
        events.report("worker_started", worker=member.index, incarnation=member.incarnation)

    def _spawn(self, member: _Member) -> None:
        has_others = self._cluster.is_remote and self._is_any_placed
        handle = self._make(member.index, member.incarnation, self._standing(member.index))
        member.spawned_as(handle, self._clock(), has_others and member.incarnation > self._first.get(member.index, 0))
        if member.state is State.RUNNING:
            self._started(member)

    def _lose(self, member: _Member, text: str) -> None:
        if member.deaths == 0:
            member.cause = text
        self.fragments_lost += len(member.calls)
        member.calls = []
        member.deaths += 1
        member.incarnation += 1
        self.lost_workers.append(member.index)
        self._first_cause = self._first_cause or text
        events.report("worker_lost", worker=member.index, incarnation=member.incarnation - 1, text=text)
        if self._rules.on_loss == "fail":
            raise WorkersFailed(
                f"Worker {member.index} died, and recreate_failed_workers is false: {text.rstrip('.')}. Leave that key out, "
                "or set ignore_worker_failures to go on without it."
            )
        delay = 0.0 if member.deaths == 1 else min(MAX_DELAY_S, 2.0 ** (member.deaths - 2))
        is_given_up = self._rules.on_loss == "drop" or member.deaths >= MAX_DEATHS
        member.die(None if is_given_up else self._clock() + delay)
        if all(m.state is State.GIVEN_UP for m in self._members):
            raise WorkersFailed(self._none_is_left())

    def _none_is_left(self) -> str:
        if self._rules.on_loss == "drop":
            return (
                "Every rollout worker died, and ignore_worker_failures replaces none. The first cause: "
                f"{self._first_cause}"
            )
        return f"Every rollout worker died {MAX_DEATHS} times in a row. The first cause: {self._members[0].cause}"

    def _revive(self) -> None:
        now = self._clock()
        for member in self._members:
            if member.state is State.VACANT and now >= member.due:
                self.restarts += 1
                self._spawn(member)
