"""From mappings to configs: all problems at once, with place and nearest key; RLlib's other keys refused by name."""

import random
import subprocess
import sys

import pytest

from drl_cli import events
from drl_cli.algorithms import table
from drl_cli.algorithms.sac import SACConfig
from drl_cli.config.key_description import fields_of, leaves
from drl_cli.config.origins import Where
from drl_cli.config.parse import parse, read
from drl_cli.config.rllib import aliases, refused_keys
from drl_cli.config.strict_yaml import load_yaml_text
from drl_cli.errors import ConfigError
from drl_cli.extras import load

SAC = table.find("SAC")
ALL = table.built_in()
REFUSED = [*refused_keys.NEVER, *refused_keys.NOT_YET, *refused_keys.OLD]


@pytest.fixture
def notices():
    """The texts of the notices that are reported during the test."""
    texts = []
    unsubscribe = events.subscribe(lambda kind, fields: texts.append(fields["text"]) if kind == "notice" else None)
    yield texts
    unsubscribe()


def owners(key):
    """The algorithms that have ``key``, in words."""
    return ", ".join(row.name for row in ALL if key in fields_of(load(row.config)))


def message(mapping, where="--config", name="SAC"):
    with pytest.raises(ConfigError) as caught:
        parse(table.find(name), mapping, where, ALL)
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
            "layer_norm, residual_blocks (--config).",
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
            'gamma: {"grid_search": [0.9, 0.99]} is not allowed: values are searched over by drl train only; it '
            "takes a "
            "number in [0, 1] (--config).",
        ),
        (
            {"framework": "pytorch"},
            "framework: \"pytorch\" is not allowed; it takes one of 'tf', 'tf2', 'tfe', 'torch' (--config).",
        ),
        (
            {"sgd_minibatch_size": 3},
            f"sgd_minibatch_size: a key of {owners('sgd_minibatch_size')}, not of SAC (--config).",
        ),
        ({"bc_iters": 3}, "bc_iters: a key of CQL, not of SAC (--config)."),
        ({"stepsize": 0.3}, "stepsize: a key of ES, not of SAC (--config)."),
        (
            {"multiagent": {"polices": {}}},
            "multiagent.polices: unknown key (--config). Did you mean 'multiagent.policies'?",
        ),
        ({"Q_model": {"use_lstm": True}}, "Q_model.use_lstm: not supported yet (--config)."),
        ({"Q_model": {"dim": 8}}, "Q_model.dim: unknown key (--config). It belongs in model.dim."),
        (
            {"learning_starts": 10, "buffer_size": 5},
            "buffer_size: 5 is too small: windows of n_step 3 from 4 environments in each part of the replay need 16 or more "
            "(--config).",
        ),
        (
            {"parameter_noise": True},
            "parameter_noise: a key of old versions of RLlib. Write exploration_config: {type: ParameterNoise} (--config).",
        ),
        (
            {"evaluation_config": {"env_task_fn": 1}},
            "evaluation_config.env_task_fn: 1 is not allowed; it takes the name of a registered task function, or null "
            "(--config).",
        ),
    ],
)
def test_problem_names_key_value_allowed_and_nearest(mapping, text):
    assert message(mapping) == text


@pytest.mark.parametrize(
    ("name", "mapping", "text"),
    [
        ("SAC", {"num_atoms": 51}, "num_atoms: a key of XQC, DQN, SimpleQ, APEX, not of SAC (--config)."),
        (
            "DQN",
            {"twin_q": True},
            f"twin_q: a key of {owners('twin_q')}, not of DQN: the equivalent key is double_q (--config).",
        ),
        ("ES", {"lr": 0.1}, f"lr: a key of {owners('lr')}, not of ES: the learning rate is stepsize (--config)."),
        (
            "DQN",
            {"critic_lr": 0.1},
            f"critic_lr: a key of {owners('critic_lr')}, not of DQN: the learning rate is lr (--config).",
        ),
        (
            "DDPG",
            {"optimization": {"actor_learning_rate": 0.1}},
            "optimization: a key of SAC, RNNSAC, TQC, CROSSQ, XQC, CQL, not of DDPG: the learning rates are actor_lr and "
            "critic_lr (--config).",
        ),
        (
            "DDPG",
            {"model": {"fcnet_hiddens": [8]}},
            "model.fcnet_hiddens: the layers are actor_hiddens and critic_hiddens (--config).",
        ),
        (
            "QRDQN",
            {"num_atoms": 51},
            "num_atoms: a key of XQC, DQN, SimpleQ, APEX, not of QRDQN: it learns n_quantiles quantiles (--config).",
        ),
    ],
)
def test_key_of_another_algorithm_is_refused_with_those_that_have_it(name, mapping, text):
    assert message(mapping, name=name) == text


