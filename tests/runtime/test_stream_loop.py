"""The stream over fake parts: its bound holds, nobody waits, versions mix, a lost worker changes nothing but the pace."""

import pytest
from trajectory_fakes import Run

from drl_cli.errors import RunFailed
from drl_cli.runtime.loops.stream import StreamPlan

pytestmark = pytest.mark.process

SMALL = {
    "num_workers": 2,
    "num_envs_per_worker": 4,
    "rollout_fragment_length": 25,
    "train_batch_size": 400,
    "learner_queue_size": 2,
}
FRAGMENTS, ROOM = 4, 8  # of a batch, and of the queue


def stream(worker_takes, learner_takes, rests=False, **keys):
    return Run(
        "IMPALA", lambda c: StreamPlan(c, rests), worker_takes, learner_takes, is_remote=not rests, **(SMALL | keys)
    )


def held(run):
    return len(run.plan._queue) + run.pool.outstanding


def assert_bounded(run):
    assert held(run) <= ROOM


def test_slow_learner_holds_sampling_back_and_is_never_without_work():
    run = stream(worker_takes=0.001, learner_takes=0.1)
    run.steps(3000, assert_bounded)
    assert len(run.learner.batches) > 100
    assert len(run.learner.batches) * 0.1 >= 0.95 * run.seconds
    assert run.loop.waiting() in ("workers are waiting for the learner", "")


def test_slow_workers_are_never_without_work():
    run = stream(worker_takes=1.0, learner_takes=0.001)
    run.steps(2000, assert_bounded)
    assert run.loop.sampled >= 0.95 * 200 * run.seconds  # two of them side by side
    assert run.loop.trained() == 400 * len(run.learner.batches)
    assert run.loop.sampled - run.loop.trained() <= 100 * ROOM


@pytest.mark.parametrize(("worker_takes", "learner_takes"), [(0.001, 0.1), (0.1, 0.1), (0.05, 0.1), (1.0, 0.001)])
def test_what_is_learnt_is_never_older_than_the_queue_is_long(worker_takes, learner_takes):
    run = stream(worker_takes, learner_takes)
    run.steps(2000)
    info = run.loop.info()
    # One batch for every FRAGMENTS of the ROOM fragments before it, and the one that was being learnt.
    assert info["weight_lag_max"] <= ROOM / FRAGMENTS + 1
    assert 0 <= info["weight_lag_mean"] <= info["weight_lag_max"]
    assert run.loop.info()["weight_lag_mean"] is None  # since the last time: nothing


def test_batches_hold_the_oldest_fragments_in_the_order_of_arrival_whatever_their_versions():
    run = stream(worker_takes=0.03, learner_takes=0.02)
    run.makes.made[1].takes = 0.01
    run.steps(1000)
    assert all(len(batch) == FRAGMENTS for batch in run.learner.batches)
    learnt = [meta for batch in run.learner.batches for meta in batch]
    assert len(set(learnt)) == len(learnt)
    for worker in (0, 1):
        sequence = [meta.sequence for meta in learnt if meta.worker == worker]
        assert sequence == list(range(len(sequence)))
    assert sum(meta.worker for meta in learnt) > 0.6 * len(learnt)  # the quicker one brings more
    assert any(len({meta.version for meta in batch}) > 1 for batch in run.learner.batches)


def test_the_queue_has_room_for_a_fragment_of_every_worker():
    run = stream(0.1, 0.0001, num_workers=32, learner_queue_size=1)
    run.steps(2000, lambda run: held(run) <= 32)
    assert run.loop.sampled >= 0.9 * 32 * 1000 * run.seconds


def test_requests_in_flight_of_a_worker_are_bounded_by_their_key():
    run = stream(10.0, 0.1, max_sample_requests_in_flight_per_worker=3, learner_queue_size=100)
    run.loop.step()
    assert [len(worker.open) for worker in run.makes.made] == [3, 3]


