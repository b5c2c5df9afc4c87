"""Command lines, and texts of configs and files, drawn at random from commands and schemas: no bug, a documented code."""

import json
import os
import random

import click
import pytest
import yaml
from fake_runs import row, write_run

from drl_cli import cli
from drl_cli.algorithms import table
from drl_cli.cli.endings import EXIT_CODES
from drl_cli.config.key_description import keys
from drl_cli.extras import load

# Words that anything may be given: numbers at and beyond the limits, texts of other commands, what shells and files hold.
WORDS = (
    *(
        "",
        "-",
        "--",
        "0",
        "-1",
        "1",
        "3",
        "nan",
        "inf",
        "-inf",
        "1e400",
        "9" * 5000,
        "0x10",
        "1_000",
        "x",
        "é\u202e",
        "a\nb",
        "\t",
    ),
    *(
        "{",
        "}",
        "{}",
        "[]",
        "{a: 1}",
        '{"a": [1, {"b": null}]}',
        "[" * 2000,
        "a=1",
        "a.b.c=",
        "=",
        "=1",
        "..",
        "*",
        "~",
        "results",
        "/dev/null",
    ),
    *(
        "@",
        "@/dev/null",
        "@nowhere.yaml",
        "nowhere.yaml",
        "mine.yaml",
        "RUN",
        "00000001",
        "0..4",
        "1,2,3",
        "4..0",
        "0..10000000",
    ),
    *(
        "PPO",
        "ppo",
        "SAC",
        "CartPole-v1",
        "cartpole-ppo",
        "module:Env",
        "training_iteration=1",
        "episode_reward_mean>=1",
        "auto",
        "null",
    ),
    *(
        "true",
        "gamma",
        "gamma=0.5",
        "lr={grid_search: [1, 2]}",
        "x" * 5000,
        "a.png",
        "a.zip",
        "127.0.0.1:1",
        "%s",
        "$HOME",
        "`id`",
        "\\",
    ),
)
VALUES = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        3,
        0.5,
        -0.5,
        1e-9,
        1e300,
        2**31,
        2**70,
        "",
        "x",
        "auto",
        "relu",
        "PPO",
        "1e-3",
        "é",
        "a.b",
    ),
    *(
        [],
        {},
        [1],
        [0.5, 0.1],
        ["x"],
        [[0, 1.0], [100, 0.1]],
        {"a": 1},
        {"type": "x"},
        {"grid_search": [1, 2]},
        {"uniform": [0, 1]},
    ),
    *(
        {"eval": "1"},
        [[16, [8, 8], 4]],
        {"grid_search": []},
        {"loguniform": [0, -1]},
        [[[[1]]]],
        {"": {"": {}}},
        [None],
        "9" * 400,
    ),
)
NOT_TYPED = {
    ("doctor",): "asks the machine, for seconds: tests/checks/test_doctor.py",
    ("env", "check"): "starts a process: tests/checks/test_env_check.py",
    ("envs",): "makes environments in processes of their own: tests/checks/test_env_catalogue.py",
}
REFUSED = ["-s", "gamma=2"]  # ends each command that would train when its words are all right


def commands(command=cli.drl, words=()):
    """Yield (words behind drl, command) of all commands that are typed here."""
    table_of = getattr(command, "table", {})
    if words not in NOT_TYPED and (not table_of or words == ("runs",)):
        yield words, command
    for name in table_of:
        yield from commands(
            command.get_command(click.Context(command, **command.context_settings), name), (*words, name)
        )


COMMANDS = list(commands())


def command_line(rng):
    """Draw the words of one command line."""
    words, command = rng.choice(COMMANDS)
    typed = []
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            typed += [[rng.choice(WORDS)] for _ in range(rng.choice((0, 1, 1, 1, 2)))]
        elif parameter.name != "debug" and rng.random() < min(0.5, 3 / len(command.params)):  # which shows tracebacks
            name = rng.choice([*parameter.opts, *parameter.secondary_opts])
            typed.append([name] if parameter.is_flag else [name, _value(rng, parameter)])
    rng.shuffle(typed)
    trains = words in (("train",), ("example", "run"))
    return [*words, *(word for group in typed for word in group), *(REFUSED if trains else [])]


