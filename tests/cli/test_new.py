"""``drl new``: what is written can be used as it is, and nothing is overwritten."""

import os
import sys

import jsonschema
import pytest

from drl_cli.algorithms import table
from drl_cli.cli import main
from drl_cli.config.assignments import load_file
from drl_cli.experiments import file_schema, file_templates, spec
from drl_cli.experiments.algorithm_choice import Choice


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return tmp_path


def drl(capsys, *words, code=0):
    assert main(["new", *words]) == code, capsys.readouterr().err
    return capsys.readouterr().err


def test_new_file_trains_what_is_chosen_for_the_environment(capsys, folder):
    err = drl(capsys, "file", "--env", "CartPole-v1")
    assert err == "Wrote cartpole-ppo.yaml. Train it: drl train -f cartpole-ppo.yaml\n"
    (made,) = spec.from_file("cartpole-ppo.yaml", {})
    assert (made.name, made.run, made.env, made.config.observation_filter) == (
        *("cartpole-ppo", "PPO", "CartPole-v1", "MeanStdFilter"),
    )
    assert made.stop == {"evaluation/episode_reward_mean": 475.0, "timesteps_total": 1_000_000}
    assert "    # gamma: 0.99  # Discount factor per env step\n" in (folder / "cartpole-ppo.yaml").read_text()


def test_new_file_takes_an_algorithm_and_a_name(capsys, folder):
    drl(capsys, "file", "--env", "Pendulum-v1", "--run", "td3", "-o", "mine.yml")
    (made,) = spec.from_file("mine.yml", {})
    assert (made.name, made.run, made.env) == ("mine", "TD3", "Pendulum-v1")


def test_new_file_of_any_algorithm_is_valid_where_its_comments_become_keys(folder):
    schema, path = jsonschema.Draft7Validator(file_schema.of_files()), folder / "a.yaml"
    for run in table.names():
        text = file_templates.experiment(Choice(run, "why", {}), "X-v0", "a", "a.yaml")
        _, _, keys = text.partition("at their defaults:\n")
        config = keys.replace("    # ", "    ")
        path.write_text(f"a:\n  run: {run}\n  config:\n{config}")
        data, _ = load_file("a.yaml")
        assert {"seed", "evaluation_interval"} <= set(data["a"]["config"]), run
        assert [error.message for error in schema.iter_errors(data)] == [], run


def test_new_environment_trains_as_it_is(capsys, folder, plug_ins):
    assert "--import linewalk" in drl(capsys, "env", "LineWalk-v1", "-o", "linewalk.py")
    words = ["--run", "ARS", "--env", "LineWalk-v1", "--stop", "training_iteration=2", "--seed", "1", "-q"]
    words += ["--local-dir", "results", "-s", "num_workers=0", "-s", "evaluation_num_episodes=2"]
    assert main(["train", "--import", "linewalk", *words]) == 0, capsys.readouterr().err
    assert len(list(folder.glob("results/default/*/result.json"))) == 1
    sys.modules.pop("linewalk")


@pytest.mark.parametrize(
    "words, line",
    [
        (["file", "--env", "CartPol-v1"], "Did you mean 'CartPole-v1'"),
        (["file", "--env", "CartPole-v1", "--run", "SACC"], "Did you mean 'SAC'?"),
        (["file", "--env", "Pendulum-v1", "--run", "DQN"], "DQN needs a Discrete action space"),
        (["file", "--env", "CartPole-v1", "-o", "a.txt"], "the file must end in .yaml or .yml"),
        (["file"], "Missing option '--env'"),
        (["env", "Line Walk"], "'Line Walk' is no name of a class"),
        (["env", "class"], "'class' is no name of a class"),
        (["env", "A", "-o", "1.py"], "'1' is no name of a module"),
        (["env", "Taken"], "taken.py exists already and is not overwritten"),
        (["env", "A", "-o", "no/a.py"], "no/a.py: cannot be written"),
    ],
)
def test_wrong_words_are_refused_and_nothing_is_written(capsys, folder, words, line):
    (folder / "taken.py").write_text("mine")
    assert line in drl(capsys, *words, code=2)
    assert os.listdir(folder) == ["taken.py"] and (folder / "taken.py").read_text() == "mine"
