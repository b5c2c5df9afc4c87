"""docs/examples/own_callbacks.py as its head tells to run it."""

import json
import sys
from pathlib import Path

import pytest

from drl_cli import cli

pytestmark = pytest.mark.process

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "docs" / "examples"
ASKED = ["-s", "callbacks=steady", "-s", "custom_eval_function=by_angle", "--logger", "lines", "--log-format", "json"]
NUMBERS = (
    "evaluation_interval=1",
    "evaluation_num_episodes=2",
    "evaluation_config={horizon: 50}",
    "num_workers=0",
    "xla=false",
)
QUICK = [word for number in NUMBERS for word in ("-s", number)]


def test_example_trains_and_its_metrics_scores_and_lines_are_written(tmp_path, monkeypatch, capfd, plug_ins):
    words = [
        "train",
        "--run",
        "PPO",
        "--env",
        "CartPole-v1",
        "--import",
        "own_callbacks",
        *ASKED,
        *QUICK,
        "--seed",
        "1",
    ]
    words += ["--stop", "timesteps_total=4000", "--local-dir", str(tmp_path)]
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.delitem(sys.modules, "own_callbacks", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert cli.main(words) == 0
    assert "; angle " in capfd.readouterr().err
    (folder,) = (path.parent for path in tmp_path.glob("*/*/params.json"))
    row = json.loads((folder / "result.json").read_text().splitlines()[-1])
    assert 0 < row["custom_metrics"]["angle_min"] < row["custom_metrics"]["angle_mean"] < 12
    assert row["steadiness"] == 1 / (1 + row["custom_metrics"]["angle_mean"])
    assert len(row["hist_stats"]["angles"]) > len(row["hist_stats"]["episode_reward"])
    assert 5 < row["evaluation"]["longer_pole_mean"] <= 500 and row["evaluation"]["episodes_this_iter"] == 2
    assert "custom_metrics/angle_mean" in (folder / "progress.csv").read_text().splitlines()[0].split(",")
    lines = (folder / "lines.txt").read_text().splitlines()
    assert lines[0] == "PPO on CartPole-v1, seed 1" and lines[-1] == "over" and len(lines) == 4
    assert all(json.loads(line)["level"] for line in (folder / "drl.log").read_text().splitlines())


def test_example_is_short():
    assert len((EXAMPLES / "own_callbacks.py").read_text().splitlines()) < 120
