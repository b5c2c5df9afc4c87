"""Which call of an environment is found in a stack, and when it has taken too long."""

import sys
import threading

import gymnasium

from drl_cli.experiments.env_watch import EnvCallWatch, running_call


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Slow(gymnasium.Env):
    def step(self, action):
        return action()  # whatever the test looks at meanwhile


class Wrapped(gymnasium.Wrapper):
    def step(self, action):
        return super().step(action)


def _here():
    return running_call(sys._getframe())


def test_no_call_is_found_where_no_environment_runs():
    assert _here() is None


def test_call_is_that_of_the_outermost_wrapper_and_named_after_the_innermost_environment():
    call = Wrapped(Slow()).step(_here)
    assert call.outermost.f_code is Wrapped.step.__code__
    assert call.text.startswith(f"Slow.step ({__file__}:") and call.text.endswith(f", in {__file__}:{call_line()})")


def call_line():
    return _here.__code__.co_firstlineno + 1


def test_call_that_is_being_debugged_is_not_looked_at():
    debugged = {"__name__": "pdb", "look": _here}
    exec("def interact():\n    return look()", debugged)
    assert Slow().step(debugged["interact"]) is None


def _watched(limit_s):
    clock, told = Clock(), []
    return EnvCallWatch(limit_s, told.append, clock), clock, told


def test_one_call_that_takes_longer_than_the_limit_is_told_once():
    watch, clock, told = _watched(10.0)

    def wait():
        for clock.now in (0.0, 5.0, 9.9):
            assert not watch.check()
        clock.now = 10.0
        return watch.check()

    assert Slow().step(wait)
    assert len(told) == 1 and "Slow.step (" in told[0]
    assert "has not returned for 10 s. If it is only slow, raise env_timeout_s" in told[0]


def test_many_short_calls_are_no_long_one():
    watch, clock, told = _watched(10.0)
    env = Slow()
    for clock.now in (0.0, 6.0, 12.0, 18.0):
        assert env.step(watch.check) is False
    clock.now = 30.0
    assert not watch.check() and told == []  # between two calls


def test_thread_looks_at_the_one_that_made_it_and_ends(monkeypatch):
    monkeypatch.setattr("drl_cli.experiments.env_watch.LOOK_S", 0.01)
    found = threading.Event()
    stop = EnvCallWatch(0.05, lambda text: found.set()).start()
    Slow().step(lambda: found.wait(20.0))
    assert found.is_set()
    stop()


def test_no_thread_is_started_without_a_limit():
    before = threading.active_count()
    EnvCallWatch(None, print).start()()
    assert threading.active_count() == before
