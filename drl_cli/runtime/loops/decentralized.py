"""The loop of DD-PPO: workers sample and learn in their own processes, and only gradients travel, from one to the others.

A round: every worker samples one fragment with the present weights, then all learn from these fragments together, step by
step (``actors.decentralized_learner``). The driver calls the steps ahead of time and hands each call the references to what
the calls before it return: it waits for receipts, and neither holds weights nor sees gradients. When ``straggler_cutoff`` of
the workers have finished sampling, the others end their fragments.

A worker that dies takes its fragment with it, which counts as lost, wherever the round was. The others go on from the step
that they have reached, with the mean over those left; where some have taken a step more (a node was lost on the way), the
rest adopt their state. The successor loads TensorFlow beside them, and takes part from the beginning of a round, with the
variables of a worker that has them. Workers whose variables differ at the end of a round are given those of the first one.

Without workers the same loop runs in one process, and is reproducible bit for bit.

Source: Wijmans et al. 2019 (arXiv 1911.00357), section 3; theirs reduce gradients with NCCL, and end when a worker is lost.
"""

from __future__ import annotations

import collections
import contextlib
import math
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple

from drl_cli import events
from drl_cli.actors.part_records import Begun, RoundResult
from drl_cli.algorithms.ddppo import DDPPOConfig, finished_workers
from drl_cli.config.sections.on_policy import sequence_length
from drl_cli.contracts import Call, Cluster, Handle
from drl_cli.errors import DrlError
from drl_cli.experience.columns import Token
from drl_cli.runtime.cluster import PartLost
from drl_cli.runtime.leader import Leader
from drl_cli.runtime.ledger import Ledger
from drl_cli.runtime.pool import WorkerPool
from drl_cli.runtime.replay_shards import Shards

AHEAD = 16  # steps that are called before the first of them is done
SILENCE_S = 300.0  # without an answer of a worker that learns

Waits = Generator[list[Call], None, Any]
"""Yields calls, and goes on when the first of them is done."""


def make(
    cluster: Cluster, pool: WorkerPool, replay: Shards | None, learner: Leader, config: DDPPOConfig
) -> DecentralizedLoop:
    """Return the loop over these parts; ``replay`` is not used."""
    return DecentralizedLoop(cluster, pool, learner, config)


class _Gathered(NamedTuple):
    """What several workers answered."""

    values: dict[int, Any]
    lost: dict[int, str]  # worker -> why
    error: DrlError | None  # what another one raised


