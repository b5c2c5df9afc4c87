"""The verbs without Ray: who runs where, what a call brings back, in which order, what a failure looks like."""

import errno
import sys
import threading
from concurrent.futures import Future

import pytest

from drl_cli.errors import EnvError, ResourcesExhausted, RunFailed
from drl_cli.runtime.cluster import ACTOR, HERE, THREAD, InlineCluster, PartFailed, PartLost, Reference, finished

pytestmark = pytest.mark.process

PART = "test_cluster:Part"


class Part:
    """A part with a few methods; knows the thread that made it."""

    def __init__(self, fail=None):
        if fail == "exit":
            sys.exit(3)
        if fail:
            raise ValueError(fail)
        self.made_in, self.closed = threading.current_thread().name, 0
        self.go = threading.Event()

    def where(self):
        return self.made_in, threading.current_thread().name

    def two(self, value):
        return value, 2 * value

    def wait(self, value):
        self.go.wait(5)
        return value

    def wrong(self):
        raise KeyError("x")

    def fill(self):
        raise OSError(errno.ENOSPC, "No space left on device", "/a/file")

    def exit(self):
        sys.exit(3)

    def refuse(self):
        raise EnvError("the user's mistake")

    def close(self):
        self.closed += 1


@pytest.fixture
def cluster():
    made = InlineCluster()
    yield made
    made.close()


@pytest.mark.parametrize("place", [HERE, ACTOR])
def test_call_to_a_part_here_runs_at_once_in_the_caller_s_thread(cluster, place):
    handle = cluster.spawn("one", PART, (), place)
    reference = handle.call("where")
    assert reference.done()
    assert reference.result() == ("MainThread", "MainThread")
    assert handle.is_remote is False


def test_part_in_a_thread_is_made_and_called_there(cluster):
    assert cluster.spawn("learner", PART, (), THREAD).call("where").result(5) == ("learner", "learner")


@pytest.mark.parametrize("place", [HERE, THREAD])
def test_call_with_two_returns_gives_two_references_and_takes_references(cluster, place):
    handle = cluster.spawn("one", PART, (), place)
    first, second = handle.call("two", finished(21), returns=2)
    assert (first.result(5), second.result(5)) == (21, 42)


@pytest.mark.parametrize("place", [HERE, THREAD])
def test_failure_of_a_part_names_it_and_carries_its_traceback(cluster, place):
    reference = cluster.spawn("one", PART, (), place).call("wrong")
    with pytest.raises(PartFailed, match=r"^one failed: KeyError: 'x'$") as caught:
        reference.result(5)
    assert "in wrong" in caught.value.detail


@pytest.mark.parametrize("place", [HERE, THREAD])
def test_part_on_a_full_disk_fails_with_the_exit_code_of_a_machine_that_ran_out(cluster, place):
    with pytest.raises(PartFailed, match=r"^one: this machine ran out of disk space \(/a/file\)") as caught:
        cluster.spawn("one", PART, (), place).call("fill").result(5)
    assert isinstance(caught.value, ResourcesExhausted) and caught.value.exit_code == 5


@pytest.mark.parametrize("place", [HERE, THREAD])
def test_both_references_of_a_failed_call_raise(cluster, place):
    for reference in cluster.spawn("one", PART, (), place).call("wrong", returns=2):
        with pytest.raises(PartFailed, match="one failed"):
            reference.result(5)


@pytest.mark.parametrize("place", [HERE, THREAD])
def test_error_of_a_user_s_making_comes_through_as_it_is(cluster, place):
    with pytest.raises(EnvError, match="^the user's mistake$"):
        cluster.spawn("one", PART, (), place).call("refuse").result(5)


def test_part_here_that_cannot_be_made_fails_with_its_name(cluster):
    with pytest.raises(PartFailed, match=r"^one failed: ValueError: no$"):
        cluster.spawn("one", PART, ("no",), HERE)


def test_part_in_a_thread_that_cannot_be_made_fails_every_call(cluster):
    handle = cluster.spawn("one", PART, ("no",), THREAD)
    for _ in range(2):
        with pytest.raises(PartFailed, match=r"^one failed: ValueError: no$"):
            handle.call("where").result(5)


@pytest.mark.parametrize(("args", "method"), [(("exit",), "where"), ((), "exit")])
def test_part_in_a_thread_that_calls_exit_fails_its_calls_instead_of_leaving_them_without_an_answer(
    cluster, args, method
):
    handle = cluster.spawn("one", PART, args, THREAD)
    for _ in range(2):
        with pytest.raises(PartFailed, match=r"^one failed: SystemExit: 3$"):
            handle.call(method).result(5)


def test_wait_waits_for_the_first_reference_though_a_later_one_is_done(cluster):
    slow = cluster.spawn("slow", PART, (), THREAD)
    first, second = slow.call("wait", 1), finished(2)
    assert cluster.wait([first, second], 0.01) == []
    slow.part.go.set()
    assert cluster.wait([first, second], 5) == [first]
    assert cluster.wait([second, first], 5) == [second]


def test_wait_for_nothing_returns_nothing(cluster):
    assert cluster.wait([], 0.01) == []


def test_wait_returns_a_reference_that_failed(cluster):
    failed = Reference(Future())
    failed.future.set_exception(TimeoutError("raised by the part"))
    assert cluster.wait([failed], 0.01) == [failed]


def test_killed_part_is_closed_once(cluster):
    handle = cluster.spawn("one", PART, (), HERE)
    cluster.kill(handle)
    cluster.close()
    assert handle.part.closed == 1


def test_close_ends_the_threads_of_all_parts():
    cluster = InlineCluster()
    handle = cluster.spawn("learner", PART, (), THREAD)
    handle.call("where").result(5)
    cluster.close()
    assert handle.part.closed == 1
    assert "learner" not in [thread.name for thread in threading.enumerate()]


def test_lost_part_ends_a_run_with_one_clear_line_and_code_3():
    lost = PartLost("replay", "The actor died.")
    assert isinstance(lost, RunFailed)
    assert (str(lost), lost.exit_code) == ("replay was lost: The actor died.", 3)
