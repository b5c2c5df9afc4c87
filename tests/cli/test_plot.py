"""``drl plot`` as it is typed."""

import json
import os
import subprocess
import sys

import pytest
from fake_runs import evaluation, row, write_run

from drl_cli import cli


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Two SAC runs of four rows, and one TD3 run without any."""
    root = tmp_path / "results"
    monkeypatch.setenv("TUNE_RESULT_DIR", str(root))
    monkeypatch.setenv("COLUMNS", "80")
    for seed in (1, 2):
        write_run(root, seed, [row(n) for n in range(1, 3 + seed)], config={"seed": seed}, experiment="sac")
    write_run(root, 3, run="TD3", experiment="td3")
    return root


def drl(capsys, *arguments, code=0):
    assert cli.main(["plot", *(str(word) for word in arguments)]) == code
    return capsys.readouterr()


@pytest.mark.parametrize("name, start", [("a.png", b"\x89PNG"), ("a.SVG", b"<?xml"), ("a.pdf", b"%PDF")])
def test_out_writes_the_picture_its_name_asks_for(results, capsys, tmp_path, name, start):
    out, err = drl(capsys, "sac", "-o", tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)
    assert (out, err) == ("", f"Wrote {tmp_path / name}\n")
    assert sorted(os.listdir(tmp_path)) == sorted([name, "results"])


def test_terminal_draws_within_the_width(results, capsys):
    out, _ = drl(capsys, "sac")
    lines = out.splitlines()
    assert "Pendulum-v1: return of training episodes" in lines[0] and lines[-2].endswith("SAC (2 seeds)")
    assert max(len(line) for line in lines) <= 80 and "\x1b" not in out


def test_picture_and_terminal_can_be_had_at_once(results, capsys, tmp_path):
    out, err = drl(capsys, "sac", "-o", tmp_path / "a.png", "--terminal", "-q")
    assert "SAC (2 seeds)" in out and err == "" and (tmp_path / "a.png").exists()


def test_json_has_the_documented_keys_and_the_points(results, capsys):
    document = json.loads(drl(capsys, "sac", "--over", "seconds", "--json").out)
    assert {name: document[name] for name in ("field", "over", "smooth", "band")} == {
        "field": "episode_reward_mean",
        "over": "seconds",
        "smooth": 0.02,
        "band": "ci",
    }
    (panel,) = document["panels"]
    (group,) = panel["groups"]
    assert (panel["env"], panel["goal"], group["label"], group["algorithm"]) == ("Pendulum-v1", -200.0, "SAC", "SAC")
    assert [(run["seed"], run["x"], run["y"]) for run in group["runs"]] == [
        (1, [2.0, 4.0, 6.0], [10.0, 20.0, 30.0]),
        (2, [2.0, 4.0, 6.0, 8.0], [10.0, 20.0, 30.0, 40.0]),
    ]
    mean = group["mean"]
    assert len(mean["x"]) == len(mean["y"]) == len(mean["low"]) == 400
    assert mean["complete"][0] and not mean["complete"][-1] and mean["low"][-1] is None
    help_text = " ".join(drl(capsys, "-h").out.split())
    assert all(f'"{name}"' in help_text for name in (*document, *panel, *group, *mean, *group["runs"][0]))


@pytest.mark.parametrize("field, goal", [("evaluation/episode_reward_mean", -200.0), ("episode_len_mean", None)])
def test_the_goal_is_drawn_where_the_field_is_a_reward(results, capsys, field, goal):
    rows = [row(1, evaluation=evaluation(1, 5.0), episode_len_mean=200.0)]
    write_run(results, 5, rows, experiment="goal")
    assert json.loads(drl(capsys, "goal", "--field", field, "--json").out)["panels"][0]["goal"] == goal


def test_no_goal_is_drawn_where_runs_aim_at_different_ones(results, capsys):
    write_run(results, 5, [row(1)], experiment="sac", stop={"episode_reward_mean": -100.0})
    assert json.loads(drl(capsys, "sac", "--json").out)["panels"][0]["goal"] is None


def test_runs_without_points_are_told_and_none_at_all_is_refused(results, capsys):
    assert (
        "Skipped, because they have no value of episode_reward_mean over steps: 00000003"
        in drl(capsys, "sac", "td3").err
    )
    assert "none of these runs has a value" in drl(capsys, "td3", code=2).err


def test_field_of_a_policy_is_named_in_full_and_another_policy_names_the_nearest(results, capsys):
    rows = [row(n, policy_reward_mean={"quick": 5.0 * n, "plain": 4.0}) for n in (1, 2)]
    write_run(results, 5, rows, experiment="two")
    out, _ = drl(capsys, "two", "--field", "policy_reward_mean/quick")
    assert "Pendulum-v1: policy_reward_mean/quick" in out.splitlines()[0]
    err = drl(capsys, "two", "--field", "policy_reward_mean/quik", code=2).err
    assert "has a value of policy_reward_mean/quik over steps yet. Did you mean 'policy_reward_mean/quick'?" in err


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["-o", "a.jpg"], "-o a.jpg: plots are .png, .svg or .pdf. Did you mean 'png'?"),
        (["-o", "a"], "Or give --format."),
        (["--format", "svg"], "--format svg needs a file: -o curves.svg"),
        (["-o", "-", "--json"], "-o - writes the plot to stdout, where --json and --terminal write too"),
        (["-o", "/nowhere/at/all/a.png"], "Make its folder: mkdir -p /nowhere/at/all"),
        (["--field", "evaluation/episode_reward_maen"], "Did you mean 'evaluation/episode_reward_mean'?"),
        (["--over", "episodes"], "one of steps, seconds, updates."),
        (["--smooth", "0.9"], "'0.9' is not a number from 0 to 0.5."),
    ],
)
def test_wrong_words_are_refused_before_anything_is_drawn(results, capsys, arguments, message):
    assert message in drl(capsys, "sac", *arguments, code=2).err


def test_commands_about_runs_load_no_heavy_library(results):
    typed = (
        ["runs"],
        ["watch", "00000001"],
        ["diff", "00000001", "00000002"],
        ["plot", "sac"],
        ["compare", "sac", "--score", "training"],
    )
    heavy = ("tensorflow", "ray", "gymnasium", "pandas", "matplotlib", "scipy")
    seen = f"print('heavy', main(words), [name for name in {heavy!r} if name in sys.modules], words)"
    code = f"import sys\nfrom drl_cli.cli import main\nfor words in {typed!r}:\n    {seen}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    found = [line for line in done.stdout.splitlines() if line.startswith("heavy")]
    assert found == [f"heavy 0 [] {words!r}" for words in typed]
