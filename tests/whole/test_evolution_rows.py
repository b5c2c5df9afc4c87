"""ES and ARS through the commands, in this process: trained, played, scored, resumed."""

import json
from pathlib import Path

import pytest

from drl_cli import cli

pytestmark = pytest.mark.process

SMALL = {
    "num_workers": 0,
    "num_envs_per_worker": 8,
    "timesteps_per_iteration": 300,
    "evaluation_interval": 1,
    "evaluation_num_episodes": 2,
    "horizon": 30,
}
BATCH = {"ES": {"episodes_per_batch": 12}, "ARS": {"num_rollouts": 6, "rollouts_used": 3}}


@pytest.mark.parametrize("name", ["ES", "ARS"])
@pytest.mark.parametrize("env", ["Pendulum-v1", "CartPole-v1"])
def test_row_is_trained_played_scored_and_resumed_by_the_commands(tmp_path, capsys, name, env):
    words = ["train", "--run", name, "--env", env, "--local-dir", str(tmp_path), "--seed", "3", "--json"]
    words += ["--config", json.dumps(SMALL | BATCH[name]), "--stop", "training_iteration=3"]
    assert cli.main(words) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["training_iteration"] for line in lines[:-1]] == [1, 2, 3]
    assert lines[2]["info"]["num_updates"] >= 3
    assert lines[2]["evaluation"]["training_iteration"] == 3
    (run,) = (path.parent for path in Path(tmp_path).glob("*/*/params.json"))

    assert cli.main(["rollout", str(run), "--latest", "--episodes", "2", "--seed", "1"]) == 0
    played = capsys.readouterr().out.splitlines()
    assert cli.main(["evaluate", str(run / "checkpoint_000003"), "--episodes", "2", "--seed", "1", "--json"]) == 0
    (scored,) = json.loads(capsys.readouterr().out)["checkpoints"]
    rewards = [float(line.partition(": reward: ")[2]) for line in played[:2]]
    assert scored["greedy"]["mean"] == pytest.approx(sum(rewards) / 2, abs=0.01)

    assert cli.main(["train", "--resume", str(run), "--stop", "training_iteration=4", "--json"]) == 0
    resumed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["training_iteration"] for line in resumed[:-1]] == [4]
    assert resumed[0]["info"]["num_updates"] > lines[2]["info"]["num_updates"]


def test_images_are_refused_with_the_algorithms_that_take_them(tmp_path, capsys):
    words = [
        "train",
        "--run",
        "ARS",
        "--env",
        "CarRacing-v3",
        "--local-dir",
        str(tmp_path),
        "--stop",
        "timesteps_total=10",
    ]
    assert cli.main(words) in (2, 3)
    assert "ARS needs observations that are vectors" in capsys.readouterr().err
