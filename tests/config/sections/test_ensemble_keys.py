"""Keys of SAC's critics: what follows from them, and what they refuse."""

import pytest

from drl_cli.algorithms import table
from drl_cli.algorithms.sac import SACConfig
from drl_cli.config.parse import read


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        ({}, (2, 2, False)),
        ({"twin_q": False}, (1, 1, False)),
        ({"num_critics": 10}, (10, 10, False)),
        ({"num_critics": 10, "target_critics": 2}, (10, 2, True)),
        ({"num_critics": 10, "target_critics": 2, "policy_q": "min"}, (10, 2, False)),
        ({"critic_dropout": 0.01}, (2, 2, True)),
        ({"policy_q": "mean"}, (2, 2, True)),
    ],
)
def test_number_of_critics_and_what_the_policy_maximises(keys, found):
    made = SACConfig(**keys)
    assert (made.critics, made.target_minimum_of, made.policy_maximises_mean) == found


@pytest.mark.parametrize(
    ("name", "keys", "problem"),
    [
        ("SAC", {"target_critics": 3}, "target_critics: 3 cannot be drawn from num_critics 2 (--config)."),
        (
            "SAC",
            {"critic_dropout": 0.1, "Q_model": {"fcnet_hiddens": []}},
            "critic_dropout: it drops hidden units, and Q_model.fcnet_hiddens has none (--config).",
        ),
        (
            "SAC",
            {"critic_dropout": 0.1, "Q_model": {"residual_blocks": True}},
            "critic_dropout: it is for plain hidden layers; leave out Q_model.residual_blocks (--config).",
        ),
        (
            "CQL",
            {"critic_dropout": 0.1},
            "critic_dropout: CQL compares Q of recorded and other actions, which masks would tell apart; leave it out "
            "(--config).",
        ),
    ],
)
def test_critics_that_cannot_be_are_refused(name, keys, problem):
    assert read(table.find(name), keys, "--config", table.built_in())[1] == [problem]


def test_ensemble_without_twin_critics_has_no_effect_and_is_said():
    _, problems, notices = read(table.find("SAC"), {"twin_q": False, "num_critics": 5}, "--config", table.built_in())
    assert (problems, notices) == ([], ["num_critics has no effect while twin_q is false (--config)."])
