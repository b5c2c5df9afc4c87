"""Completions: what is offered where, that nothing heavy is imported for it, and the scripts of the three shells."""

import contextlib
import io
import os
import subprocess
import sys

import gymnasium
import pytest

from drl_cli import cli
from drl_cli.algorithms import table
from drl_cli.cli import shell_words, train_options
from drl_cli.config.env_names import TEAM_ID
from drl_cli.config.sections import schedulers
from drl_cli.envs import make
from drl_cli.experiments import search_choices, tuned_files

ENDS_OF_NAMES = "_0_2026-01-0{day}_00-00-00_0123456{day}"


def line_of(words, env=None):
    """Return the environment in which bash asks for the line ``words``, the last of which is being typed."""
    asked = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1), "_DRL_COMPLETE": "bash_complete"}
    return {**os.environ, **asked, **(env or {})}


def completed(*words, env=None):
    """Return what bash is told, in this process."""
    told, errors = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()  # click writes bytes
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["drl"])
        for name, value in line_of(words, env).items():
            patch.setenv(name, value)
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(errors):
            cli.main()
    assert errors.getvalue() == ""
    told.flush()
    return told.buffer.getvalue().decode().splitlines()


def test_commands_are_completed_from_the_table():
    assert completed("drl", "e") == [f"plain,{name}" for name in cli.COMMANDS if name.startswith("e")]


def test_algorithms_are_completed_in_any_case():
    assert completed("drl", "train", "--run", "td") == ["plain,TD3", "plain,TD3BC"]
    assert len(shell_words.algorithms(None, None, "")) == len(table.built_in())


def test_environments_are_completed_without_importing_gymnasium():
    assert completed("drl", "train", "--env", "pend") == ["plain,Pendulum-v1"]
    assert completed("drl", "rollout", "X", "--env", "LunarLanderC") == ["plain,LunarLanderContinuous-v3"]


def test_every_environment_that_is_completed_exists():
    assert make.resolve("CartPole-v1").id == "CartPole-v1"  # the program's own are registered now
    if shell_words._folder_of("ale_py"):
        gymnasium.register_envs(pytest.importorskip("ale_py"))
    offered = {*shell_words.environments(None, None, ""), *shell_words._games()}
    assert offered - set(gymnasium.registry) == set()
    own = {name for name in gymnasium.registry if name.startswith("drl/")}
    assert set(shell_words.OWN_ENVS) == own - {TEAM_ID}  # which is asked for by an algorithm's name
    assert {"CartPole-v1", "drl/StatelessCartPole-v1", "BipedalWalker-v3"} <= offered


def test_tuned_files_are_completed_by_name_and_files_by_the_shell():
    assert completed("drl", "train", "-f", "pendulum-sa") == ["plain,pendulum-sac"]
    assert completed("drl", "train", "-f", "./my") == ["file,./my"]


@pytest.fixture
def results(tmp_path):
    """A folder of results with three runs and what is none."""
    for day, name in ((1, "SAC_A-v0"), (3, "PPO_B-v0"), (2, "SAC_C-v0")):
        (tmp_path / "default" / (name + ENDS_OF_NAMES.format(day=day))).mkdir(parents=True)
    (tmp_path / "default" / "notes").mkdir()
    (tmp_path / "file").write_text("")
    return tmp_path


def test_runs_are_completed_newest_first(results):
    env = {"TUNE_RESULT_DIR": str(results)}
    found = completed("drl", "rollout", "", env=env)
    names = [os.path.basename(line).split("_0_")[0] for line in found]
    assert (names, found[0].startswith(f"plain,{results}/default/PPO")) == (["PPO_B-v0", "SAC_C-v0", "SAC_A-v0"], True)
    assert len(completed("drl", "train", "--resume", "SAC_", env=env)) == 2
    assert completed("drl", "evaluate", "x", env=env) == ["file,x"]
    assert completed("drl", "train", "--local-dir", str(results), "--restore", "PPO") == found[:1]


def test_ids_are_completed_as_ids(results):
    env = {"TUNE_RESULT_DIR": str(results)}
    assert completed("drl", "watch", "0123", env=env) == ["plain,01234563", "plain,01234562", "plain,01234561"]


def test_keys_are_completed_for_the_algorithm_of_the_line():
    assert completed("drl", "train", "--run", "PPO", "-s", "clip_p") == ["plain,clip_param="]
    assert completed("drl", "train", "-f", "cartpole-ppo", "-s", "clip_p") == ["plain,clip_param="]
    assert completed("drl", "train", "--run", "SAC", "-s", "clip_p") == [""]
    assert completed("drl", "train", "--run", "SAK", "-s", "") == [""]
    common = completed("drl", "train", "-s", "")
    assert "plain,gamma=" in common and "plain,clip_param=" not in common
    nested = completed("drl", "train", "--run", "SAC", "-s", "model.custom_model")
    assert nested == ["plain,model.custom_model=", "plain,model.custom_model_config="]


