"""Keys of recording: which algorithms have them, what they take, where a recording goes."""

import os

import pytest
from pydantic import ValidationError

from drl_cli.algorithms import table
from drl_cli.config.key_description import fields_of
from drl_cli.config.parse import parse
from drl_cli.config.sections.offline import InputKeys, OutputKeys, output_folder
from drl_cli.errors import ConfigError
from drl_cli.extras import load

KEYS = {"output", "output_compress_columns", "output_max_file_size"}


@pytest.mark.parametrize("row", table.built_in(), ids=lambda row: row.name)
def test_every_algorithm_records(row):
    assert set(fields_of(load(row.config))) >= KEYS


def test_recording_is_off_unless_asked_for():
    config = parse(table.find("SAC"), {}, "a test")
    assert (config.output, config.output_compress_columns, config.output_max_file_size) == (
        None,
        ("obs", "new_obs"),
        2**26,
    )
    assert output_folder(config, "run") is None


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"output": ""}, "it takes logdir, a folder, or null"),
        ({"output": "s3://bucket/out"}, "those of logdir are copied to storage_path"),
        ({"output_compress_columns": ["obs", "infos"]}, "it takes a list of obs, new_obs, actions"),
        ({"output_max_file_size": 10}, r"whole number in \[1024"),
        ({"output_config": {}}, "are keys next to output"),
    ],
)
def test_other_values_are_refused(given, what):
    with pytest.raises(ConfigError, match=what):
        parse(table.find("SAC"), given, "a test")


class _Learner(InputKeys, OutputKeys):
    """Reads and records."""


@pytest.mark.parametrize("source", ["sampler", {"sampler": 0.5, "a.json": 0.5}])
def test_what_is_played_may_be_recorded(source):
    assert _Learner(input=source, output="out").output == "out"


@pytest.mark.parametrize("source", ["a.json", {"a.json": 1.0}])
def test_recording_of_files_alone_is_refused(source):
    with pytest.raises(ValidationError, match="nothing is played where input names files alone"):
        _Learner(input=source, output="out")
    assert _Learner(input=source).output is None


def test_logdir_is_a_folder_of_the_run_and_a_path_is_itself(monkeypatch, tmp_path):
    def folder(output):
        return output_folder(parse(table.find("PPO"), {"output": output}, "a test"), "/runs/one")

    monkeypatch.chdir(tmp_path)
    assert folder("logdir") == "/runs/one/experience"
    assert folder("out") == f"{tmp_path}/out"
    assert folder("~/out") == os.path.expanduser("~/out")
