"""``drl evaluate --data``: the table at 80 columns, the document, warnings, and options that do not fit."""

import json
import subprocess
import sys

import numpy as np
import pytest

from drl_cli import cli
from drl_cli.checkpoints import load
from drl_cli.policies.numpy_policy import policy_from_checkpoint


@pytest.fixture
def run(tmp_path, write_checkpoint):
    """A run folder with one checkpoint, and a file of 40 recorded episodes of two steps, one of them cut."""
    folder = tmp_path / "SAC_Pendulum-v1_0000"
    folder.mkdir()
    path = write_checkpoint(folder, 10, config={"gamma": 0.5})
    policy, rng, lines = policy_from_checkpoint(load(path)), np.random.default_rng(0), []
    for episode in range(41):
        obs = rng.normal(0, 1, (2, 3)).astype(np.float32)
        action = policy.recorded(policy.act(obs, (), rng, True)[0])
        logp = policy.logp(policy.heads(obs), action)
        batch = {
            "type": "SampleBatch",
            "obs": obs.tolist(),
            "actions": action.tolist(),
            "rewards": [1.0, 4.0 * (episode % 2)],
            "dones": [False, episode < 40],
            "eps_id": [episode] * 2,
            "t": [0, 1],
            "action_logp": logp.tolist(),
        }
        lines.append(json.dumps(batch))
    file = tmp_path / "experience.json"
    file.write_text("\n".join(lines) + "\n")
    return folder, file


def evaluated(capsys, *arguments, code=0):
    assert cli.main(["evaluate", *(str(word) for word in arguments)]) == code
    return capsys.readouterr()


def test_table_shows_what_was_recorded_and_every_estimate(run, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out, err = evaluated(capsys, run[0], "--data", run[1])
    lines = out.splitlines()
    assert lines[1:4] == [
        "   SAC on Pendulum-v1, iteration 10, 10.0k steps; policy: stochastic",
        "   40 recorded episodes, 80 steps, 1 more are incomplete",
        "   discount 0.5, effective sample size 40.0 episodes",
    ]
    cells = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines[5:]]
    assert cells[0] == ["estimate", "return", "95 %", "gain"]
    assert [row[:2] for row in cells[2:]] == [
        ["1", "behaviour"], ["IS per step", "2.0"], ["IS per episode", "2.0"], ["WIS per step", "2.0"],
        ["WIS per episode", "2.0"],
    ]  # fmt: skip
    assert cells[4] == ["IS per episode", "2.0", "[1.7, 2.3]", "x 1"] and cells[2][2:] == ["2.0", "[1.7, 2.3]"]
    assert max(len(line) for line in lines[4:]) <= 80
    assert err == f"Estimating 1 of 1: {run[0]}/checkpoint_000010\n"


def test_json_has_the_documented_keys(run, capsys):
    document = json.loads(evaluated(capsys, run[0], "--data", run[1], "--gamma", "1", "--json").out)
    assert (document["data"], document["confidence"]) == ([str(run[1])], 0.95)
    (row,) = document["checkpoints"]
    mean = {
        "mean": pytest.approx(3.0, rel=1e-4),
        "low": pytest.approx(2.4, abs=0.1),
        "high": pytest.approx(3.6, abs=0.1),
    }
    both = {"per_step": mean, "per_episode": mean}
    assert row == {
        "path": f"{run[0]}/checkpoint_000010",
        "algorithm": "SAC",
        "env": "Pendulum-v1",
        "training_iteration": 10,
        "timesteps_total": 10_000,
        "gamma": 1.0,
        "policy": "stochastic",
        "files": 1,
        "incomplete": 1,
        "without_logp": 0,
        "episodes": 40,
        "steps": 80,
        "effective_sample_size": pytest.approx(40.0, rel=1e-4),
        "behaviour": mean,
        "is": both,
        "wis": both,
    }


def test_small_effective_sample_size_is_warned_of(run, capsys, write_checkpoint):
    other = write_checkpoint(run[0], 11, config={"gamma": 0.5})
    _, err = evaluated(capsys, other, "--data", run[1])
    assert "Warning: the 40 recorded episodes say as much as " in err


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--seed", 3], "Error: --seed has no effect with --data: nothing is played."),
        (["--episodes", 20], "Error: --episodes has no effect with --data: nothing is played."),
        (["--explore"], "Error: --explore has no effect with --data: nothing is played."),
        (["--env", "Pendulum-v1"], "Error: --env has no effect with --data: nothing is played."),
        (["--gamma", 1.5], "Error: Invalid value for '--gamma'"),
        (["--config", "{horizon: 3}"], "--config: 'horizon' has no effect on estimates"),
    ],
)
def test_option_that_says_nothing_of_files_is_refused(run, capsys, options, text):
    assert text in evaluated(capsys, run[0], "--data", run[1], *options, code=2).err


@pytest.mark.parametrize("option", ["--gamma", "--epsilon"])
def test_option_of_estimates_needs_files(run, capsys, option):
    assert f"Error: {option} needs --data." in evaluated(capsys, run[0], option, 0.5, code=2).err


def test_missing_file_ends_with_one_line(run, capsys):
    out, err = evaluated(capsys, run[0], "--data", run[1].with_name("no.json"), code=2)
    assert out == "" and err.splitlines()[-1].startswith(f"Error: --data: {run[1].with_name('no.json')}: No such file")


def test_estimates_need_neither_ray_nor_tensorflow_nor_the_environment(run):
    code = (
        "import sys; from drl_cli.cli import main;"
        f"print(main(['evaluate', {str(run[0])!r}, '--data', {str(run[1])!r}, '--json']),"
        " [m for m in ('ray', 'tensorflow', 'rich', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "0 []", done.stderr
