"""Signals end a process whatever it is doing, once or twice, with its records written first; each in a process of its own."""

import signal
import subprocess
import sys
import time

import psutil
import pytest
from process_family import asked, children

from drl_cli.stop_request import StopRequest

ENDED = (False, psutil.STATUS_ZOMBIE)

PROGRAM = """
import ctypes, subprocess, sys, time
from drl_cli.stop_request import StopRequest

class Quick(StopRequest):
    REST_S = 1.0

request = Quick(lambda number: print("first", number, flush=True))
request.before_exit(lambda number, is_late: print("last", number, is_late, flush=True))
request.install()
child = subprocess.Popen([sys.executable, "-c", "import os, time; os.setsid(); os.fork(); time.sleep(100)"])
time.sleep(0.5)
"""
NEVER_POLLS = "print('up', flush=True)\nwhile True: ctypes.CDLL(None).poll(None, 0, 100_000)\n"
STARTS = "with request.starting():\n    print('up', flush=True)\n    time.sleep(100)\n"
REPLACED = (
    "import signal\nwith request.starting():\n"
    "    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(number))\n"
    "    print('up', flush=True)\n    time.sleep(100)\n"
)
HOLDS_THE_LOCK = (  # as Ray's core does, which looks for a daemon without releasing it
    "with request.starting():\n    print('up', flush=True)\n"
    "    while child.poll() is None: time.sleep(0.001)\n    ctypes.PyDLL(None).sleep(20)\n"
)


def ended(program, *numbers):
    """Start ``program``, send the signals; returns (exit code, seconds, lines, whether a process is left)."""
    started = subprocess.Popen(
        [sys.executable, "-c", PROGRAM + program], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    for line in started.stdout:
        if line == "up\n":
            break
    family = children(started.pid)
    began, lines = time.monotonic(), []
    for number in numbers:
        started.send_signal(number)
        lines.append(started.stdout.readline().rstrip("\n"))  # the next signal comes when this one was taken
    lines = [*filter(None, lines), *started.stdout.read().splitlines()]
    started.wait(30)
    seconds = time.monotonic() - began
    psutil.wait_procs(family, timeout=5)  # those that were killed end in a moment
    left = [one for one, status in asked(family, lambda one: one.is_running() and one.status()) if status not in ENDED]
    for one in left:
        one.kill()
    assert len(family) >= 2
    return started.returncode, seconds, lines, bool(left)


def test_process_that_never_polls_is_ended_with_its_last_acts_and_its_children():
    code, seconds, lines, is_left = ended(NEVER_POLLS, signal.SIGTERM)
    assert (code, lines, is_left) == (143, ["first 15", "last 15 True"], False) and seconds < 10


def test_second_signal_ends_at_once():
    code, _, lines, is_left = ended(NEVER_POLLS, signal.SIGINT, signal.SIGINT)
    assert (code, lines, is_left) == (130, ["first 2", "last 2 False"], False)


def test_process_that_hangs_in_every_way_has_five_seconds_in_all():
    assert StopRequest.REST_S + StopRequest.LAST_ACTS_S < 5.0


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_first_signal_of_a_start_ends_at_once(sent, code):
    assert ended(STARTS, sent)[::2] == (code, [f"last {sent} False"])


def test_start_that_holds_the_interpreter_when_ray_s_daemons_are_killed_ends_at_once():
    code, seconds, lines, is_left = ended(HOLDS_THE_LOCK, signal.SIGTERM)
    assert (code, lines, is_left) == (143, ["last 15 False"], False) and seconds < 10


def test_handler_that_somebody_else_installed_while_starting_does_not_decide():
    assert ended(REPLACED, signal.SIGTERM)[::2] == (143, ["last 15 False"])
