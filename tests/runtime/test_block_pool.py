"""The pool of a deterministic run over a fake cluster: which fragment is of which block, on which worker, in which order."""

import pytest
from runtime_fakes import Clock, Cluster, Makes

from drl_cli.runtime.block_pool import BlockPool
from drl_cli.runtime.pool import WorkerPool

pytestmark = pytest.mark.process


def make_pool(workers, blocks, most=2):
    cluster = Cluster(Clock())
    makes = Makes(cluster)
    pool = BlockPool(WorkerPool(cluster, makes, workers, most, cluster.clock), cluster, blocks)
    pool.start({})
    return pool, makes.made, cluster


def asked(worker):
    """(version, block, state) of each call of a worker; an incarnation of 0 and the wish for a state are the same in all."""
    assert all(args[2] == 0 and args[4] is True for args in worker.asked)
    return [(args[0], args[1], args[3]) for args in worker.asked]


def deliver(pool, worker, state):
    """Let a worker finish its oldest fragment, with ``state`` after it."""
    worker.deliver(state=state)
    pool.watch()


def test_fragments_are_of_the_blocks_in_turn_and_a_block_stays_on_its_worker():
    pool, (first, second), _ = make_pool(workers=2, blocks=4, most=8)
    pool.request(6, max_version=3)
    assert asked(first) == [(3, 0, ()), (3, 1, ()), (3, 0, None), (3, 1, None)]
    assert asked(second) == [(3, 2, ()), (3, 3, ())]
    assert (pool.outstanding, pool.under_way(3), pool.under_way(4)) == (6, 6, 0)


def test_fragments_are_taken_in_the_order_of_their_numbers_whichever_comes_first():
    pool, (first, second), _ = make_pool(workers=2, blocks=2)
    pool.request(2, max_version=1)
    deliver(pool, second, "after block 1")
    (reference,) = pool.references()
    assert not reference.done()
    deliver(pool, first, "after block 0")
    token, _ = pool.take(pool.references()[0])
    assert (token.meta.worker, token.state) == (0, None)
    assert pool.take(pool.references()[0])[0].meta.worker == 1
    assert (pool.references(), pool.requested, pool.taken) == ([], 2, 2)


def test_what_a_dead_worker_had_in_hand_is_computed_again_from_the_state_before_it():
    pool, workers, _ = make_pool(workers=2, blocks=2)
    pool.request(4, max_version=5)
    deliver(pool, workers[0], "after fragment 0")
    workers[0].die()
    pool.watch()
    assert asked(workers[2]) == [(5, 0, "after fragment 0")]
    assert (pool.fragments_lost, pool.lost_workers, pool.restarts) == (0, [], 1)


def test_delivered_and_placed_name_workers_and_not_blocks():
    pool, workers, cluster = make_pool(workers=2, blocks=4)
    pool.request(4, max_version=1)
    cluster.clock.now += 1.0
    deliver(pool, workers[1], "after block 2")
    assert pool.delivered() == {1}
    assert set(pool.placed()) == {0, 1}


def test_blocks_of_a_worker_without_a_place_go_to_the_others_and_come_back_with_it():
    pool, workers, _ = make_pool(workers=2, blocks=2)
    makes = pool._pool._make
    pool.request(2, max_version=1)
    makes.placed = False
    workers[0].die()
    assert pool.take(pool.references()[0]) is None
    pool.watch()
    assert asked(workers[1]) == [(1, 1, ()), (1, 0, ())]
    deliver(pool, workers[1], "after block 1")
    deliver(pool, workers[1], "after block 0")
    workers[2].placed.finish(1)
    pool.watch()
    pool.request(1, max_version=1)
    assert asked(workers[2]) == [(1, 0, "after block 0")]


def test_fragments_go_on_from_loaded_states_with_the_block_whose_turn_it_is():
    pool, (worker,), _ = make_pool(workers=1, blocks=3)
    worker.call = lambda method, *args, call=worker.call, **keywords: (
        call("state") if method == "load" else call(method, *args, **keywords)
    )
    pool._cluster.wait = lambda calls, timeout: [call for call in calls if call.finish(1)]
    states = {block: ({}, {"sequence": 2 if block == 0 else 1}) for block in range(3)}
    assert pool.load(states) == 3
    pool.request(2, max_version=9)
    assert asked(worker) == [(9, 1, None), (9, 2, None)]
    assert pool.states() == states
