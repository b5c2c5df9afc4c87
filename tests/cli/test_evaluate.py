import json
import subprocess
import sys

import pytest

from drl_cli import cli
from drl_cli.actors.part_records import ScoredEpisode


@pytest.fixture
def scores(monkeypatch):
    """A fake of ``actors.tester.score``: greedy rewards are the seeds, stochastic ones 100 less; records its calls."""
    calls = []

    def score(policy, env_id, env_config, seeds, explore, horizon, max_steps, **making):
        calls.append(
            {"env": env_id, "env_config": env_config, "seeds": list(seeds), "explore": explore, "horizon": horizon}
            | {"max_steps": max_steps}
        )
        lower, is_cut = 100.0 if explore else 0.0, max_steps == 11
        return [
            ScoredEpisode(seed - lower, 10 + i, seed, True, is_cut=is_cut and i > 0) for i, seed in enumerate(seeds)
        ]

    monkeypatch.setattr("drl_cli.actors.tester.score", score)
    return calls


def evaluated(capsys, *arguments, code=0):
    assert cli.main(["evaluate", *(str(word) for word in arguments)]) == code
    return capsys.readouterr()


def test_table_shows_every_checkpoint_on_the_same_seeds(pendulum_run, scores, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out, err = evaluated(
        capsys, pendulum_run, pendulum_run / "checkpoint_000020", "--episodes", 4, "--seed", 1, "--explore"
    )
    lines = [line.replace("±", "+/-") for line in out.splitlines()]
    assert lines[:6] == [
        f"1  {pendulum_run}/checkpoint_000010",
        "   SAC on Pendulum-v1, iteration 10, 10.0k steps",
        f"2  {pendulum_run}/checkpoint_000020",
        "   SAC on Pendulum-v1, iteration 20, 20.0k steps",
        "",
        "4 episodes per score, seeds 1 to 4.",
    ]
    cells = [line.split("  ") for line in lines[7:]]
    words = [[cell.strip() for cell in row if cell.strip()] for row in cells]
    assert words[0][:2] == ["policy", "mean +/- sd"]
    assert words[2] == ["1", "greedy", "2.5 +/- 1.1", "2.5", "2.5 [1.0, 4.0]", "1.0", "4.0", "12"]
    assert words[3][:3] == ["stochastic", "-97.5 +/- 1.1", "-97.5"]
    assert [call["seeds"] for call in scores] == [[1, 2, 3, 4]] * 4
    assert [call["explore"] for call in scores] == [False, True, False, True]
    assert max(len(line) for line in out.splitlines()[6:]) <= 80
    assert f"Scoring 2 of 2: {pendulum_run}/checkpoint_000020, stochastic, 4 episodes\n" in err


def test_json_has_the_documented_keys(pendulum_run, scores, capsys):
    out, _ = evaluated(capsys, pendulum_run, "--json", "--episodes", 2)
    document = json.loads(out)
    assert (document["episodes"], document["seeds"], document["confidence"]) == (2, [10_000, 10_001], 0.95)
    (row,) = document["checkpoints"]
    score = row.pop("greedy")
    assert row == {
        "path": f"{pendulum_run}/checkpoint_000010",
        "algorithm": "SAC",
        "env": "Pendulum-v1",
        "training_iteration": 10,
        "timesteps_total": 10_000,
    }
    assert score == {
        "episodes": 2,
        "mean": 10_000.5,
        "sd": 0.5,
        "median": 10_000.5,
        "iqm": 10_000.5,
        "iqm_low": 10_000.0,
        "iqm_high": 10_001.0,
        "min": 10_000.0,
        "max": 10_001.0,
        "length_mean": 10.5,
        "length_min": 10,
        "length_max": 11,
        "cut": 0,
        "rewards": [10_000.0, 10_001.0],
        "lengths": [10, 11],
    }


def test_config_and_env_reach_the_tester(pendulum_run, scores, capsys):
    evaluated(
        capsys, pendulum_run, "--episodes", 1, "--env", "Pendulum-v0", "--config", "{horizon: 7, env_config: {g: 9.0}}"
    )
    (call,) = scores
    asked = {"env": "Pendulum-v1", "env_config": {"g": 9.0}, "seeds": [10_000], "explore": False, "horizon": 7}
    assert {name: call[name] for name in asked} == asked


def test_episodes_that_max_steps_cut_are_counted_and_said(pendulum_run, scores, capsys):
    out, err = evaluated(capsys, pendulum_run, "--json", "--episodes", 2, "--max-steps", 11)
    assert scores[0]["max_steps"] == 11 and json.loads(out)["checkpoints"][0]["greedy"]["cut"] == 1
    assert "1 of 2 episodes was cut after 11 steps; their rewards up to then are counted. --max-steps" in err


def test_bound_of_evaluations_is_that_of_the_run_unless_another_is_typed(tmp_path, write_checkpoint, scores, capsys):
    stored = write_checkpoint(tmp_path, 3, config={"evaluation_max_steps": 77})
    evaluated(capsys, stored, "--episodes", 1)
    evaluated(capsys, stored, "--episodes", 1, "--max-steps", 5)
    assert [call["max_steps"] for call in scores] == [77, 5]


def test_default_is_twenty_greedy_episodes(pendulum_run, scores, capsys):
    evaluated(capsys, pendulum_run)
    assert [(len(call["seeds"]), call["explore"]) for call in scores] == [(20, False)]


def test_one_bad_checkpoint_is_refused_before_anything_is_scored(pendulum_run, scores, capsys):
    _, err = evaluated(capsys, pendulum_run, pendulum_run / "checkpoint_000099", code=2)
    assert (scores, err.startswith("Error: ")) == ([], True)


def test_no_checkpoint_exits_2(capsys):
    assert "Missing argument 'CHECKPOINT...'" in evaluated(capsys, code=2).err


def test_real_tester_gives_equal_scores_twice_without_ray_or_tensorflow(pendulum_run):
    code = (
        "import sys; from drl_cli.cli import main;"
        f"call = ['evaluate', {str(pendulum_run)!r}, '--episodes', '2', '--config', '<horizon: 5>'];"
        "call += ['--json', '--explore'];"
        "print([main(call), main(call)], [m for m in ('ray', 'tensorflow', 'rich', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    first, again, last = done.stdout.splitlines()
    assert (first == again, last) == (True, "[0, 0] []"), done.stderr
    assert json.loads(first)["checkpoints"][0]["greedy"]["lengths"] == [5, 5]


def test_scores_that_meet_what_is_asserted_exit_0(pendulum_run, scores, capsys):
    demands = ["--assert", "mean>=2.5", "--assert", "episode_reward_max<=4", "--assert", "length_mean < 100"]
    assert evaluated(capsys, pendulum_run, "--episodes", 4, "--seed", 1, "-q", *demands).err == ""


def test_score_that_misses_what_is_asserted_exits_4_behind_the_table(pendulum_run, scores, capsys):
    words = [pendulum_run, pendulum_run / "checkpoint_000020", "--episodes", 4, "--seed", 1, "-q"]
    out, err = evaluated(capsys, *words, "--assert", "iqm_low>=2", "--assert", "mean>0", code=4)
    assert "IQM" in out
    assert err.splitlines() == [
        f"Error: {pendulum_run}/checkpoint_000010: iqm_low is 1; required >= 2",
        f"  {pendulum_run}/checkpoint_000020: iqm_low is 1; required >= 2",
    ]


def test_assertion_about_no_score_is_refused_before_anything_is_played(pendulum_run, scores, capsys):
    assert evaluated(capsys, pendulum_run, "--assert", "iqm_hi>1", code=2).err == (
        "Error: --assert: 'iqm_hi' is not a score. Did you mean 'iqm_high'?\n"
    )
    assert scores == []


def test_quiet_says_nothing_of_the_scoring(pendulum_run, scores, capsys):
    assert evaluated(capsys, pendulum_run, "--episodes", 2, "-q").err == ""


def test_algorithm_that_is_named_is_that_of_every_checkpoint(pendulum_run, scores, capsys):
    assert evaluated(capsys, pendulum_run, "--algo", "SAC", "-q").err == ""
    assert "was trained by SAC" in evaluated(capsys, pendulum_run, "--run", "DQN", code=2).err
