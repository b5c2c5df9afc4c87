"""A person's own defaults: file and variables, their order, and that a wrong one is refused with its place."""

import os

import pytest

from drl_cli import cli
from drl_cli.cli import preferences, terminal
from drl_cli.errors import ConfigError
from drl_cli.experiments import spec
from drl_cli.extras import load


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write the person's file; every command of the test finds it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "drl").mkdir()

    def write(text, name="config.yaml"):
        (tmp_path / "drl" / name).write_text(text)
        return str(tmp_path / "drl" / name)

    return write


@pytest.fixture
def given(monkeypatch):
    """Run ``drl train`` with words and return the flags that are handed on."""

    def run(*words):
        seen = {}

        def read(_file, flags, _options):
            seen.update(flags)
            raise ConfigError("seen")

        monkeypatch.setattr("drl_cli.experiments.search_spec.read", read)
        assert cli.main(["train", *words]) == 2
        return seen

    return run


def refused(capsys, *words):
    assert cli.main(list(words)) == 2
    return capsys.readouterr().err.removeprefix("Error: ")


def test_file_gives_defaults_and_what_is_typed_goes_before_them(write, given):
    write("local-dir: /data\ntrain:\n  checkpoint-freq: 7\n  keep_checkpoints_num: 3\n  import: [a, b]\n")
    found = given("--checkpoint-freq", "2")
    assert (found["local_dir"], found["checkpoint_freq"], found["keep_checkpoints_num"]) == ("/data", 2, 3)
    assert found["imports"] == ["a", "b"]
    assert sorted(found["defaults"]) == ["imports", "keep_checkpoints_num", "local_dir"]


def test_variables_go_before_the_file_and_those_of_the_command_before_the_shared_ones(write, given, monkeypatch):
    write("local-dir: /data\ntrain: {checkpoint-freq: 7}\n")
    monkeypatch.setenv("DRL_TRAIN_CHECKPOINT_FREQ", "8")
    monkeypatch.setenv("DRL_LOCAL_DIR", "/shared")
    monkeypatch.setenv("DRL_IMPORT", "a:b")
    found = given()
    assert (found["checkpoint_freq"], found["local_dir"], found["imports"]) == (8, "/shared", ["a", "b"])
    monkeypatch.setenv("DRL_TRAIN_LOCAL_DIR", "/mine")
    assert given()["local_dir"] == "/mine"


def test_flags_can_be_set(write, given, monkeypatch):
    write("train: {verbose: 2, queue-trials: true}\n")
    assert (given()["verbose"], given()["queue_trials"]) == (2, True)
    monkeypatch.setenv("DRL_TRAIN_QUEUE_TRIALS", "no")
    assert given()["queue_trials"] is None


def test_colours_can_be_switched_off_once_for_all(write):
    from_file = []
    for text in ("no-color: true", "no-color: false"):
        write(text)
        session = terminal.Session()
        with (
            cli.drl.make_context("drl", ["train"], obj=session) as context,
            load(cli.COMMANDS["train"][0]).make_context("train", [], parent=context),
        ):
            from_file.append(session.color)
    assert from_file == [False, None]


def test_json_file_and_one_of_comments_are_read(write, given):
    write("# nothing yet\n\n")
    assert "defaults" not in given()
    write('{"train": {"checkpoint-freq": 4}}', "config.json")
    with pytest.raises(ConfigError, match="two files of defaults. Keep one of them."):
        preferences.of(load(cli.COMMANDS["train"][0]), ["train"], cli.COMMANDS)
    os.remove(os.path.join(os.environ["XDG_CONFIG_HOME"], "drl", "config.yaml"))
    assert given()["checkpoint_freq"] == 4


def test_other_commands_have_sections_of_their_own(write):
    write("evaluate: {episodes: 99}\ntrain: {checkpoint-freq: 1}\nlocal-dir: /d\n")
    read = lambda name: preferences.of(load(cli.COMMANDS[name][0]), [name], cli.COMMANDS)  # noqa: E731
    assert (read("evaluate"), read("rollout")) == ({"episodes": 99}, {})


def test_commands_below_a_command_have_sections_of_their_own(write, monkeypatch, capsys):
    write("local-dir: /a b\nruns:\n  limit: 3\n  rm: {keep-best: 2}\n")
    monkeypatch.setenv("DRL_RUNS_RM_OLDER_THAN", "7d")
    runs, table = load(cli.COMMANDS["runs"][0]), cli.COMMANDS
    assert preferences.of(runs, ["runs"], table, runs.table) == {"local_dirs": ["/a b"], "limit": 3}
    below = preferences.of(load(runs.table["rm"][0]), ["runs", "rm"], table)
    assert (below["keep_best"], below["local_dirs"]) == (2, ["/a b"]) and len(below) == 3
    path = write("runs: {mr: {keep-best: 2}}")
    assert refused(capsys, "runs").startswith(f"{path}:1: runs: mr is not an option of drl runs.")


