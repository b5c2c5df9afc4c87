"""The pool of workers over a fake cluster and clock: successors, back-off, giving up, silence, placement."""

import pytest
from runtime_fakes import Clock, Cluster, Later, Makes

from drl_cli.errors import ClusterUnavailable, WorkersFailed
from drl_cli.runtime.pool import WorkerPool
from drl_cli.runtime.pool_rules import PoolRules

pytestmark = pytest.mark.process


def make_pool(size=1, most=2, on_loss="replace", **keywords):
    clock = Clock()
    cluster = Cluster(clock, **keywords)
    makes = Makes(cluster)
    pool = WorkerPool(cluster, makes, size, most, clock, PoolRules(on_loss))
    return pool, makes, cluster, clock


def kill(pool, makes, index=0):
    """Let the running worker ``index`` die and the pool find out."""
    worker = [w for w in makes.made if w.index == index][-1]
    worker.die(f"death of {index}.{worker.incarnation}")
    if not worker.open:
        pool.request(pool._most)
    reference = next(r for r in pool.references() if any(r is token for token, _ in worker.open))
    assert pool.take(reference) is None


def texts(reports, kind):
    return [fields["text"] for name, fields in reports if name == kind]


def test_request_fills_the_least_busy_workers_first():
    pool, makes, _, _ = make_pool(size=3)
    pool.start({})
    pool.request(4)
    assert [len(worker.open) for worker in makes.made] == [2, 1, 1]
    pool.request(10)
    assert [len(worker.open) for worker in makes.made] == [2, 2, 2]
    assert pool.outstanding == 6


def test_request_among_some_workers_asks_no_other():
    pool, makes, _, _ = make_pool(size=3)
    pool.start({})
    pool.request(3, 5, 7, among={0, 2})
    assert [worker.asked for worker in makes.made] == [[(5, 7), (5, 7)], [], [(5, 7)]]


def test_take_returns_token_and_columns_of_the_oldest_call():
    pool, makes, _, _ = make_pool()
    pool.start({})
    pool.request(2)
    token, columns = pool.take(makes.made[0].deliver())
    assert token.meta == (0, 0, 0, 1)
    assert columns.result() == ("columns", (0, 0, 0, 1))
    assert pool.outstanding == 1


def test_delivered_names_the_workers_of_which_a_fragment_was_taken():
    pool, makes, _, clock = make_pool(size=3)
    pool.start({})
    pool.request(3)
    clock.now += 1.0
    references = [makes.made[2].deliver(), makes.made[1].deliver()]
    assert pool.delivered() == frozenset()
    pool.take(references[0])
    assert pool.delivered() == {2}
    kill(pool, makes, 2)
    assert pool.delivered() == {2}


def test_dead_worker_is_replaced_at_once_by_the_next_incarnation(reports):
    pool, makes, _, _ = make_pool(size=2)
    pool.start({})
    pool.request(4)
    kill(pool, makes)
    assert (pool.healthy, pool.fragments_lost, pool.lost_workers, pool.restarts) == (1, 2, [0], 0)
    pool.request(4)
    assert (pool.healthy, pool.restarts) == (2, 1)
    assert (makes.made[-1].index, makes.made[-1].incarnation) == (0, 1)
    assert texts(reports, "worker_lost") == ["worker 0 was lost: death of 0.0"]
    started = [(f["worker"], f["incarnation"]) for kind, f in reports if kind == "worker_started"]
    assert started == [(0, 0), (1, 0), (0, 1)]


def test_successor_waits_for_weights_before_it_acts():
    pool, makes, _, _ = make_pool(most=1)
    pool.start({})
    pool.request(1)
    assert makes.made[0].asked == [(0, None)]
    kill(pool, makes)
    pool.request(1)
    assert makes.made[1].asked == [(1, None)]


def test_worker_of_a_checkpoint_keeps_its_incarnation():
    pool, makes, _, _ = make_pool(size=2)
    pool.start({"0": 3})
    assert [worker.incarnation for worker in makes.made] == [3, 0]
    assert pool.incarnations() == {0: 3, 1: 0}