def _value(rng, parameter):
    if isinstance(parameter.type, click.Choice) and rng.random() < 0.7:
        return rng.choice([str(one) for one in parameter.type.choices])
    return rng.choice(WORDS)


def mapping(rng, row):
    """Draw a config of the algorithm ``row``: keys of its schema and others, with values of any kind."""
    names = [key["key"] for key in keys(load(row.config))]
    config = {}
    for _ in range(rng.randrange(1, 6)):
        *above, last = rng.choice(names).split(".") if rng.random() < 0.9 else [rng.choice(WORDS)]
        holder = config
        for name in above:
            inner = holder.setdefault(name, {})
            holder = inner if isinstance(inner, dict) else {}
        holder[last] = rng.choice(VALUES)
    return config


def text_line(rng, folder):
    """Draw a config as JSON or YAML, or a file of experiments, and return the words that read it."""
    row = rng.choice(list(table.rows()))
    config, dump = mapping(rng, row), rng.choice((json.dumps, yaml.safe_dump))
    if rng.random() < 0.5:
        return ["train", "--run", row.name, "--env", "CartPole-v1", "--config", dump(config), *REFUSED]
    data = {"run": row.name, "env": "CartPole-v1", "config": config, "stop": rng.choice(VALUES)}
    data |= {
        rng.choice(("stop", "num_samples", "seed", "x", "checkpoint_freq", "local_dir", "restore")): rng.choice(VALUES)
    }
    path = folder / f"mine.{'json' if dump is json.dumps else 'yaml'}"
    path.write_text(dump({"first": data}), encoding="utf-8")
    return rng.choice(
        (["explain", str(path)], ["diff", str(path), "cartpole-ppo"], ["train", "-f", str(path), *REFUSED])
    )


@pytest.mark.parametrize(
    "seeds", [range(150), pytest.param(range(150, 2000), marks=pytest.mark.slow)], ids=["first", "more"]
)
def test_generated_words_end_with_a_documented_code_and_never_as_a_bug(tmp_path, monkeypatch, capsys, seeds):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path / "results"))
    write_run(tmp_path / "results", 1, [row(1)])
    for seed in seeds:
        rng = random.Random(seed)
        words = text_line(rng, tmp_path) if seed % 3 == 0 else command_line(rng)
        code, said = cli.main(words), capsys.readouterr()
        assert code in EXIT_CODES and code != 1, (seed, words, said.err)
        assert "a bug in drl" not in said.err and "Traceback" not in said.err, (seed, words, said.err)
        assert code == 0 or (said.err + said.out).strip(), (seed, words)


def test_name_that_is_too_long_for_a_file_was_a_traceback(capsys):
    assert cli.main(["plot", "x" * 5000]) == 2
    assert "a name that is too long for a file or folder" in capsys.readouterr().err


def test_unpacking_into_a_file_was_a_traceback(tmp_path, capsys):
    (tmp_path / "a.zip").write_bytes(b"")
    assert cli.main(["checkpoint", "unpack", str(tmp_path / "a.zip"), "-o", str(tmp_path / "a.zip")]) == 2
    assert "a.zip: is not a folder. Name another one with -o." in capsys.readouterr().err


def test_folder_that_goes_away_while_checkpoints_are_looked_for_was_a_traceback(tmp_path, capsys, monkeypatch):
    (tmp_path / "a" / "b").mkdir(parents=True)
    scandir = os.scandir

    def gone(path):
        if str(path).endswith("b"):
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", gone)
    assert cli.main(["checkpoint", "verify", str(tmp_path / "a"), "--all"]) == 2
    assert "a bug in drl" not in capsys.readouterr().err
