"""RLlib's common config as its training page lists it, pasted whole: every algorithm takes it."""

import copy
import json

import pytest

from drl_cli.algorithms import table
from drl_cli.config.parse import read
from drl_cli.config.strict_yaml import load_json_text
from drl_cli.extras import load

MODEL_DEFAULTS = {
    "fcnet_hiddens": [256, 256],
    "fcnet_activation": "tanh",
    "conv_filters": None,
    "conv_activation": "relu",
    "free_log_std": False,
    "no_final_linear": False,
    "vf_share_layers": True,
    "use_lstm": False,
    "max_seq_len": 20,
    "lstm_cell_size": 256,
    "lstm_use_prev_action_reward": False,
    "_time_major": False,
    "framestack": True,
    "dim": 84,
    "grayscale": False,
    "zero_mean": True,
    "custom_model": None,
    "custom_model_config": {},
    "custom_action_dist": None,
    "custom_options": -1,
    "custom_preprocessor": None,
}
"""MODEL_DEFAULTS of 1.0; -1 marks a key that it has renamed."""

ATTENTION = {
    "use_attention": False,
    "attention_num_transformer_units": 1,
    "attention_dim": 64,
    "attention_num_heads": 1,
    "attention_head_dim": 32,
    "attention_memory_inference": 50,
    "attention_memory_training": 50,
    "attention_position_wise_mlp_dim": 32,
    "attention_init_gru_gate_bias": 2.0,
    "attention_use_n_prev_actions": 0,
    "attention_use_n_prev_rewards": 0,
}
"""What later releases added to it."""

COMMON_CONFIG = {
    "num_workers": 2,
    "num_envs_per_worker": 1,
    "rollout_fragment_length": 200,
    "batch_mode": "truncate_episodes",
    "num_gpus": 0,
    "train_batch_size": 200,
    "model": MODEL_DEFAULTS,
    "optimizer": {},
    "gamma": 0.99,
    "horizon": None,
    "soft_horizon": False,
    "no_done_at_end": False,
    "env_config": {},
    "env": None,
    "normalize_actions": False,
    "clip_rewards": None,
    "clip_actions": True,
    "preprocessor_pref": "deepmind",
    "lr": 0.0001,
    "monitor": False,
    "log_level": "WARN",
    "callbacks": "ray.rllib.agents.callbacks.DefaultCallbacks",
    "ignore_worker_failures": False,
    "log_sys_usage": True,
    "fake_sampler": False,
    "framework": "tf",
    "eager_tracing": False,
    "explore": True,
    "exploration_config": {"type": "StochasticSampling"},
    "evaluation_interval": None,
    "evaluation_num_episodes": 10,
    "in_evaluation": False,
    "evaluation_config": {},
    "evaluation_num_workers": 0,
    "custom_eval_function": None,
    "sample_async": False,
    "_use_trajectory_view_api": True,
    "observation_filter": "NoFilter",
    "synchronize_filters": True,
    "tf_session_args": {
        "intra_op_parallelism_threads": 2,
        "inter_op_parallelism_threads": 2,
        "gpu_options": {"allow_growth": True},
        "log_device_placement": False,
        "device_count": {"CPU": 1},
        "allow_soft_placement": True,
    },
    "local_tf_session_args": {"intra_op_parallelism_threads": 8, "inter_op_parallelism_threads": 8},
    "compress_observations": False,
    "collect_metrics_timeout": 180,
    "metrics_smoothing_episodes": 100,
    "remote_worker_envs": False,
    "remote_env_batch_wait_ms": 0,
    "min_iter_time_s": 0,
    "timesteps_per_iteration": 0,
    "seed": None,
    "extra_python_environs_for_driver": {},
    "extra_python_environs_for_worker": {},
    "num_cpus_per_worker": 1,
    "num_gpus_per_worker": 0,
    "custom_resources_per_worker": {},
    "num_cpus_for_driver": 1,
    "memory": 0,
    "object_store_memory": 0,
    "memory_per_worker": 0,
    "object_store_memory_per_worker": 0,
    "input": "sampler",
    "input_evaluation": ["is", "wis"],
    "postprocess_inputs": False,
    "shuffle_buffer_size": 0,
    "output": None,
    "output_compress_columns": ["obs", "new_obs"],
    "output_max_file_size": 67108864,
    "multiagent": {
        "policies": {},
        "policy_mapping_fn": None,
        "policies_to_train": None,
        "observation_fn": None,
        "replay_mode": "independent",
    },
    "logger_config": None,
    "replay_sequence_length": 1,
}
"""COMMON_CONFIG of 1.0."""