def test_keys_of_an_algorithm_are_completed_by_any_part_of_their_name():
    found = completed("drl", "algorithms", "SAC", "--key", "alpha")
    assert found == ["plain,initial_alpha", "plain,prioritized_replay_alpha"]


def test_runs_takes_its_commands_its_options_and_ids(results):
    assert completed("drl", "runs", "r", env={"TUNE_RESULT_DIR": str(results)})[0] == "plain,rm"
    assert completed("drl", "runs", "--rev") == ["plain,--reverse"]
    env = {"TUNE_RESULT_DIR": str(results)}
    assert completed("drl", "runs", "0123", env=env) == completed("drl", "plot", "0123", env=env) != ["file,0123"]


def test_path_is_left_to_the_shell(results):
    env = {"TUNE_RESULT_DIR": str(results)}
    assert completed("drl", "rollout", "~/ra", env=env) == ["file,~/ra"]


def test_results_that_are_not_there_are_no_runs(tmp_path):
    assert completed("drl", "rollout", "", env={"TUNE_RESULT_DIR": str(tmp_path / "none")}) == ["file,"]


@pytest.mark.parametrize(
    "words",
    [("drl", "train", "--run", ""), ("drl", "train", "--env", "C"), ("drl", "train", "-f", ""), ("drl", "rollout", "")],
)
def test_nothing_heavy_is_imported(words):
    heavy = ("tensorflow", "ray", "gymnasium", "numpy", "pydantic", "yaml", "rich")
    code = f"cli.main(); print([name for name in {heavy!r} if name in sys.modules])"
    program = [sys.executable, "-c", f"import sys; from drl_cli import cli; {code}"]
    done = subprocess.run(program, env=line_of(words), capture_output=True, text=True, timeout=60)
    assert (done.stdout.splitlines()[-1], done.stderr) == ("[]", "")


@pytest.mark.parametrize(("shell", "mark"), [("bash", "complete -o"), ("zsh", "#compdef drl"), ("fish", "complete --")])
def test_script_is_printed(shell, mark, capsys):
    assert cli.main(["completion", shell]) == 0
    out = capsys.readouterr().out
    assert mark in out and "_DRL_COMPLETE" in out


def test_other_shell_is_refused(capsys):
    assert cli.main(["completion", "csh"]) == 2
    assert "'csh' is not known. Did you mean 'zsh'? It takes one of bash, zsh, fish." in capsys.readouterr().err


def test_script_works_in_bash(tmp_path):
    drl = tmp_path / "drl"
    drl.write_text(f'#!/bin/sh\nexec {sys.executable} -m drl_cli "$@"\n')
    drl.chmod(0o755)
    line = 'COMP_WORDS=(drl train --env Pend); COMP_CWORD=3; _drl_completion drl; echo "${COMPREPLY[@]}"'
    script = f'eval "$(drl completion bash)"; {line}'
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(["bash", "-c", script], env={**os.environ, "PATH": path}, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("Pendulum-v1\n", "")


def test_shipped_files_are_those_that_files_finds():
    assert "pendulum-sac" in tuned_files.shipped()


@pytest.mark.parametrize(
    "line, offered",
    [
        ("drl example show pendulum-sa", "pendulum-sac"),
        ("drl example run pendulum-sa", "pendulum-sac"),
        ("drl example list --run td", "TD3"),
        ("drl example list --env pend", "Pendulum-v1"),
        ("drl algorithms td", "TD3"),
        ("drl envs pend", "Pendulum-v1"),
        ("drl env check pend", "Pendulum-v1"),
        ("drl explain pendulum-sa", "pendulum-sac"),
        ("drl diff pendulum-sa", "pendulum-sac"),
        ("drl runs --run td", "TD3"),
        ("drl runs --env pend", "Pendulum-v1"),
        ("drl train --scheduler hyper", "HyperBand"),
        ("drl train --search t", "tpe"),
        ("drl train --checkpoint-score-attr min-episode_len", "min-episode_len_mean"),
        ("drl plot --field episode_len", "episode_len_mean"),
    ],
)
def test_every_word_that_is_known_beforehand_is_completed(line, offered):
    assert f"plain,{offered}" in completed(*line.split())


def test_runs_are_completed_by_their_ids_and_searches_by_theirs(tmp_path):
    run = tmp_path / "default" / "SAC_Pendulum-v1_0_2026-01-01_00-00-00_0123abcd"
    run.mkdir(parents=True)
    (tmp_path / "default" / "search_2026-01-01_00-00-00_1a2b3.json").write_text("{}")
    env = {"TUNE_RESULT_DIR": str(tmp_path)}
    for line in ("drl rollout 0123", "drl runs rm 0123", "drl diff 0123", "drl explain 0123"):
        assert completed(*line.split(), env=env) == ["plain,0123abcd"]
    assert completed("drl", "runs", "--search", "1a", env=env) == ["plain,1a2b3"]


def test_names_of_schedulers_and_searches_are_the_known_ones():
    assert {schedulers.canonical(name) for name in train_options.SCHEDULERS} == set(schedulers.SECTIONS)
    assert set(train_options.SEARCHES) == set(search_choices.SEARCHES)
