"""What screens, tables and folders call an environment."""

import pytest

from drl_cli.config.env_names import displayed


@pytest.mark.parametrize(
    ("env_id", "env_config", "name"),
    [
        ("CartPole-v1", {}, "CartPole-v1"),
        ("CartPole-v1", {"env": "x"}, "CartPole-v1"),  # a keyword of the environment's own
        ("drl/Team-v1", {"env": "mpe2/simple_spread_v3", "env_config": {"N": 2}}, "mpe2/simple_spread_v3"),
        ("drl/Team-v1", {"env": 5}, "drl/Team-v1"),  # of a folder that something else has written
        ("drl/Team-v1", None, "drl/Team-v1"),
    ],
)
def test_a_team_is_named_after_the_environment_of_its_agents(env_id, env_config, name):
    assert displayed(env_id, env_config) == name
