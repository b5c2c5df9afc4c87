"""evaluation_config takes any key of the algorithm, as in RLlib: it works, is reported to have no effect, or is refused."""

import pytest

from drl_cli.algorithms import table
from drl_cli.config.key_description import fields_of, section_of
from drl_cli.config.parse import read
from drl_cli.extras import load


def reading(name, over, **keys):
    """Return (config, problems, notices)."""
    return read(table.find(name), {**keys, "evaluation_config": over}, "--config", table.rows())


@pytest.mark.parametrize("name", table.names())
def test_every_key_of_the_algorithm_with_its_default_is_taken(name):
    schema = load(table.find(name).config)
    plain = {key: field.default for key, field in fields_of(schema).items() if not section_of(field)}
    assert reading(name, plain)[1] == []


def test_keys_that_do_not_enter_a_score_are_said_in_one_line():
    config, problems, notices = reading("PPO", {"explore": True, "num_envs_per_worker": 1, "lr": 0.0, "num_workers": 0})
    assert (problems, config.evaluation_config.explore) == ([], True)
    assert notices == [
        "evaluation_config.lr, evaluation_config.num_envs_per_worker, evaluation_config.num_workers have no effect: a score "
        "depends only on the policy, the environment and the seeds."
    ]


def test_other_spelling_is_read_there_too():
    assert reading("PPO", {"sample_batch_size": 1, "in_evaluation": True, "input": "sampler"})[1] == []
    assert reading("MARWIL", {"input": "sampler", "off_policy_estimation_methods": None}, input="recorded/x")[1] == []


@pytest.mark.parametrize(
    ("over", "said"),
    [
        (
            {"env": "Pendulum-v1"},
            "evaluation_config.env: not supported: score on another environment with: drl evaluate",
        ),
        ({"clip_actions": False}, "evaluation_config.clip_actions: not supported: it is part of the evaluated policy"),
        ({"gamma": 2}, "evaluation_config.gamma: 2 is not allowed; it takes a number in [0, 1] (--config)."),
        ({"gama": 2}, "evaluation_config.gama: unknown key (--config)."),
        (
            {"explore": True, "exploration_config": {"type": "Random"}},
            "evaluation_config.exploration_config: not supported: evaluations with explore sample from the policy itself",
        ),
    ],
)
def test_what_would_change_the_score_or_is_wrong_is_refused(over, said):
    assert reading("DQN", over)[1][0].startswith(said)


def test_what_training_says_too_may_be_said_again():
    assert reading("PPO", {"clip_actions": False}, clip_actions=False)[1] == []
    assert reading("DQN", {"exploration_config": {"type": "Random"}})[1] == []  # evaluations do not explore


def test_pictures_of_evaluations_are_said_to_be_made_elsewhere():
    assert "drl rollout CHECKPOINT --video-dir DIR" in reading("PPO", {"record_env": True})[2][0]
