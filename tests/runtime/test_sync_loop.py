"""The synchronous loop over fake parts: a batch is of one version, whole, and of everything that was asked for."""

import pytest
from runtime_fakes import token_of
from trajectory_fakes import Run

from drl_cli.runtime.loops.sync import SyncPlan

pytestmark = pytest.mark.process

SMALL = {
    "num_workers": 2,
    "num_envs_per_worker": 4,
    "rollout_fragment_length": 25,
    "train_batch_size": 400,
    "sgd_minibatch_size": 1,
}
WHOLE = {"batch_mode": "complete_episodes"}


def sync(worker_takes, learner_takes=0.01, inline=False, prepare=0.0, **keys):
    keys = SMALL | ({"num_workers": 0} if inline else {}) | keys
    return Run("PPO", SyncPlan, worker_takes, learner_takes, prepare, is_remote=not inline, **keys)


def deliver(run, worker, **over):
    """Let the oldest fragment of a worker come; returns its meta."""
    token = run.makes.made[worker].deliver(**over)
    meta = token.value.meta
    run.loop.step(timeout=0.0)
    return meta


def test_every_batch_is_of_the_newest_version_and_of_as_many_steps_as_asked():
    run = sync(worker_takes=0.05)
    run.steps(400)
    assert len(run.learner.batches) > 50
    for number, batch in enumerate(run.learner.batches):
        assert {meta.version for meta in batch} == {number + 1}
        assert len(batch) == 4
    assert run.loop.trained() == 400 * run.loop.ledger.updates
    assert run.loop.info() == {"fragments_dropped": 0, "fragments_late": 0}


@pytest.mark.parametrize(("asked", "fragments"), [(1, 1), (100, 1), (101, 2), (400, 4), (1000, 10)])
def test_a_batch_is_the_least_number_of_fragments_that_holds_what_is_asked_for(asked, fragments):
    run = sync(0.01, train_batch_size=asked)
    run.steps(200)
    assert len(run.learner.batches) > 5
    assert {len(batch) for batch in run.learner.batches} == {fragments}


def test_workers_sample_side_by_side_and_rest_while_the_learner_learns():
    run = sync(worker_takes=0.1, learner_takes=0.3)
    run.steps(300)
    rounds = len(run.learner.batches)
    assert rounds > 20
    # Two fragments one after the other by each of two workers, then the learner.
    assert run.seconds == pytest.approx(rounds * (2 * 0.1 + 0.3), rel=0.1)
    assert {sum(meta.worker for meta in batch) for batch in run.learner.batches} == {2}


def test_the_first_batch_is_collected_while_the_learner_loads_and_no_second():
    run = sync(worker_takes=0.1, prepare=60.0)
    run.steps(50)
    assert (run.loop.sampled, run.loop.is_learning, run.pool.outstanding) == (400, False, 0)
    assert run.loop.waiting() == "workers are waiting for the learner to load"
    run.steps(300)
    assert run.loop.is_learning and run.loop.ledger.updates > 0
    assert run.learner.batches[0][0].sequence == 0


def test_a_slow_worker_is_waited_for_and_a_quick_one_does_not_take_its_place():
    run = sync(worker_takes=None, train_batch_size=200)
    run.loop.step(timeout=0.0)
    first = deliver(run, 0)
    run.steps(20)
    assert run.pool.outstanding == 1 and not run.learner.batches
    second = deliver(run, 1)
    run.steps(2)
    assert run.learner.batches == [[first, second]]


def test_a_batch_is_in_the_order_of_the_workers_whoever_comes_first():
    run = sync(worker_takes=None)
    run.loop.step(timeout=0.0)
    for worker in (1, 1, 0, 0):
        deliver(run, worker)
    run.steps(2)
    assert [(meta.worker, meta.sequence) for meta in run.learner.batches[0]] == [(0, 0), (0, 1), (1, 0), (1, 1)]


@pytest.mark.parametrize("delivered", [0, 1])
def test_what_a_dying_worker_had_under_way_is_collected_again_and_the_batch_is_whole(delivered):
    run = sync(worker_takes=None)
    run.loop.step(timeout=0.0)
    kept = [deliver(run, 0) for _ in range(delivered)]
    run.makes.made[0].die()
    run.steps(3)
    successor = run.makes.made[2]
    assert (successor.index, successor.incarnation) == (0, 1)
    assert run.pool.fragments_lost == 2 - delivered and not run.learner.batches
    assert all(least == 1 for least, _ in successor.asked)  # it does not begin with uniform actions
    while run.pool.outstanding:
        for number in (1, 2):
            if run.makes.made[number].open:
                deliver(run, number)
    run.steps(2)
    (batch,) = run.learner.batches
    assert len(batch) == 4 and len(set(batch)) == 4 and set(kept) <= set(batch)
    assert sum(meta.worker for meta in batch) == 2  # each worker's share is what it was
    assert run.loop.sampled == 400


