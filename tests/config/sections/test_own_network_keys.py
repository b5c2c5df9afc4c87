"""Keys of a network of one's own: what stands beside it without effect, and where it does not belong."""

import pytest

from drl_cli.algorithms import table
from drl_cli.config.parse import read
from drl_cli.extras import load


def reading(name, mapping):
    """Return (config, problems, notices)."""
    return read(table.find(name), mapping, "--config", table.built_in())


@pytest.mark.parametrize("name", table.names())
def test_every_row_has_a_model_of_one_s_own_and_none_by_default(name):
    config, problems, notices = reading(name, {"model": {"custom_model": "mine", "custom_model_config": {"units": 3}}})
    assert (problems, notices) == ([], [])
    assert (config.model.custom_model, config.model.custom_model_config) == ("mine", {"units": 3})
    assert load(table.find(name).config)().model.custom_model is None


def test_keys_in_whose_place_a_model_stands_are_said_where_they_ask_for_something():
    given = {
        "custom_model": "mine",
        "fcnet_hiddens": [3],
        "layer_norm": False,
        "zero_mean": False,
        "conv_filters": None,
    }
    _, problems, notices = reading("PPO", {"model": given})
    assert problems == []
    assert notices == [
        "model.fcnet_hiddens has no effect beside model.custom_model, whose arguments are model.custom_model_config "
        "(--config)."
    ]


@pytest.mark.parametrize(
    ("name", "mapping", "problem"),
    [
        (
            "PPO",
            {"model": {"custom_model_config": {"units": 3}}},
            "model.custom_model_config: it needs custom_model, whose arguments it holds (--config).",
        ),
        (
            "SAC",
            {"Q_model": {"custom_model": "mine"}},
            "Q_model.custom_model: one network of your own sees for policy and critics, in front of their layers: write "
            "model: {custom_model: …} (--config).",
        ),
        (
            "DQN",
            {"model": {"custom_model": 3}},
            "model.custom_model: 3 is not allowed; it takes the name of a registered model, or null (--config).",
        ),
        (
            "DQN",
            {"model": {"custom_modl": "mine"}},
            "model.custom_modl: unknown key (--config). Did you mean 'model.custom_model'?",
        ),
        (
            "MAPPO",
            {"model": {"custom_action_dist": "beta"}},
            "model.custom_action_dist: MAPPO draws a team's actions from the built-in ones; leave it out (--config).",
        ),
        (
            "SAC",
            {"Q_model": {"custom_preprocessor": "mine"}},
            "Q_model.custom_preprocessor: policy and critics see the same observations: write model: "
            "{custom_preprocessor: …} (--config).",
        ),
    ],
)
def test_what_is_wrong_is_said_with_what_helps(name, mapping, problem):
    assert reading(name, mapping)[1] == [problem]


@pytest.mark.parametrize("key", ["custom_preprocessor", "custom_action_dist"])
def test_options_are_those_of_whatever_is_registered(key):
    config, problems, notices = reading("PPO", {"model": {key: "mine", "custom_options": {"units": 3}}})
    assert problems == [] and config.model.custom_model_config == {"units": 3}
    assert notices == ["model.custom_options (--config) is read as model.custom_model_config."]


def test_no_model_of_one_s_own_in_the_sections_of_policy_and_critics_is_what_happens_anyway():
    _, problems, notices = reading("SAC", {"Q_model": {"custom_model": None, "custom_model_config": {}}})
    assert problems == []
    assert notices[0] == "Q_model.custom_model null is what drl does anyway." and len(notices) == 2
