"""Keys of exploration: an algorithm's own type and its defaults, other types and theirs, what does not fit."""

import json

import pytest
from pydantic import ValidationError

from drl_cli.algorithms import table
from drl_cli.config.parse import read
from drl_cli.config.sections.exploration import TYPES, ExplorationConfig, types_of
from drl_cli.config.sections.exploration_settings import exploration_settings, misfits
from drl_cli.extras import load

SCHEMAS = {
    row.name: load(row.config) for row in table.built_in() if row.postprocess != "fitness"
}  # ES perturbs weights
RANDOM = {"random_timesteps": 1500, "hold_steps": 1}
OU = {"ou_theta": 0.15, "ou_sigma": 0.2, "ou_base_scale": 0.1}
SCALE = {"initial_scale": 1.0, "final_scale": 1.0, "scale_timesteps": 10_000, "scale_schedule": None}
FADING = {**SCALE, "final_scale": 0.02}
DRAWN = {"type": "StochasticSampling", "sde_sample_freq": None, **RANDOM}
EPSILON = {
    "type": "EpsilonGreedy",
    "initial_epsilon": 1.0,
    "final_epsilon": 0.02,
    "epsilon_timesteps": 10_000,
    "epsilon_schedule": None,
    **RANDOM,
    "random_timesteps": 1000,
}

DEFAULT = {
    "SAC": DRAWN,
    "RNNSAC": {**DRAWN, "random_timesteps": 1000},
    "TQC": DRAWN,
    "CROSSQ": DRAWN,
    "XQC": DRAWN,
    "CQL": {**DRAWN, "random_timesteps": 0},
    "IQL": {**DRAWN, "random_timesteps": 0},
    "DDPG": {"type": "OrnsteinUhlenbeckNoise", **OU, **SCALE, **RANDOM},
    "TD3": {"type": "GaussianNoise", "stddev": 0.1, **SCALE, **RANDOM},
    "RNNTD3": {"type": "GaussianNoise", "stddev": 0.1, **SCALE, **RANDOM, "random_timesteps": 1000},
    "TD3BC": {"type": "GaussianNoise", "stddev": 0.1, **SCALE, **RANDOM, "random_timesteps": 0},
    "APEX_DDPG": {"type": "PerWorkerOrnsteinUhlenbeckNoise", **OU, **RANDOM, "random_timesteps": 2000},
    "DQN": EPSILON,
    "SimpleQ": EPSILON,
    "QRDQN": EPSILON,
    "R2D2": EPSILON,
    "PQN": {**EPSILON, "final_epsilon": 0.05, "epsilon_timesteps": 20_000, "random_timesteps": 0},
    "VDN": EPSILON,
    "QMIX": EPSILON,
    "MADDPG": {**DRAWN, "random_timesteps": 1500},
    "APEX": {"type": "PerWorkerEpsilonGreedy", **RANDOM, "random_timesteps": 2000},
    **dict.fromkeys(
        ("PG", "A2C", "A3C", "PPO", "DDPPO", "MAPPO", "TRPO", "IMPALA", "APPO", "MARWIL", "BC"),
        {**DRAWN, "random_timesteps": 0},
    ),
}


def made(name, **given):
    return SCHEMAS[name].model_validate(given)


def settings(name, **exploration):
    return exploration_settings(made(name, exploration_config=exploration))


def problem(name, **given):
    _, (text,), _ = read(table.find(name), given, "--config", table.built_in())
    return text


@pytest.mark.parametrize("name", SCHEMAS)
def test_algorithm_explores_in_its_own_way_by_default(name):
    assert exploration_settings(SCHEMAS[name]()) == DEFAULT[name]


@pytest.mark.parametrize("name", SCHEMAS)
def test_settings_hold_what_the_type_uses_and_survive_json(name):
    for kind in types_of(type(SCHEMAS[name]().exploration_config)):
        config = made(name, exploration_config={"type": kind})
        found = exploration_settings(config)
        assert set(found) == {"type", *TYPES[kind]} and found["type"] == kind
        again = SCHEMAS[name].model_validate(json.loads(json.dumps(config.model_dump(mode="json"))))
        assert again == config and exploration_settings(again) == found


