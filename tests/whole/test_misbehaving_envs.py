"""A run whose environment breaks a rule in the middle of it: it goes on, or ends with one line and the documented code."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from drl_cli import cli

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


@pytest.mark.process
def test_run_whose_environment_hangs_in_close_was_never_over(tmp_path):
    env = "misbehaving_envs:MisbehavingHangsOnClose-v0"
    words = ["train", "--run", "ARS", "--env", env, *WORDS, "--local-dir", str(tmp_path)]
    words += ["-s", "evaluation_interval=null", "--stop", "training_iteration=12"]
    hurried = (
        "import sys; from drl_cli import cli; from drl_cli.stop_request import StopRequest; "
        f"StopRequest.CLOSE_S = 1.0; sys.exit(cli.main({words}))"
    )
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    ended = subprocess.run([sys.executable, "-c", hurried], env=environ, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0
    warnings = [line for line in ended.stderr.splitlines() if "has not closed for 1 s" in line]
    assert len(warnings) == 1 and "the command ends without it. Does env.close hang?" in warnings[0]
    run = next(tmp_path.glob("*/ARS_*"))
    assert json.loads((run / "status.json").read_text())["state"] == "finished"
    assert (run / "checkpoint_000012" / "COMMIT").is_file()
