"""Ctrl-C and SIGTERM at every moment of a command: how fast it ends, with what code, word and record, and what is left."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from drl_cli import cli

pytestmark = pytest.mark.process

DRL = [sys.executable, "-m", "drl_cli"]
SAC = ["train", "--run", "SAC", "--env", "Pendulum-v1", "-s", "learning_starts=200", "-s", "xla=false", "--stop", "{}"]
SECONDS = 5.0  # that a stop may take
SLACK = 3.0  # for a machine that is busy with other things


class Command:
    """A command in a session of its own, whose lines are read as they come."""

    def __init__(self, folder, *words, places=None):
        self.folder = folder
        words = [*words, *(["--local-dir", folder] if places is None else places)]
        self.process = subprocess.Popen(
            [*DRL, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.seen = []

    def until(self, word):
        for line in self.process.stdout:
            self.seen.append(line)
            if word in line:
                return
        raise AssertionError(f"no {word!r} in:\n{''.join(self.seen)}")

    def still_runs_for(self, seconds):
        """Let the command go on; fails if it has ended before ``seconds`` are over."""
        with pytest.raises(subprocess.TimeoutExpired):
            self.process.wait(timeout=seconds)

    def signalled(self, *numbers, pause=0.3):
        """Send the signals, ``pause`` seconds apart; returns (exit code, seconds to the end, all output, what is left)."""
        family = psutil.Process(self.process.pid).children(recursive=True) if self.process.poll() is None else []
        began = time.monotonic()
        for number in numbers:
            self.process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=pause)
        output = "".join(self.seen) + self.process.communicate(timeout=60)[0]
        return self.process.returncode, time.monotonic() - began, output, self._left(family)

    def _left(self, family):
        """Return the names of the processes that are still there when those that were killed have had time to end."""
        until = time.monotonic() + 5.0
        while (left := self._living(family)) and time.monotonic() < until:
            psutil.wait_procs(left, timeout=0.1)
        for one in left:
            one.kill()
        return [one.name() for one in left]

    def _living(self, family):
        found = []
        for one in psutil.process_iter():
            with contextlib.suppress(psutil.Error, ProcessLookupError):
                ours = one in family or os.getsid(one.pid) == self.process.pid
                if ours and one.status() != psutil.STATUS_ZOMBIE:
                    found.append(one)
        return found

    def status(self):
        """The content of the run's status.json, None before there is one."""
        found = [json.loads(path.read_text()) for path in self.folder.glob("*/*/status.json")]
        return found[0] if found else None


def expect_ended(command, number, ended):
    code, seconds, output, left = ended
    # Before drl has taken over the signals, the kernel ends the process.
    assert code in (128 + number, -number), output
    assert left == [] and seconds < SECONDS + SLACK
    status = command.status()
    if status is not None:
        assert (status["state"], status["exit_code"]) == ("interrupted", 128 + number)
        assert "nterrupted" in output and "Traceback" not in output


@pytest.mark.ray
@pytest.mark.parametrize(("number", "seconds"), [(signal.SIGTERM, 1.5), (signal.SIGTERM, 4), (signal.SIGINT, 3)])
def test_signal_while_ray_starts_ends_at_once_and_leaves_no_process(tmp_path, number, seconds):
    command = Command(tmp_path, *SAC, "-s", "num_workers=1")
    command.until("starting Ray")
    command.still_runs_for(seconds)
    expect_ended(command, number, command.signalled(number))


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("workers", [0, 1])
def test_signal_at_every_second_of_a_start_ends_within_seconds(tmp_path, number, workers):
    for second in range(20):
        folder = tmp_path / str(second)
        command = Command(folder, *SAC, "-s", f"num_workers={workers}")
        command.still_runs_for(second + 0.3)
        expect_ended(command, number, command.signalled(number))


def test_second_ctrl_c_has_the_last_word_and_the_run_is_interrupted(tmp_path):
    command = Command(tmp_path, *SAC, "-s", "num_workers=0", "-s", "timesteps_per_iteration=1000000")
    command.until("loading TensorFlow")
    command.still_runs_for(1.0)
    code, seconds, output, left = command.signalled(signal.SIGINT, signal.SIGINT)
    assert (code, left) == (130, []) and seconds < SECONDS
    assert output.splitlines()[-1].startswith("Interrupted: ended at once by SIGINT")
    assert command.status()["state"] == "interrupted"
    listed = subprocess.run(
        [*DRL, "runs", "--local-dir", str(tmp_path)], capture_output=True, text=True, timeout=60, check=True
    )
    assert "interrupted" in listed.stdout and "died" not in listed.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    ("words", "seen"),
    [
        (["train", "--run", "PG", "--env", "CartPole-v1", "--plan"], "measuring its speed"),
        (["env", "check", "CartPole-v1"], "CartPole-v1: "),
        (["doctor"], "Checking "),
    ],
    ids=["plan", "env check", "doctor"],
)
def test_signal_ends_a_command_and_the_process_that_it_asks(tmp_path, words, seen, number):
    command = Command(tmp_path, *words, places=["--local-dir", tmp_path] if words[0] == "train" else [])
    command.until(seen)
    command.still_runs_for(0.2)
    code, seconds, output, left = command.signalled(number)
    assert (code, left) == (128 + number, []) and seconds < SECONDS
    assert "Interrupted." in output.splitlines()


def test_greedy_policy_that_never_ends_an_episode_is_scored_and_the_run_stops(tmp_path, capsys):
    words = ["--run", "DQN", "--env", "CliffWalking-v1", "-s", "num_workers=0", "-s", "evaluation_interval=1"]
    words += ["-s", "evaluation_max_steps=500", "-s", "learning_starts=500", "--stop", "training_iteration=2"]
    code, said = cli.main(["train", *words, "--local-dir", str(tmp_path)]), capsys.readouterr()
    assert code == 0, said.err
    assert "episodes of an evaluation were cut after 500 steps" in said.err
    assert "evaluation_max_steps sets after how many" in said.err


@pytest.mark.ray
@pytest.mark.parametrize("seconds", [1.0, 4.0])
def test_sigterm_ends_a_search_within_seconds(tmp_path, seconds):
    words = ["--run", "PPO", "--env", "CartPole-v1", "-s", "num_workers=0", "-s", "lr={grid_search: [0.001, 0.0001]}"]
    command = Command(tmp_path, "train", *words, "--stop", "{}")
    command.until("starting trials" if seconds > 2 else "starting Ray")
    command.still_runs_for(seconds)
    code, taken, output, left = command.signalled(signal.SIGTERM)
    assert (code, left) == (143, []) and taken < SECONDS + SLACK, output
    (record,) = tmp_path.glob("*/search_*.json")
    assert json.loads(record.read_text())["state"] == "interrupted"
    states = [json.loads(path.read_text())["state"] for path in tmp_path.glob("*/*/status.json")]
    assert set(states) <= {"interrupted"}
