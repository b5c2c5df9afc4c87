"""From mappings to configs: all problems at once, with place and nearest key; RLlib's other keys refused by name."""

import random
import subprocess
import sys

import pytest

from drl_cli import events
from drl_cli.algorithms import table
from drl_cli.configs import rllib_keys
from drl_cli.configs.allowed import leaves
from drl_cli.configs.parse import parse
from drl_cli.configs.sac import SACConfig
from drl_cli.configs.text import load_yaml_text
from drl_cli.configs.where import Where
from drl_cli.errors import ConfigError

SAC = table.find("SAC")


@pytest.fixture
def notices():
    """The texts of the notices that are reported during the test."""
    texts = []
    unsubscribe = events.subscribe(lambda kind, fields: texts.append(fields["text"]) if kind == "notice" else None)
    yield texts
    unsubscribe()


def message(mapping, where="--config"):
    with pytest.raises(ConfigError) as caught:
        parse(SAC, mapping, where)
    return str(caught.value)


@pytest.mark.parametrize(
    ("mapping", "text"),
    [
        ({"num_wokers": 1}, "num_wokers: unknown key (--config). Did you mean 'num_workers'?"),
        ({"gamma": 1.5}, "gamma: 1.5 is not allowed; it takes a number in [0, 1] (--config)."),
        ({"num_workers": True}, "num_workers: true is not allowed; it takes a whole number in [0, 10000] (--config)."),
        ({"n_step": 1.5}, "n_step: 1.5 is not allowed; it takes a whole number in [1, 1000] (--config)."),
        ({"horizon": "x"}, 'horizon: "x" is not allowed; it takes a whole number ≥ 1, or null (--config).'),
        ({"grad_clip": 0}, "grad_clip: 0 is not allowed; it takes a number in (0, 1000000000], or null (--config)."),
        (
            {"log_level": "LOUD"},
            "log_level: \"LOUD\" is not allowed; it takes one of 'DEBUG', 'INFO', 'WARN', 'ERROR' (--config).",
        ),
        (
            {"Q_model": None},
            "Q_model: null is not allowed; it takes a mapping with the keys fcnet_hiddens, fcnet_activation, "
            "layer_norm "
            "(--config).",
        ),
        (
            {"Q_model": {"fcnet_hidens": [3]}},
            "Q_model.fcnet_hidens: unknown key (--config). Did you mean 'Q_model.fcnet_hiddens'?",
        ),
        (
            {"fcnet_hiddens": [3]},
            "fcnet_hiddens: unknown key (--config). It belongs in Q_model.fcnet_hiddens or policy_model.fcnet_hiddens.",
        ),
        (
            {"actor_learning_rat": 1},
            "actor_learning_rat: unknown key (--config). Did you mean 'optimization.actor_learning_rate'?",
        ),
        (
            {"Q_model.layer_norm": True},
            "Q_model.layer_norm: unknown key (--config). Write it as a section: Q_model: {layer_norm: …}.",
        ),
        (
            {"gamma": {"grid_search": [0.9, 0.99]}},
            'gamma: {"grid_search": [0.9, 0.99]} is not allowed: searches over values are not supported yet; it '
            "takes a "
            "number in [0, 1] (--config).",
        ),
        (
            {"framework": "tf"},
            "framework: not supported: drl is graphs only (TensorFlow 1 style), so there is nothing to choose. "
            "Remove the "
            "key (--config).",
        ),
        ({"clip_param": 0.3}, "clip_param: not supported yet: a key of PPO, not of SAC (--config)."),
        ({"observation_filter": "NoFilter"}, "observation_filter: not supported yet (--config)."),
        (
            {"Q_model": {"use_lstm": True}},
            "Q_model.use_lstm: not supported yet; networks are fully connected (--config).",
        ),
    ],
)
def test_problem_names_key_value_allowed_and_nearest(mapping, text):
    assert message(mapping) == text


def test_problems_are_told_together_with_file_and_line():
    text = "gamma: 2\nQ_model:\n  fcnet_hiddens: [64, x]\nnum_wrkers: 1\n"
    data, lines = load_yaml_text(text, "my.yaml")
    assert message(data, Where("my.yaml", lines)).splitlines() == [
        "3 problems in the config of SAC:",
        "  num_wrkers: unknown key (my.yaml:4). Did you mean 'num_workers'?",
        "  gamma: 2 is not allowed; it takes a number in [0, 1] (my.yaml:1).",
        '  Q_model.fcnet_hiddens: [64, "x"] is not allowed; it takes a list of whole numbers in [1, 65536], at most 32 '
        "(my.yaml:3).",
    ]


def test_more_than_ten_problems_are_counted():
    lines = message({f"zz{number}": 1 for number in range(14)}).splitlines()
    assert len(lines) == 12 and lines[0] == "14 problems in the config of SAC:" and lines[-1] == "  … and 4 more"


@pytest.mark.parametrize("path", [path for path, _ in leaves(SACConfig)], ids=".".join)
def test_typo_in_any_key_is_answered_with_the_key(path):
    name = path[-1]
    typo = name[:1] + name[2:] if len(name) > 3 else name + name[-1]
    mapping = {typo: None}
    for section in reversed(path[:-1]):
        mapping = {section: mapping}
    assert f"Did you mean '{'.'.join(path)}'?" in message(mapping)


@pytest.mark.parametrize(
    "name", [*rllib_keys.NEVER, *rllib_keys.NOT_YET, *" ".join(rllib_keys.OTHER_ALGORITHMS.values()).split()]
)
def test_key_of_rllib_that_is_not_built_is_refused_by_name(name):
    text = message({name: 1})
    assert text.startswith(f"{name}: not supported") and "unknown" not in text


