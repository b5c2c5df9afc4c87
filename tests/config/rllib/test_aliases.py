"""Spellings of RLlib's other versions: read as today's keys with a notice, or refused where they mean something else."""

import pytest

from drl_cli.algorithms import table
from drl_cli.config.origins import Where
from drl_cli.config.parse import read
from drl_cli.config.strict_yaml import load_yaml_text


def reading(name, mapping, where="--config"):
    """Return (config, problems, notices)."""
    return read(table.find(name), mapping, where, table.built_in())


@pytest.mark.parametrize(
    ("name", "mapping", "path", "value"),
    [
        ("SAC", {"sample_batch_size": 7}, "rollout_fragment_length", 7),
        ("SAC", {"metrics_num_episodes_for_smoothing": 5}, "metrics_smoothing_episodes", 5),
        ("SAC", {"min_time_s_per_iteration": 2}, "min_iter_time_s", 2.0),
        ("SAC", {"min_time_s_per_reporting": 2}, "min_iter_time_s", 2.0),
        ("SAC", {"min_sample_timesteps_per_reporting": 300}, "timesteps_per_iteration", 300),
        ("SAC", {"evaluation_duration": 4, "evaluation_duration_unit": "episodes"}, "evaluation_num_episodes", 4),
        ("SAC", {"q_model_config": {"layer_norm": True}}, "Q_model.layer_norm", True),
        ("SAC", {"policy_model_config": {"fcnet_hiddens": [8]}}, "policy_model.fcnet_hiddens", (8,)),
        ("SAC", {"num_rollout_workers": 3}, "num_workers", 3),
        ("SAC", {"replay_buffer_config": {"type": "ReplayBuffer", "capacity": 5000}}, "buffer_size", 5000),
        ("SAC", {"critic_lr": 0.1}, "optimization.critic_learning_rate", 0.1),
        ("TQC", {"actor_lr": [[0, 0.1], [5, 0]]}, "optimization.actor_learning_rate", ((0, 0.1), (5, 0.0))),
        ("DQN", {"lr_schedule": [[0, 0.1], [5, 0.01]]}, "lr", ((0, 0.1), (5, 0.01))),
        ("PPO", {"entropy_coeff_schedule": [[0, 0.1], [5, 0]]}, "entropy_coeff", ((0, 0.1), (5, 0.0))),
        ("PPO", {"model": {"vf_share_layers": True}}, "vf_share_layers", True),
        (
            "PPO",
            {"model": {"custom_model": "a", "custom_options": {"units": 3}}},
            "model.custom_model_config",
            {"units": 3},
        ),
        ("DQN", {"exploration_final_eps": 0.1}, "exploration_config.final_epsilon", 0.1),
        ("DQN", {"softmax_temp": 2, "exploration_config": {"type": "SoftQ"}}, "exploration_config.temperature", 2.0),
        ("DDPG", {"pure_exploration_steps": 50}, "exploration_config.random_timesteps", 50),
        ("DDPG", {"noise_scale": 0.3}, "exploration_config.ou_base_scale", 0.3),
        ("DDPG", {"exploration_ou_theta": 0.3}, "exploration_config.ou_theta", 0.3),
        ("TD3", {"exploration_gaussian_sigma": 0.3}, "exploration_config.stddev", 0.3),
        ("APEX", {"optimizer": {"num_replay_buffer_shards": 2, "debug": False}}, "num_replay_shards", 2),
        ("DQN", {"replay_buffer_config": {"prioritized_replay_beta": 0.5}}, "prioritized_replay_beta", 0.5),
        ("TD3", {"replay_buffer_config": {"type": "PrioritizedReplayBuffer"}}, "prioritized_replay", True),
        ("DQN", {"replay_buffer_config": {"type": "MultiAgentReplayBuffer"}}, "prioritized_replay", False),
    ],
)
def test_other_spelling_is_read_with_a_notice(name, mapping, path, value):
    config, problems, notices = reading(name, mapping)
    assert problems == []
    for part in path.split("."):
        config = getattr(config, part)
    assert config == value
    start = path if path.split(".")[0] not in ("Q_model", "policy_model") else path.split(".")[0]
    assert any(f" is read as {start}" in text for text in notices)


def test_schedule_takes_the_place_of_the_number_beside_it():
    for name in ("lr", "entropy_coeff"):
        config, problems, notices = reading("PPO", {f"{name}_schedule": [[0, 0.1], [5, 0.0]], name: 0.5})
        assert (getattr(config, name), problems) == (((0, 0.1), (5, 0.0)), [])
        assert notices == [f"{name}_schedule (--config) takes the place of {name} 0.5."]
    assert len(reading("PPO", {"lr_schedule": [[0, 0.1]], "lr": [[0, 0.2]]})[1]) == 1


def test_notice_names_spelling_place_and_key():
    _, _, notices = reading("APEX", {"optimizer": {"num_replay_buffer_shards": 2, "debug": False}})
    assert notices == [
        "optimizer.debug false is what drl does anyway.",
        "optimizer.num_replay_buffer_shards (--config) is read as num_replay_shards.",
    ]
    _, _, notices = reading("TD3", {"replay_buffer_config": {"type": "PrioritizedReplayBuffer"}})
    assert notices == [
        "replay_buffer_config.type PrioritizedReplayBuffer (--config) is read as prioritized_replay: true."
    ]