def reading(name, mapping, where="--config"):
    """Return (config, problems, notices)."""
    return read(table.find(name), copy.deepcopy(mapping), where, table.rows())


@pytest.mark.parametrize("name", table.names())
def test_common_config_pasted_whole_is_taken_by_every_algorithm(name):
    _, problems, notices = reading(name, COMMON_CONFIG)
    assert problems == []
    assert len(notices) <= 20, notices  # a screen


@pytest.mark.parametrize("name", table.names())
def test_model_defaults_leave_images_to_the_environment(name):
    config, _, _ = reading(name, COMMON_CONFIG)
    assert (config.model.dim, config.model.grayscale, config.model.framestack) == (None, None, None)
    asked = {"dim": 84, "grayscale": False, "framestack": True}
    assert reading(name, {"model": asked})[0].model.model_dump(include=set(asked)) == asked


@pytest.mark.parametrize("name", table.names())
def test_model_defaults_with_attention_are_taken_by_every_algorithm(name):
    assert reading(name, {"model": {**MODEL_DEFAULTS, **ATTENTION}})[1] == []


@pytest.mark.parametrize("name", table.names())
def test_each_default_of_the_common_config_pasted_alone_is_taken(name):
    alone = {
        key: value for key, value in COMMON_CONFIG.items() if (name in ("A3C", "DDPPO")) <= (key != "train_batch_size")
    }
    found = {key: reading(name, {key: value})[1] for key, value in alone.items()}
    assert {key: problems for key, problems in found.items() if problems} == {}


def test_common_config_as_json_is_read_alike():
    mapping, _ = load_json_text(json.dumps(COMMON_CONFIG), "--config")
    assert reading("PPO", mapping)[0] == reading("PPO", COMMON_CONFIG)[0]


def test_common_config_keeps_the_exploration_of_an_algorithm_that_draws_no_actions():
    for name in ("DQN", "TD3"):
        config, _, notices = reading(name, COMMON_CONFIG)
        assert config.exploration_config.type == load(table.find(name).config)().exploration_config.type
        assert any(text.startswith('exploration_config {"type": "StochasticSampling"} is RLlib\'s') for text in notices)


@pytest.mark.parametrize(("name", "without"), [("R2D2", "DQN"), ("RNNSAC", "SAC"), ("RNNTD3", "TD3")])
def test_common_use_lstm_false_named_dqn_for_every_recurrent_algorithm(name, without):
    config, problems, notices = reading(name, {"model": {"use_lstm": False}})
    assert not problems and config.model.use_lstm
    assert [
        text
        for text in notices
        if text.endswith(f"this algorithm is the one with an LSTM; {without} is the same without.")
    ]


def test_other_value_than_the_common_default_is_still_refused_with_what_is_read_instead():
    assert reading("TD3", {"model": {"fcnet_hiddens": [64]}})[1] == [
        "model.fcnet_hiddens: the layers are actor_hiddens and critic_hiddens (--config)."
    ]
    assert reading("PPO", {"input": "/tmp/recorded"})[1][0].startswith(
        'input: "/tmp/recorded" is not allowed; it takes sampler or policy_server'
    )
    assert reading("PPO", {"multiagent": {"policies": {"a": {}}}})[0].multiagent.policies == {"a": {}}


