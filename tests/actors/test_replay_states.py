"""A replay of two shards, whatever its workers do in whatever order: what it draws is in a plain list of their episodes."""

import copy
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from episodes import Worker
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from orders import compared_in
from parts import config, spec

from drl_cli.checkpoints import arrays, files
from drl_cli.experience.columns import Meta, Token
from drl_cli.runtime.cluster import LocalHandle
from drl_cli.runtime.replay_shards import Shards

KEYS = {"train_batch_size": 8, "updates_per_call": 3, "n_step": 3, "gamma": 0.9, "num_envs_per_worker": 2}
ENOUGH = 40  # env steps in a shard that something can be drawn of
WORKERS = st.integers(0, 2)


def shards():
    """Two empty shards in this process."""
    given = (config(**KEYS), spec(1, (-1.0,), (1.0,)), 11)
    return Shards(LocalHandle("replay", "drl_cli.actors.replay_buffer:ReplayBuffer", (*given, i)) for i in range(2))


class Replay(RuleBasedStateMachine):
    """Workers that deliver, repeat, lose and die, and runs that are saved and go on; the model: ``episodes.Worker``."""

    compared = 0  # transitions, by all machines of this process

    def __init__(self):
        super().__init__()
        self.shards, self.workers = shards(), [Worker(seed, 2) for seed in range(3)]
        self.marks = [(0, 0)] * 3  # incarnation and sequence of the next fragment
        self.begins = [False] * 3  # whether the next fragment begins new streams
        self.steps = [0, 0]

    def add(self, worker, mark, columns):
        token = Token(Meta(worker, *mark, 1), columns["reward"].size, (), 0, (), {})
        return self.shards.added(token, self.shards.add(token, columns))

    @rule(worker=WORKERS, steps=st.integers(1, 12))
    def deliver(self, worker, steps):
        columns = self.workers[worker].fragment(steps, cut=(0, 1) if self.begins[worker] else ())
        assert self.add(worker, self.marks[worker], columns) == 2 * steps
        assert self.add(worker, self.marks[worker], columns) == 0  # Ray may deliver twice
        self.marks[worker] = (self.marks[worker][0], self.marks[worker][1] + 1)
        self.begins[worker], self.steps[worker % 2] = False, self.steps[worker % 2] + 2 * steps

    @rule(worker=WORKERS)
    def lose(self, worker):
        self.marks[worker] = (self.marks[worker][0], self.marks[worker][1] + 1)
        self.end_streams(worker)

    @rule(worker=WORKERS, steps=st.integers(1, 5))
    def die(self, worker, steps):
        late, mark = copy.deepcopy(self.workers[worker]).fragment(steps), self.marks[worker]
        self.shards.cut(worker)
        self.end_streams(worker)
        self.marks[worker], self.begins[worker] = (mark[0] + 1, 0), True
        self.deliver(worker, steps)
        assert self.add(worker, mark, late) == 0  # of the dead one

    def end_streams(self, worker):
        for env in range(2):
            self.workers[worker].cut(env)

    @rule(compress=st.booleans())
    def save_and_go_on(self, compress):
        folder, after = Path(tempfile.mkdtemp()), shards()
        facts = self.shards.save(folder, compress, lambda: None)
        found = {}
        for index in range(2):
            path = folder / f"replay-{index}.safetensors"
            with files.open_regular(path) as file:
                sha256 = files.hash_of(file)
            found[index] = arrays.read_arrays(path, path.stat().st_size, sha256)
        after.load(found.get, facts)
        after.restore(self.shards.state(), with_contents=True)
        shutil.rmtree(folder)
        assert after.size() == self.shards.size()
        self.shards = after

    @precondition(lambda self: max(self.steps) >= ENOUGH)
    @rule(count=st.integers(1, 3))
    def draw(self, count):
        drawn = self.shards.sample(count, ENOUGH)
        assert self.steps[drawn.shard] >= ENOUGH
        own = [worker for number, worker in enumerate(self.workers) if number % 2 == drawn.shard]
        known = {first: row for worker in own for first, row in worker.transitions(3, 0.9).items()}
        block = drawn.block.result()
        assert block["obs"].shape == (3 * 8, 1) or block["obs"].shape == (3, 8, 1)
        columns = (block[name].reshape(-1)[: 8 * count] for name in ("obs", "reward", "discount", "next_obs"))
        for first, reward, discount, behind in zip(*columns, strict=True):
            expected = known[int(first)]
            assert int(behind) == expected[2]
            np.testing.assert_allclose((reward, discount), expected[:2], rtol=1e-5, atol=1e-6)
            Replay.compared += 1


def test_whatever_workers_do_what_is_drawn_is_in_the_list_of_their_episodes():
    assert compared_in(Replay, 50, 25) > 50 * 8


@pytest.mark.slow
def test_20_000_orders_of_what_workers_do_draw_what_is_in_the_list_of_their_episodes():
    assert compared_in(Replay, 20_000, 25) > 20_000 * 8