@pytest.mark.parametrize("name", ["ES", "ARS"])
def test_algorithm_that_perturbs_weights_has_no_exploration_and_fits_all_actions(name):
    config = load(table.find(name).config)()
    assert not hasattr(config, "exploration_config") and not hasattr(config, "explore")
    assert misfits(config, "Discrete") == misfits(config, "Box") == []


def test_keys_without_a_type_are_those_of_the_algorithms_type():
    assert settings("TD3", random_timesteps=5000) == {**DEFAULT["TD3"], "random_timesteps": 5000}
    assert settings("DQN", type="EpsilonGreedy", final_epsilon=0.1) == {**EPSILON, "final_epsilon": 0.1}


def test_another_type_has_the_defaults_of_its_class():
    assert settings("DDPG", type="GaussianNoise") == {"type": "GaussianNoise", "stddev": 0.1, **FADING, **RANDOM}
    assert settings("TD3", type="OrnsteinUhlenbeckNoise") == {
        "type": "OrnsteinUhlenbeckNoise",
        **OU,
        **FADING,
        **RANDOM,
    }
    assert settings("APEX", type="EpsilonGreedy", random_timesteps=0) == {
        **EPSILON,
        "final_epsilon": 0.05,
        "epsilon_timesteps": 100_000,
        "random_timesteps": 0,
    }


def test_null_random_timesteps_is_learning_starts():
    assert exploration_settings(made("SAC", learning_starts=77))["random_timesteps"] == 77
    assert settings("SAC", random_timesteps=0)["random_timesteps"] == 0


def test_schedule_takes_the_place_of_the_algorithms_own():
    config = made("DQN", exploration_config={"epsilon_schedule": [[0, 1], [500, 0.1]]})
    assert config.exploration_config.final_epsilon is None
    assert exploration_settings(config)["epsilon_schedule"] == ((0, 1.0), (500, 0.1))
    assert SCHEMAS["DQN"].model_validate(config.model_dump(mode="json")) == config


def test_state_dependent_noise_is_drawn_anew_where_it_is_used():
    assert exploration_settings(made("TQC", use_sde=True))["sde_sample_freq"] == 32
    config = made("SAC", use_sde=True, exploration_config={"sde_sample_freq": 8})
    assert exploration_settings(config)["sde_sample_freq"] == 8


def test_parameter_noise_lies_under_a_little_of_another_exploration():
    small = {"initial_epsilon": 0.01, "final_epsilon": 0.01, "epsilon_timesteps": 1, "random_timesteps": 0}
    assert settings("DQN", type="ParameterNoise") == {
        "type": "ParameterNoise",
        "initial_stddev": 1.0,
        "sub_exploration": {**EPSILON, **small},
        **RANDOM,
        "random_timesteps": 1000,
    }
    assert settings("DDPG", type="ParameterNoise")["sub_exploration"] == {**DEFAULT["DDPG"], "random_timesteps": 0}
    given = {"type": "GaussianNoise", "stddev": 0.3}
    sub = settings("TD3", type="ParameterNoise", sub_exploration=given)["sub_exploration"]
    assert sub == {"type": "GaussianNoise", "stddev": 0.3, **SCALE, "random_timesteps": 0, "hold_steps": 1}


def test_noisy_nets_need_no_random_actions():
    found = exploration_settings(made("DQN", noisy=True))
    assert (found["type"], found["initial_epsilon"], found["final_epsilon"]) == ("EpsilonGreedy", 0.0, 0.0)
    asked = exploration_settings(made("DQN", noisy=True, exploration_config={"final_epsilon": 0.1}))
    assert (asked["initial_epsilon"], asked["final_epsilon"]) == (1.0, 0.1)
    assert exploration_settings(made("APEX", noisy=True)) == DEFAULT["APEX"]
    assert exploration_settings(made("DQN", noisy=True, exploration_config={"type": "SoftQ"}))["type"] == "SoftQ"
    again = SCHEMAS["DQN"].model_validate(made("DQN", noisy=True).model_dump(mode="json"))
    assert again == made("DQN", noisy=True)