def test_no_refused_key_is_a_key():
    keys = {path[0] for path, _ in leaves(SACConfig)}
    refused = {*rllib_keys.NEVER, *rllib_keys.NOT_YET, *" ".join(rllib_keys.OTHER_ALGORITHMS.values()).split()}
    assert refused & keys == set()
    assert {new[0] for new in rllib_keys.ALIASES.values()} <= keys


@pytest.mark.parametrize(
    ("mapping", "path", "value"),
    [
        ({"sample_batch_size": 7}, ("rollout_fragment_length",), 7),
        ({"metrics_num_episodes_for_smoothing": 5}, ("metrics_smoothing_episodes",), 5),
        ({"min_time_s_per_iteration": 2}, ("min_iter_time_s",), 2.0),
        ({"min_time_s_per_reporting": 2}, ("min_iter_time_s",), 2.0),
        ({"min_sample_timesteps_per_reporting": 300}, ("timesteps_per_iteration",), 300),
        ({"evaluation_duration": 4, "evaluation_duration_unit": "episodes"}, ("evaluation_num_episodes",), 4),
        ({"q_model_config": {"layer_norm": True}}, ("Q_model", "layer_norm"), True),
        ({"policy_model_config": {"fcnet_hiddens": [8]}}, ("policy_model", "fcnet_hiddens"), (8,)),
        ({"num_rollout_workers": 3}, ("num_workers",), 3),
        ({"replay_buffer_config": {"type": "ReplayBuffer", "capacity": 5000}}, ("buffer_size",), 5000),
    ],
)
def test_old_spelling_is_read_with_a_notice(mapping, path, value, notices):
    config = parse(SAC, mapping, "--config")
    for name in path:
        config = getattr(config, name)
    assert config == value
    assert any(f"is read as {path[0]}." in text for text in notices)


def test_old_and_new_spelling_together_are_refused(notices):
    text = message({"sample_batch_size": 1, "rollout_fragment_length": 2})
    assert (
        text
        == "sample_batch_size (--config): the old name of rollout_fragment_length, which is given as well (--config)."
    )
    assert notices == []


def test_old_spelling_with_another_meaning_is_refused():
    assert message({"evaluation_duration_unit": "timesteps"}) == (
        "evaluation_duration_unit: not supported yet: evaluations are counted in episodes (--config)."
    )
    assert "replay_buffer_config.type: not supported yet" in message({"replay_buffer_config": {"type": "Prioritized"}})


def test_unprintable_key_is_shown_escaped():
    assert message({"a\nb\ud800": 1}) == "'a\\nb\\ud800': unknown key (--config)."


def test_wrong_value_under_an_old_spelling_is_placed_where_it_was_written():
    data, lines = load_yaml_text("gamma: 0.9\nsample_batch_size: x", "my.yaml")
    assert message(data, Where("my.yaml", lines)) == (
        'rollout_fragment_length: "x" is not allowed; it takes a whole number in [1, 100000] (my.yaml:2).'
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_number_that_is_not_finite_is_refused(value):
    assert message({"initial_alpha": value}).startswith("initial_alpha: ")
    assert message({"env_config": {"a": [value]}}).startswith("env_config: ")


@pytest.mark.parametrize("given", [None, [], "x", 3])
def test_config_that_is_no_mapping_is_refused(given):
    assert "is not a mapping of keys to values (--config)" in message(given)


def test_parse_leaves_the_given_mapping_alone():
    mapping = {"replay_buffer_config": {"capacity": 5000}}
    parse(SAC, mapping, "--config")
    assert mapping == {"replay_buffer_config": {"capacity": 5000}}


def test_configs_import_nothing_heavy():
    code = (
        "import sys, drl_cli.configs.parse, drl_cli.configs.flags, drl_cli.configs.sac, drl_cli.configs.results;"
        "print([name for name in ('numpy', 'gymnasium', 'tensorflow', 'ray') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def anything(draw, depth=0):
    """Return a random value of plain data, now and then absurd."""
    leaf = [
        None,
        True,
        False,
        0,
        -1,
        1,
        3,
        10**30,
        0.5,
        -2.5,
        1e300,
        "",
        "x",
        "relu",
        "auto",
        "😀",
        "\ud800",
        "a" * 5000,
    ]
    kind = draw.random()
    if depth > 3 or kind < 0.6:
        return draw.choice(leaf)
    if kind < 0.8:
        return [anything(draw, depth + 1) for _ in range(draw.randint(0, 3))]
    return {
        draw.choice(["a", "type", "fcnet_hiddens", "CPU", ""]): anything(draw, depth + 1)
        for _ in range(draw.randint(0, 3))
    }


def test_any_plain_data_is_a_config_or_refused_never_worse():
    draw = random.Random(3)
    names = (
        [path[0] for path, _ in leaves(SACConfig)]
        + list(rllib_keys.NOT_YET)
        + ["zz", "", "a.b", "replay_buffer_config"]
    )
    accepted = refused = 0
    for _ in range(500):
        mapping = {draw.choice(names): anything(draw) for _ in range(draw.randint(1, 3))}
        try:
            config = parse(SAC, mapping, "x")
        except ConfigError as error:
            refused += 1
            assert "(x)" in str(error) and len(str(error)) < 5000
        else:
            accepted += 1
            assert isinstance(config, SACConfig)
    assert accepted + refused == 500 and accepted > 3 and refused > 300