class DecentralizedLoop:
    """``step`` issues all allowed calls and waits for one of them to complete."""

    def __init__(
        self,
        cluster: Cluster,
        pool: WorkerPool,
        leader: Leader,
        config: DDPPOConfig,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``pool``: of DecentralizedWorkers, with one call each."""
        self._cluster, self._pool, self._leader, self._config, self._clock = cluster, pool, leader, config, clock
        self.ledger = Ledger(config)
        self._preparing: dict[tuple[int, int], Call] = {}  # (worker, incarnation) -> its call
        self._prepared: set[tuple[int, int]] = set()
        self._tokens: dict[int, Token] = {}  # of this round, by worker
        self._asked: dict[int, int] = {}  # worker -> incarnation of those that sample or have sampled in this round
        self._is_cut = False
        self._cut_short = self._unequal = 0  # fragments, workers
        self._learning: Waits | None = None
        self._pending: list[Call] = []  # what ``_learning`` waits for
        self._awaited: Mapping[int, Call] = {}  # the calls of workers of which that is one
        self._moved = clock()

    def start(self) -> None:
        """Nothing: each worker builds its graph after its first fragment."""

    @property
    def sampled(self) -> int:
        """Env steps sampled."""
        return self.ledger.sampled

    @property
    def stored(self) -> int:
        """Env steps whose workers wait to learn from them."""
        return sum(token.steps for token in self._tokens.values())

    @property
    def is_learning(self) -> bool:
        """Whether a worker has built its graph."""
        return bool(self._prepared)

    def trained(self) -> int:
        """Env steps learnt from, however many passes were made over them."""
        return self.ledger.trained

    def step(self, timeout: float = 0.25) -> None:
        """Ask for what is allowed, wait up to ``timeout`` s for something to be done, and deal with it."""
        self._go_on(timeout, closing=False)

    def quiesce(self) -> None:
        """Complete the round that has been begun: afterwards no call is outstanding."""
        while self._tokens or self._pool.outstanding or self._learning is not None or self._preparing:
            self._go_on(0.25, closing=True)

    def settle(self) -> None:
        """Complete what is being learnt: what the workers hold then belongs to the counters."""
        while self._learning is not None:
            self._go_on(0.25, closing=True)

    def waiting(self) -> str:
        """Return in a few words what waits for what, or an empty string."""
        if self._pool.outstanding or self._learning is not None:
            return ""
        return "workers are building their graphs" if self._preparing else "no worker samples"

    def info(self) -> dict[str, Any]:
        """Return the loop's own fields of a result."""
        return {"fragments_cut_short": self._cut_short, "workers_unequal": self._unequal}

    def state(self) -> dict[str, Any]:
        """Return the counters that a checkpoint keeps, as plain data."""
        return self.ledger.state() | {"rounds": [self._cut_short, self._unequal]}

    def load(self, facts: Mapping[str, Any], with_replay: bool) -> None:
        """Continue from ``state``; ``with_replay`` is what a checkpoint of another loop would have."""
        self.ledger.load(facts)
        self._cut_short, self._unequal = facts["rounds"]

    # -- sampling -----------------------------------------------------------------------------------------------

    def _go_on(self, timeout: float, closing: bool) -> None:
        if self._learning is not None:
            self._learn(timeout)
        else:
            self._sample(timeout, closing)
        self._pool.lost_workers.clear()  # fragments continue nothing
        self._pool.watch()

    def _sample(self, timeout: float, closing: bool) -> None:
        if not self._asked and not closing:
            self._begin_round()
        self._prepare()
        pending = [*self._pool.references(), *self._preparing.values()]
        done = self._cluster.wait(pending, timeout)
        if done or self._pool.outstanding:
            self._moved = self._clock()
        else:
            self._awaited = {index: call for (index, _), call in self._preparing.items()}
            self._watch()
        for reference in done:
            number = next((key for key, call in self._preparing.items() if call is reference), None)
            if number is not None:
                self._has_prepared(number)
            else:
                self._take(reference)
        self._cut_stragglers()
        if self._asked and not self._pool.outstanding:
            team = self._present(list(self._tokens))
            if team and all((index, self._asked[index]) in self._prepared for index in team):
                self._learning = self._round(team)
                self._go_on_learning()
            elif not team:  # all of them died
                self._asked, self._tokens = {}, {}

    def _begin_round(self) -> None:
        """Ask every worker for a fragment that has the present variables, or gets them now."""
        self._pool.request(0)  # successors of the lost are made
        numbers = self._pool.incarnations()
        if self.ledger.updates:
            self._leader.required()
        for index in self._pool.placed():
            if index not in self._leader.holders() and (index, numbers[index]) in self._prepared:
                self._join(index)
        among = [index for index in self._leader.holders() if self._pool.runs(index)]
        version = self.ledger.version
        self._pool.request(len(among), version, version, among)
        self._asked, self._is_cut = {index: numbers[index] for index in among}, False

    def _join(self, index: int) -> None:
        """Give a worker the variables of another one."""
        holders = self._leader.required()
        first, handle = next(iter(holders.items()))
        pair = {first: handle, index: self._pool.handles()[index]}
        try:
            pair[index].call("adopt", handle.call("held")).result(SILENCE_S)
        except (DrlError, TimeoutError):
            # One of the two was lost; with another holder this is tried again in the next round.
            lost = [one for one in pair if one not in self._living(pair)]
            if not lost:
                raise
            for one in lost:
                self._pool.lose(one, "it was lost before a round")
        else:
            self._leader.hold([*holders, index])

    def _prepare(self) -> None:
        """Let workers build their graphs: after their first fragment, successors before it."""
        numbers = self._pool.incarnations()
        for index, handle in self._pool.placed().items():
            key = (index, numbers[index])
            if key not in self._prepared and key not in self._preparing:
                self._preparing[key] = handle.call("prepare")

    def _has_prepared(self, key: tuple[int, int]) -> None:
        try:
            seconds = self._preparing.pop(key).result()
        except PartLost as lost:
            self._lose({key[0]: str(lost)}, {key[0]: key[1]})
            return
        if not self._prepared:
            self.ledger.loaded(seconds)
        self._prepared.add(key)

    def _take(self, reference: Call) -> None:
        taken = self._pool.take(reference)
        if taken is not None:
            token = taken[0]
            self._tokens[token.meta.worker] = token
            self.ledger.stored(token, token.steps)

    def _cut_stragglers(self) -> None:
        late = self._pool.outstanding
        if late and not self._is_cut and len(self._tokens) >= finished_workers(self._config, len(self._asked)):
            self._is_cut = True
            self._cut_short += late
            self._leader.cut(self.ledger.version)

    # -- learning -----------------------------------------------------------------------------------------------

    def _learn(self, timeout: float) -> None:
        """Go on with the round when what it waits for is done."""
        done = self._cluster.wait(self._pending, timeout)
        if not done:
            self._watch()
            return
        self._go_on_learning()

    def _go_on_learning(self) -> None:
        """Let the round go on to what it waits for next, or to its end."""
        self._moved = self._clock()
        self._pending = next(self._learning, []) if self._learning is not None else []
        if not self._pending:
            self._learning, self._asked, self._tokens = None, {}, {}

    def _watch(self) -> None:
        """Kill workers that do not answer: their calls then say that they are lost.

        All that a call of ``_awaited`` depends on is there; calls that were made ahead of time may wait for other workers.
        """
        if self._clock() - self._moved > SILENCE_S:
            self._moved = self._clock()
            handles = self._pool.handles()
            for index, call in self._awaited.items():
                if index in handles and not call.done():
                    self._cluster.kill(handles[index])

    def _round(self, team: dict[int, Handle]) -> Waits:
        """Learn from the fragments of ``team`` ({index: handle}), in the order of its workers."""
        begun = yield from self._from_all(team, "begin", self.sampled, self._leader.lr_factor)
        if not team:
            return
        facts: list[Begun] = list(begun.values())
        rows = sequence_length(self._config)
        minibatches = math.ceil(max(one.rows for one in facts) / (self._config.sgd_minibatch_size // rows))
        total, taken = minibatches * self._config.num_sgd_iter, -1
        while team and taken < total:
            reached = yield from self._from_all(team, "plan", facts)
            if (yield from self._level(team, reached)):
                taken = yield from self._steps(team, max(reached.values(), default=0), total)
        learnt = list(team)
        tokens = [self._tokens[index] for index in learnt]
        ended = yield from self._from_all(team, "end", [token.seen for token in tokens], learnt=True)
        if ended:
            self._close(ended, sum(token.steps for token in tokens), len(learnt))

    def _close(self, ended: dict[int, RoundResult], steps: int, fragments: int) -> None:
        first = next(iter(ended.values()))
        equal = [index for index, result in ended.items() if result["digest"] == first["digest"]]
        if len(equal) < len(ended):
            if not self._unequal:  # other processors may round otherwise, and then in every round
                others = ", ".join(str(index) for index in ended if index not in equal)
                text = f"The weights of worker {others} differ, and are replaced by those of worker {equal[0]}"
                events.report("warning", text=f"{text}, from now on without a notice (info/workers_unequal).")
            self._unequal += len(ended) - len(equal)
        self._leader.hold(equal)
        self.ledger.learnt(first, steps)
        self.ledger.fragments += fragments

    def _steps(self, team: dict[int, Handle], first: int, total: int) -> Waits:
        """Take the steps from ``first`` to ``total``; returns how many have been taken, -1 where a worker was lost."""
        answers: list[Call] = []
        receipts: collections.deque[dict[int, Call]] = collections.deque()
        for number in range(first, total + 1):
            made = {index: handle.call("step", number, *answers, returns=2) for index, handle in team.items()}
            answers = [answer for _, answer in made.values()]
            receipts.append({index: receipt for index, (receipt, _) in made.items()})
            if len(receipts) < AHEAD and number < total:
                continue
            while receipts and (len(receipts) >= AHEAD or number == total):
                found = yield from self._gather(receipts.popleft())
                if found.error is not None or found.lost:
                    yield from self._give_up(team, found, receipts)
                    return -1
        return total

    def _give_up(self, team: dict[int, Handle], found: _Gathered, others: Sequence[Mapping[int, Call]]) -> Waits:
        """Leave out of ``team`` the workers that a step lost; raise what was raised where it lost none."""
        for receipts in others:  # they follow from that step
            yield from self._gather(receipts)
        # What a call depends on may be lost with another worker: who is lost is asked of the workers.
        lost = {index: found.lost.get(index, "it was lost in a step") for index in set(team) - set(self._living(team))}
        if not lost and found.error is not None:
            raise found.error
        self._lose(lost, self._asked)
        for index in lost:
            team.pop(index)

    def _level(self, team: dict[int, Handle], reached: dict[int, int]) -> Waits:
        """Let those of ``team`` that have ``reached`` fewer steps than another adopt its state; returns whether they have."""
        most = max(reached.values(), default=0)
        behind = [index for index in team if reached[index] < most]
        if behind:
            ahead = next(handle for index, handle in team.items() if reached[index] == most)
            held = ahead.call("held")
            found = yield from self._gather({index: team[index].call("adopt", held) for index in behind})
            if found.error is not None or found.lost:
                yield from self._give_up(team, found, ())
                return False
        return True

    def _from_all(self, team: dict[int, Handle], method: str, *args: Any, learnt: bool = False) -> Waits:
        """Return {index: answer} of ``team``, out of which the lost are left; ``learnt``: their fragments were learnt from."""
        found = yield from self._gather({index: handle.call(method, *args) for index, handle in team.items()})
        if found.error is not None:
            raise found.error
        self._lose(found.lost, self._asked, learnt)
        for index in found.lost:
            team.pop(index)
        return found.values

    def _gather(self, calls: Mapping[int, Call]) -> Waits:
        """Wait for all of ``calls``; returns _Gathered."""
        values, lost, error = {}, {}, None
        self._awaited = calls
        if calls:
            yield [next(iter(calls.values()))]  # without workers, too, this lets the loop look up
        for index, call in calls.items():
            while not call.done():
                yield [call]
            try:
                values[index] = call.result()
            except PartLost as gone:
                lost[index] = str(gone)
            except DrlError as raised:
                error = error or raised
        return _Gathered(values, lost, error)

    # -- workers ------------------------------------------------------------------------------------------------

    def _present(self, indices: Sequence[int]) -> dict[int, Handle]:
        """Return {index: handle} of those incarnations of ``indices`` that sampled in this round, in order."""
        numbers, handles = self._pool.incarnations(), self._pool.handles()
        return {i: handles[i] for i in sorted(indices) if i in handles and numbers[i] == self._asked.get(i)}

    def _living(self, team: Mapping[int, Handle]) -> dict[int, Handle]:
        """Return those of ``team`` whose processes answer."""
        found = {}
        for index, handle in team.items():
            with contextlib.suppress(PartLost, TimeoutError):
                handle.ready().result(SILENCE_S)
                found[index] = handle
        return found

    def _lose(self, lost: Mapping[int, str], numbers: Mapping[int, int], learnt: bool = False) -> None:
        """Tell the pool of lost workers; their fragments are lost too unless they were ``learnt`` from."""
        present = self._pool.incarnations()
        for index, text in lost.items():
            if present[index] == numbers.get(index):
                self._pool.lose(index, text, 0 if learnt or index not in self._tokens else 1)
            if not learnt:
                self._tokens.pop(index, None)