def test_a_worker_that_dies_with_every_fragment_makes_no_batch_smaller():
    run = sync(worker_takes=0.05)
    for _ in range(30):
        run.steps(7)
        living = [worker for worker in run.makes.made if not worker.dead]
        if living:
            living[0].die()
    run.makes.born_dead = False
    run.steps(200)
    assert run.pool.restarts > 10 and len(run.learner.batches) > 20
    for number, batch in enumerate(run.learner.batches):
        assert len(batch) == len(set(batch)) == 4
        assert {meta.version for meta in batch} == {number + 1}
    assert run.loop.trained() == 400 * len(run.learner.batches)


def test_a_fragment_of_older_weights_is_dropped_counted_and_asked_for_again():
    run = sync(worker_takes=0.05)
    run.steps(50)
    version = run.plan._floor
    assert version > 3
    before, sampled = len(run.plan._batch), run.loop.sampled
    assert not run.plan.took(token_of(0, 0, 99, version=version - 1), None)
    assert (len(run.plan._batch), run.loop.sampled) == (before, sampled)
    assert run.loop.info() == {"fragments_dropped": 1, "fragments_late": 0}


def test_newer_versions_of_the_same_weights_are_taken():
    """An evaluation pushes what has been pushed already, under a number of its own."""
    run = sync(worker_takes=None, train_batch_size=200)
    run.loop.step(timeout=0.0)
    first = deliver(run, 0)
    run.loop.ledger.version = 2
    second = run.makes.made[1].open[0][0].value.meta
    deliver(run, 1, meta=second._replace(version=2))
    run.steps(2)
    assert run.learner.batches == [[first, second]]
    assert run.loop.info() == {"fragments_dropped": 0, "fragments_late": 0}


def test_whole_episodes_are_collected_until_there_are_enough_steps_and_all_of_them_are_learnt_from():
    run = sync(worker_takes=None, **WHOLE)
    run.loop.step(timeout=0.0)
    assert run.pool.outstanding == 4  # if none brings more than the least
    metas = [deliver(run, 0, steps=350)]
    run.steps(3)
    assert run.pool.outstanding == 3 and not run.learner.batches  # enough, but the others may be longer episodes
    metas += [deliver(run, 0, steps=120), deliver(run, 1, steps=500), deliver(run, 1, steps=100)]
    run.steps(2)
    assert run.learner.batches == [sorted(metas)]
    assert run.loop.sampled == 1070


def test_whole_episodes_of_a_lost_worker_are_asked_for_again_only_as_far_as_steps_are_missing():
    run = sync(worker_takes=None, **WHOLE)
    run.loop.step(timeout=0.0)
    run.makes.made[0].die()
    deliver(run, 1, steps=130)
    deliver(run, 1, steps=130)
    run.steps(3)
    assert run.pool.outstanding == 2  # 140 steps, 100 or more a fragment
    while run.pool.outstanding:
        deliver(run, next(number for number in (1, 2) if run.makes.made[number].open), steps=100)
    run.steps(2)
    assert len(run.learner.batches[0]) == 4 and run.loop.sampled == 460


@pytest.mark.parametrize("after", [1, 3, 10])
def test_quiesce_completes_a_batch_that_has_been_begun(after):
    run = sync(worker_takes=0.05, inline=True)
    run.steps(after)
    run.loop.quiesce()
    assert (run.pool.outstanding, run.loop._pending(), run.loop.stored) == (0, [], 0)
    assert run.loop.sampled == run.loop.trained() == 400 * len(run.learner.batches)
    before = len(run.learner.batches)
    run.loop.quiesce()
    assert len(run.learner.batches) == before
    run.steps(20)
    assert len(run.learner.batches) > before


def test_quiesce_ends_although_a_worker_dies_meanwhile():
    run = sync(worker_takes=5.0)
    run.steps(1)
    run.makes.made[0].die()
    run.loop.quiesce()
    assert run.pool.outstanding == 0 and run.loop.sampled == 400 == run.loop.trained()


