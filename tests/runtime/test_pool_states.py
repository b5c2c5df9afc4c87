"""The pool of workers in any order of what happens to them: hypothesis looks for one in which it differs from a plain model."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from orders import compared_in
from runtime_fakes import Clock, Cluster, Makes

from drl_cli.errors import WorkersFailed
from drl_cli.runtime import pool as pools

ANY = st.integers(0, 10**6)
SUBSETS = st.none() | st.sets(st.integers(0, 2))
DEATHS = 3  # in a row, until a worker is given up; ten in the program, which orders of this length would not reach


class Model:
    """One worker index as a plain record: what the documentation of ``WorkerPool`` says of it."""

    def __init__(self):
        self.incarnation = self.deaths = 0
        self.handle = None  # the fake that is there
        self.runs = False  # whether it may be called
        self.calls = []  # numbers of the fragments that are outstanding, oldest first
        self.asked = 0  # fragments of this incarnation
        self.due = 0.0  # when the next incarnation is made, None: never
        self.silent_since = self.slowest = 0.0

    def limit(self):
        return max(60.0, 20 * self.slowest) if self.slowest else 300.0


class Pool(RuleBasedStateMachine):
    """Workers that deliver, die noticed and unnoticed, hang, and wait for a place."""

    compared = 0

    def __init__(self):
        super().__init__()
        self.clock = Clock()
        self.cluster = Cluster(self.clock)
        self.cluster.is_patient = True
        self.makes = Makes(self.cluster)
        self.pool = pools.WorkerPool(self.cluster, self.makes, 3, 2, self.clock)
        self.models = [Model() for _ in range(3)]
        self.asked = self.taken = self.lost = 0
        self.losses, self.is_over = [], False

    @initialize(placed=st.booleans())
    def begin(self, placed):
        self.makes.placed = placed
        self.pool.start({})
        for index, model in enumerate(self.models):
            model.handle, model.runs = self.makes.made[index], True  # at the start all may be called, placed or not

    # What the model does.

    def spawn_due(self):
        """Let the model have the successors that are due, in the order of their indices."""
        for index, model in enumerate(self.models):
            if model.handle is None and model.due is not None and self.clock.now >= model.due:
                others = any(other.runs and other.handle.placed.over for other in self.models if other.handle)
                mark = (index, model.incarnation)
                [model.handle] = [one for one in self.makes.made if (one.index, one.incarnation) == mark]
                model.silent_since, model.asked = self.clock.now, 0
                model.runs = model.handle.placed.over or not others

    def lose(self, index):
        """Let the model lose a worker with what it had in hand."""
        model = self.models[index]
        self.lost += len(model.calls)
        self.losses.append(index)
        model.handle, model.runs, model.calls = None, False, []
        model.incarnation, model.deaths = model.incarnation + 1, model.deaths + 1
        delays = {1: 0.0, 2: 1.0, DEATHS: None}
        model.due = None if delays[model.deaths] is None else self.clock.now + delays[model.deaths]
        self.is_over = all(other.due is None for other in self.models)

    def losing(self, index, act):
        """Lose a worker in ``act``, which must end the run where it was the last one that was not given up."""
        self.lose(index)
        if self.is_over:
            with pytest.raises(WorkersFailed, match="Every rollout worker died 3 times in a row"):
                act()
        else:
            assert not act()

    # What happens.

    @precondition(lambda self: not self.is_over)
    @rule(count=st.integers(1, 7), among=SUBSETS, version=st.integers(0, 2))
    def request(self, count, among, version):
        self.pool.request(count, version, among=among)
        self.spawn_due()
        for _ in range(count):
            free = [
                (len(model.calls), index)
                for index, model in enumerate(self.models)
                if model.runs and len(model.calls) < 2 and (among is None or index in among)
            ]
            if not free:
                return
            model = self.models[min(free)[1]]
            if not model.calls:
                model.silent_since = self.clock.now
            assert model.handle.asked[model.asked] == (1 if model.incarnation and version == 0 else version, None)
            model.calls.append(model.asked)
            model.asked, self.asked = model.asked + 1, self.asked + 1

    @precondition(lambda self: any(model.calls for model in self.models))
    @rule(place=ANY)
    def deliver(self, place):
        busy = [index for index, model in enumerate(self.models) if model.calls]
        index = busy[place % len(busy)]
        model, reference = self.models[index], self.pool.oldest()[index]
        if not reference.over:
            model.handle.placed.finish(1)  # a process that delivers has its place
            assert model.handle.deliver() is reference
        if reference.error is not None:
            self.losing(index, lambda: self.pool.take(reference))
            return
        token, columns = self.pool.take(reference)
        assert token.meta[:3] == (index, model.incarnation, model.calls.pop(0))
        assert columns.result() == ("columns", token.meta)
        model.slowest = max(model.slowest, self.clock.now - model.silent_since)
        model.silent_since, model.deaths, self.taken = self.clock.now, 0, self.taken + 1

    @precondition(lambda self: any(model.handle for model in self.models))
    @rule(place=ANY)
    def die_unnoticed(self, place):
        there = [model for model in self.models if model.handle]
        there[place % len(there)].handle.die()

    @precondition(lambda self: not self.is_over)
    @rule(index=st.integers(0, 2), unlearnt=st.integers(0, 2))
    def die_outside_of_collect(self, index, unlearnt):
        there = self.models[index].handle
        unlearnt = min(unlearnt, self.taken)
        if there is None:
            self.pool.lose(index, "death", unlearnt)  # as if it had not been called
            return
        self.losing(index, lambda: self.pool.lose(index, "death", unlearnt))
        self.taken, self.lost = self.taken - unlearnt, self.lost + unlearnt
        assert self.cluster.killed[-1] is there

    @precondition(lambda self: not self.is_over)
    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 5.0, 61.0, 301.0]))
    def wait(self, seconds):
        self.clock.now += seconds
        killed, silent = len(self.cluster.killed), []
        for index, model in enumerate(self.models):
            if model.handle is None:
                continue
            if model.handle.placed.over:
                model.runs = True
            else:
                model.silent_since = self.clock.now
            if model.calls and self.clock.now - model.silent_since > model.limit():
                silent.append((index, model.handle))
        for index, _ in silent[:-1]:
            self.lose(index)
        if silent:
            self.losing(silent[-1][0], self.pool.watch)
        else:
            self.pool.watch()
        assert self.cluster.killed[killed:] == [handle for _, handle in silent]

    @precondition(lambda self: any(model.handle is None and model.due is not None for model in self.models))
    @rule(early=st.sampled_from([0.0, 0.25]))
    def wait_for_a_successor(self, early):
        due = min(model.due for model in self.models if model.handle is None and model.due is not None)
        self.clock.now = max(self.clock.now, due - early)
        self.request(1, None, 0)

    @rule(placed=st.booleans())
    def have_room(self, placed):
        self.makes.placed = placed

    @rule(place=ANY)
    def find_a_place(self, place):
        waiting = [model.handle for model in self.models if model.handle and not model.handle.placed.over]
        if waiting:
            waiting[place % len(waiting)].placed.finish(1)

    @invariant()
    def pool_is_as_its_model(self):
        if not self.makes.made:
            return
        assert self.pool.outstanding == sum(len(model.calls) for model in self.models)
        assert (self.pool.requested, self.pool.taken, self.pool.fragments_lost) == (self.asked, self.taken, self.lost)
        assert self.pool.handles() == {index: model.handle for index, model in enumerate(self.models) if model.handle}
        assert self.pool.healthy == sum(model.runs for model in self.models)
        assert all(len(model.handle.asked) == model.asked for model in self.models if model.handle)
        assert self.pool.incarnations() == {index: model.incarnation for index, model in enumerate(self.models)}
        assert self.pool.lost_workers == self.losses
        marks = [(worker.index, worker.incarnation) for worker in self.makes.made]
        assert len(set(marks)) == len(marks)  # none is made twice
        assert self.pool.restarts == len(self.makes.made) - 3
        Pool.compared += 1


@pytest.fixture(autouse=True)
def given_up_early(monkeypatch):
    monkeypatch.setattr(pools, "MAX_DEATHS", DEATHS)


def test_whatever_happens_to_workers_the_pool_is_as_its_model_says():
    assert compared_in(Pool, 50, 40) > 50 * 5


@pytest.mark.slow
def test_20_000_orders_of_what_happens_to_workers_leave_the_pool_as_its_model_says():
    assert compared_in(Pool, 20_000, 40) > 20_000 * 5
