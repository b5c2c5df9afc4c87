"""What is meant by what is left out: RLlib's pace, Adam's epsilon and iterations, where a file or a batch key says so."""

import pytest

from drl_cli.algorithms import table
from drl_cli.config.parse import read
from drl_cli.config.rllib import semantics


def completed(name, mapping, is_file=False):
    """Return (what is filled in, the lines about it)."""
    config, problems, _ = read(table.find(name), mapping, "--config", table.built_in())
    assert problems == []
    _, filled, notices = semantics.completed(config, is_file)
    return filled, notices


BATCH = {"rollout_fragment_length": 1, "train_batch_size": 64}


@pytest.mark.parametrize(
    ("name", "mapping", "intensity"),
    [
        ("DDPG", BATCH, 64.0),
        ("SAC", {"train_batch_size": 256}, 256.0),
        ("SAC", {"rollout_fragment_length": 1, "train_batch_size": 256, "n_step": 3}, 256 / 3),
        ("DQN", {"train_batch_size": 32}, 8.0),
        ("DQN", {"sample_batch_size": 4, "train_batch_size": 32, "num_workers": 4}, 2.0),
        ("DQN", {"train_batch_size": 32, "num_envs_per_worker": 8}, 1.0),
        ("SimpleQ", {"rollout_fragment_length": 2}, 32.0),
        ("TD3", {"train_batch_size": 100, "training_intensity": None}, 100.0),
        ("R2D2", {"train_batch_size": 32}, 8.0),
    ],
)
def test_batch_key_without_intensity_gets_rllibs_updates_per_step(name, mapping, intensity):
    for is_file in (False, True):
        filled, notices = completed(name, mapping, is_file)
        assert filled == {"training_intensity": pytest.approx(intensity)} and len(notices) == 1


def test_pace_is_said_in_one_line():
    _, notices = completed("DDPG", {**BATCH, "num_workers": 4})
    assert notices == [
        "training_intensity 16, as in RLlib where rollout_fragment_length and train_batch_size are given: one update for "
        "every 4 env steps."
    ]


@pytest.mark.parametrize(
    ("name", "mapping"),
    [
        ("DDPG", {}),
        ("DDPG", {"lr_schedule": None, "n_step": 1}),
        ("DDPG", {**BATCH, "training_intensity": 3}),
        ("APEX", BATCH),  # never waits: it has no such ratio
        ("TQC", BATCH),  # RLlib has no such algorithm
        ("QRDQN", BATCH),
        ("MARWIL", {"train_batch_size": 64, "input": "recorded/x"}),
        ("CQL", {"train_batch_size": 64, "input": "recorded/x"}),
        ("PPO", {"train_batch_size": 512}),
    ],
)
def test_pace_stays_where_rllib_says_nothing_about_it(name, mapping):
    assert completed(name, mapping) == ({}, [])


@pytest.mark.parametrize(
    ("name", "mapping", "filled"),
    [
        ("PPO", {}, {"adam_epsilon": 1e-8}),
        ("PPO", {"adam_epsilon": 1e-5, "num_workers": 1}, {"min_iter_time_s": 0}),
        ("PPO", {"num_workers": 1, "min_iter_time_s": 2}, {"adam_epsilon": 1e-8}),
        ("PG", {"num_workers": 1}, {"adam_epsilon": 1e-8, "min_iter_time_s": 0}),
        ("A2C", {"num_workers": 1}, {"adam_epsilon": 1e-8}),  # 10 s are too many steps here
        ("A3C", {}, {"adam_epsilon": 1e-8}),
        ("APPO", {}, {"adam_epsilon": 1e-8}),
        ("IMPALA", {"num_workers": 0}, {"adam_epsilon": 1e-8}),
        ("APEX", {}, {}),
        ("SAC", {"num_workers": 2}, {}),
        ("ES", {}, {"min_iter_time_s": 0}),
        ("TRPO", {"num_workers": 2}, {}),
    ],
)
def test_file_leaves_epsilon_and_iterations_to_rllib(name, mapping, filled):
    found, notices = completed(name, mapping, is_file=True)
    assert found == filled and len(notices) == bool(filled)
    assert completed(name, mapping)[0] == {}


def test_file_made_of_flags_says_what_they_left_out():
    config, _, _ = read(table.find("PPO"), {"num_workers": 2}, "--config", table.built_in())
    assert semantics.said(config) == {"adam_epsilon": 1e-5, "min_iter_time_s": 1.0}
    written = {"adam_epsilon": 1e-5, "min_iter_time_s": 1.0}
    assert completed("PPO", {"num_workers": 2, **written}, is_file=True) == ({}, [])
