"""Every shipped tuned file: it is understood, it runs, and (slow) it reaches its goal."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from drl_cli.experiment import spec

FOLDER = Path(__file__).resolve().parent.parent / "tuned_examples"
FILES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
SMALL = ["-s", "num_workers=0", "-s", "learning_starts=200", "-s", "timesteps_per_iteration=400", "-s", "xla=false"]


def train(*words, timeout):
    command = [sys.executable, "-m", "drl_cli", "train", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


def test_there_are_tuned_files():
    assert "lunarlander-continuous-sac" in FILES


@pytest.mark.parametrize("name", FILES)
def test_tuned_file_is_found_by_name_and_says_its_goal_in_its_header(name):
    (made,) = spec.from_file(name, {})
    assert (made.name, made.run) == (name, "SAC")
    header = (FOLDER / f"{name}.yaml").read_text().split(f"{name}:")[0]
    assert all(word in header for word in ("# goal", "# seeds", "# took", "# machine"))


@pytest.mark.parametrize("name", FILES)
def test_tuned_file_runs_for_two_iterations(name, tmp_path):
    done = train("-f", name, "--local-dir", tmp_path, "--stop", '{"training_iteration": 2}', *SMALL, timeout=120)
    assert done.returncode == 0, done.stderr
    (result,) = tmp_path.glob("*/*/result.json")
    assert [json.loads(line)["training_iteration"] for line in result.read_text().splitlines()] == [1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", FILES)
def test_tuned_file_reaches_its_goal(name, workers, tmp_path):
    words = ["-f", name, "--local-dir", tmp_path, "--seed", "11", "-s", f"num_workers={workers}"]
    done = train(*words, timeout=600)
    assert done.returncode == 0, done.stderr
    (events,) = tmp_path.glob("*/*/events.jsonl")
    goals = [line for line in map(json.loads, events.read_text().splitlines()) if line["kind"] == "goal"]
    assert len(goals) == 1
    assert goals[0]["confirmed"] >= goals[0]["target"]
