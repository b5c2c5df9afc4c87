"""The keys of a registered exploration: read, checked, recorded and listed like all others."""

import json

import pytest

from drl_cli.algorithms import table
from drl_cli.config import key_description
from drl_cli.config.parse import read
from drl_cli.config.sections.exploration_settings import exploration_settings, misfits
from drl_cli.errors import InputError
from drl_cli.extras import load
from drl_cli.policies.exploration.custom_exploration import register_exploration

pytestmark = pytest.mark.usefixtures("plug_ins")


class Own:
    def act(self, policy, obs, state, rng, at):
        return policy.act(obs, state, rng, False)


@pytest.fixture(autouse=True)
def registered(plug_ins):
    register_exploration(
        "Own", Own, {"share": 0.5, "every": 8, "way": "up", "on": True, "stddev": 0.3}, actions=("Box",)
    )


def config_of(name, **given):
    config, problems, _ = read(table.find(name), {"exploration_config": {"type": "Own", **given}}, "--config")
    assert problems == []
    return config


def problem(name, **given):
    config, (text,), _ = read(
        table.find(name), {"exploration_config": {"type": "Own", **given}}, "--config", table.rows()
    )
    assert config is None
    return text


def test_settings_are_defaults_and_what_is_given():
    settings = exploration_settings(config_of("TD3", share=0.25, random_timesteps=9))
    own = {"share": 0.25, "every": 8, "way": "up", "on": True, "stddev": 0.3}
    assert settings == {"type": "Own", "random_timesteps": 9, "hold_steps": 1, **own}


def test_config_is_recorded_with_the_defaults_and_reads_back_the_same():
    config = config_of("SAC", every=4.0)
    dumped = config.model_dump(mode="json", by_alias=True)
    assert {"type": "Own", "every": 4, "share": 0.5}.items() <= dumped["exploration_config"].items()
    assert load(table.find("SAC").config).model_validate(json.loads(json.dumps(dumped))) == config


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"shar": 1.0}, "exploration_config.shar: unknown key (--config). Did you mean 'exploration_config.share'?"),
        ({"share": "a"}, "exploration_config.share: Input should be a valid number (--config)."),
        ({"on": 1}, "exploration_config.on: Input should be a valid boolean (--config)."),
        ({"every": 1.5}, "exploration_config.every: Input should be a valid integer (--config)."),
        (
            {"initial_scale": 1.0},
            "exploration_config.initial_scale: unknown key (--config). It has type, random_timesteps, hold_steps, share, "
            "every, way, on, stddev.",
        ),
    ],
)
def test_wrong_keys_and_values_are_refused(given, text):
    assert problem("TD3", **given) == text


def test_algorithm_that_learns_from_its_own_draws_refuses_it():
    text = "actions that the policy did not draw cannot be learnt from"
    assert text in problem("PPO")


def test_key_of_no_registered_type_stays_refused():
    text = "exploration_config.share: unknown key (--config). "
    _, (found,), _ = read(table.find("TD3"), {"exploration_config": {"share": 0.5}}, "--config")
    assert found.startswith(text)


def test_near_miss_of_the_name_is_told(plug_ins):
    _, (found,), _ = read(table.find("TD3"), {"exploration_config": {"type": "Ownn"}}, "--config")
    assert '"Ownn" is not allowed: no exploration is registered as that, but Own is known;' in found


def test_action_spaces_that_it_is_not_for_are_refused():
    assert misfits(config_of("SAC"), "Box") == []
    assert misfits(config_of("SAC"), "Discrete") == [
        "exploration_config.type: Own is for Box actions, the environment's are Discrete."
    ]


def test_config_of_a_type_that_is_not_registered_any_more_says_what_to_do(plug_ins):
    config = config_of("SAC")
    plug_ins.EXPLORATIONS._things = {}
    with pytest.raises(InputError, match="No exploration is registered as 'Own'.*--import MODULE"):
        exploration_settings(config)


def test_its_keys_are_listed_for_a_recorded_config(plug_ins):
    config = config_of("SAC").model_dump(mode="json", by_alias=True)
    rows = {row["key"]: row["default"] for row in key_description.own_keys(config)}
    assert rows == {
        f"exploration_config.{n}": v for n, v in (("share", 0.5), ("every", 8), ("way", "up"), ("on", True))
    }
    plug_ins.EXPLORATIONS._things = {}
    assert [row["default"] for row in key_description.own_keys(config)] == [None] * 4