def test_group_of_commands_takes_defaults(write, tmp_path, capsys):
    write(f"runs: {{local-dir: [{tmp_path}]}}")
    assert cli.main(["runs", "--json"]) == 0
    assert '"runs":[]' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "train:\n  chekpoint-freq: 1",
            ":2: train: chekpoint-freq is not an option of drl train. Did you mean 'checkpoint-freq'?",
        ),
        (
            "train:\n  run: SAC",
            ":2: train: run describes a single call of drl train. Type it, or write it to a file",
        ),
        ("train:\n  resume: x", ":2: train: resume describes a single call of drl train."),
        ("train:\n  checkpoint-freq: x", ":2: train: checkpoint-freq: 'x' is not a whole number"),
        ("train:\n  checkpoint-freq: -1", ":2: train: checkpoint-freq: '-1' is not a whole number of at least 0."),
        (
            "train:\n  checkpoint-freq: true",
            ":2: train: checkpoint-freq: True is not a valid value of --checkpoint-freq",
        ),
        ("train:\n  checkpoint-freq: [1]", ":2: train: checkpoint-freq: [1] is not a valid value of an option."),
        ("train:\n  checkpoint-freq: null", ":2: train: checkpoint-freq: None is not a valid value of an option."),
        ("train: 5", ":1: train: expected a mapping of options to values, not 5."),
        (
            "trian: {quiet: true}",
            ":1: trian: neither a command nor an option that all commands share. Did you mean 'train'?",
        ),
        (
            "locl-dir: x",
            ":1: locl-dir: neither a command nor an option that all commands share. Did you mean 'local-dir'?",
        ),
        (
            "checkpoint-freq: 1",
            ":1: checkpoint-freq: this option belongs to a command. Write train: {checkpoint-freq: …}.",
        ),
        ("a: [", ": not valid YAML"),
    ],
)
def test_wrong_key_or_value_is_refused_with_file_and_line(text, said, write, capsys):
    path = write(text)
    assert refused(capsys, "train", "--run", "SAC").startswith(f"{path}{said}")


def test_wrong_variables_are_refused_or_said(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("DRL_TRAIN_CHECKPOINT_FRQ", "1")
    assert refused(capsys, "train") == (
        "DRL_TRAIN_CHECKPOINT_FRQ: checkpoint-frq is not an option of drl train. Did you mean 'checkpoint-freq'?\n"
    )
    monkeypatch.delenv("DRL_TRAIN_CHECKPOINT_FRQ")
    monkeypatch.setenv("DRL_LOCALDIR", "x")
    monkeypatch.setenv("DRL_SOMETHING_ELSE", "of another program")
    assert refused(capsys, "train").startswith(
        "Warning: DRL_LOCALDIR is not a variable that drl reads. Did you mean DRL_LOCAL_DIR?\n"
    )


def test_help_and_completion_do_not_mind_a_wrong_file(write, capsys):
    write("train: {nonsense: 1}")
    assert cli.main(["train", "-h"]) == 0
    assert "What to train" in capsys.readouterr().out


FILE = (
    "a: {run: SAC, env: Pendulum-v1, stop: {}, checkpoint_freq: 5, local_dir: /of-the-file, config: {log_level: ERROR}}"
)


def test_experiments_file_goes_before_a_persons_defaults(tmp_path):
    (tmp_path / "my.yaml").write_text(FILE)
    flags = {
        "checkpoint_freq": 9,
        "local_dir": "/mine",
        "keep_checkpoints_num": 2,
        "experiment_name": "x",
        "verbose": 2,
    }
    (one,) = spec.from_file(str(tmp_path / "my.yaml"), {**flags, "defaults": list(flags)})
    assert (one.name, one.checkpoint_freq, str(one.local_dir)) == ("a", 5, "/of-the-file")
    assert (one.keep_checkpoints_num, one.config.log_level) == (2, "ERROR")
    (one,) = spec.from_file(str(tmp_path / "my.yaml"), flags)
    assert (one.name, one.checkpoint_freq, str(one.local_dir)) == ("x", 9, "/mine")
    assert one.config.log_level == "DEBUG"