def test_worker_that_dies_before_it_delivers_is_replaced_later_each_time():
    pool, makes, _, clock = make_pool(most=1)
    pool.start({})
    pool.request(1)
    waits = []
    for _ in range(8):
        kill(pool, makes)
        began = clock.now
        while pool.healthy == 0:
            pool.request(1)
            if pool.healthy == 0:
                clock.now += 0.5
        waits.append(clock.now - began)
    assert waits == [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_delivered_fragment_ends_the_back_off():
    pool, makes, _, clock = make_pool(most=1)
    pool.start({})
    pool.request(1)
    kill(pool, makes)
    pool.request(1)
    kill(pool, makes)
    clock.now += 1.0
    pool.request(1)
    assert pool.take(makes.made[-1].deliver()) is not None
    pool.request(1)
    kill(pool, makes)
    pool.request(1)
    assert pool.healthy == 1


def exhaust(pool, makes, clock, index=0):
    for _ in range(10):
        clock.now += 31.0
        pool.request(10)
        kill(pool, makes, index)


def test_worker_that_died_ten_times_in_a_row_is_given_up_and_the_others_go_on():
    pool, makes, _, clock = make_pool(size=2, most=1)
    pool.start({})
    exhaust(pool, makes, clock)
    clock.now += 1e6
    pool.request(10)
    assert [worker.incarnation for worker in makes.made if worker.index == 0] == list(range(10))
    assert (pool.healthy, pool.restarts) == (1, 9)


def test_last_worker_given_up_ends_the_run_with_the_first_cause():
    pool, makes, _, clock = make_pool(size=2, most=1)
    pool.start({})
    exhaust(pool, makes, clock)
    with pytest.raises(WorkersFailed) as caught:
        exhaust(pool, makes, clock, 1)
    assert str(caught.value) == (
        "Every rollout worker died 10 times in a row. The first cause: worker 0 was lost: death of 0.0"
    )
    assert caught.value.exit_code == 3


def test_first_cause_is_that_of_the_present_row_of_deaths_not_of_one_long_ago():
    pool, makes, _, clock = make_pool(most=1)
    pool.start({})
    pool.request(1)
    kill(pool, makes)
    pool.request(1)
    pool.take(makes.made[-1].deliver())
    with pytest.raises(WorkersFailed, match=r"first cause: worker 0 was lost: death of 0\.1$"):
        exhaust(pool, makes, clock)


def test_silent_worker_is_killed_after_its_limit(reports):
    pool, makes, cluster, clock = make_pool(most=1)
    pool.start({})
    pool.request(1)
    clock.now += 1.0
    pool.take(makes.made[0].deliver())
    pool.request(1)
    clock.now += 60.0
    pool.watch()
    assert cluster.killed == []
    clock.now += 0.5
    pool.watch()
    assert cluster.killed == [makes.made[0]]
    assert texts(reports, "worker_lost") == ["silent for 60 s"]
    pool.request(1)
    assert makes.made[-1].incarnation == 1


def test_slow_worker_may_take_twenty_times_its_slowest():
    pool, makes, cluster, clock = make_pool(most=1)
    pool.start({})
    pool.request(1)
    clock.now += 10.0
    pool.take(makes.made[0].deliver())
    pool.request(1)
    clock.now += 199.0
    pool.watch()
    assert cluster.killed == []
    clock.now += 2.0
    pool.watch()
    assert cluster.killed == [makes.made[0]]


def test_pause_without_a_call_is_not_silence():
    pool, makes, cluster, clock = make_pool(most=1)
    pool.start({})
    pool.request(1)
    pool.take(makes.made[0].deliver())
    clock.now += 1000.0
    pool.watch()
    pool.request(1)
    clock.now += 30.0
    pool.watch()
    assert cluster.killed == []


def test_worker_that_hangs_in_its_very_first_fragment_is_killed_too():
    pool, makes, cluster, clock = make_pool(most=1)
    pool.start({})
    pool.request(1)
    clock.now += 299.0
    pool.watch()
    assert cluster.killed == []
    clock.now += 2.0
    pool.watch()
    assert cluster.killed == [makes.made[0]]


def test_worker_that_is_not_placed_warns_every_ten_seconds_and_ends_the_run_after_two_minutes(reports):
    pool, makes, _, clock = make_pool(size=3, cpus=(4.0, 0.5))
    makes.placed = False
    pool.start({})
    makes.made[0].placed = pool._members[0].ready.finish(1)
    pool.request(6)
    pool.watch()
    for _ in range(240):
        clock.now += 0.5
        pool.watch()
    warned = texts(reports, "warning")
    assert len(warned) == 12
    assert set(warned) == {"waiting for 2 of 3 workers to be placed; the cluster has 4 CPUs, 0.5 of them free"}
    with pytest.raises(ClusterUnavailable) as caught:
        for _ in range(21):
            clock.now += 0.5
            pool.watch()
    assert caught.value.exit_code == 75
    assert "still waiting for 2 of 3 workers to be placed; the cluster has 4 CPUs, 0.5 of them free." in str(
        caught.value
    )


def test_successor_gets_no_calls_before_its_process_runs_and_the_others_get_them(reports):
    pool, makes, _, clock = make_pool(size=2)
    pool.start({})
    pool.request(2)
    pool.take(makes.made[0].deliver())
    pool.take(makes.made[1].deliver())
    makes.placed = False  # its node is gone, and there is no other
    kill(pool, makes, 1)
    pool.request(4)
    successor = makes.made[2]
    assert pool.healthy == 1 and not successor.asked and len(makes.made[0].open) == 2
    for _ in range(300):
        clock.now += 0.5
        pool._members[0].answered = clock.now
        pool.watch()
    assert texts(reports, "warning") == [
        "worker 1 has found no place for 10 s: the run goes on with 1 of 2 workers, and with more when there is room"
    ]
    successor.placed.finish(1)
    pool.watch()
    pool.request(4)
    assert pool.healthy == 2 and len(successor.asked) == 2
    started = [(f["worker"], f["incarnation"]) for kind, f in reports if kind == "worker_started"]
    assert started == [(0, 0), (1, 0), (1, 1)]


def test_successors_without_a_place_end_the_run_two_minutes_after_the_last_worker_was_lost():
    pool, makes, _, clock = make_pool(size=2)
    pool.start({})
    makes.placed = False
    kill(pool, makes, 1)
    pool.request(4)
    for _ in range(1000):
        clock.now += 0.5
        pool._members[0].answered = clock.now
        pool.watch()
    kill(pool, makes, 0)
    pool.request(4)
    lost = clock.now
    with pytest.raises(ClusterUnavailable, match="waiting for 2 of 2 workers to be placed"):
        while True:
            clock.now += 0.5
            pool.watch()
    assert 120 < clock.now - lost < 135


def test_requested_fragments_are_taken_lost_or_under_way():
    pool, makes, _, _ = make_pool(size=2)
    pool.start({})
    pool.request(4)
    pool.take(makes.made[0].deliver())
    kill(pool, makes, 1)
    pool.request(9)
    assert (pool.requested, pool.taken, pool.fragments_lost, pool.outstanding) == (7, 1, 2, 4)


def test_placed_leaves_out_workers_that_wait_for_their_place():
    pool, makes, _, _ = make_pool(size=2)
    makes.placed = False
    pool.start({})
    assert pool.placed() == {}
    makes.made[1].placed.finish(1)
    assert pool.placed() == {1: makes.made[1]}


def test_load_waits_for_placement_with_the_same_patience(reports):
    pool, makes, cluster, clock = make_pool()
    makes.placed = False
    pool.start({})
    makes.made[0].call = lambda method, *args: Later()  # what an actor without a place answers
    with pytest.raises(ClusterUnavailable, match="waiting for 1 of 1 workers"):
        pool.load({0: ({}, {})})
    assert clock.now - 1000.0 == pytest.approx(120, abs=15)


def test_ask_hands_its_arguments_to_one_free_worker_among_those_that_may_be_asked():
    pool, makes, _, _ = make_pool(3, most=1)
    pool.start({})
    assert pool.ask({1, 2}, 4, "block") == 1
    assert pool.ask({1}, 4, "other") is None
    assert pool.ask({0, 1, 2}, 5, "other") == 0
    assert [worker.asked for worker in makes.made] == [[(5, "other")], [(4, "block")], []]
    kill(pool, makes, 1)
    assert pool.ask({1}, 6, "block") == 1 and makes.made[3].asked == [(6, "block")]


def test_dropped_worker_is_not_replaced_and_the_others_go_on():
    pool, makes, _, clock = make_pool(size=2, on_loss="drop")
    pool.start({})
    pool.request(4)
    kill(pool, makes)
    clock.now += 1000
    pool.request(4)
    assert (pool.healthy, pool.restarts, len(makes.made), pool.lost_workers) == (1, 0, 2, [0])


def test_last_worker_that_is_dropped_ends_the_run_with_the_first_cause():
    pool, makes, _, _ = make_pool(size=2, on_loss="drop")
    pool.start({})
    pool.request(4)
    kill(pool, makes, 1)
    with pytest.raises(WorkersFailed, match="ignore_worker_failures replaces none. The first cause: .* death of 1.0"):
        kill(pool, makes, 0)


def test_first_loss_ends_the_run_when_nobody_may_be_replaced():
    pool, makes, _, _ = make_pool(size=2, on_loss="fail")
    pool.start({})
    pool.request(4)
    with pytest.raises(WorkersFailed, match="^Worker 1 died, and recreate_failed_workers is false: .* death of 1.0"):
        kill(pool, makes, 1)


def test_patient_cluster_waits_for_workers_without_end(reports):
    pool, makes, cluster, clock = make_pool(size=2)
    cluster.is_patient = True
    pool.start({})
    for member in pool._members:
        member.ready = Later()
    for _ in range(20):
        clock.now += 60
        pool.watch()
    assert texts(reports, "warning")[-1].startswith("waiting for 2 of 2 workers to be placed")


def test_memory_of_the_cluster_is_told_where_workers_ask_for_it(reports):
    pool, makes, cluster, clock = make_pool(size=1)
    pool._rules = PoolRules(memory=2**31)
    cluster.resources = lambda: ({"CPU": 4.0, "memory": 8 * 2**30}, {"CPU": 1.0, "memory": 2**30})
    pool.start({})
    pool._members[0].ready = Later()
    clock.now += 20
    pool.watch()
    assert texts(reports, "warning") == [
        "waiting for 1 of 1 workers to be placed; the cluster has 4 CPUs, 1 of them free, and 8.0 GiB of memory, 1.0 of "
        "them free"
    ]


@pytest.mark.parametrize(("first_s", "restarts"), [(300.0, 1), (500.0, 0), (None, 0)])
def test_first_fragment_may_take_as_long_as_the_rules_say(first_s, restarts):
    clock = Clock()
    cluster = Cluster(clock)
    pool = WorkerPool(cluster, Makes(cluster), 1, 2, clock, PoolRules(first_s=first_s))
    pool.start({})
    pool.request(1)
    clock.now += 400.0
    pool.watch()
    assert len(cluster.killed) == restarts
