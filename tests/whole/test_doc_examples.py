"""The example programs of docs/examples, as a newcomer runs them, in a short form."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"


@pytest.fixture
def example(tmp_path, monkeypatch, plug_ins):
    """Function (name) → the module, whose runs go into tmp_path; their updates are not compiled, which takes seconds each."""
    monkeypatch.setattr(
        "drl_cli.experiments.experiment_defaults.compiles", lambda config, sees_images: bool(config.xla)
    )
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path))
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    loaded = []

    def load(name):
        loaded.append(name)
        return importlib.import_module(name)

    yield load
    for name in loaded:
        del sys.modules[name]


@pytest.mark.parametrize("name", ["own_environment", "own_algorithm", "python_api"])
def test_example_is_short(name):
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) < 120


def test_own_environment_trains_and_is_walked_through(example, capsys):
    assert example("own_environment").main(iterations=2) >= 12
    assert capsys.readouterr().out.splitlines()[0].startswith("  2048 steps: mean reward")


def test_python_api_trains_saves_plays_and_goes_on(example, capsys, tmp_path):
    result = example("python_api").main(iterations=2, episodes=1)
    assert result["training_iteration"] == 3
    out = capsys.readouterr().out
    assert out.startswith("Refused: learning_rate: a name of Stable-Baselines3 and CleanRL. Write lr (config).")
    assert len(list(tmp_path.glob("default/DQN_CartPole-v1_*/result.json"))) == 2


def test_own_algorithm_trains(example, capsys):
    result = example("own_algorithm").main(iterations=2)
    assert result["info"]["num_updates"] % 8 == 0
    assert result["info"]["learner"]["default_policy"]["entropy"] < 0.7
    assert len(capsys.readouterr().out.splitlines()) == 2


@pytest.mark.learning
def test_own_algorithm_learns_cartpole(example):
    assert example("own_algorithm").main(iterations=10)["episode_reward_mean"] > 100


def test_own_environment_runs_behind_import(tmp_path):
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "TUNE_RESULT_DIR": str(tmp_path)}
    words = [
        "train",
        "--import",
        "own_environment",
        "--run",
        "ES",
        "--env",
        "Corridor-v0",
        "--stop",
        "training_iteration=1",
    ]
    words += [
        "-s",
        "num_workers=0",
        "-s",
        "episodes_per_batch=4",
        "-s",
        "train_batch_size=100",
        "-s",
        "evaluation_interval=null",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "drl_cli", *words],
        capture_output=True,
        text=True,
        timeout=120,
        env=environ,
        cwd=EXAMPLES,
    )
    assert done.returncode == 0, done.stderr
    assert "--import own_environment" in done.stdout