def test_loop_goes_on_from_its_state():
    run = sync(worker_takes=0.05, inline=True)
    run.steps(50)
    run.loop.quiesce()
    other = sync(worker_takes=0.05, inline=True)
    other.loop.load(run.loop.state(), False)
    for name in ("sampled", "updates"):
        assert getattr(other.loop.ledger, name) == getattr(run.loop.ledger, name) > 0
    assert other.loop.trained() == run.loop.trained()
    assert other.plan._floor == other.loop.ledger.version


def straggling(**keys):
    """16 workers of one fragment a batch, of which the fourth takes 20 times as long as the others."""
    run = sync(worker_takes=0.1, num_workers=16, train_batch_size=1600, **keys)
    run.makes.made[3].takes = 2.0
    return run


def rate(run, slow=True):
    if not slow:
        run.makes.made[3].takes = 0.1
    while run.seconds < 60:
        run.steps(1)
    return run.loop.trained() / run.seconds


def test_a_worker_twenty_times_slower_costs_no_more_than_its_share_with_a_cutoff():
    usual = rate(straggling(), slow=False)
    assert rate(straggling()) < 0.06 * usual
    run = straggling(straggler_cutoff=0.9)
    assert rate(run) > 0.92 * usual
    assert {len(batch) for batch in run.learner.batches} == {15, 16}
    assert all(batch.count(meta) == 1 for batch in run.learner.batches for meta in batch)


def test_what_comes_late_fills_the_next_batch_that_lacks_fragments():
    run = straggling(straggler_cutoff=0.9)
    rate(run)
    late = [(n, meta) for n, batch in enumerate(run.learner.batches) for meta in batch if meta.version <= n]
    assert len(late) == run.loop.info()["fragments_late"] > 20
    assert {meta.worker for _, meta in late} == {3}
    assert [meta.sequence for _, meta in late] == list(range(len(late)))
    assert run.loop.info()["fragments_dropped"] == 0
    flat = [meta for batch in run.learner.batches for meta in batch]
    assert len(flat) == len(set(flat))


def test_late_fragments_that_find_no_place_are_dropped_the_oldest_first():
    run = sync(worker_takes=None, num_workers=4, train_batch_size=400, straggler_cutoff=0.5)
    run.loop.step(timeout=0.0)
    for worker in (0, 1):
        deliver(run, worker)
    run.steps(2)
    assert run.pool.late(run.plan._floor) == {2, 3}
    token = token_of(9, 0, 0, version=1)
    for number in range(3):
        assert run.plan.took(token._replace(meta=token.meta._replace(sequence=number)), None)
    assert [late.meta.sequence for late, _ in run.plan._late] == [1, 2]
    assert run.loop.info()["fragments_dropped"] == 1


def test_a_late_worker_is_asked_for_nothing_until_it_has_delivered():
    run = straggling(straggler_cutoff=0.9)
    while run.seconds < 1.9:
        run.steps(1)
    assert len(run.learner.batches) > 10 and len(run.makes.made[3].asked) == 1
    while run.seconds < 2.3:
        run.steps(1)
    assert len(run.makes.made[3].asked) == 2


def test_complete_episodes_are_cut_off_by_their_env_steps():
    run = sync(worker_takes=None, straggler_cutoff=0.75, **WHOLE)
    run.loop.step(timeout=0.0)
    assert run.pool.outstanding == 4
    deliver(run, 0, steps=300)
    run.steps(2)
    assert [len(batch) for batch in run.learner.batches] == [1]


def test_quiesce_waits_for_late_workers_and_begins_no_batch():
    run = straggling(straggler_cutoff=0.9)
    run.steps(60)
    run.loop.quiesce()
    assert (run.pool.outstanding, run.loop._pending(), run.plan.is_begun) == (0, [], False)
    assert run.loop.stored == 100  # what came late waits for the next batch


def test_cutoff_that_lets_no_fragment_be_late_is_refused():
    with pytest.raises(
        ValueError, match=r"0\.9 of 4 fragments is all of them; set it to 0\.75 or below, or leave it out"
    ):
        sync(worker_takes=None, straggler_cutoff=0.9)
    with pytest.raises(ValueError, match=r"0\.5 of 1 fragment is all of them; raise train_batch_size, or leave it out"):
        sync(worker_takes=None, straggler_cutoff=0.5, train_batch_size=100)
