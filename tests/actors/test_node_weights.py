"""Weights come to a node once a version: one worker asks, all read the answer; locks, leftovers, what fails on the way."""

import fcntl
import os
import signal
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from drl_cli import node_memory
from drl_cli.actors import node_weights
from drl_cli.actors.node_weights import TURN_S, NodePulls, NodeWeights, ServerPulls
from drl_cli.actors.parameter_server import ParameterServer
from drl_cli.errors import RunFailed
from drl_cli.runtime.cluster import Reference


def weights(value):
    arrays = {"kernel": np.full((2, 3), value, np.float32), "steps": np.int64([7]), "count": np.int64(5)}
    return {"default_policy": arrays | {"none": np.zeros((0, 4), np.float16)}, "scripted": {}}


def values(found):
    return found and (found[0], float(found[1]["default_policy"]["kernel"][0, 0]))


class Server:
    """A ParameterServer in another process: its answers come when ``answer`` is called."""

    is_remote, name = True, "parameter server"

    def __init__(self, key="run-node"):
        self.part, self.asked, self._key, self._calls = ParameterServer(), [], key, []

    def node_key(self):
        return self._key

    def call(self, method, *args):
        self.asked.append((method, *args))
        self._calls.append((Future(), args))
        return Reference(self._calls[-1][0])

    def answer(self, error=None):
        calls, self._calls = self._calls, []
        for future, args in calls:
            if error:
                future.set_exception(error)
            else:
                future.set_result(self.part.pull(*args))


@pytest.fixture
def server():
    made = Server()
    for value in (1.0, 2.0, 3.0):
        made.part.push(weights(value))
    return made


@pytest.fixture
def workers(tmp_path, server):
    return [NodePulls(server, NodeWeights("run-node", str(tmp_path))) for _ in range(3)]


def test_one_worker_asks_and_the_others_read_its_answer(server, workers):
    pulls = [worker.pull(0) for worker in workers]
    assert [pull.done() for pull in pulls] == [False, True, True]
    server.answer()
    assert [values(pull.result()) for pull in pulls] == [(3, 3.0)] * 3
    assert server.asked == [("pull", 0, None)]


def test_what_was_read_is_equal_to_what_was_pushed(server, workers):
    pulls = [worker.pull(0) for worker in workers]
    server.answer()
    _, found = pulls[1].result()
    own = weights(3.0)["default_policy"]
    assert found["default_policy"].keys() == own.keys() and found["scripted"] == {}
    for name, array in own.items():
        read = found["default_policy"][name]
        assert read.dtype == array.dtype and read.shape == array.shape and np.array_equal(read, array)
        assert read.flags.aligned


def test_a_version_that_the_node_has_is_not_sent_again(server, workers):
    workers[0].pull(0)
    server.answer()
    late = workers[1].pull(0)
    server.answer()
    assert server.asked[-1] == ("pull", 3, None)  # only newer ones would be sent
    assert values(late.result()) == (3, 3.0)


def test_a_worker_that_has_the_newest_weights_gets_none(server, workers):
    workers[0].pull(0)
    server.answer()
    pull = workers[0].pull(3)
    server.answer()
    assert pull.result() is None


def test_while_another_worker_asks_there_is_nothing_newer(server, workers):
    workers[0].pull(0)
    assert workers[1].pull(0).result() is None
    assert len(server.asked) == 1


def test_weights_beyond_the_bound_are_neither_read_nor_kept_from_the_server(server, workers):
    workers[0].pull(0)
    server.answer()
    pull = workers[1].pull(0, 2)
    server.answer()
    assert server.asked[-1] == ("pull", 0, 2)
    assert values(pull.result()) == (2, 2.0)
    last = workers[2].pull(0)
    server.answer()
    assert values(last.result()) == (3, 3.0)  # the node keeps the newest


def test_an_error_is_raised_where_it_was_asked_and_the_next_worker_asks(server, workers):
    failed = workers[0].pull(0)
    server.answer(RunFailed("the parameter server is gone"))
    with pytest.raises(RunFailed, match="is gone"):
        failed.result()
    again = workers[1].pull(0)
    server.answer()
    assert values(again.result()) == (3, 3.0)


