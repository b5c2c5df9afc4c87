"""What is typed behind --config, --stop and -s, and the files that are named there."""

import os

import pytest

from drl_cli.config.assignments import load_file, parse_assignment, parse_object
from drl_cli.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"num_workers": 4}', {"num_workers": 4}),
        ('<"num_workers":4>', {"num_workers": 4}),
        (' <"a": <"b": "x>y<">, "c": [1, 2]> ', {"a": {"b": "x>y<"}, "c": [1, 2]}),
        ("<a: 'x>y', b: it's>", {"a": "x>y", "b": "it's"}),
        ('<"a": "say \\">\\" ">', {"a": 'say ">" '}),
        ("{'a': True, b: 1e-4}", {"a": True, "b": 1e-4}),
        ('{"a":1,}', {"a": 1}),
        ('{\t"a":1}', {"a": 1}),
        ("{}", {}),
        ("<>", {}),
        ('{"a": "\\ud83d\\ude00"}', {"a": "😀"}),
    ],
)
def test_object_is_read(text, value):
    data, where = parse_object(text, "--config")
    assert data == value and where.place(("a",)) == "--config"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("num_workers=4", "'num_workers=4' is not an object. Write --config '{\"key\": value}' or --config @file.yaml"),
        ("", "'' is not an object."),
        ("<", "'<' is not an object."),
        ('"a": <1>', "is not an object"),
        ("{num_workers:4}", "'{num_workers:4}' lost its quotes. Write --config '{\"num_workers\": 4}'"),
        ('{"a": 1', "not valid YAML at line "),
        ('{"a": 1, "a": 2}', "line 1, column 10: the key 'a' is given twice"),
        ("@", "there is no such file"),
        ("@nowhere.yaml", "nowhere.yaml: there is no such file."),
        ("{a: &x 1}", "anchors"),
    ],
)
def test_object_that_is_none_is_refused(text, message):
    with pytest.raises(ConfigError) as caught:
        parse_object(text, "--config")
    assert message in str(caught.value)


def test_object_from_a_file_knows_its_lines(tmp_path):
    path = tmp_path / "keys.yaml"
    path.write_text("gamma: 0.9\nQ_model:\n  layer_norm: true\n")
    data, where = parse_object(f"@{path}", "--config")
    assert data == {"gamma": 0.9, "Q_model": {"layer_norm": True}}
    assert where.place(("Q_model", "layer_norm")) == f"{path}:3"


def test_file_that_is_json_is_read_as_json(tmp_path):
    path = tmp_path / "keys.json"
    path.write_text('{"gamma": 0.9,}')
    with pytest.raises(ConfigError, match="not valid JSON at line 1"):
        load_file(path)


def test_file_that_cannot_be_read_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"#" * 1_000_001)
    (tmp_path / "latin").write_bytes(b"a: \xff")
    for name, reason in {
        "pipe": "not a regular file",
        "large": "larger than 1,000,000 bytes",
        "latin": "not UTF-8 text (byte 3)",
        ".": "not a regular file",
        "none\0": "null",
    }.items():
        with pytest.raises(ConfigError) as caught:
            load_file(os.path.join(tmp_path, name))
        assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("gamma=0.9", ("gamma",), 0.9),
        ("a.b=c", ("a", "b"), "c"),
        ("buffer_size=1e6", ("buffer_size",), 1e6),
        ("x=[1, 2]", ("x",), [1, 2]),
        ("x={a: 1}", ("x",), {"a": 1}),
        ('x=<"a":1>', ("x",), {"a": 1}),
        ('x="1"', ("x",), "1"),
        ("x=null", ("x",), None),
        ("x=a=b: c # d", ("x",), "a=b: c # d"),
        ("evaluation/episode_reward_mean=200", ("evaluation/episode_reward_mean",), 200),
    ],
)
def test_assignment_is_read(text, path, value):
    assert parse_assignment(text) == (path, value)


@pytest.mark.parametrize("text", ["a", "=1", "a..b=1", ".a=1", "a=", "a=.nan", "a=[1", "a={b: *c}", "a=1e999"])
def test_assignment_that_is_none_is_refused(text):
    with pytest.raises(ConfigError, match="^-s"):
        parse_assignment(text)