def test_a_killed_worker_does_not_stop_the_stream_and_its_successor_joins_it():
    run = stream(worker_takes=0.05, learner_takes=0.01)
    run.steps(200)
    run.makes.made[0].die()
    before = len(run.learner.batches)
    run.steps(400)
    assert len(run.learner.batches) > before + 20
    assert [worker.incarnation for worker in run.makes.made] == [0, 0, 1]
    late = [meta for batch in run.learner.batches[-10:] for meta in batch]
    assert {(meta.worker, meta.incarnation) for meta in late} == {(0, 1), (1, 0)}
    assert all(len(batch) == FRAGMENTS for batch in run.learner.batches)
    assert (run.pool.restarts, run.pool.fragments_lost) == (1, 2)
    assert run.loop.sampled == 100 * (FRAGMENTS * len(run.learner.batches) + len(run.plan._queue))


def test_broadcast_interval_counts_the_batches_between_two_versions():
    run = stream(0.01, 0.05, broadcast_interval=5)
    run.steps(500)
    assert run.loop.ledger.version == 1 + len(run.learner.batches) // 5
    assert run.loop.info()["weight_lag_max"] <= 2


def test_old_fragments_join_in_the_proportion_asked_for_and_no_others_than_the_newest():
    run = stream(0.01, 0.01, replay_proportion=0.5, replay_buffer_num_slots=10, learner_queue_size=4)
    run.steps(6000)
    learnt = [meta for batch in run.learner.batches for meta in batch]
    again = len(learnt) - len(set(learnt))
    assert again / len(set(learnt)) == pytest.approx(0.5, abs=0.05)
    assert run.loop.info()["num_steps_replayed"] >= 100 * again
    newest = {0: -1, 1: -1}
    for meta in learnt:
        assert meta.sequence > newest[meta.worker] - 10 - ROOM * 2
        newest[meta.worker] = max(newest[meta.worker], meta.sequence)
    # What was new counts as sampled once, and shows its filter's statistics once.
    assert run.loop.sampled == 100 * (len(set(learnt)) + sum(is_new for _, _, is_new in run.plan._queue))


def test_batches_take_turns_and_each_is_learnt_as_often_as_it_has_passes():
    run = stream(0.001, 0.01, num_sgd_iter=3, minibatch_buffer_size=2)
    run.steps(1000)
    names = [tuple(batch) for batch in run.learner.batches]
    whole = list(dict.fromkeys(names))[:-2]
    assert len(whole) > 20
    assert {names.count(name) for name in whole} == {3}
    first, second = names[0], names[1]
    assert first != second
    assert names[:6].count(first) == 3
    run.cluster.advance(1.0)
    run.loop.settle()
    assert run.loop.trained() == 400 * len(set(names))


def test_an_idle_learner_ends_the_run_with_the_key_that_says_when():
    run = stream(worker_takes=50.0, learner_takes=0.01, learner_queue_timeout=60.0)
    with pytest.raises(RunFailed, match="learner_queue_timeout"):
        run.steps(2000)
    assert 60 <= run.seconds < 70


def test_quiesce_leaves_no_call_outstanding_and_keeps_what_waits():
    run = stream(worker_takes=0.05, learner_takes=0.07)
    run.steps(301)
    run.loop.quiesce()
    assert (run.pool.outstanding, run.loop._pending()) == (0, [])
    before, waits = len(run.learner.batches), run.loop.stored
    assert run.loop.sampled == 400 * before + waits
    run.steps(300)
    assert len(run.learner.batches) > before + 20


def test_a_run_that_rests_completes_the_batch_that_was_begun_and_learns_from_it():
    run = stream(
        worker_takes=0.01, learner_takes=0.01, rests=True, num_workers=0, num_sgd_iter=2, minibatch_buffer_size=3
    )
    for count in (1, 3, 10, 17):
        run.steps(count)
        run.loop.quiesce()
        assert (held(run), run.plan._turns.pending, run.loop._pending()) == (0, False, [])
        assert run.loop.sampled == run.loop.trained() > 0
        sampled = run.loop.sampled
        run.loop.quiesce()
        assert run.loop.sampled == sampled


def test_quiesce_ends_where_every_fragment_brings_an_old_one():
    keys = {"replay_proportion": 1.0, "replay_buffer_num_slots": 3, "num_workers": 0}
    run = stream(worker_takes=0.01, learner_takes=0.01, rests=True, **keys)
    run.steps(7)
    run.loop.quiesce()
    assert held(run) == 0


