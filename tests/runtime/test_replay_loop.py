"""The replay loop over fake parts: the pace holds from both sides, nothing is counted twice, quiesce leaves nothing."""

import threading

import pytest
from runtime_fakes import Clock, Cluster, Learner, Makes, Replay, token_of
from runtime_runs import small_config

from drl_cli.actors.parameter_server import ParameterServer
from drl_cli.config.sections.replay import intensity
from drl_cli.errors import RunFailed
from drl_cli.runtime.cluster import HERE, THREAD, InlineCluster
from drl_cli.runtime.loops.replay import ReplayLoop
from drl_cli.runtime.pool import WorkerPool
from drl_cli.runtime.replay_shards import Shards
from drl_cli.runtime.run_restore import shards_of

pytestmark = pytest.mark.process

PACE = {
    "num_workers": 2,
    "num_envs_per_worker": 4,
    "rollout_fragment_length": 25,
    "train_batch_size": 128,
    "updates_per_call": 50,
    "publish_every": 50,
    "learning_starts": 1500,
    "buffer_size": 1_000_000,
}


class Run:
    """A loop over fakes; ``watch`` is called after every step."""

    def __init__(self, worker_takes, update_takes, prepare=0.0, **over):
        self.config = small_config(**(PACE | over))
        self.clock = Clock()
        self.cluster = Cluster(self.clock)
        steps = self.config.num_envs_per_worker * self.config.rollout_fragment_length
        self.makes = Makes(self.cluster, takes=worker_takes, steps=steps)
        self.pool = WorkerPool(self.cluster, self.makes, max(1, self.config.num_workers), 2, self.clock)
        self.replay, self.learner = Replay(), Learner(self.cluster, update_takes, prepare)
        self.loop = ReplayLoop(self.cluster, self.pool, Shards([self.replay]), self.learner, self.config)
        self.loop.start()
        self.pool.start({})
        self.per_update = self.config.train_batch_size / intensity(self.config)  # env steps of one update
        self.start = max(self.config.learning_starts, self.loop.pace._start)

    def drain(self):
        """Go on without new samples until the learner has nothing left to do."""
        self.pool.request = lambda count, **versions: None
        self.steps(500)

    def steps(self, count, check=lambda run: None):
        for _ in range(count):
            self.loop.step()
            check(self)


def assert_sampling_leads_by_little(run):
    begun = sum(run.learner.counts)
    lead = max(2 * 100 * 2, 2 * 50 * run.per_update)
    assert run.loop.sampled <= run.start + begun * run.per_update + lead


def assert_no_update_before_it_is_owed(run):
    assert sum(run.learner.counts) * run.per_update <= max(0, run.loop.sampled - run.start)


def test_slow_learner_holds_sampling_back():
    run = Run(worker_takes=0.01, update_takes=0.1)
    run.steps(2000, assert_sampling_leads_by_little)
    assert run.loop.ledger.updates > 500
    # The learner is never without work: a hundred updates take ten seconds.
    assert run.loop.ledger.updates * 0.1 >= 0.95 * (run.clock.now - 1000.0)


def test_slow_workers_hold_learning_back():
    run = Run(worker_takes=1.0, update_takes=0.0001)
    run.steps(2000, assert_no_update_before_it_is_owed)
    assert run.loop.sampled > 20_000
    # Two workers side by side, never idle: 200 steps a second.
    assert run.loop.sampled >= 0.95 * 200 * (run.clock.now - 1000.0)


@pytest.mark.parametrize(
    ("asked", "batch", "fragment"), [(None, 128, 25), (256.0, 32, 10), (1.0, 256, 1), (8.0, 128, 200), (0.05, 128, 25)]
)
@pytest.mark.parametrize(("worker_takes", "update_takes"), [(0.05, 0.0001), (0.001, 0.01)])
def test_pace_asked_is_the_pace_got(asked, batch, fragment, worker_takes, update_takes):
    keys = {"training_intensity": asked, "train_batch_size": batch, "rollout_fragment_length": fragment}
    run = Run(worker_takes, update_takes, **keys)
    run.steps(3000)
    run.drain()
    owed = (run.loop.sampled - run.start) / run.per_update
    one_call = max(1, min(50, run.config.num_envs_per_worker * fragment / run.per_update))
    assert run.loop.ledger.updates > 0
    assert 0 <= owed - run.loop.ledger.updates <= one_call
    assert run.loop.intensity == (0.4 * batch if asked is None else asked)


def test_pace_got_is_reported_as_transitions_learnt_per_step_since_learning_began():
    run = Run(worker_takes=0.05, update_takes=0.0001)
    assert run.loop.intensity_got() is None
    run.steps(2000)
    run.drain()
    assert run.loop.intensity_got() == pytest.approx(51.2, abs=51.2 * 40 / run.loop.ledger.updates)
    assert run.loop.trained() == run.loop.ledger.updates * 128


