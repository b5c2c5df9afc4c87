"""Run folders in any order of what is done to them: hypothesis looks for one that ends otherwise than a plain model says."""

import multiprocessing
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from checkpoint_maker import read_everything, save
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from orders import compared_in

from drl_cli.errors import CheckpointError, RunFolderError
from drl_cli.runs import retention, run_folder

ANY = st.integers(0, 10**6)


class KeptCheckpoints(RuleBasedStateMachine):
    """A run that saves, replaces, prunes and drops replays while checkpoints are damaged; the model: {number: has a replay}."""

    compared = 0

    def __init__(self):
        super().__init__()
        self.run = Path(tempfile.mkdtemp())
        self.whole, self.damaged, self.last = {}, set(), 0
        self.best = None

    def teardown(self):
        shutil.rmtree(self.run)

    def path(self, number):
        return self.run / f"checkpoint_{number:06d}"

    @rule(replay=st.booleans(), gap=st.integers(1, 3))
    def save(self, replay, gap):
        self.last += gap
        save(self.run, self.last, replay=replay)
        self.whole[self.last] = replay

    @precondition(lambda self: self.whole or self.damaged)
    @rule(place=ANY, replay=st.booleans())
    def save_again(self, place, replay):
        number = sorted({*self.whole, *self.damaged})[place % len({*self.whole, *self.damaged})]
        save(self.run, number, replay=replay)
        self.whole[number] = replay
        self.damaged.discard(number)

    @precondition(lambda self: self.whole)
    @rule(place=ANY)
    def damage(self, place):
        number = sorted(self.whole)[place % len(self.whole)]
        file = sorted(self.path(number).iterdir())[place % len(list(self.path(number).iterdir()))]
        file.write_bytes(file.read_bytes() + b"x")
        del self.whole[number]
        self.damaged.add(number)

    @precondition(lambda self: self.whole)
    @rule(place=ANY)
    def choose_best(self, place):
        self.best = sorted(self.whole)[place % len(self.whole)]
        (self.run / "best.json").write_text(f'{{"checkpoint": "checkpoint_{self.best:06d}"}}')

    @rule(keep=st.integers(0, 3), place=ANY)
    def prune(self, keep, place):
        numbers = sorted(self.whole)
        protected = numbers[place % len(numbers)] if numbers and place % 2 else None
        gone = retention.prune(self.run, keep, [self.path(protected)] if protected else [])
        stays = {*numbers[max(0, len(numbers) - keep) :], *numbers[-1:], protected, self.best} & {*numbers}
        assert sorted(map(retention.number_of, gone)) == sorted({*numbers} - stays)
        self.whole = {number: replay for number, replay in self.whole.items() if number in stays}

    @precondition(lambda self: self.whole)
    @rule(place=ANY)
    def drop_replay(self, place):
        number = sorted(self.whole)[place % len(self.whole)]
        assert retention.drop_replay(self.path(number)) is self.whole[number]
        self.whole[number] = False

    @precondition(lambda self: self.damaged)
    @rule(place=ANY)
    def damaged_one_stays(self, place):
        number = sorted(self.damaged)[place % len(self.damaged)]
        with pytest.raises(CheckpointError):
            retention.remove(self.path(number))
        assert self.path(number).is_dir()

    @rule(number=ANY, kind=st.sampled_from(["tmp", "del", "old"]))
    def die_on_the_way(self, number, kind):
        (self.run / f".{kind}-{number % 1000:06d}-999999999-0123abcd").mkdir()
        (self.run / f".tmp-{number}-999999999-0123abcd").touch()
        if kind == "old" and number % 1000 not in {*self.whole, *self.damaged}:
            shutil.rmtree(self.run / f".old-{number % 1000:06d}-999999999-0123abcd")  # not what a save leaves
        run_folder.remove_leftovers(self.run)

    @invariant()
    def newest_is_the_last_whole_one_and_every_other_is_skipped_with_its_reason(self):
        assert {number for number, _ in retention.numbers(self.run)} == {*self.whole, *self.damaged}
        assert not [name for name in os.listdir(self.run) if name.startswith(".")]
        if not self.whole:
            with pytest.raises(CheckpointError, match="holds no usable checkpoint"):
                retention.newest_valid(self.run)
            return
        found, skipped = retention.newest_valid(self.run)
        assert found.number == max(self.whole) == read_everything(found.path)["state"]["iteration"]
        assert found.has("replay") is self.whole[found.number]
        assert {retention.number_of(path) for path, _ in skipped} == {n for n in self.damaged if n > found.number}
        KeptCheckpoints.compared += 1