@pytest.mark.parametrize(
    ("name", "exploration", "text"),
    [
        (
            "APEX",
            {"temperature": 2.0},
            "exploration_config.temperature: PerWorkerEpsilonGreedy does not use it; it takes random_timesteps, "
            "hold_steps (--config).",
        ),
        (
            "DQN",
            {"type": "SoftQ", "stddev": 0.1},
            "exploration_config.stddev: SoftQ does not use it; it takes temperature, random_timesteps, hold_steps "
            "(--config).",
        ),
        (
            "SAC",
            {"type": "EpsilonGreedy"},
            'exploration_config.type: "EpsilonGreedy" is not allowed: that is for algorithms that value each of a few '
            "actions (DQN and its kin); it takes one of 'StochasticSampling', 'Random', 'GaussianNoise', "
            "'OrnsteinUhlenbeckNoise', 'PerWorkerGaussianNoise', 'PerWorkerOrnsteinUhlenbeckNoise', 'RND' "
            "(--config).",
        ),
        (
            "DQN",
            {"type": "Curiosity"},
            'exploration_config.type: "Curiosity" is not allowed: no exploration is registered as that, which takes '
            "--import MODULE; it takes one of 'EpsilonGreedy', 'PerWorkerEpsilonGreedy', 'SoftQ', 'ParameterNoise', "
            "'Random', 'RND' (--config).",
        ),
        (
            "DQN",
            {"epsilon_schedule": [[0, 1.0]], "final_epsilon": 0.1},
            "exploration_config.epsilon_schedule: it takes the place of final_epsilon, which is given as well; keep one "
            "of them (--config).",
        ),
        (
            "DDPG",
            {"type": "ParameterNoise", "sub_exploration": {"type": "EpsilonGreedy"}},
            "exploration_config.sub_exploration: its type is one of OrnsteinUhlenbeckNoise, GaussianNoise, "
            "PerWorkerOrnsteinUhlenbeckNoise, PerWorkerGaussianNoise, Random (--config).",
        ),
        (
            "DDPG",
            {"type": "ParameterNoise", "sub_exploration": {"type": "PerWorkerGaussianNoise", "ou_theta": 0.1}},
            "exploration_config.sub_exploration: ou_theta: PerWorkerGaussianNoise does not use it; it takes stddev, "
            "random_timesteps, hold_steps (--config).",
        ),
        (
            "DDPG",
            {"type": "ParameterNoise", "sub_exploration": {"type": "GaussianNoise", "random_timesteps": 9}},
            "exploration_config.sub_exploration: random_timesteps: the random phase is that of ParameterNoise "
            "(--config).",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_what_does(name, exploration, text):
    assert problem(name, exploration_config=exploration) == text


def test_noise_on_box_actions_does_not_fit_discrete_ones():
    config = made("SAC", exploration_config={"type": "GaussianNoise"})
    assert misfits(config, "Box") == []
    assert misfits(config, "Discrete") == [
        "exploration_config.type: GaussianNoise is for Box actions, the environment's are Discrete. What fits: "
        "StochasticSampling, Random, RND."
    ]
    assert misfits(made("SAC", use_sde=True), "Discrete") == [
        "use_sde: state-dependent noise is for Box actions, the environment's are Discrete. Leave the key out."
    ]
    assert misfits(SCHEMAS["SAC"](), "Discrete") == misfits(SCHEMAS["DQN"](), "Discrete") == []


def test_every_key_is_used_by_a_type():
    assert {name for keys in TYPES.values() for name in keys} == set(ExplorationConfig.model_fields) - {"type"}


@pytest.mark.parametrize("points", [[[5, 0.1], [5, 0.2]], [[0, -0.1]], [], [[0.5, 0.1]], [[0, 1, 2]], 3])
def test_malformed_schedule_is_refused(points):
    with pytest.raises(ValidationError):
        made("DQN", exploration_config={"epsilon_schedule": points})
    assert "list of [env_step, value] pairs" in problem("DQN", exploration_config={"epsilon_schedule": points})