def test_workers_sample_while_the_learner_loads_but_not_for_ever():
    run = Run(worker_takes=0.01, update_takes=0.001, prepare=60.0)
    run.steps(200)
    assert not run.loop.is_learning
    assert run.loop.sampled == 1900  # learning_starts and the lead: two fragments of each worker
    assert run.loop.waiting() == "workers are waiting for the learner to load"
    run.steps(500)
    assert run.loop.is_learning
    assert run.loop.ledger.updates > 0


def test_no_more_updates_than_one_call_holds_and_batches_are_drawn_ahead():
    run = Run(worker_takes=0.01, update_takes=0.001)
    run.steps(500)
    assert max(run.learner.counts) <= 50
    assert min(run.learner.counts) >= 40  # one fragment's worth of updates: 100 steps · 0.4
    blocks = [block.result() for block in run.learner.blocks]
    assert [count for _, _, count in blocks] == run.learner.counts
    assert [number for _, number, _ in blocks] == list(range(1, len(blocks) + 1))
    assert len(run.replay.samples) == len(blocks) + (run.loop._prepared is not None)


def test_quiesce_leaves_nothing_outstanding_and_the_loop_goes_on_after_it():
    run = Run(worker_takes=0.05, update_takes=0.01)
    run.steps(500)
    run.loop.quiesce()
    assert (run.pool.outstanding, run.loop._pending()) == (0, [])
    assert run.loop.ledger.updates == sum(run.learner.counts)
    assert run.loop.sampled == 100 * len(run.replay.added)
    before = run.loop.ledger.updates
    run.steps(500)
    assert run.loop.ledger.updates > before + 100


def test_quiesce_ends_although_a_worker_dies_meanwhile():
    run = Run(worker_takes=5.0, update_takes=0.01)
    run.steps(3)
    run.makes.made[0].die()
    run.loop.quiesce()
    assert run.pool.outstanding == 0
    assert run.replay.cut == [0]


def test_dead_worker_s_streams_are_cut_and_its_fragments_not_counted():
    run = Run(worker_takes=0.05, update_takes=0.0001)
    run.steps(50)
    sampled = run.loop.sampled
    run.makes.made[0].die()
    run.steps(2)
    assert run.replay.cut == [0]
    assert run.pool.fragments_lost >= 1
    run.steps(50)
    assert run.loop.sampled == 100 * len(run.replay.added) > sampled
    assert {meta.incarnation for meta in run.replay.added if meta.worker == 0} == {0, 1}


def test_loop_without_anything_under_way_lets_time_pass():
    run = Run(worker_takes=0.05, update_takes=0.0001, learning_starts=0)
    run.makes.born_dead = True
    for worker in run.makes.made:
        worker.die()
    run.steps(4)  # the workers, and their successors too, which are not replaced at once
    run.loop.quiesce()
    assert run.pool.healthy == 0
    began = run.clock.now
    run.loop.step()
    assert run.clock.now - began == 0.25


def deliver(run, token):
    """Hand ``token`` to the loop as a fragment that has come."""
    if not run.pool.outstanding:
        run.loop._request_samples()
    worker = next(w for w in run.makes.made if w.open)
    reference = worker.deliver(**token._asdict())
    run.loop._deal([reference])


def test_fragment_that_has_been_seen_counts_neither_steps_nor_episodes():
    run = Run(worker_takes=None, update_takes=0.001)
    deliver(run, token_of(0, 0, 0, episodes=((-5.0, 7),)))
    deliver(run, token_of(0, 0, 0, episodes=((-5.0, 7),), bad_transitions=3))
    assert (run.loop.sampled, run.loop.ledger.meters.episodes, run.loop.ledger.meters.bad_transitions) == (100, 1, 0)


def test_fragment_of_a_dead_incarnation_is_not_counted():
    run = Run(worker_takes=None, update_takes=0.001)
    deliver(run, token_of(0, 1, 0))
    deliver(run, token_of(0, 0, 5, episodes=((-5.0, 7),)))
    assert (run.loop.sampled, run.loop.ledger.meters.episodes) == (100, 0)


def test_too_many_spoilt_steps_end_the_run_with_the_last_of_them():
    run = Run(worker_takes=None, update_takes=0.001)
    deliver(run, token_of(0, 0, 0, bad_transitions=100, notes=("a", "b failed in step 3")))
    with pytest.raises(RunFailed) as caught:
        deliver(run, token_of(0, 0, 1, bad_transitions=1, notes=("c", "d failed in step 4")))
    assert str(caught.value) == ("101 of 301 env steps were lost to environment errors. The last: d failed in step 4")
    assert caught.value.exit_code == 3


def test_one_spoilt_step_in_a_hundred_is_borne(reports):
    run = Run(worker_takes=None, update_takes=0.001)
    deliver(run, token_of(0, 0, 0, steps=20_000))
    deliver(run, token_of(0, 0, 1, bad_transitions=150, notes=("Env failed in step 4 of an episode with seed 9",)))
    assert [fields["text"] for kind, fields in reports if kind == "warning"] == [
        "Env failed in step 4 of an episode with seed 9"
    ]


