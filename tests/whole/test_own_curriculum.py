"""docs/examples/own_curriculum.py as its head tells to run it, and what is refused about tasks."""

import json
import sys
from pathlib import Path

import pytest

from drl_cli import cli

pytestmark = pytest.mark.process

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "docs" / "examples"
SMALL = {"num_workers": 0, "xla": False, "timesteps_per_iteration": 1024, "metrics_smoothing_episodes": 20, "seed": 1}
SMALL |= {"train_batch_size": 512, "rollout_fragment_length": 64, "lr": 0.003, "model": {"fcnet_hiddens": [16]}}
SMALL |= {"evaluation_interval": None, "min_iter_time_s": 0}


@pytest.fixture(autouse=True)
def folder(monkeypatch, plug_ins):
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.delitem(sys.modules, "own_curriculum", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))


def train(tmp_path, *words, env="Corridor", **keys):
    config = json.dumps(SMALL | keys)
    asked = ["--run", "PPO", "--env", env, "--import", "own_curriculum", "--config", config]
    return cli.main(["train", *asked, *words, "--local-dir", str(tmp_path)])


def test_corridors_get_longer_as_the_agent_learns(tmp_path, capfd):
    stop = {"info/env_task": 8, "timesteps_total": 30000}
    assert train(tmp_path, "--stop", json.dumps({"timesteps_total": stop["timesteps_total"]}), callbacks="longer") == 0
    assert "task 8 from now on" in capfd.readouterr().err
    (path,) = tmp_path.glob("*/*/result.json")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    tasks = [row["info"]["env_task"] for row in rows]
    assert tasks == sorted(tasks) and tasks[0] == 4 and tasks[-1] >= 8
    assert all(row["corridors"] == [row["info"]["env_task"]] * 8 for row in rows)


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (
            {"env_task_fn": "longest"},
            "env_task_fn: No task function is registered as 'longest'. Did you mean 'longer'?",
        ),
        (
            {"env_task_fn": "longer", "env": "CartPole-v1"},
            "env_task_fn: CartPole-v1 has neither set_task nor set_phase.",
        ),
        (
            {"env_task_fn": "longer", "remote_worker_envs": True},
            "env_task_fn: tasks are for environments of one agent that",
        ),
    ],
)
def test_what_cannot_have_tasks_is_refused_in_a_line(tmp_path, keys, line, capsys):
    keys = dict(keys)
    assert train(tmp_path, env=keys.pop("env", "Corridor"), **keys) == 2
    assert line in capsys.readouterr().err


def test_example_is_short():
    assert len((EXAMPLES / "own_curriculum.py").read_text().splitlines()) < 120
