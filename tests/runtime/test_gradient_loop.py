"""The loop of A3C over fake parts: arrival order, one thing per worker, staleness, and workers that die."""

import pytest
from runtime_fakes import Clock, Cluster, Later, Makes, token_of

from drl_cli.algorithms.a3c import A3CConfig
from drl_cli.runtime.cluster import PartLost
from drl_cli.runtime.loops.gradients import GradientLoop
from drl_cli.runtime.pool import WorkerPool

pytestmark = pytest.mark.process

STEPS = 100


class Learner:
    """A learner's handle: one gradient after the other, ``takes`` seconds each; None: when ``finish`` is called."""

    def __init__(self, cluster, takes=0.01, prepare=0.0):
        self.cluster, self.takes, self.prepare = cluster, takes, prepare
        self.applied, self.steps, self.open = [], [], []
        self.version, self._free_at = 1, 0.0

    def call(self, method, *args):
        if method == "prepare":
            self._free_at = self.cluster.clock.now + self.prepare
            return self._due(Later(self.prepare))
        assert method == "apply"
        env_steps, seen, gradients = args
        assert seen is None
        self.applied.append(gradients.result()[1])  # the Meta that the fake worker sends as its columns
        self.steps.append(env_steps)
        self.version += 1
        later = Later({"updates": 1, "stats": {"grad_norm": 2.0}, "seconds": 0.01, "version": self.version})
        if self.takes is None:
            self.open.append(later)
            return later
        self._free_at = max(self._free_at, self.cluster.clock.now) + self.takes
        return self._due(later)

    def finish(self):
        later = self.open.pop(0)
        return later.finish(later.value)

    def _due(self, later):
        later.due = self._free_at
        self.cluster.pending.append(later)
        return later


class Run:
    """A loop over fakes."""

    def __init__(self, workers=2, worker_takes=1.0, apply_takes=0.01, prepare=0.0):
        self.clock = Clock()
        self.cluster = Cluster(self.clock, is_remote=workers > 0)
        self.makes = Makes(self.cluster, takes=worker_takes, steps=STEPS)
        self.pool = WorkerPool(self.cluster, self.makes, max(1, workers), 2, self.clock)
        self.learner = Learner(self.cluster, apply_takes, prepare)
        config = A3CConfig(num_workers=workers, seed=1)
        self.loop = GradientLoop(self.cluster, self.pool, self.learner, config)
        self.loop.start()
        self.pool.start({})

    def steps(self, count, check=lambda run: None):
        for _ in range(count):
            self.loop.step()
            check(self)


def test_gradients_are_applied_in_the_order_in_which_they_arrive():
    run = Run(workers=3, worker_takes=None)
    run.steps(1)
    first, second, third = run.makes.made
    for worker in (second, third, first):
        worker.deliver()
        run.steps(1)
    assert [meta.worker for meta in run.learner.applied] == [1, 2, 0]
    run.steps(3)
    assert run.loop.ledger.updates == 3 and run.loop.trained() == run.loop.sampled == 300
    assert run.learner.steps == [100, 200, 300]


def test_worker_has_one_thing_under_way_a_gradient_or_its_application():
    def check(run):
        with_learner = [token.meta.worker for _, token in run.loop._applying]
        for worker in run.makes.made:
            under_way = sum(not token.over for token, _ in worker.open)
            assert under_way + with_learner.count(worker.index) <= 1

    run = Run(workers=3, apply_takes=0.7)
    run.steps(60, check)
    assert run.loop.ledger.updates > 10


def test_worker_is_asked_again_for_weights_that_hold_its_own_gradient_and_others_are_left_alone():
    run = Run(workers=2, worker_takes=None, apply_takes=None)
    run.steps(1)
    first, second = run.makes.made
    assert first.asked == second.asked == [(1, None)]
    first.deliver()
    run.steps(2)
    assert len(first.asked) == 1  # its gradient has not been applied yet
    run.learner.finish()
    run.steps(2)
    assert first.asked == [(1, None), (2, None)] and len(second.asked) == 1
    second.deliver()
    run.steps(2)
    run.learner.finish()
    run.steps(2)
    assert second.asked == [(1, None), (3, None)] and len(first.asked) == 2


def test_staleness_is_how_many_other_gradients_came_between():
    run = Run(workers=3, worker_takes=None)
    run.steps(1)
    first, second, third = run.makes.made
    for worker in (first, second, third):
        worker.deliver()
        run.steps(3)
    # All were computed with version 1: the second came behind one other, the third behind two.
    assert run.loop.info() == {"weight_lag_mean": 1.0, "weight_lag_max": 2}
    assert run.loop.info() == {"weight_lag_mean": None, "weight_lag_max": None}
    third.deliver(meta=third.open[0][0].value.meta._replace(version=4))
    run.steps(3)
    assert run.loop.info() == {"weight_lag_mean": 0.0, "weight_lag_max": 0}