def test_a_question_that_cannot_be_sent_leaves_the_turn_to_the_next_worker(server, workers, monkeypatch):
    def refuse(*args):
        raise RunFailed("no Ray")

    monkeypatch.setattr(server, "call", refuse)
    with pytest.raises(RunFailed, match="no Ray"):
        workers[0].pull(0)
    monkeypatch.undo()
    pull = workers[1].pull(0)
    server.answer()
    assert values(pull.result()) == (3, 3.0)


def test_a_worker_asks_for_itself_when_the_one_whose_turn_it_is_hangs(server, workers, monkeypatch):
    clock = [50.0]
    monkeypatch.setattr(node_weights.time, "monotonic", lambda: clock[0])
    workers[0].pull(0)
    workers[1].pull(0)
    clock[0] += TURN_S - 0.1
    workers[1].pull(0)
    assert len(server.asked) == 1
    clock[0] += 0.1
    pull = workers[1].pull(0)
    assert len(server.asked) == 2
    server.answer()
    assert values(pull.result()) == (3, 3.0)


def test_older_weights_do_not_replace_newer_ones(tmp_path):
    held = NodeWeights("run-node", str(tmp_path))
    held.write(5, weights(5.0))
    held.write(4, weights(4.0))
    assert values(held.newer(0, None)) == (5, 5.0)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_without_room_each_worker_asks(server, workers, monkeypatch):
    def full(path, mode="r"):
        return opened("/dev/full" if "w" in mode else path, mode)

    opened = open
    monkeypatch.setattr("builtins.open", full)
    for worker in workers:
        pull = worker.pull(0)
        server.answer()
        assert values(pull.result()) == (3, 3.0)
    assert server.asked == [("pull", 0, None)] * 3


def test_without_a_folder_each_worker_asks(server, monkeypatch):
    def refuse(name):
        raise PermissionError(name)

    monkeypatch.setattr(node_weights, "private_folder", refuse)
    assert isinstance(node_weights.source(server), ServerPulls)


def test_in_one_process_the_server_itself_is_asked():
    local = SimpleNamespace(is_remote=False, call=lambda *args: args)
    assert node_weights.source(local).pull(3, 4) == ("pull", 3, 4)


def test_files_of_runs_that_are_over_are_removed_and_those_of_others_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(node_weights, "private_folder", lambda name: str(tmp_path))
    ended, running = NodeWeights("ended"), NodeWeights("running")
    for held in (ended, running):
        held.write(1, weights(1.0))
    (tmp_path / "ended.weights-123").write_bytes(b"half")  # of a process that was killed as it wrote
    fcntl.flock(ended._users, fcntl.LOCK_UN)
    node_weights.remove_leftovers()
    assert {path.name for path in tmp_path.iterdir()} == {
        "lock",
        "running.users",
        "running.turn",
        "running.weights",
    }
    assert values(running.newer(0, None)) == (1, 1.0)


CHILD = """
import sys, time
from drl_cli.actors.node_weights import NodeWeights
held = NodeWeights("run-node", sys.argv[1])
print(held.take_turn(), flush=True)
time.sleep(600)
"""


def test_the_turn_of_a_killed_worker_is_free_again(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "True\n"
        held = NodeWeights("run-node", str(tmp_path))
        assert not held.take_turn()
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate()
    assert held.take_turn()
    assert Path(tmp_path, "run-node.users").exists()


@pytest.mark.parametrize("made", ["by everyone", "as a link"])
def test_a_folder_that_others_can_write_to_is_not_used(server, tmp_path, monkeypatch, made):
    monkeypatch.setattr(node_memory, "parent", lambda: str(tmp_path))
    folder = tmp_path / f"drl-weights-{os.getuid()}"
    if made == "as a link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "elsewhere")
    else:
        folder.mkdir()
        folder.chmod(0o777)
    assert isinstance(node_weights.source(server), ServerPulls)
    node_weights.remove_leftovers()
    assert not list(folder.iterdir())
