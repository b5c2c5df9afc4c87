"""``hindsight_goals`` from words to a spec: what it needs, and what is refused."""

import pytest

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
