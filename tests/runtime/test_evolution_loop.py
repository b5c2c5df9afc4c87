"""The loop of evolution over fake parts: rounds closed by index, blocks whole, and workers that die or take long."""

import pytest
from runtime_fakes import Clock, Cluster, Later, Makes, Worker

from drl_cli.evolution.directions import Block, Evaluated
from drl_cli.evolution.keys import ESConfig
from drl_cli.experience.columns import Meta
from drl_cli.runtime.loops.evolution import EvolutionLoop
from drl_cli.runtime.pool import WorkerPool

pytestmark = pytest.mark.process

SECONDS = {"env": 0.0, "policy": 0.0, "total": 0.0}


class Player(Worker):
    """A worker's handle; what a block brings is for the test to say: ``calls`` it takes, ``steps_of`` each of them."""

    calls, steps_of, unperturbed = {}, {}, ()

    def call(self, method, *args, returns=1):
        if method == "state":
            return Later().finish(({}, {}))
        least, most, block = args
        pair = super().call(method, least, most, returns=returns)
        begun = sum(asked[2] == block for asked in self.asked if len(asked) == 3)
        self.asked[-1] = (least, most, block)
        whole = begun + 1 >= self.calls.get(block, 1)
        meta = Meta(self.index, self.incarnation, self.sequence - 1, least)
        steps = self.steps_of.get(block, 10 * block.count)
        told = (meta, steps, ((1.0, steps),), 0, (), SECONDS, {}, {"of": (block, begun)})
        pair[0].value = Evaluated(*told, block, whole, self.unperturbed if whole else ())
        pair[1].finish(("results of", block) if whole else {})
        return pair


class Learner:
    """A learner's handle: keeps what it was given; ``takes`` seconds."""

    name, is_remote = "learner", False

    def __init__(self, cluster, takes):
        self.cluster, self.takes = cluster, takes
        self.rounds, self.seen, self.steps, self.version = [], [], [], 1

    def call(self, method, *args):
        if method == "prepare":
            return Later().finish(0.0)
        assert method == "learn"
        steps, seen, *results = args
        found = [reference.result() for reference in results]
        assert all(words == "results of" for words, _ in found)
        self.rounds.append([block for _, block in found])
        self.seen.append([told["of"] for told in seen])
        self.steps.append(steps)
        self.version += 1
        result = {"updates": 1, "stats": {}, "seconds": 0.01, "version": self.version, "steps": 0}
        later = Later(result, self.cluster.clock.now + self.takes)
        self.cluster.pending.append(later)
        return later


class Run:
    """A loop over fakes: rounds of four blocks of two directions."""

    def __init__(self, monkeypatch, workers=2, worker_takes=1.0, learner_takes=0.1, **keys):
        monkeypatch.setattr("runtime_fakes.Worker", Player)
        Player.calls, Player.steps_of, Player.unperturbed = {}, {}, ()
        self.config = ESConfig(
            **{"seed": 7, "num_workers": workers, "num_envs_per_worker": 4, "episodes_per_batch": 16} | keys
        )
        self.clock = Clock()
        self.cluster = Cluster(self.clock, is_remote=workers > 0)
        self.makes = Makes(self.cluster, takes=worker_takes)
        self.pool = WorkerPool(self.cluster, self.makes, max(1, workers), 2, self.clock)
        self.learner = Learner(self.cluster, learner_takes)
        self.loop = EvolutionLoop(self.cluster, self.pool, self.learner, self.config)
        self.loop.start()
        self.pool.start({})

    def steps(self, count):
        for _ in range(count):
            self.loop.step()

    def until(self, updates):
        for _ in range(400):
            if self.loop.ledger.updates >= updates:
                return
            self.loop.step()
        raise AssertionError("the rounds do not come to an end")


@pytest.fixture
def start(monkeypatch):
    """Function (**keywords of Run) → a Run."""
    return lambda **keywords: Run(monkeypatch, **keywords)


def blocks(number, count=4):
    return [Block(number, 2 * index, 2) for index in range(count)]


def test_round_holds_every_block_once_in_their_order_whoever_was_first(start):
    run = start(workers=3, worker_takes=None)
    run.steps(1)
    first, second, third = run.makes.made
    assert [worker.asked for worker in run.makes.made] == [[(1, None, block)] for block in blocks(0)[:3]]
    third.deliver()
    run.steps(2)
    assert third.asked[1] == (1, None, Block(0, 6, 2))
    for worker in (third, second):
        worker.deliver()
        run.steps(2)
    assert run.learner.rounds == []  # the slowest belongs to it too
    first.deliver()
    run.steps(1)
    assert run.learner.rounds == [blocks(0)]
    assert run.learner.seen == [[(block, 0) for block in blocks(0)]]
    run.until(1)
    assert (run.loop.ledger.updates, run.loop.sampled, run.loop.trained(), run.loop.stored) == (1, 80, 80, 0)


def test_next_round_is_played_with_the_weights_of_the_step_before(start):
    run = start()
    run.until(3)
    asked = [asked for worker in run.makes.made for asked in worker.asked]
    assert {(least, block.round) for least, _, block in asked} >= {(1, 0), (2, 1), (3, 2)}
    assert run.learner.rounds[:3] == [blocks(0), blocks(1), blocks(2)]
    assert all(least == block.round + 1 for least, _, block in asked)
    assert run.loop.ledger.meters.close_iteration().lag == 0


def test_worker_has_one_block_at_a_time(start):
    run = start(workers=2, worker_takes=None)
    run.steps(5)
    assert [len(worker.open) for worker in run.makes.made] == [1, 1]