@pytest.mark.parametrize(
    ("name", "mapping", "texts"),
    [
        ("DQN", {"sigma0": 0.1, "v_min": -1}, ["sigma0 has no effect while noisy is false (--config).",
                                               "v_min has no effect while num_atoms is 1 (--config)."]),
        ("DQN", {"num_atoms": 51, "v_min": -1}, []),
        ("DDPG", {"target_noise": 0.1}, ["target_noise has no effect while smooth_target_policy is false (--config)."]),
        ("DDPG", {"target_noise": 0.2, "huber_threshold": 1.0}, []),
        ("TD3", {"target_noise": 0.1}, []),
        ("SAC", {"log_std_init": -2}, ["log_std_init has no effect while use_sde is false (--config)."]),
        ("PPO", {"lambda": 0.5, "use_gae": False}, ["lambda has no effect while use_gae is false (--config)."]),
        ("PPO", {"lambda": 0.5, "kl_target": 0.1}, ["kl_target has no effect while kl_coeff is 0.0 (--config)."]),
    ],
)  # fmt: skip
def test_key_without_effect_is_said(name, mapping, texts, notices):
    parse(table.find(name), mapping, "--config", ALL)
    assert sorted(notices) == texts


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


@pytest.mark.parametrize("name", table.names())
def test_typo_in_any_key_is_answered_with_the_key(name):
    keys = [path for path, _ in leaves(load(table.find(name).config))]
    known, wrong = {path[-1] for path in keys}, []
    for path in keys:
        last = path[-1]
        typo = last + last[-1] if len(last) < 7 else last[:1] + last[2:]
        mapping = {typo: None}
        for section in reversed(path[:-1]):
            mapping = {section: mapping}
        _, (text, *_), _ = read(table.find(name), mapping, "x", ALL)
        if typo in known or f"Did you mean '{'.'.join(path)}'?" not in text:
            wrong.append(text)
    assert wrong == []


@pytest.mark.parametrize("name", REFUSED)
def test_key_of_rllib_that_is_not_built_is_refused_by_name(name):
    text = message({name: 2})
    assert text.startswith((f"{name}: not supported", f"{name}: a key of old versions")) and "unknown" not in text


def test_no_refused_key_is_a_key_of_all():
    keys = [{path[0] for path, _ in leaves(load(row.config))} for row in ALL]
    assert set(REFUSED) & set.union(*keys) == {"num_learners"}  # those who have it are named by the others
    assert set(REFUSED) & set.intersection(*keys) == set()
    assert {old[0] for old in aliases.ALIASES if len(old) == 1} & set(REFUSED) == set()


def test_what_stands_in_place_of_a_key_is_a_key():
    for name, pairs in refused_keys.INSTEAD.items():
        for key, _ in pairs:
            having = [row.name for row in ALL if key in load(row.config).model_fields]
            assert having, f"{name}: {key}"


def test_unprintable_key_is_shown_escaped():
    assert message({"a\nb\ud800": 1}) == "'a\\nb\\ud800': unknown key (--config). drl algorithms SAC lists the keys."


def test_key_that_resembles_none_is_answered_with_where_they_are_listed():
    assert message({"widgets": 1}) == "widgets: unknown key (--config). drl algorithms SAC lists the keys."


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
        "import sys, drl_cli.config.parse, drl_cli.config.assignments, drl_cli.algorithms.dqn, drl_cli.config.result_names;"
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
        + list(refused_keys.NOT_YET)
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