def test_workers_fill_the_queue_while_the_learner_loads():
    run = Run("IMPALA", lambda c: StreamPlan(c, False), 0.01, 0.01, prepare=60.0, **SMALL)
    run.steps(100)
    assert not run.loop.is_learning
    assert (run.loop.stored, run.pool.outstanding) == (100 * ROOM, 0)
    assert run.loop.waiting() == "workers are waiting for the learner to load"
    run.steps(300)
    assert run.loop.is_learning
    assert run.loop.ledger.updates > 10


def test_counters_and_draws_go_on_from_their_state():
    keys = {"replay_proportion": 0.5, "replay_buffer_num_slots": 10}
    run = stream(0.01, 0.01, **keys)
    run.steps(500)
    run.loop.quiesce()
    facts = run.loop.state()
    other = stream(0.01, 0.01, **keys)
    other.loop.load(facts, False)
    assert (other.loop.sampled, other.loop.ledger.updates) == (run.loop.sampled, run.loop.ledger.updates)
    assert other.loop.trained() == run.loop.trained() > 0
    assert other.loop.state()["plan"] == facts["plan"]
    assert other.plan._stock._rng.random() == run.plan._stock._rng.random()


def test_aggregators_join_ahead_of_the_learner_which_never_waits_for_them():
    run = stream(worker_takes=0.001, learner_takes=0.1, joins=[0.09])
    run.steps(2000)
    assert len(run.learner.batches) * 0.1 >= 0.95 * run.seconds
    alone = stream(worker_takes=0.001, learner_takes=0.1, joins=[0.2])  # takes twice as long as the learner
    alone.steps(2000)
    assert len(alone.learner.batches) * 0.2 == pytest.approx(alone.seconds, rel=0.05)
    two = stream(worker_takes=0.001, learner_takes=0.1, joins=[0.19, 0.19])
    two.steps(2000)
    assert len(two.learner.batches) * 0.1 >= 0.95 * two.seconds
    assert abs(two.aggregators[0].calls - two.aggregators[1].calls) <= 1


def test_joined_batches_are_learnt_from_in_the_order_of_the_fragments():
    run = stream(worker_takes=0.03, learner_takes=0.02, joins=[0.05, 0.001])
    run.steps(1000)
    assert all(len(batch) == FRAGMENTS for batch in run.learner.batches)
    learnt = [meta for batch in run.learner.batches for meta in batch]
    assert len(set(learnt)) == len(learnt) > 100
    for worker in (0, 1):
        sequence = [meta.sequence for meta in learnt if meta.worker == worker]
        assert sequence == list(range(len(sequence)))


def test_quiesce_learns_from_what_is_joined_and_counts_what_waits():
    run = stream(worker_takes=0.001, learner_takes=0.07, joins=[0.01, 0.01])
    run.steps(301)
    assert run.loop.info()["batches_joined"] == 2
    learning = 400 * (run.loop._running is not None)
    assert run.loop.sampled == run.loop.trained() + learning + run.loop.stored
    run.loop.quiesce()
    assert (run.pool.outstanding, run.loop._pending(), run.loop.info()["batches_joined"]) == (0, [], 0)
    assert run.loop.sampled == run.loop.trained() + run.loop.stored


def test_lag_of_a_joined_batch_is_that_when_it_is_learnt_from():
    run = stream(worker_takes=0.001, learner_takes=0.1, joins=[0.01])
    run.steps(2000)
    lags = run.loop.info()
    assert lags["weight_lag_mean"] > ROOM / FRAGMENTS  # a batch more waits than without
    assert lags["weight_lag_max"] <= ROOM / FRAGMENTS + 2


def test_a_joined_batch_that_takes_turns_counts_once():
    run = stream(0.001, 0.01, num_sgd_iter=3, minibatch_buffer_size=2, joins=[0.001, 0.001])
    run.steps(1000)
    run.cluster.advance(1.0)
    run.loop.settle()
    assert run.loop.trained() == 400 * len({tuple(batch) for batch in run.learner.batches})


def test_seconds_of_joining_are_those_since_the_last_time():
    run = stream(worker_takes=1.0, learner_takes=0.01, joins=[0.25])
    run.steps(100)
    assert run.loop.info()["aggregate_s"] == pytest.approx(0.25 * len(run.learner.batches))
    assert run.loop.info()["aggregate_s"] == 0.0
