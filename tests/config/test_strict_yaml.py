"""Strict YAML and JSON: what is read, what is refused and where; malformed text never ends in anything else."""

import random

import pytest

from drl_cli.config.strict_yaml import load_json_text, load_yaml_text, read_yaml, scalar
from drl_cli.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("3E5", 3e5),
        ("1.", 1.0),
        (".5", 0.5),
        ("-.5e1", -5.0),
        ("+7", 7),
        ("010", 10),
        ("0o10", 8),
        ("0x1F", 31),
        ("on", "on"),
        ("off", "off"),
        ("yes", "yes"),
        ("No", "No"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("null", None),
        ("", None),
        ("12:30", "12:30"),
        ("2021-01-01", "2021-01-01"),
        ("1_000", "1_000"),
        ("1e", "1e"),
        ("e5", "e5"),
        ("nan", "nan"),
    ],
)
def test_plain_scalar_is_read_as_yaml_12_core(text, value):
    found = scalar(text)
    assert found == value and type(found) is type(value)
    assert read_yaml(f"a: {text}", "x")[0] == {"a": value}


def test_quoted_scalar_stays_text():
    assert load_yaml_text("a: '1e-4'\nb: \"true\"\n", "x")[0] == {"a": "1e-4", "b": "true"}


def test_lines_are_those_of_the_keys_and_items():
    data, lines = load_yaml_text("a:\n  b: 1\n  c:\n    - 2\n    - d: 3\n", "x")
    assert data == {"a": {"b": 1, "c": [2, {"d": 3}]}}
    assert lines == {("a",): 1, ("a", "b"): 2, ("a", "c"): 3, ("a", "c", 0): 4, ("a", "c", 1): 5, ("a", "c", 1, "d"): 5}


def test_json_lines_are_known_too():
    data, lines = load_json_text('{"a": 1,\n\t"b": {"c": [true, null]}}', "x")
    assert data == {"a": 1, "b": {"c": [True, None]}}
    assert lines[("a",)] == 1 and lines[("b", "c")] == 2


def test_json_pair_of_surrogates_is_one_character():
    assert load_json_text('{"a": "\\ud83d\\ude00"}', "x")[0] == {"a": "😀"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("!!float 1e5", 100000.0),
        ("!!float 3", 3.0),
        ("!!float 7.3e-4", 0.00073),
        ("!!int 10", 10),
        ("!!bool true", True),
        ("!!str 10", "10"),
        ("!!str true", "true"),
    ],
)
def test_tagged_scalar_is_read_as_its_tag_says(text, value):
    found = load_yaml_text(f"a: {text}", "x")[0]["a"]
    assert (found, type(found)) == (value, type(value))


NASTY_YAML = {
    "a: 1\na: 2": "x.yaml: line 2, column 1: the key 'a' is given twice, first in line 1.",
    "a: {b: 1, b: 2}": "x.yaml: line 1, column 11: the key 'b' is given twice, first in line 1.",
    "a: &x 1": "x.yaml: line 1, column 4: anchors (&x) are not allowed; write the value out where it is needed.",
    "a: *x": "x.yaml: line 1, column 4: aliases (*x) are not allowed; write the value out.",
    "a: {<<: {b: 1}}": "x.yaml: line 1, column 5: merge keys (<<) are not allowed; write the keys out.",
    "a: !!set {x: null}": "x.yaml: line 1, column 4: tags (tag:yaml.org,2002:set) are not allowed; only plain data is read.",
    "a: !!float [1]": "x.yaml: line 1, column 4: tags (tag:yaml.org,2002:float) are not allowed; only plain data is read.",
    "a: !!float x": "x.yaml: line 1, column 4: 'x' is no float.",
    "a: !!float .nan": "x.yaml: line 1, column 4: .nan is not a finite number.",
    "a: !!float true": "x.yaml: line 1, column 4: 'true' is no float.",
    "a: !!int 1.5": "x.yaml: line 1, column 4: '1.5' is no int.",
    "a: !!bool 1": "x.yaml: line 1, column 4: '1' is no bool.",
    "a: !!int " + "9" * 401: "x.yaml: line 1, column 4: a number of 401 digits (limit 400).",
    "a: !x y": "x.yaml: line 1, column 4: tags (!x) are not allowed; only plain data is read.",
    "a: !!python/object/apply:os.system [x]": "x.yaml: line 1, column 4: tags "
    "(tag:yaml.org,2002:python/object/apply:os.system) are not allowed; only plain data is read.",
    "a: .nan": "x.yaml: line 1, column 4: .nan is not a finite number.",
    "a: -.inf": "x.yaml: line 1, column 4: -.inf is not a finite number.",
    "a: NaN": "x.yaml: line 1, column 4: NaN is not a finite number.",
    "a: Infinity": "x.yaml: line 1, column 4: Infinity is not a finite number.",
    "a: 1e999": "x.yaml: line 1, column 4: 1e999 is too large for a number.",
    "a: " + "9" * 401: "x.yaml: line 1, column 4: a number of 401 digits (limit 400).",
    "a: " + "x" * 5000: "x.yaml: line 1, column 4: a value of 5000 characters (limit 4096).",
    "a: '" + "x" * 5000 + "'": "x.yaml: line 1, column 4: a value of 5000 characters (limit 4096).",
    "a: 1\n---\nb: 1": "x.yaml: line 2, column 1: a second document; one file holds one mapping.",
    "%YAML 1.1\n---\na: 1": "x.yaml: line 1, column 1: directives (%…) are not allowed.",
    "1: 2": "x.yaml: line 1, column 1: 1 is used as a key; keys are strings (put it in quotes if it is meant).",
    "? [a]\n: 1": "x.yaml: line 1, column 3: a list or mapping is used as a key; keys are strings "
    "(put it in quotes if it is meant).",
    "": "x.yaml: empty; a mapping of keys to values is needed.",
    "# nothing\n": "x.yaml: empty; a mapping of keys to values is needed.",
    "- 1": "x.yaml: a list where a mapping of keys to values is needed.",
    "word": 'x.yaml: "word" where a mapping of keys to values is needed.',
    "a: " + "[" * 33: "x.yaml: line 1, column 35: nested deeper than 32 levels.",
    "a: [" + "1," * 10_001 + "]": "x.yaml: line 1, column 19999: more than 10000 values.",
    "a: " + "x" * 1_000_000: "x.yaml: 1,000,003 characters (limit 1,000,000).",
}