def test_worker_that_dies_takes_its_gradient_along_and_its_successor_goes_on():
    run = Run(workers=2)
    run.steps(10)
    before = list(run.learner.applied)
    run.makes.made[0].die()
    run.steps(40)
    assert [worker.incarnation for worker in run.makes.made] == [0, 0, 1]
    after = run.learner.applied[len(before) :]
    assert {(meta.worker, meta.incarnation) for meta in after} == {(1, 0), (0, 1)}
    assert len(set(run.learner.applied)) == len(run.learner.applied)  # none twice
    # Both go on as often as before: the batch of nobody has changed.
    share = sum(meta.worker == 0 for meta in after) / len(after)
    assert 0.4 <= share <= 0.6
    assert (run.pool.fragments_lost, run.pool.restarts) == (1, 1)
    run.loop.quiesce()
    assert run.loop.sampled == STEPS * len(run.learner.applied) == STEPS * run.loop.ledger.updates
    assert run.pool.lost_workers == []


def test_gradient_of_a_worker_that_died_behind_it_is_applied_all_the_same():
    run = Run(workers=2, worker_takes=None, apply_takes=None)
    run.steps(1)
    first, second = run.makes.made
    first.deliver()
    run.steps(1)
    first.die()
    second.die()
    run.steps(2)
    assert [meta.worker for meta in run.learner.applied] == [0]
    run.learner.finish()
    run.steps(2)
    assert run.loop.ledger.updates == 1
    successors = run.makes.made[2:]
    # The second's is there at once; the first is found dead when it is asked again.
    assert [(worker.index, worker.incarnation) for worker in successors] == [(1, 1)]
    assert successors[0].asked[0][0] >= 1
    run.steps(3)
    assert sorted((worker.index, worker.incarnation) for worker in run.makes.made[2:]) == [(0, 1), (1, 1)]


def test_while_the_learner_loads_each_worker_computes_one_gradient():
    run = Run(workers=2, prepare=10.0)
    run.steps(8)
    assert [len(worker.asked) for worker in run.makes.made] == [1, 1]
    assert not run.loop.is_learning and run.loop.waiting() == "workers are waiting for the learner to load"
    assert run.loop.stored == 200 and run.loop.ledger.updates == 0
    run.steps(60)
    assert run.loop.is_learning and run.loop.ledger.updates > 2


def test_quiesce_leaves_nothing_under_way():
    run = Run(workers=3, apply_takes=0.5)
    run.steps(7)
    run.loop.quiesce()
    assert run.pool.outstanding == 0 and run.loop.stored == 0
    assert run.loop.ledger.updates == len(run.learner.applied) == run.loop.sampled // STEPS


def test_settle_deals_with_what_the_learner_has_and_leaves_the_workers():
    run = Run(workers=2, worker_takes=None, apply_takes=None)
    run.steps(1)
    run.makes.made[0].deliver()
    run.steps(1)
    run.learner.finish()
    run.loop.settle()
    assert run.loop.ledger.updates == 1 and run.loop.stored == 0 and run.pool.outstanding == 1


def test_lost_learner_ends_the_run():
    run = Run(workers=1, worker_takes=None, apply_takes=None)
    run.steps(1)
    run.makes.made[0].deliver()
    run.steps(1)
    run.learner.open[0].fail(PartLost("learner", "killed"))
    with pytest.raises(PartLost, match="learner was lost"):
        run.steps(2)


def test_without_workers_there_is_one_gradient_at_a_time_and_none_is_stale():
    run = Run(workers=0)
    run.steps(40)
    (worker,) = run.makes.made
    assert run.loop.ledger.updates > 5
    assert worker.asked == [(version, version) for version in range(1, len(worker.asked) + 1)]


def test_counters_go_on_from_a_state():
    run = Run(workers=2)
    run.steps(30)
    run.loop.quiesce()
    state = run.loop.state()
    other = Run(workers=2)
    other.loop.load(state, with_replay=False)
    assert (other.loop.sampled, other.loop.ledger.updates, other.loop.trained()) == (
        run.loop.sampled,
        run.loop.ledger.updates,
        run.loop.trained(),
    )
    assert other.loop.state() == state


def test_token_with_notes_of_an_environment_is_reported_once_it_arrives():
    run = Run(workers=1, worker_takes=None)
    run.steps(1)
    worker = run.makes.made[0]
    token = token_of(0, 0, 0)
    assert token.episodes == ()
    worker.deliver(episodes=((21.0, 21),))
    run.steps(2)
    assert run.loop.ledger.meters.episodes == 1 and run.loop.ledger.meters.reward_mean() == 21.0