def test_key_that_the_algorithm_has_is_no_spelling_of_another():
    config, problems, notices = reading("DDPG", {"critic_lr": 0.1, "actor_lr": 0.2})
    assert (config.critic_lr, config.actor_lr, problems, notices) == (0.1, 0.2, [], [])


@pytest.mark.parametrize(
    ("name", "mapping"),
    [
        ("DQN", {"lr_schedule": None, "lr": 0.1}),
        ("PPO", {"lr_schedule": None, "entropy_coeff_schedule": None, "logger_config": None}),
        ("DDPG", {"lr_schedule": None, "per_worker_exploration": False}),
        ("SAC", {"batch_mode": "truncate_episodes", "logger_config": None}),
        ("ES", {"batch_mode": "complete_episodes", "synchronize_filters": True, "shuffle_buffer_size": 0}),
        ("ARS", {"batch_mode": "complete_episodes", "soft_horizon": False}),
    ],
)
def test_what_happens_anyway_may_be_asked_for(name, mapping):
    _, problems, notices = reading(name, mapping)
    assert problems == [] and len(notices) == len(set(mapping) - {"lr"})
    assert all(text.endswith("is what drl does anyway.") for text in notices)


@pytest.mark.parametrize(
    ("name", "mapping", "text"),
    [
        (
            "SAC",
            {"sample_batch_size": 1, "rollout_fragment_length": 2},
            "sample_batch_size (--config): another name of rollout_fragment_length, which is given as well (--config).",
        ),
        (
            "DQN",
            {"exploration_final_eps": 0.1, "exploration_config": {"final_epsilon": 0.2}},
            "exploration_final_eps (--config): another name of exploration_config.final_epsilon, which is given as well "
            "(--config).",
        ),
        (
            "TD3",
            {"replay_buffer_config": {"type": "PrioritizedReplayBuffer"}, "prioritized_replay": False},
            "replay_buffer_config.type PrioritizedReplayBuffer (--config): it means prioritized_replay true, and another "
            "value is given (--config).",
        ),
        (
            "SAC",
            {"placement_strategy": "TIGHT"},
            "placement_strategy: \"TIGHT\" is not allowed; it takes one of 'PACK', 'SPREAD', 'STRICT_PACK', 'STRICT_SPREAD' "
            "(--config).",
        ),
        (
            "SAC",
            {"replay_buffer_config": {"type": "Prioritized"}},
            "replay_buffer_config.type: not supported yet: use buffer_size, learning_starts and "
            "prioritized_replay… (--config).",
        ),
        (
            "APEX",
            {"optimizer": {"max_weight_sync_delay": 400}},
            "optimizer.max_weight_sync_delay: not supported: workers take the newest weights before each fragment; "
            "publish_every counts the updates between two pushes (--config).",
        ),
        (
            "TD3",
            {"noise_scale": 0.1},
            "exploration_config.ou_base_scale: GaussianNoise does not use it; it takes stddev, initial_scale, "
            "final_scale, scale_timesteps, scale_schedule, random_timesteps, hold_steps (--config, as noise_scale).",
        ),
        ("DQN", {"exploration_config": 5, "exploration_final_eps": 1}, None),
    ],
)
def test_spelling_that_cannot_be_read_is_refused(name, mapping, text):
    _, problems, _ = reading(name, mapping)
    assert problems[:1] == [text] if text else len(problems) == 2


def test_wrong_value_is_placed_where_it_was_written():
    data, lines = load_yaml_text("gamma: 0.9\nsample_batch_size: x\nexploration_final_eps: 2", "my.yaml")
    assert reading("DQN", data, Where("my.yaml", lines))[1] == [
        'rollout_fragment_length: "x" is not allowed; it takes a whole number in [1, 100000] (my.yaml:2, as '
        "sample_batch_size).",
        "exploration_config.final_epsilon: 2 is not allowed; it takes a number in [0, 1], or null (my.yaml:3, as "
        "exploration_final_eps).",
    ]


def test_section_and_key_that_both_have_another_name_are_placed_where_they_were_written():
    data, lines = load_yaml_text("q_model_config:\n  hidden_layer_sizes: [x]\n  hidden_activation: relu", "my.yaml")
    _, problems, notices = reading("SAC", data, Where("my.yaml", lines))
    assert "Q_model.hidden_activation (my.yaml:3) is read as Q_model.fcnet_activation." in notices
    assert problems[0].endswith("(my.yaml:2, as q_model_config.hidden_layer_sizes).")


def test_given_mapping_is_left_alone():
    mapping = {"replay_buffer_config": {"capacity": 5000}, "exploration_config": {}, "exploration_final_eps": 0.1}
    reading("DQN", mapping)
    assert mapping == {
        "replay_buffer_config": {"capacity": 5000},
        "exploration_config": {},
        "exploration_final_eps": 0.1,
    }
