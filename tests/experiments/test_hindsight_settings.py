"""``hindsight_goals`` from words to a spec: what it needs, and what is refused."""

from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium.spaces import Box

from drl_cli import plugins
from drl_cli.envs.custom_preprocessors import register_preprocessor
from drl_cli.errors import DrlError
from drl_cli.experiments import spec


def made(*words, run="SAC", env="drl/PointReach-v1"):
    return spec.from_flags({"run": run, "env": env, "set": list(words), "stop": ["timesteps_total=100"]})


def test_goals_of_the_environment_are_among_its_facts():
    assert made("hindsight_goals=4").env_facts["spaces"]["goal"] == [0, 3, 3]


@pytest.mark.parametrize("run", ["DQN", "APEX", "QRDQN", "SimpleQ"])
def test_algorithms_for_discrete_actions_take_it(run):
    assert made("hindsight_goals=4", run=run, env="drl/BitFlipping-v1").config.hindsight_goals == 4


@pytest.mark.parametrize("run", ["SAC", "TQC", "CROSSQ", "XQC", "TD3", "DDPG", "APEX_DDPG"])
def test_algorithms_for_continuous_actions_take_it(run):
    assert made("hindsight_goals=4", run=run).config.hindsight_goals == 4


@pytest.mark.parametrize(
    ("words", "where", "told"),
    [
        (["hindsight_goals=4"], {"env": "Pendulum-v1"}, "hindsight_goals: Pendulum-v1 has no goals"),
        (["hindsight_goals=4"], {"run": "PPO"}, "hindsight_goals"),
        (["hindsight_goals=101"], {}, "hindsight_goals"),
        (["hindsight_goals=4", "hindsight_strategy=futur"], {}, "future"),
        (["hindsight_goals=4"], {"run": "R2D2", "env": "CartPole-v1"}, "an LSTM learns from sequences"),
        (["hindsight_goals=4"], {"env": "drl/MultiAgentCartPole-v1", "run": "DQN"}, "with several agents"),
        (["hindsight_goals=4", "multiagent.copies=2"], {}, "with several agents"),
        (["hindsight_goals=4", "input=policy_server"], {}, "external simulator"),
    ],
)
def test_what_it_cannot_be_used_with_is_one_line(words, where, told):
    with pytest.raises(DrlError) as caught:
        made(*words, **where)
    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_goals_that_a_custom_preprocessor_replaces_are_one_line(monkeypatch):
    monkeypatch.setattr(plugins.PREPROCESSORS, "_things", {})
    place = SimpleNamespace(
        observation_space=Box(-1.0, 1.0, (6,), np.float32),
        transform=lambda obs: np.concatenate([obs["achieved_goal"], obs["desired_goal"]]),
    )
    register_preprocessor("places", lambda space, options: place)
    assert "goal" not in made("model.custom_preprocessor=places").env_facts["spaces"]
    with pytest.raises(DrlError) as caught:
        made("hindsight_goals=4", "model.custom_preprocessor=places")
    assert str(caught.value) == (
        "hindsight_goals: model.custom_preprocessor places makes one vector of the observations of drl/PointReach-v1, in which "
        "their goals cannot be found and replaced. Leave one of the two out, or change observations in a wrapper "
        "(env_wrappers) that returns a Dict with achieved_goal and desired_goal."
    )
