"""Keys of estimates: names as RLlib has them, and what they need beside them."""

import pytest
from pydantic import ValidationError

from drl_cli.algorithms import table
from drl_cli.algorithms.ppo import PPOConfig
from drl_cli.algorithms.sac import SACConfig
from drl_cli.config import parse
from drl_cli.config.sections.estimates import methods

FILES = {"input": "recorded.json"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], ()),
        (["is", "wis"], ("is", "wis")),
        (["wis"], ("wis",)),
        ("is", ("is",)),
        (["wis", "simulation", "is"], ("is", "wis")),
        ("simulation", ()),
        ({"is": {"type": "is"}, "wis": {"type": "WeightedImportanceSampling"}}, ("is", "wis")),
        ({}, ()),
    ],
)
def test_methods_are_read_in_every_spelling(given, expected):
    config = SACConfig.model_validate({**FILES, "input_evaluation": given})
    assert methods(config) == expected
    assert SACConfig.model_validate(config.model_dump(mode="json", by_alias=True)) == config


def test_configs_without_the_key_ask_for_nothing():
    assert methods(PPOConfig()) == () == methods(SACConfig())


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"input_evaluation": ["wis"]}, "wis estimates from recorded episodes, and input names none"),
        ({**FILES, "input_evaluation": ["is", "is"]}, "it names the same twice"),
        ({**FILES, "input_evaluation": ["is"], "evaluation_interval": None}, "is comes with evaluations: set"),
        ({"input_evaluation": "simulation", "evaluation_interval": None}, "simulation comes with evaluations: set"),
        ({**FILES, "input_evaluation_num_episodes": 50}, "it has no effect without input_evaluation"),
        ({**FILES, "input_evaluation": "dr"}, "Input should be 'is', 'wis' or 'simulation'"),
        ({**FILES, "input_evaluation": {"is": {"type": "dm"}}}, "Input should be 'is', 'wis' or 'simulation'"),
        ({**FILES, "input_evaluation": {"is": {"kind": "is"}}}, "Input should be a valid tuple"),
    ],
)
def test_what_does_not_go_together_is_refused(given, why):
    with pytest.raises(ValidationError, match=why):
        SACConfig.model_validate(given)


def test_newer_name_is_read_as_the_key():
    mapping = {**FILES, "off_policy_estimation_methods": {"wis": {"type": "wis"}}}
    config, problems, notices = parse.read(table.find("SAC"), mapping, "--config", table.built_in())
    assert (methods(config), problems) == (("wis",), [])
    assert notices == ["off_policy_estimation_methods (--config) is read as input_evaluation."]


@pytest.mark.parametrize("key", ["input_evaluation", "off_policy_estimation_methods"])
@pytest.mark.parametrize(("name", "why"), [("PPO", "it is on-policy"), ("ES", "which recorded experience cannot do")])
def test_algorithms_that_read_no_files_say_why_they_have_no_such_key(key, name, why):
    _, (problem,), _ = parse.read(table.find(name), {key: ["is"]}, "--config", table.built_in())
    assert key in problem and why in problem
    _, problems, (notice,) = parse.read(table.find(name), {key: []}, "--config", table.built_in())
    assert problems == [] and notice.endswith("is what drl does anyway.")