def _serve(pipe):
    """A process that takes and gives back the lock of a run folder as it is told."""
    held, run_folder.PROBE_SECONDS = None, 0.001
    while True:
        word, run = pipe.recv()
        try:
            if word == "take":
                held = run_folder.reopen(run)
            elif word == "close":
                held.close()
                held = None
            elif word == "write":
                held.write("status.json", {"pid": os.getpid()})
            pipe.send("done")
        except RunFolderError as error:
            pipe.send(str(error))


class TwoProcesses(RuleBasedStateMachine):
    """Two processes that resume, leave and are killed over one run folder; the model: which of them holds it."""

    compared = 0
    children = [None, None]  # (process, pipe): those that live serve the next order too

    def __init__(self):
        super().__init__()
        self.run = Path(tempfile.mkdtemp())
        (self.run / "params.json").write_text("{}")
        self.holder = None

    @initialize()
    def begin(self):
        for who in (0, 1):
            if self.children[who] is None:
                self.start(who)

    def start(self, who):
        ours, theirs = multiprocessing.Pipe()
        child = os.fork()
        if child == 0:
            try:
                for other in self.children:
                    if other is not None:
                        other[1].close()
                ours.close()
                _serve(theirs)
            finally:
                os._exit(0)
        theirs.close()
        self.children[who] = (child, ours)

    def tell(self, who, word):
        self.children[who][1].send((word, self.run))
        return self.children[who][1].recv()

    def teardown(self):
        if self.holder is not None:
            self.tell(self.holder, "close")
        if run_folder.lock_state(self.run):  # not as the model says
            self.end_all()
        shutil.rmtree(self.run)

    @classmethod
    def end(cls, who):
        child, pipe = cls.children[who]
        os.kill(child, 9)
        os.waitpid(child, 0)
        pipe.close()
        cls.children[who] = None

    @classmethod
    def end_all(cls):
        for who in (0, 1):
            if cls.children[who] is not None:
                cls.end(who)

    @rule(who=st.integers(0, 1))
    def take(self, who):
        if self.holder == who:
            return
        said = self.tell(who, "take")
        if self.holder is None:
            assert said == "done"
            self.holder = who
        else:
            assert f"another run is using this folder (process {self.children[self.holder][0]} on " in said

    @precondition(lambda self: self.holder is not None)
    @rule()
    def write(self):
        assert self.tell(self.holder, "write") == "done"
        assert run_folder.read_record(self.run / "status.json") == {"pid": self.children[self.holder][0]}

    @precondition(lambda self: self.holder is not None)
    @rule()
    def close(self):
        assert self.tell(self.holder, "close") == "done"
        self.holder = None

    @rule(who=st.integers(0, 1))
    def kill(self, who):
        self.end(who)
        self.holder = None if self.holder == who else self.holder
        self.start(who)

    @invariant()
    def lock_is_held_as_long_as_its_holder_lives(self):
        assert run_folder.lock_state(self.run) is (self.holder is not None)
        assert {path.name for path in self.run.iterdir()} <= {".lock", "params.json", "status.json"}
        TwoProcesses.compared += 1


@pytest.fixture(autouse=True)
def no_process_is_left():
    yield
    TwoProcesses.end_all()


MACHINES = pytest.mark.parametrize("machine", [KeptCheckpoints, TwoProcesses])


@MACHINES
def test_any_order_of_what_is_done_to_a_run_folder_ends_as_the_model_says(machine):
    assert compared_in(machine, 50, 25) > 5 * 50


@pytest.mark.slow
@MACHINES
def test_20_000_orders_end_as_the_model_says(machine):
    assert compared_in(machine, 20_000, 15) > 5 * 20_000