def test_inline_one_block_follows_the_other(start):
    run = start(workers=0)
    run.until(2)
    (worker,) = run.makes.made
    assert [block for _, _, block in worker.asked[:8]] == blocks(0) + blocks(1)


def test_long_block_goes_on_where_it_was_begun_and_is_counted_as_it_comes(start):
    run = start(workers=2)
    slow = Block(0, 0, 2)
    Player.calls = {slow: 30}
    run.until(1)
    first, second = run.makes.made
    assert [block for _, _, block in first.asked[:30]] == [slow] * 30
    assert [block for _, _, block in second.asked[:3]] == blocks(0)[1:]
    assert run.learner.rounds == [blocks(0)]
    assert run.learner.seen[0] == [*((slow, call) for call in range(30)), *((block, 0) for block in blocks(0)[1:])]
    assert run.loop.sampled >= 30 * 20 + 60 and run.pool.restarts == 0


def test_block_of_a_killed_worker_is_played_again_and_costs_nothing_else(start):
    run = start(workers=2, worker_takes=None)
    run.steps(1)
    first, second = run.makes.made
    second.deliver()
    run.steps(2)
    first.die()
    run.steps(2)
    (successor,) = run.makes.made[2:]
    assert (successor.index, successor.incarnation, successor.asked) == (0, 1, [(1, None, Block(0, 0, 2))])
    second.deliver()
    run.steps(2)
    second.deliver()
    run.steps(2)
    assert run.learner.rounds == []
    successor.deliver()
    run.until(1)
    assert run.learner.rounds == [blocks(0)]
    assert run.learner.seen == [[(block, 0) for block in blocks(0)]]
    assert (run.pool.restarts, run.pool.fragments_lost, run.loop.sampled, run.loop.trained()) == (1, 1, 80, 80)


def test_half_played_block_of_a_killed_worker_begins_anew_elsewhere(start):
    run = start(workers=2, worker_takes=None)
    block = Block(0, 0, 2)
    Player.calls = {block: 2}
    run.steps(1)
    first, second = run.makes.made
    first.deliver()
    run.steps(2)
    assert first.asked == [(1, None, block)] * 2
    first.die()
    run.steps(1)
    run.pool._members[0].due = float("inf")  # no successor yet: whoever is free takes it
    while not run.learner.rounds:
        if second.open:
            second.deliver()
        run.steps(1)
    assert second.asked.count((1, None, block)) == 2
    assert run.learner.rounds == [blocks(0)]
    assert run.learner.seen[0][:3] == [
        (block, 0),
        (block, 1),
        (Block(0, 2, 2), 0),
    ]  # the first life's call is forgotten
    run.until(1)
    assert (run.loop.sampled, run.loop.trained()) == (120, 100)


def test_silent_worker_is_replaced_and_its_block_played_again(start):
    run = start(workers=2, worker_takes=None)
    run.steps(1)
    first, second = run.makes.made
    for _ in range(3):
        second.deliver()
        run.steps(2)
    run.cluster.advance(400)
    run.steps(3)
    assert run.cluster.killed == [first] and run.makes.made[2].asked == [(1, None, Block(0, 0, 2))]
    run.makes.made[2].deliver()
    run.until(1)
    assert run.learner.rounds == [blocks(0)]


def test_short_episodes_are_joined_by_more_directions_counted_by_their_steps_alone(start):
    run = start(train_batch_size=130)
    run.until(1)
    # 80 steps of 8 directions: 50 more are 5 directions.
    assert run.learner.rounds[0] == [*blocks(0), Block(0, 8, 2), Block(0, 10, 2), Block(0, 12, 1)]
    assert run.loop.trained() == 130


def test_last_block_holds_what_is_left(start):
    run = start(episodes_per_batch=10)
    run.until(1)
    assert run.learner.rounds[0] == [Block(0, 0, 2), Block(0, 2, 2), Block(0, 4, 1)]


def test_loop_that_comes_to_rest_completes_its_round_and_begins_none(start):
    run = start()
    run.steps(1)
    run.loop.quiesce()
    assert (run.learner.rounds, run.loop.ledger.updates, run.pool.outstanding) == ([blocks(0)], 1, 0)
    run.loop.quiesce()
    assert run.loop.ledger.updates == 1


def test_settled_loop_has_counted_the_step_that_was_made(start):
    run = start(learner_takes=0.0)
    while not run.learner.rounds:
        run.steps(1)
    run.cluster.advance(1.0)
    run.loop.settle()
    assert run.loop.ledger.updates == 1 and run.loop.ledger.version == 2


def test_rounds_and_unperturbed_returns_go_on_behind_a_checkpoint(start):
    run = start(report_length=3)
    Player.unperturbed = (4.0, 8.0)
    run.until(2)
    run.loop.quiesce()
    facts = run.loop.state()
    assert run.loop.info() == {"unperturbed_reward_mean": 20 / 3}
    assert facts["unperturbed"] == [8.0, 4.0, 8.0]
    again = start(report_length=3)
    again.loop.ledger.version = 5
    again.loop.load(facts, False)
    assert again.loop.info() == run.loop.info()
    again.steps(1)
    assert [worker.asked[0] for worker in again.makes.made] == [
        (5, None, block) for block in blocks(run.loop.ledger.updates)[:2]
    ]


def test_what_waits_for_what_is_said(start):
    run = start(worker_takes=None, learner_takes=5.0)
    assert run.loop.waiting() == "learner is waiting for episodes"
    run.steps(1)
    assert run.loop.waiting() == ""
    while not run.learner.rounds:
        for worker in run.makes.made:
            if worker.open:
                worker.deliver()
        run.steps(1)
    assert run.loop.waiting() == "workers are waiting for the learner"
