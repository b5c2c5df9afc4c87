"""``drl compare`` as it is typed."""

import json

import pytest
from fake_runs import evaluation, row, write_run

from drl_cli import cli


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Three SAC and two TD3 runs on LunarLanderContinuous-v3 in the experiments "sac" and "td3", one evaluation each."""
    root = tmp_path / "results"
    monkeypatch.setenv("TUNE_RESULT_DIR", str(root))
    monkeypatch.setenv("COLUMNS", "80")
    scores = {"SAC": (250.0, 270.0, 260.0), "TD3": (200.0, 255.0)}
    for algorithm, values in scores.items():
        for seed, value in enumerate(values):
            rows = [row(1, evaluation=evaluation(1, 0.0)), row(200, evaluation=evaluation(200, value))]
            config = {"gamma": 0.99, "seed": seed}
            params = {"run": algorithm, "env": "LunarLanderContinuous-v3", "experiment": algorithm.lower()}
            write_run(root, 10 * len(values) + seed, rows, seed=seed, config=config, **params)
    return root


def drl(capsys, *arguments, code=0):
    assert cli.main(["compare", *(str(word) for word in arguments)]) == code
    return capsys.readouterr()


def test_tables_show_scores_and_probabilities(results, capsys):
    out, err = drl(capsys, "sac", "td3", "--goal", 250)
    lines = [line.replace("±", "+/-").split() for line in out.splitlines()]
    assert lines[0] == ["LunarLanderContinuous-v3"]
    assert lines[2][:6] == ["SAC", "3", "260.0", "+/-", "10.0", "260.0"]
    assert lines[2][-5:] == ["200k", "6:40", "3/3,", "200k,", "6:40"]
    assert lines[3][:5] == ["TD3", "2", "227.5", "+/-", "38.9"] and "1/2," in lines[3]
    assert lines[6][:4] == ["P(SAC", ">", "TD3)", "0.83"]
    assert "With fewer than five seeds" in out and max(len(line) for line in out.splitlines()) <= 80
    assert err == ""


def test_quiet_leaves_only_the_tables(results, capsys):
    assert "Score:" not in drl(capsys, "sac", "-q").out and "Score:" in drl(capsys, "sac").out


def test_published_figures_come_with_their_conditions(results, capsys):
    out, err = drl(capsys, "sac", "td3", "--against", "published")
    found = [line.replace("±", "+/-").split() for line in out.splitlines()]
    assert ["rl-zoo3", "SAC", "v2", "260.4", "+/-", "65.5", "500k", "evaluation", "1"] in found
    assert ["slm-lab", "SAC", "v3", "125.0", "300k", "training", "4"] in found
    assert max(len(line) for line in out.splitlines()) <= 80
    assert next(line for line in found if "TQC" in line)[:3] == ["rl-zoo3", "TQC", "*"]
    assert "https://github.com/DLR-RM/rl-baselines3-zoo/blob/master/benchmark.md" in out
    assert "v2 and v3 pay the same rewards" in err


def test_published_figures_of_another_metric_stand_apart_and_say_so(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    rows = [row(1, evaluation=evaluation(1, -60.0))]
    write_run(tmp_path, 1, rows, run="MADDPG", env="mpe2/simple_spread-v3", experiment="a")
    out, err = drl(capsys, "a", "--against", "published")
    lines = out.splitlines()
    place = lines.index("Published with another metric (see below), not comparable with these scores:")
    assert lines[place - 2].split()[:2] == ["MADDPG", "1"]
    assert lines[place + 2].split()[:4] == ["mava", "MADDPG", "(about)", "-25.0"]
    assert "the highest published score, by" not in out and max(len(line) for line in lines) <= 80
    assert "Metric: the return divided by the number of agents." in " ".join(out.split())
    assert "mpe2 weighs the distance by 1 - local_ratio" in err


def test_json_has_the_documented_keys(results, capsys):
    document = json.loads(drl(capsys, "sac", "td3", "--goal", 250, "--against", "published", "--json").out)
    assert list(document) == (
        ["score", "at", "goal", "confidence", "groups", "improvement", "overall", "scaled", "notices", "published"]
    )
    group = document["groups"][0]
    assert list(group) == (
        [
            "label",
            "algorithm",
            "env",
            "runs",
            "n",
            "mean",
            "sd",
            "mean_low",
            "mean_high",
            "iqm",
            "iqm_low",
            "iqm_high",
            "min",
            "max",
            "steps",
            "seconds",
            "elo",
            "goal",
        ]
    )
    assert (group["label"], group["n"], group["mean"], group["goal"]["reached"]) == ("SAC", 3, 260.0, 3)
    assert document["improvement"][0]["probability"] == pytest.approx(5 / 6)
    assert document["published"]["figures"][0]["sd_over"] == "episodes"
    help_text = " ".join(drl(capsys, "-h").out.split())
    named = [*document, *group, *group["runs"][0], *group["goal"], *document["improvement"][0]]
    assert [name for name in named if f'"{name}"' not in help_text and not name.startswith("goal_")] == []


def test_elo_of_self_play_stands_in_a_column_of_its_own(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path))
    rated = [{"info": {"learner": {"main": {"elo": value}}}} for value in (1000.0, 1234.4)]
    for seed, shift in enumerate((0.0, 1.0)):
        rows = [row(number, evaluation=evaluation(number, shift), **rated[number - 1]) for number in (1, 2)]
        write_run(tmp_path, seed, rows, seed=seed, config={"seed": seed}, run="PPO", env="drl/TicTacToe-v1")
    write_run(tmp_path, 9, [row(2, evaluation=evaluation(2, 0.5))], config={}, run="DQN", env="drl/TicTacToe-v1")
    heads, *lines = [line.split() for line in drl(capsys, "default").out.splitlines()[1:4]]
    assert heads[-1] == "Elo"
    assert sorted((line[0], line[-1]) for line in lines) == [("DQN", "0:04"), ("PPO", "1,234")]
    document = json.loads(drl(capsys, "default", "--at", 1000, "--json").out)
    assert [(entry["algorithm"], entry["elo"]) for entry in document["groups"]] == [("PPO", 1000.0)]


def test_runs_without_an_evaluation_are_refused_with_a_way_out(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path))
    write_run(tmp_path, 1, [row(5)])
    assert "--score training compares training episodes" in drl(capsys, "00000001", code=2).err
    assert "50.0" in drl(capsys, "00000001", "--score", "training").out


def test_wrong_words_are_refused(results, capsys):
    assert "Did you mean 'sac'" in drl(capsys, "sacc", code=2).err
    assert "It takes published." in drl(capsys, "sac", "--against", "peers", code=2).err
    assert "Missing argument 'RUN...'" in drl(capsys, code=2).err
