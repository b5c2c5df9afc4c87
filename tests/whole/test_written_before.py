"""Run folders and checkpoints that version 0.1.0 wrote (``tests/written_before``) are listed, scored, played and resumed."""

import json
import shutil
from pathlib import Path

import pytest

from drl_cli import cli

pytestmark = pytest.mark.process

WRITTEN = Path(__file__).resolve().parent.parent / "written_before"
# Greedy returns of three episodes from seed 10000 on, as the version that wrote the checkpoint played them.
SCORES = [
    ("ars", 2, [500.0, 500.0, 500.0]),
    ("impala", 2, [97.0, 70.0, 100.0]),
    ("ppo", 2, [500.0, 500.0, 354.0]),
    ("ppo", 3, [147.0, 192.0, 125.0]),
    ("sac", 4, [-1350.322254919, -947.563504462, -1387.732476150]),
]
# Env steps of the run as it was left.
STEPS = [("ars", 2, 7906), ("impala", 2, 2400), ("ppo", 3, 3072), ("sac", 4, 400)]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A folder of results with a copy of everything that was written."""
    return Path(shutil.copytree(WRITTEN, tmp_path / "results"))


@pytest.fixture
def drl(capsys):
    """Function (*words) → what ``drl`` printed of them; fails unless it ends with 0."""

    def run(*words: object) -> str:
        code, said = cli.main([str(word) for word in words]), capsys.readouterr()
        assert code == 0, said.err
        return said.out

    return run


def the_run(results: Path, experiment: str) -> Path:
    """Return the folder of the only run of an experiment."""
    (run,) = (path.parent for path in (results / experiment).glob("*/params.json"))
    return run


def test_evaluate_of_checkpoints_written_before_scores_as_it_did(results, drl):
    checkpoints = [the_run(results, name) / f"checkpoint_{number:06d}" for name, number, _ in SCORES]
    scored = json.loads(drl("evaluate", *checkpoints, "--episodes", 3, "--json"))["checkpoints"]
    for (name, number, rewards), score in zip(SCORES, scored, strict=True):
        assert score["greedy"]["rewards"] == pytest.approx(rewards, rel=1e-3), (name, number)


def test_rollout_of_a_run_written_before_plays_its_best(results, drl):
    played = drl("rollout", the_run(results, "ppo"), "--episodes", 1, "--seed", 10000)
    assert "reward: 147.0" in played


def test_runs_lists_runs_and_searches_written_before(results, drl):
    listed = json.loads(drl("runs", "--local-dir", results, "--json"))
    assert {row["algorithm"] for row in listed["runs"]} >= {"ARS", "IMPALA", "PPO", "SAC"}
    assert len(listed["searches"]) == 1


@pytest.mark.parametrize(("name", "iteration", "steps"), STEPS)
def test_resume_of_a_run_written_before_trains_on(results, drl, name, iteration, steps):
    run = the_run(results, name)
    drl("train", "--resume", run, "--stop", f"training_iteration={iteration + 1}", "-q")
    rows = [json.loads(line) for line in (run / "result.json").read_text().splitlines()]
    assert [row["training_iteration"] for row in rows] == list(range(1, iteration + 2))
    assert rows[-1]["timesteps_total"] > rows[-2]["timesteps_total"] == steps
    assert (run / f"checkpoint_{iteration + 1:06d}" / "COMMIT").exists()
