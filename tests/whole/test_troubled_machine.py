"""Runs whose disk or clock goes wrong in the middle: they go on or end with the documented code, and what was saved is whole.

``benchmarks/disks.py`` has many more conditions; see ``docs/what_happens_when.rst``. Without a C compiler the calls of Python's
``os`` fail in this process instead of those of the C library in another one.
"""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import troubled_machine as trouble

from drl_cli import cli
from drl_cli.checks import verify

pytestmark = pytest.mark.process

WORDS = ("--run", "ARS", "--env", "CartPole-v1", "-s", "num_workers=0", "-s", "num_rollouts=2", "-s", "rollouts_used=2")
OS_CALLS = {
    "write": "write",
    "fsync": "fsync",
    "truncate": "ftruncate",
    "mkdir": "mkdir",
    "rename": "rename",
    "create": "open",
}
CASES = {  # calls and what they fail with, when that ends, exit code, checkpoints that must be there
    "an error at every write": ("write,fsync,truncate", errno.EIO, None, 5, [1, 2]),
    "a network disk that is gone": (trouble.ALL_WRITES, errno.ESTALE, None, 5, [1, 2]),
    "a disk that is full for a while": ("create,write,mkdir", errno.ENOSPC, 5, 0, [1, 2, 6]),
}


def words_of(tmp_path):
    """A run of six iterations with a checkpoint after each."""
    words = [
        "train",
        *WORDS,
        "-s",
        "evaluation_interval=null",
        "--checkpoint-freq",
        "1",
        "--import",
        "troubled_machine",
    ]
    return [*words, "--local-dir", str(tmp_path / "results"), "--stop", "training_iteration=6"]


def run_apart(words, env):
    """Run ``drl`` in a process of its own; returns (exit code, what it said)."""
    command = [sys.executable, "-m", "drl_cli", *words]
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def run_below(tmp_path, env, spoil):
    """Run ``drl train`` in trouble; returns (exit code, what it said)."""
    words = words_of(tmp_path)
    if trouble.has_compiler():
        return run_apart(words, env)
    with pytest.MonkeyPatch.context() as patch:
        spoil(patch)
        return trouble.heard_inside(env, lambda: cli.main(words)), ""


def fail_calls(patch, folder, switch, words, number):
    """Let the functions of ``os`` that make the calls ``words`` fail below ``folder``, for a machine without a compiler."""

    def failing(real):
        def call(path, *args, **kwargs):
            place = os.readlink(f"/proc/self/fd/{path}") if isinstance(path, int) else os.fspath(path)
            reads = real.__name__ == "open" and not args[0] & os.O_CREAT
            if str(place).startswith(str(folder)) and switch.exists() and not reads:
                raise OSError(number, os.strerror(number), place)
            return real(path, *args, **kwargs)

        return call

    for name in words.split(","):
        if name in OS_CALLS:
            patch.setattr(os, OS_CALLS[name], failing(getattr(os, OS_CALLS[name])))


def checkpoints(tmp_path):
    """The checkpoints that the run reported, each verified."""
    run = next((tmp_path / "results" / "default").glob("*"))
    names = (tmp_path / "saved").read_text().split()
    assert [verify.verify(run / name).damage for name in names] == [None] * len(names)
    assert "Traceback" not in (run / "drl.log").read_text()
    return [int(name.rpartition("_")[2]) for name in names]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The library that lets calls fail, None without a compiler."""
    return trouble.compiled(tmp_path_factory.mktemp("library")) if trouble.has_compiler() else None


@pytest.mark.parametrize("name", CASES)
def test_run_on_a_disk_that_fails_in_the_middle_ends_as_documented_and_keeps_what_it_saved(name, tmp_path, library):
    calls, number, end, expected, kept = CASES[name]
    switch = tmp_path / "switch"
    env = trouble.calls_below(tmp_path / "results", switch, library or Path(), calls, errno=number)
    env |= trouble.inside(tmp_path / "saved", 3, end, switch=switch)
    code, said = run_below(tmp_path, env, lambda patch: fail_calls(patch, tmp_path / "results", switch, calls, number))
    assert code == expected, said
    assert "Traceback" not in said and "a bug in drl" not in said
    switch.unlink(missing_ok=True)
    assert checkpoints(tmp_path) == kept


def test_run_whose_clock_jumps_back_saves_every_checkpoint(tmp_path, library):
    switch = tmp_path / "switch"
    env = trouble.clock_jump(switch, library or Path(), -(2**31)) | trouble.inside(tmp_path / "saved", 3, switch=switch)
    real = time.time
    spoil = lambda patch: patch.setattr(time, "time", lambda: real() - 2**31 * switch.exists())  # noqa: E731
    assert run_below(tmp_path, env, spoil)[0] == 0
    assert checkpoints(tmp_path) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("what", "expected"),
    [({"memory": 2**18}, 5), ({"signal": signal.SIGKILL}, -signal.SIGKILL)],
    ids=["refused", "killed"],
)
def test_run_that_gets_no_more_memory_or_is_killed_for_it_keeps_what_it_saved_and_goes_on(tmp_path, what, expected):
    code, said = run_apart(words_of(tmp_path), trouble.inside(tmp_path / "saved", 3, **what))
    assert (code, "Traceback" in said, "a bug in drl" in said) == (expected, False, False), said
    assert checkpoints(tmp_path) == [1, 2]
    run = next((tmp_path / "results" / "default").glob("*"))
    assert cli.main(["train", f"--resume={run}", "--stop", "training_iteration=4"]) == 0