@pytest.mark.parametrize(("text", "message"), NASTY_YAML.items(), ids=[text[:25] for text in NASTY_YAML])
def test_nasty_yaml_is_refused_with_its_place(text, message):
    with pytest.raises(ConfigError) as caught:
        load_yaml_text(text, "x.yaml")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "text", ["a: [", "a: }", "a:\n\t- b", "\x00", "a: \ud800", "a: 'b", "a: b: c", "@x", "{a: 1", "\x80: 1"]
)
def test_yaml_that_does_not_parse_is_refused(text):
    with pytest.raises(ConfigError, match="^x.yaml: "):
        load_yaml_text(text, "x.yaml")


NASTY_JSON = {
    '{"a": 1, "a": 2}': "x.json: line 1, column 10: the key 'a' is given twice, first in line 1.",
    '{"a": NaN}': "x.json: line 1, column 7: NaN is not a finite number.",
    '{"a": 1e999}': "x.json: line 1, column 7: 1e999 is too large for a number.",
    '{"a": 1,}': "x.json: not valid JSON at line 1, column 8: Illegal trailing comma before end of object.",
    "[" * 5000: "x.json: nested deeper than 32 levels.",
    "[1]": "x.json: a list where a mapping of keys to values is needed.",
    '{"a": ' + "[" * 33 + "1" + "]" * 33 + "}": "x.json: nested deeper than 32 levels.",
}


@pytest.mark.parametrize(("text", "message"), NASTY_JSON.items(), ids=[text[:25] for text in NASTY_JSON])
def test_nasty_json_is_refused_with_its_place(text, message):
    with pytest.raises(ConfigError) as caught:
        load_json_text(text, "x.json")
    if "trailing comma" in message:  # the words are Python's own and differ by version
        assert str(caught.value).startswith("x.json: not valid JSON at line 1, column ")
    else:
        assert str(caught.value) == message


def test_bomb_of_aliases_costs_nothing():
    bomb = "a: &a [x, x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True))
    with pytest.raises(ConfigError, match="anchors"):
        load_yaml_text(bomb, "x")


VALID = """\
lunar:
  run: SAC
  env: LunarLanderContinuous-v3
  stop: {timesteps_total: 1e5, evaluation/episode_reward_mean: 200}
  config:
    num_workers: 2
    Q_model: {fcnet_hiddens: [64, 64], "layer_norm": true}
    optimization:
      actor_learning_rate: [[0, 1e-3], [100000, 0.0]]
"""
BITS = [
    "\t",
    "\x00",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "&a ",
    "*a",
    "<<: ",
    "!!x ",
    "'",
    '"',
    "\n",
    "- ",
    "1e999",
    "\ud800",
    "\ufeff",
]
BITS += [
    "? ",
    "| ",
    "> ",
    "#",
    "%",
    "@",
    "`",
    "---\n",
    "...",
    "é",
    "\u2028",
    "\\",
    "\\u0000",
    "nan",
    "NaN",
    " ",
    "\r",
    "~",
    "0x",
    "9" * 500,
]


@pytest.mark.parametrize("load", [load_yaml_text, load_json_text], ids=["yaml", "json"])
def test_mutated_text_is_read_or_refused_never_worse(load):
    draw = random.Random(7)
    read = refused = 0
    source = (
        VALID
        if load is load_yaml_text
        else '{"lunar": {"run": "SAC", "config": {"gamma": 0.9, "Q_model": {"a": [1, null]}}}}'
    )
    for _ in range(600):
        text = source
        for _ in range(draw.randint(1, 4)):
            start = draw.randrange(len(text) + 1)
            text = text[:start] + draw.choice(BITS) + text[start + draw.choice((0, 0, 1, 5)) :]
        try:
            data, lines = load(text, "x")
        except ConfigError as error:
            refused += 1
            assert str(error).startswith("x: ")
        else:
            read += 1
            assert isinstance(data, dict) and isinstance(lines, dict)
    assert read + refused == 600 and refused > 200
