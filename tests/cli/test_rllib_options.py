"""Options of rllib that have no work to do: each is accepted or refused with what to type instead, none is unknown."""

import re

import click
import pytest

from drl_cli import cli
from drl_cli.cli import evaluate, rllib_options, rollout, train
from drl_cli.config.rllib.ignored_keys import GRAPHS

COMMANDS = {"train": train.train, "rollout": rollout.rollout, "evaluate": evaluate.evaluate}
RLLIB = {
    "train": """--run --env --config --stop --config-file --experiment-name --local-dir --upload-dir --checkpoint-freq
        --checkpoint-at-end --sync-on-checkpoint --keep-checkpoints-num --checkpoint-score-attr --export-formats --restore
        --resume --torch --eager --trace --framework --ray-address --ray-num-cpus --ray-num-gpus --ray-num-nodes
        --ray-object-store-memory --ray-memory --ray-redis-max-memory --no-ray-ui --ray-ui --local-mode --queue-trials -v -f
        --algo""",
    "rollout": """--run --algo --env --no-render --render --video-dir --monitor --steps --episodes --out --config --save-info
        --use-shelve --track-progress --local-mode""",
    "evaluate": """--run --algo --env --no-render --render --video-dir --monitor --steps --episodes --out --config --save-info
        --use-shelve --track-progress --local-mode""",
}
"""The options of rllib 0.8 to 2.3, but those of a search."""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_rllib_is_known(command):
    known = {name for option in COMMANDS[command].params for name in (*option.opts, *option.secondary_opts)}
    assert [name for name in RLLIB[command].split() if name not in known] == []


ROWS = [(command, name, old) for command, table in rllib_options.TABLES.items() for name, old in table.items()]


@pytest.mark.parametrize(("command", "name", "old"), ROWS, ids=lambda value: value if isinstance(value, str) else "")
def test_option_is_answered_in_one_line(command, name, old, capsys):
    value = [] if old.takes is None else ["unheard-of"]
    code = cli.main([command, *(["CHECKPOINT"] if command != "train" else []), name, *value])
    err = capsys.readouterr().err
    assert code == 2  # none of these commands could run anyway
    if old.takes is None and old.fits is not None:
        assert err.splitlines()[0] == f"{name}: {old.text}" and "Error: " + name not in err
    elif old.is_answered:
        assert err == f"Error: {name}: 'unheard-of' is not one of {', '.join(old.fits)}.\n"
    else:
        typed = " ".join(["drl rollout CHECKPOINT", name, *value])
        assert err == f"Error: {name}: {old.text.replace('{rollout}', typed)}\n"


def test_value_that_asks_for_what_is_done_anyway_is_accepted(capsys):
    assert cli.main(["train", "--export-formats", "checkpoint"]) == 2
    assert capsys.readouterr().err.startswith("Error: 2 problems in the command:\n  run is missing")


@pytest.mark.parametrize("typed", ["--framework torch", "--framework tf", "--torch", "--eager", "--eager --trace"])
def test_other_framework_as_a_flag_is_answered_as_the_key_is(typed, capsys):
    assert cli.main(["train", *typed.split()]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0] == f"{typed.split()[-1 if 'trace' in typed else 0]}: has no effect: {GRAPHS}." or "trace" in typed
    assert "Error: 2 problems in the command:" in said  # nothing is wrong but that run and env are missing


def test_command_for_playing_is_shown_whole(capsys):
    assert cli.main(["evaluate", "my run", "--run", "DQN", "--steps", "1000"]) == 2
    assert "Type: drl rollout 'my run' --run DQN --steps 1000; or score with" in capsys.readouterr().err


def test_train_file_is_read_as_config_file(capsys):
    assert cli.main(["train", "file", "no-such-thing"]) == 2
    assert capsys.readouterr().err.startswith("Error: no-such-thing: neither a file nor the name of a tuned file")


def test_example_get_shows_an_example(capsys):
    assert cli.main(["example", "get", "cartpole-ppo"]) == 0
    assert "Run it   drl example run cartpole-ppo" in capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_they_are_not_in_the_help(command, capsys):
    cli.main([command, "-h"])
    shown = set(re.findall(r"--[a-z-]+", capsys.readouterr().out.partition("Options:")[0]))
    listed = [name for name in rllib_options.TABLES[command] if f"{name} " in shown]
    assert listed == []
    assert all(
        isinstance(option, click.Argument) or option.help for option in COMMANDS[command].params if not _old(option)
    )


def _old(option):
    return getattr(option, "hidden", False)