@pytest.mark.parametrize(
    ("name", "given", "set_to", "said"),
    [
        (
            "SAC",
            {"lr": 0.01},
            {"optimization.actor_learning_rate": 0.01, "optimization.entropy_learning_rate": 0.01},
            "lr 0.01 (--config) sets optimization.actor_learning_rate, optimization.critic_learning_rate and "
            "optimization.entropy_learning_rate.",
        ),
        (
            "TD3",
            {"lr": 0.01, "critic_lr": 0.02},
            {"actor_lr": 0.01, "critic_lr": 0.02},
            "lr 0.01 (--config) sets actor_lr; critic_lr is given beside it.",
        ),
        (
            "DDPG",
            {"lr_schedule": [[0, 0.1], [9, 0.01]], "lr": 0.5},
            {"actor_lr": ((0, 0.1), (9, 0.01))},
            "lr_schedule [[0, 0.1], [9, 0.01]] (--config) sets actor_lr and critic_lr.",
        ),
        ("IQL", {"lr": 0.01}, {"actor_lr": 0.01, "critic_lr": 0.01, "value_lr": 0.01}, None),
    ],
)
def test_lr_sets_all_learning_rates_where_there_are_several(name, given, set_to, said):
    config, problems, notices = reading(name, given)
    assert problems == [] and (said is None or said in notices)
    for path, value in set_to.items():
        found = config
        for part in path.split("."):
            found = getattr(found, part)
        assert found == value


@pytest.mark.parametrize(
    ("name", "given", "key", "value"),
    [
        ("DQN", {"exploration_config": {"type": "ray.rllib.utils.exploration.soft_q.SoftQ"}}, "SoftQ", None),
        (
            "DQN",
            {"exploration_config": {"type": "<class 'ray.rllib.utils.exploration.epsilon_greedy.EpsilonGreedy'>"}},
            "EpsilonGreedy",
            None,
        ),
        ("DDPG", {"exploration_config": {"type": "ray.rllib.utils.exploration.Random"}}, "Random", None),
    ],
)
def test_class_path_of_an_exploration_is_the_name_it_stands_for(name, given, key, value):
    config, problems, notices = reading(name, given)
    assert problems == [] and config.exploration_config.type == key
    assert any(text.endswith(f"is read as {key}.") for text in notices)


def test_class_path_of_a_buffer_is_the_name_it_stands_for():
    path = "ray.rllib.utils.replay_buffers.multi_agent_prioritized_replay_buffer.MultiAgentPrioritizedReplayBuffer"
    config, problems, _ = reading("TD3", {"replay_buffer_config": {"type": path, "capacity": 9000}})
    assert problems == [] and config.prioritized_replay and config.buffer_size == 9000


@pytest.mark.parametrize("given", ["ray.rllib.agents.callbacks.DefaultCallbacks", {}, None])
def test_default_callbacks_are_none(given):
    config, problems, _ = reading("PPO", {"callbacks": given})
    assert (config.callbacks, problems) == (None, [])
    named = reading("PPO", {"callbacks": "<class 'ray.rllib.agents.callbacks.DefaultCallbacks'>"})
    assert (named[0].callbacks, named[1]) == (None, [])


@pytest.mark.parametrize(
    "given",
    [
        {"sample_batch_size": 7, "rollout_fragment_length": 7},
        {"min_time_s_per_iteration": 2, "min_iter_time_s": 2.0},
        {"model": {"vf_share_layers": True}, "vf_share_layers": True},
    ],
)
def test_same_key_under_two_names_with_equal_values_is_accepted(given):
    assert reading("PPO", given)[1] == []


def test_no_least_steps_of_an_iteration_is_none():
    assert reading("PPO", {"timesteps_per_iteration": 0})[0].timesteps_per_iteration == 0


def test_threads_for_the_driver_are_taken_and_said_to_reach_only_what_it_starts():
    threads = {"OMP_NUM_THREADS": "16"}
    given = {"extra_python_environs_for_driver": threads, "extra_python_environs_for_worker": threads}
    given |= {"num_workers": 2}
    config, problems, notices = reading("PPO", given)
    assert (problems, config.extra_python_environs_for_driver) == ([], threads)
    assert notices == [
        "extra_python_environs_for_driver: OMP_NUM_THREADS reaches the processes that the run starts; its own read it when "
        "drl started: type it before the command (NAME=VALUE drl train …). tf_session_args has the learner's threads "
        "(--config)."
    ]
