"""A run whose environment breaks a rule in the middle of it: it goes on, or ends with one line and the documented code."""

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from drl_cli import checkpoints, cli
from drl_cli.runs import run_folder

CASES = {  # code, and what the line says
    "Well": (0, ""),
    "DoubleObs": (0, ""),
    "NoInfo": (0, ""),
    "Prints": (0, ""),
    "NanObs": (3, "FloatingPointError: observation or reward is not finite (reward 1.0)"),
    "InfReward": (3, "FloatingPointError: observation or reward is not finite (reward inf)"),
    "NoReward": (3, "FloatingPointError: observation or reward is not finite (reward nan)"),
    "TextReward": (3, "ValueError: could not convert string to float: 'many'"),
    "TextObs": (3, "ValueError: could not convert string to float"),
    "LongObs": (3, "ValueError: an observation of shape (4,) instead of (3,)"),
    "NoObs": (3, "ValueError: an observation of shape () instead of (3,)"),
    "OtherReset": (3, "ValueError: an observation of shape (2, 2) instead of (3,)"),
    "OtherSpaces": (3, "instead of (3,)"),
    "FourResults": (3, "ValueError: not enough values to unpack (expected 5, got 4)"),
    "Raises": (3, "RuntimeError: two lines xxx"),
    "Exits": (3, "SystemExit: 7"),
    "Collects": (3, "MemoryError"),
    "RaisesOnClose": (2, "close raised RuntimeError: cannot be closed"),
}
WORDS = ["-s", "num_workers=0", "-s", "num_envs_per_worker=2", "-s", "num_rollouts=4", "-s", "rollouts_used=2"]
EACH = ["-s", "min_iter_time_s=0", "-s", "timesteps_per_iteration=64"]  # an update, eight episodes


@pytest.mark.parametrize("name", CASES)
def test_run_in_an_environment_that_misbehaves_goes_on_or_ends_with_one_line(name, tmp_path, capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setattr(getattr(importlib.import_module("misbehaving_envs"), name), "made", 0)
    env = f"misbehaving_envs:Misbehaving{name}-v0"
    words = ["train", "--run", "ARS", "--env", env, *WORDS, "--stop", "training_iteration=12"]
    code = cli.main([*words, "-s", "evaluation_interval=null", "--local-dir", str(tmp_path)])
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("Error: ")]
    expected, text = CASES[name]
    assert code == expected
    assert len(said) == (expected > 0) and all(env in line and text in line and len(line) < 700 for line in said)


def _ended(name, folder, *words):
    """Train with ARS in an environment, saving each iteration; returns (exit code, what was written)."""
    words = ["--run", "ARS", *WORDS, *EACH, "--local-dir", str(folder), "--checkpoint-freq", "1", *words]
    return _train(name, folder, *words, "-s", "evaluation_interval=null", "--stop", "training_iteration=12")


def _train(name, folder, *words):
    words = ["train", "--env", f"misbehaving_envs:Misbehaving{name}-v0", *words]
    hurried = (
        "import sys; from drl_cli import cli; from drl_cli.experiments import env_watch; "
        "from drl_cli.stop_request import StopRequest; "
        f"StopRequest.CLOSE_S = 1.0; env_watch.LOOK_S = 0.1; sys.exit(cli.main({words}))"
    )
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "FORKED": str(folder / "forked")}
    with open(folder / "written", "w+") as file:  # a pipe would wait for children of the run too
        code = subprocess.run(
            [sys.executable, "-c", hurried], env=environ, stdout=file, stderr=file, timeout=120
        ).returncode
        file.seek(0)
        return code, file.read()


@pytest.mark.process
def test_run_whose_environment_hangs_in_close_was_never_over(tmp_path):
    code, said = _ended("HangsOnClose", tmp_path)
    assert code == 0
    warnings = [line for line in said.splitlines() if "has not closed for 1 s" in line]
    assert len(warnings) == 1 and "the command ends without it. Does env.close hang?" in warnings[0]
    run = next(tmp_path.glob("*/ARS_*"))
    assert json.loads((run / "status.json").read_text())["state"] == "finished"
    assert (run / "checkpoint_000012" / "COMMIT").is_file()


@pytest.mark.process
def test_failed_run_whose_environment_hangs_in_close_was_never_over(tmp_path):
    code, said = _ended("RaisesAndHangsOnClose", tmp_path)
    assert code == 3
    assert ["RuntimeError: two lines" in line for line in said.splitlines() if line.startswith("Error: ")] == [True]
    assert "has not closed for 1 s" in said
    assert json.loads((next(tmp_path.glob("*/ARS_*")) / "status.json").read_text())["state"] == "failed"


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "call"), [("HangsInReset", "reset"), ("HangsInStep", "step"), ("HangsOnCloseBetweenEpisodes", "close")]
)
def test_run_whose_environment_does_not_return_was_never_over(name, call, tmp_path):
    code, said = _ended(name, tmp_path, "-s", "env_timeout_s=1")
    assert code == 3
    (line,) = (line for line in said.splitlines() if line.startswith("Error: "))
    assert f"Misbehaving{name}-v0: {name}.{call} (" in line and " has not returned for 1 s" in line
    assert f"{Path(__file__).with_name('misbehaving_envs.py')}:" in line and "raise env_timeout_s" in line
    run = next(tmp_path.glob("*/ARS_*"))
    assert json.loads((run / "status.json").read_text())["state"] == "failed"
    assert "Last good checkpoint: " in said and list(run.glob("checkpoint_*/COMMIT"))


@pytest.mark.process
def test_environment_that_ends_its_process_leaves_what_was_saved(tmp_path):
    assert _ended("ExitsAtOnce", tmp_path)[0] == 7
    (run,) = tmp_path.glob("*/ARS_*")
    saved = checkpoints.load(max(run.glob("checkpoint_*")))
    assert saved.number > 0
    assert not run_folder.is_locked(run)


@pytest.mark.process
def test_environment_that_leaks_does_not_keep_a_run_from_its_end(tmp_path):
    assert _ended("Leaks", tmp_path)[0] == 0


@pytest.mark.process
def test_run_of_an_environment_that_forks_ends_and_can_be_resumed_while_a_child_lives(tmp_path):
    try:
        assert _ended("Forks", tmp_path)[0] == 0
        (run,) = tmp_path.glob("*/ARS_*")
        code, said = _train("Forks", tmp_path, "--resume", str(run), "--stop", "training_iteration=14")
        assert code == 0, said
    finally:
        for child in (tmp_path / "forked").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