def reloaded(run, with_replay=True, **over):
    other = Run(0.05, 0.0001, **over)
    other.loop.load(run.loop.state(), with_replay)
    return other


def test_loop_goes_on_from_its_state_at_the_same_pace():
    run = Run(worker_takes=0.05, update_takes=0.0001)
    run.steps(500)
    run.loop.quiesce()
    other = reloaded(run)
    assert (other.loop.sampled, other.loop.ledger.updates) == (run.loop.sampled, run.loop.ledger.updates)
    assert other.loop._owed() == run.loop._owed()


def test_checkpoint_from_before_there_were_shards_is_gone_on_with():
    run = Run(worker_takes=0.01, update_takes=0.001)
    run.steps(200)
    facts = run.loop.state()
    del facts["shards"]
    other = Run(worker_takes=0.01, update_takes=0.001)
    other.loop.load(facts, True)
    assert (other.loop.sampled, other.loop.ledger.updates) == (run.loop.sampled, run.loop.ledger.updates)
    before = other.loop.ledger.updates
    other.steps(200)
    assert other.loop.ledger.updates > before
    # Its only part's facts stood there as they were, now there is a list of them.
    assert shards_of({"replay": {"seen": []}}) == [{"seen": []}] == shards_of({"replay": [{"seen": []}]})
    assert shards_of({"replay": None}) == []


def test_loop_that_goes_on_without_its_replay_fills_it_first():
    run = Run(worker_takes=0.05, update_takes=0.0001)
    run.steps(500)
    run.loop.quiesce()
    other = reloaded(run, with_replay=False)
    sampled, updates = other.loop.sampled, other.loop.ledger.updates
    while other.loop.ledger.updates == updates:
        other.loop.step()
    assert other.loop.sampled - sampled >= 1500


@pytest.mark.parametrize("asked", [5.0, 500.0])
def test_loop_that_goes_on_at_another_pace_owes_nothing_for_the_past(asked):
    run = Run(worker_takes=0.05, update_takes=0.0001)
    run.steps(3000)
    run.loop.quiesce()
    other = reloaded(run, training_intensity=asked)
    assert other.loop._owed() == 0
    sampled, updates = other.loop.sampled, other.loop.ledger.updates
    other.steps(500)
    other.loop.quiesce()
    got = (other.loop.ledger.updates - updates) * 128 / (other.loop.sampled - sampled)
    assert got == pytest.approx(asked, rel=0.1)


class PushingLearner:
    """Pushes weights in its call, either before or after the worker beside it begins a fragment."""

    def __init__(self, server, worker_first):
        self.server, self.worker_first = server, worker_first
        self.worker_began, self.pushed = threading.Event(), threading.Event()
        self.version = 1

    def prepare(self):
        return 0.0

    def learn(self, block, count, env_steps):
        if self.worker_first:
            self.worker_began.wait(5)
        self.version = self.server.call("push", {}).result()
        self.pushed.set()
        return {"updates": count, "stats": {}, "seconds": 0.0, "version": self.version}


class PullingWorker:
    """Pulls as RolloutWorker does, after or before the push of the running update."""

    def __init__(self, server, learner, worker_first):
        self.server, self.learner, self.worker_first = server, learner, worker_first
        self.version, self.sequence = 0, -1

    def collect(self, min_version, max_version):
        if not self.worker_first and self.sequence > 2:
            self.learner.pushed.wait(0.2)
        found = self.server.call("pull", self.version, max_version).result()
        self.version = found[0] if found else self.version
        self.learner.worker_began.set()
        self.sequence += 1
        return token_of(0, 0, self.sequence, steps=20, version=self.version), ("columns", self.sequence)


def versions_of_inline_run(worker_first):
    config = small_config(num_envs_per_worker=2, learning_starts=40)
    cluster = InlineCluster()
    made = {}

    def part(name, place, factory):
        handle = cluster.spawn(name, "builtins:object", (), place)
        handle.part = made[name] = factory()
        return handle

    server = part("server", HERE, ParameterServer)
    server.call("push", {}).result()
    learner = cluster.spawn("learner", "builtins:object", (), THREAD)
    learner.part = PushingLearner(server, worker_first)
    replay = part("replay", HERE, Replay)
    seen = []
    replay.part.add = lambda token, columns: seen.append(token.meta.version) or token.steps
    replay.part.sample = lambda count, least: (("block", count), None)

    def make(index, incarnation, standing):
        return part("worker", HERE, lambda: PullingWorker(server, learner.part, worker_first))

    pool = WorkerPool(cluster, make, 1, 1)
    loop = ReplayLoop(cluster, pool, Shards([replay]), learner, config)
    loop.start()
    pool.start({})
    while loop.sampled < 400:
        learner.part.worker_began.clear()
        learner.part.pushed.clear()
        loop.step()
    loop.quiesce()
    cluster.close()
    return seen[:20]


def test_weights_pushed_while_a_fragment_begins_inline_are_adopted_at_the_same_fragment_either_way():
    first, second = versions_of_inline_run(True), versions_of_inline_run(False)
    assert first == second
    assert first[-1] > 3
