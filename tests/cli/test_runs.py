"""``drl runs`` and ``drl runs rm`` as they are typed."""

import fcntl
import json
import os
import subprocess
import sys

import pytest
from fake_runs import row, write_run

from drl_cli import cli
from drl_cli.runs import select

BEST = {"checkpoint": "checkpoint_000001", "metric": "evaluation/episode_reward_mean"}


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Three runs, 1 finished, 2 died, 3 failed on a longer name; the folder of results of this process."""
    root = tmp_path / "results"
    write_run(root, 1, [row(1)], best={**BEST, "value": -150.5})
    write_run(root, 2, [row(20)], {"state": "running"}, run="TD3", best={**BEST, "value": -140.0})
    write_run(root, 3, status={"state": "failed"}, env="LunarLanderContinuous-v3", experiment="landing")
    monkeypatch.setenv("TUNE_RESULT_DIR", str(root))
    return root


def drl(capsys, *arguments, code=0):
    assert cli.main([str(word) for word in arguments]) == code
    return capsys.readouterr()


def test_table_lists_what_runs_are_and_how_they_ended(results, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    out, err = drl(capsys, "runs", "--sort", "best")
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["id", "state", "run", "environment", "best", "now", "steps", "time", "size", "started", "seed"]
    assert lines[1][:8] == ["00000002", "died", "TD3", "Pendulum-v1", "-140.0", "200.0", "20.0k", "0:40"]
    assert lines[2][:8] == ["00000001", "finished", "SAC", "Pendulum-v1", "-150.5", "10.0", "1,000", "0:02"]
    assert lines[3][:8] == ["00000003", "failed", "SAC", "LunarLanderContinuous-v3", "-", "-", "-", "-"]
    assert err.startswith(f"3 runs in {results}, ")


@pytest.mark.parametrize(
    "columns, env, has_experiment",
    [(72, "Lunar", False), (80, "LunarLanderContinuous-v3", False), (160, "LunarLanderContinuous-v3", True)],
)
def test_table_fits_the_width(results, capsys, monkeypatch, columns, env, has_experiment):
    monkeypatch.setenv("COLUMNS", str(columns))
    out, _ = drl(capsys, "runs")
    assert max(len(line) for line in out.splitlines()) <= columns
    assert env in out and "inuous-v3" in out
    assert ("experiment" in out) == has_experiment


def test_table_in_a_pipe_is_not_cut(results):
    environ = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    command = [sys.executable, "-m", "drl_cli", "runs"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environ, check=True)
    assert f"{results}/landing/SAC_LunarLanderContinuous-v3_0_2026-11-21_10-00-03_00000003" in done.stdout


def test_json_has_the_documented_keys(results, capsys):
    document = json.loads(drl(capsys, "runs", "--run", "td3", "--json").out)
    (run,) = document.pop("runs")
    assert list(run) == [
        "path",
        "id",
        "experiment",
        "algorithm",
        "env",
        "seed",
        "state",
        "exit_code",
        "text",
        "started",
        "updated",
        "training_iteration",
        "timesteps_total",
        "time_total_s",
        "episode_reward_mean",
        "best",
        "best_metric",
        "best_checkpoint",
        "checkpoints",
        "size",
        "pid",
        "host",
        "search",
        "trial",
    ]
    assert (run["id"], run["state"], run["best"], run["timesteps_total"]) == ("00000002", "died", -140.0, 20_000)
    assert document == {"searches": [], "size": run["size"], "left_out": []}
    help_text = " ".join(drl(capsys, "runs", "-h").out.split())
    assert all(f'"{name}"' in help_text for name in (*run, "runs", "size", "left_out"))


@pytest.fixture
def search(results):
    """Two trials of the search 1a2b3, without a record, beside the three runs."""
    paths = [write_run(results, number, [row(2)], best={**BEST, "value": -100.0 - number}) for number in (11, 12)]
    return [
        path.rename(path.with_name(f"SAC_Pendulum-v1_1a2b3_{number:05d}_{path.name[-28:]}"))
        for number, path in enumerate(paths)
    ]


def test_trials_of_a_search_share_a_line_unless_asked_for(search, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "500")  # every column, however long the paths of this test are
    lines = [line.split() for line in drl(capsys, "runs", "--sort", "best").out.splitlines()]
    assert lines[0][:4] == ["id", "state", "trials", "run"] and len(lines) == 5
    assert lines[1][:7] == ["1a2b3", "finished", "2/2", "SAC", "Pendulum-v1", "-111.0", "-"]
    for arguments in (("--all",), ("--search", "1a2b3")):
        shown = drl(capsys, "runs", *arguments).out
        assert "0000000b" in shown and "0000000c" in shown and "trials" not in shown.splitlines()[0]
    assert len(drl(capsys, "runs", "-q").out.splitlines()) == 5


def test_json_of_a_search_has_the_documented_keys(search, capsys):
    document = json.loads(drl(capsys, "runs", "--search", "1a2b3", "--json").out)
    assert [(run["search"], run["trial"]) for run in document["runs"]] == [("1a2b3", 1), ("1a2b3", 0)]
    (told,) = document["searches"]
    assert (told["best"], told["best_run"], told["timesteps_total"], told["trials"]) == (-111.0, "0000000b", 4000, 2)
    help_text = " ".join(drl(capsys, "runs", "-h").out.split())
    assert all(f'"{name}"' in help_text for name in told)


def test_filter_that_nothing_passes_names_the_nearest(search, capsys):
    for option, word, meant in (
        ("--run", "SAK", "SAC"),
        ("--env", "Pendulm-v1", "Pendulum-v1"),
        ("--experiment-name", "landig", "landing"),
        ("--search", "1a2b4", "1a2b3"),
    ):
        assert f"Did you mean '{meant}'?" in drl(capsys, "runs", option, word).err


@pytest.mark.parametrize("word", ["list", "ls"])
def test_runs_list_is_runs(results, capsys, word):
    assert drl(capsys, "runs", word, "-q", "--env", "lunar*") == drl(capsys, "runs", "-q", "--env", "lunar*")


def test_runs_before_the_first_run_says_that_there_are_none(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path / "nowhere"))
    out, err = drl(capsys, "runs")
    assert out == "" and err.startswith(f"No runs in {tmp_path}/nowhere. Start one: drl train")


def test_quiet_prints_only_folders(results, capsys):
    out, err = drl(capsys, "runs", "-q", "--env", "lunar*")
    assert out == f"{results}/landing/SAC_LunarLanderContinuous-v3_0_2026-11-21_10-00-03_00000003\n" and err == ""


def test_limit_and_several_folders_of_results(results, capsys, tmp_path):
    write_run(tmp_path / "more", 9)
    arguments = ["--local-dir", results, "--local-dir", tmp_path / "more", "--sort", "size", "-n", "1", "-q"]
    assert drl(capsys, "runs", *arguments).out.endswith("00000002\n")
    assert len(drl(capsys, "runs", *arguments[:4], "-q").out.splitlines()) == 4


def test_nothing_to_list_says_what_to_do(results, capsys, tmp_path):
    assert "None of the 3 runs" in drl(capsys, "runs", "--run", "PPO").err
    (tmp_path / "empty").mkdir()
    assert "Start one: drl train" in drl(capsys, "runs", "--local-dir", tmp_path / "empty").err


def test_wrong_words_are_refused_with_the_right_ones(results, capsys):
    assert "Did you mean 'rm'" in drl(capsys, "runs", "rmm", code=2).err
    assert "write 90s, 30m, 12h, 7d or 2w" in drl(capsys, "runs", "--older-than", "3 weeks", code=2).err
    assert "No such option '--stat'. Did you mean '--state'" in drl(capsys, "runs", "--stat", "died", code=2).err
    assert "Did you mean 'died'?" in drl(capsys, "runs", "--state", "dead", code=2).err


def test_options_before_rm_are_refused_rather_than_dropped(results, capsys):
    assert "--state stands before rm" in drl(capsys, "runs", "--state", "failed", "rm", "--yes", code=2).err
    assert len(drl(capsys, "runs", "-q").out.splitlines()) == 3


def test_sort_keys_are_those_of_the_runs_room():
    from drl_cli.cli.run_options import STATES
    from drl_cli.cli.runs import SORTS
    from drl_cli.runs import run_summary

    assert SORTS == select.SORTS and STATES == run_summary.STATES


def test_rm_removes_what_was_named_and_says_what_was_freed(results, capsys):
    size = json.loads(drl(capsys, "runs", "--state", "failed", "--json").out)["size"]
    out, err = drl(capsys, "runs", "rm", "00000003", "--yes")
    assert out == f"Freed {size} B of 1 run.\n" and "LunarLander" in err
    assert not (results / "landing").exists() and (results / "default").is_dir()


def test_rm_asks_and_leaves_everything_when_nobody_can_answer(results, capsys):
    err = drl(capsys, "runs", "rm", "--state", "died", "--state", "failed", code=2).err
    assert "Remove these 2 runs (" in err and "Not a terminal: pass --yes, or look first with --dry-run" in err
    assert len(drl(capsys, "runs", "-q").out.splitlines()) == 3


@pytest.mark.parametrize("answer, left", [("y\n", 2), ("n\n", 3), ("\n", 3)])
def test_rm_does_what_was_answered(results, capsys, monkeypatch, answer, left):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.confirm", lambda text, err: answer == "y\n")
    _, err = drl(capsys, "runs", "rm", "00000001")
    assert ("Nothing was removed." in err) == (left == 3)
    assert len(drl(capsys, "runs", "-q").out.splitlines()) == left


def test_rm_without_a_word_removes_nothing(results, capsys):
    assert "Which runs? Name them" in drl(capsys, "runs", "rm", "--yes", code=2).err
    assert len(drl(capsys, "runs", "-q").out.splitlines()) == 3


def test_rm_dry_run_as_json_changes_nothing(results, capsys):
    document = json.loads(drl(capsys, "runs", "rm", "default", "--keep-best", 1, "--dry-run", "--json").out)
    assert document["dry_run"] and document["removed"] == [] and document["freed"] == 0
    assert [entry["reason"] for entry in document["spared"]] == ["is among the best"] * 2
    document = json.loads(drl(capsys, "runs", "rm", "landing", "--dry-run", "--json").out)
    assert document["freed"] == document["removed"][0]["size"] > 0
    assert len(drl(capsys, "runs", "-q").out.splitlines()) == 3


def test_rm_refuses_a_running_run_by_name_and_spares_it_in_a_filter(results, capsys):
    (path,) = drl(capsys, "runs", "-q", "--state", "finished").out.split()
    lock = os.open(os.path.join(path, ".lock"), os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    assert "is running" in drl(capsys, "runs", "rm", "00000001", "--yes", code=2).err
    out, err = drl(capsys, "runs", "rm", "--run", "SAC", "--yes")
    assert out.endswith("of 1 run.\n") and f"Spared: {path} is running" in err
    os.close(lock)
    assert os.path.isdir(path) and not (results / "landing").exists()


def test_rm_refuses_a_run_outside_of_the_results(results, capsys, tmp_path):
    path = write_run(tmp_path / "elsewhere", 5)
    err = drl(capsys, "runs", "rm", path, "--yes", code=2).err
    assert "is outside the results" in err and "--local-dir" in err
    assert path.is_dir()


def test_glob_over_an_experiment_skips_what_is_no_run_with_one_line(results, capsys):
    write_run(results, 4, [row(1), row(2)], experiment="sac")
    (results / "sac" / "search_2026-11-23_00-00-00_1a2b3.json").write_text("{}")
    (results / "sac" / "notes.txt").write_text("")
    (results / "sac" / "theirs").mkdir()
    (results / "sac" / "theirs" / "params.json").write_text('{"lr": 1}')
    words = sorted(str(path) for path in (results / "sac").iterdir())
    others = ", ".join(word for word in words if "_0_" not in word)
    for command in ("runs", "plot", "compare"):
        code = 0 if command != "compare" else 2  # this run has no evaluation to compare
        err = drl(capsys, command, *words, "--json", code=code).err
        assert [line for line in err.splitlines() if "Skipped, because no run" in line] == [
            f"Skipped, because no run can be read there: {others}"
        ]


def test_record_of_a_search_stands_for_its_trials(results, capsys):
    for number in (1, 2):
        path = write_run(results, 10 + number, [row(1)], experiment="found")
        path.rename(path.with_name(path.name.replace("_0_", f"_1a2b3_0000{number}_")))
    record = results / "found" / "search_2026-11-23_00-00-00_1a2b3.json"
    record.write_text("{}")
    out, _ = drl(capsys, "runs", record, "-q")
    assert len(out.splitlines()) == 2 and all("_1a2b3_" in line for line in out.splitlines())


def test_words_name_the_runs_that_are_listed(results, capsys):
    out, err = drl(capsys, "runs", "00000001", results / "landing", "--sort", "env")
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["00000003", "00000001"]
    assert err.startswith("2 runs, ")
    assert "nothing: no run of that name or id" in drl(capsys, "runs", "nothing", code=2).err
