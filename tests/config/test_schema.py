"""The schemas of all algorithms: every key is documented, keeps its contract default, refuses what is not of its kind."""

import json

import pytest
from pydantic import ValidationError

from drl_cli.algorithms import table
from drl_cli.algorithms.sac import SACConfig
from drl_cli.config.key_description import allowed, leaves
from drl_cli.config.schema import Section, default, key
from drl_cli.config.sections.common import bundles, min_iter_seconds
from drl_cli.config.sections.replay import intensity
from drl_cli.config.sections.resources import gpus
from drl_cli.extras import load

LEAVES = list(leaves(SACConfig))
SCHEMAS = {row.name: load(row.config) for row in table.built_in()}

KEYS_OF_EXPLORATION = (
    "eta",
    "lr",
    "feature_dim",
    "random_timesteps",
    "hold_steps",
    "initial_epsilon",
    "final_epsilon",
    "epsilon_timesteps",
    "epsilon_schedule",
    "temperature",
    "stddev",
    "initial_scale",
    "final_scale",
    "scale_timesteps",
    "scale_schedule",
    "ou_theta",
    "ou_sigma",
    "ou_base_scale",
    "initial_stddev",
    "sub_exploration",
    "sde_sample_freq",
)

_ENSEMBLE = {"num_critics": 2, "target_critics": None, "policy_q": None, "critic_dropout": 0.0}
DEFAULTS = {
    "num_workers": 0,
    "num_envs_per_worker": 4,
    "rollout_fragment_length": 25,
    "train_batch_size": 128,
    "gamma": 0.99,
    "env": None,
    "env_config": {},
    "env_timeout_s": 300.0,
    "fresh_envs": False,
    "multiagent.policies": {},
    "multiagent.policy_mapping": {},
    "multiagent.policy_mapping_fn": None,
    "multiagent.policies_to_train": None,
    "multiagent.observation_fn": None,
    "multiagent.count_steps_by": "env_steps",
    "multiagent.replay_mode": "independent",
    "multiagent.copies": None,
    "multiagent.mode": None,
    "multiagent.self_play.opponents": 0,
    "multiagent.self_play.scripted": [],
    "multiagent.self_play.own_share": 0.5,
    "multiagent.self_play.freeze_interval": 20000,
    "multiagent.self_play.freeze_win_rate": None,
    "multiagent.self_play.choose": "uniform",
    "multiagent.self_play.priority_power": 2.0,
    "multiagent.self_play.win_window": 100,
    "multiagent.self_play.evaluate_against": ["random"],
    "horizon": None,
    "normalize_actions": True,
    "clip_actions": True,
    "clip_rewards": None,
    "no_done_at_end": False,
    "soft_horizon": False,
    "synchronize_filters": True,
    "broadcast_dtype": "float32",
    "remote_worker_envs": False,
    "record_env": False,
    "render_env": False,
    "recreate_failed_workers": None,
    "ignore_worker_failures": False,
    "observation_filter": "NoFilter",
    "reward_scaling": False,
    "preprocessor_pref": "deepmind",
    "input": "sampler",
    "input_config.format": "json",
    "input_config.paths": None,
    "shuffle_buffer_size": 0,
    "actions_in_input_normalized": False,
    "input_evaluation": [],
    "input_evaluation_num_episodes": 200,
    "log_level": "WARN",
    "tf_session_args.intra_op_parallelism_threads": 1,
    "tf_session_args.inter_op_parallelism_threads": 1,
    "tf_session_args.use_per_session_threads": False,
    "tf_session_args.allow_soft_placement": True,
    "tf_session_args.log_device_placement": False,
    "tf_session_args.isolate_session_state": False,
    "tf_session_args.operation_timeout_in_ms": 0,
    "tf_session_args.gpu_options.allow_growth": True,
    "tf_session_args.gpu_options.per_process_gpu_memory_fraction": 0.0,
    "tf_session_args.device_count.CPU": 1,
    "tf_session_args.device_count.GPU": None,
    "seed": None,
    "explore": True,
    "output": None,
    "output_compress_columns": ["obs", "new_obs"],
    "output_max_file_size": 67_108_864,
    "exploration_config.type": "StochasticSampling",
    **{f"exploration_config.{name}": None for name in KEYS_OF_EXPLORATION},
    "evaluation_interval": 5,
    "evaluation_num_episodes": 10,
    "evaluation_config.explore": False,
    "evaluation_config.env_config": {},
    "evaluation_config.horizon": None,
    "evaluation_duration_unit": "episodes",
    "custom_eval_function": None,
    "evaluation_num_workers": 0,
    "evaluation_parallel_to_training": None,
    "evaluation_max_steps": None,
    "evaluation_confirm_episodes": 50,
    "evaluation_hold": 0,
    "lr_factor_by_return": None,
    "metrics_smoothing_episodes": 100,
    "callbacks": None,
    "env_wrappers": [],
    "env_task_fn": None,
    "policy_server.address": "127.0.0.1",
    "policy_server.port": 9900,
    "policy_server.token_file": None,
    "policy_server.episode_timeout_s": 60.0,
    "min_iter_time_s": None,
    "timesteps_per_iteration": 1000,
    "min_train_timesteps_per_iteration": 0,
    "log_sys_usage": True,
    "num_gpus": 0.0,
    "num_cpus_for_driver": 1.0,
    "memory_per_worker": 0,
    "extra_python_environs_for_driver": {},
    "extra_python_environs_for_worker": {},
    "num_cpus_per_worker": 1.0,
    "num_gpus_per_worker": 0.0,
    "custom_resources_per_worker": {},
    "num_replay_shards": 0,
    "custom_resources_for_replay": {},
    "memory_for_replay": 0,
    "learner_actor": False,
    "custom_resources_for_learner": {},
    "buffer_size": 1_000_000,
    "learning_starts": 1500,
    "n_step": 3,
    "training_intensity": None,
    "prioritized_replay": False,
    "prioritized_replay_alpha": 0.6,
    "prioritized_replay_beta": 0.4,
    "final_prioritized_replay_beta": 0.4,
    "prioritized_replay_beta_annealing_timesteps": 20_000,
    "prioritized_replay_eps": 1e-6,
    "worker_side_prioritization": False,
    "hindsight_goals": 0,
    "hindsight_strategy": "future",
    "compress_observations": False,
    "store_buffer_in_checkpoints": True,
    "updates_per_call": 50,
    "publish_every": 50,
    "xla": None,
    "checkpoint_compress": True,
    "twin_q": True,
    **_ENSEMBLE,
    "Q_model.fcnet_hiddens": [64, 64],
    "Q_model.fcnet_activation": "relu",
    "Q_model.layer_norm": False,
    "Q_model.residual_blocks": False,
    "policy_model.fcnet_hiddens": [64, 64],
    "policy_model.fcnet_activation": "relu",
    "policy_model.layer_norm": False,
    "policy_model.residual_blocks": False,
    "tau": 0.01,
    "initial_alpha": 0.2,
    "target_entropy": "auto",
    "backup_entropy": True,
    "optimization.actor_learning_rate": 1e-3,
    "optimization.critic_learning_rate": 1e-3,
    "optimization.entropy_learning_rate": 1e-3,
    "grad_clip": None,
    "target_network_update_freq": 0,
    "policy_delay": 1,
    "policy_average": 0.0,
    "use_sde": False,
    "log_std_init": -3.0,
    "target_entropy_fraction": 0.3,
    "model.custom_model": None,
    "model.custom_preprocessor": None,
    "model.custom_model_config": {},
    "model.conv_filters": None,
    "model.conv_activation": "relu",
    "model.dim": None,
    "model.grayscale": None,
    "model.zero_mean": True,
    "model.framestack": None,
}

_SOFT = {
    *_ENSEMBLE,
    *(
        f"{net}.{name}"
        for net in ("Q_model", "policy_model")
        for name in ("fcnet_hiddens", "fcnet_activation", "layer_norm", "residual_blocks")
    ),
    *(f"optimization.{part}_learning_rate" for part in ("actor", "critic", "entropy")),
    "initial_alpha",
    "target_entropy",
    "target_entropy_fraction",
    "backup_entropy",
    "use_sde",
    "log_std_init",
}
_DDPG = {
    "prioritized_replay": True,
    "exploration_config.type": "OrnsteinUhlenbeckNoise",
    "exploration_config.final_scale": 1.0,
    "twin_q": False,
    "smooth_target_policy": False,
    "target_noise": 0.2,
    "target_noise_clip": 0.5,
    "actor_hiddens": [64, 64],
    "actor_hidden_activation": "relu",
    "critic_hiddens": [64, 64],
    "critic_hidden_activation": "relu",
    "layer_norm": False,
    "residual_blocks": False,
    "actor_lr": 1e-3,
    "critic_lr": 1e-3,
    "use_huber": False,
    "huber_threshold": 1.0,
    "l2_reg": 1e-6,
}
_TD3 = {
    "twin_q": True,
    "policy_delay": 2,
    "smooth_target_policy": True,
    "l2_reg": 0.0,
    "train_batch_size": 100,
    "prioritized_replay": False,
    "exploration_config.type": "GaussianNoise",
    "exploration_config.stddev": 0.1,
}
_VALUES = {
    "buffer_size": 50_000,
    "learning_starts": 1000,
    "train_batch_size": 64,
    "exploration_config.type": "EpsilonGreedy",
    "exploration_config.initial_epsilon": 1.0,
    "exploration_config.final_epsilon": 0.02,
    "exploration_config.epsilon_timesteps": 10_000,
    "model.fcnet_hiddens": [64, 64],
    "model.fcnet_activation": "relu",
    "model.layer_norm": False,
    "model.residual_blocks": False,
    "tau": 1.0,
    "target_network_update_freq": 500,
    "hiddens": [64],
    "noisy": False,
    "sigma0": 0.5,
    "lr": 5e-4,
    "adam_epsilon": 1e-8,
}
_ATOMS = {"grad_clip": 40.0, "num_atoms": 1, "v_min": -10.0, "v_max": 10.0}
_DQN = {**_VALUES, **_ATOMS, "prioritized_replay": True, "dueling": True, "double_q": True}
_SIMPLE_Q = {"n_step": 1, "prioritized_replay": False, "dueling": False, "double_q": False, "hiddens": []}
_QRDQN = {"n_quantiles": 50, "dueling": False, "double_q": False}
_APEX = {
    "num_workers": 2,
    "num_replay_shards": 1,
    "buffer_size": 200_000,
    "learning_starts": 2000,
    "train_batch_size": 128,
    "prioritized_replay": True,
    "worker_side_prioritization": True,
    "training_intensity": 32.0,
    "timesteps_per_iteration": 2000,
}
_R2D2 = {
    "buffer_size": 100_000,
    "train_batch_size": 32,
    "updates_per_call": 10,
    "publish_every": 10,
    "grad_clip": 40.0,
    "dueling": True,
    "double_q": True,
    "model.use_lstm": True,
    "model.lstm_cell_size": 64,
    "model.max_seq_len": 20,
    "burn_in": 0,
    "replay_sequence_length": None,
    "zero_init_states": False,
    "use_h_function": True,
    "h_function_epsilon": 1e-3,
    "prioritized_replay_eta": 0.9,
}
_SEQUENCES = {
    name: value
    for name, value in _R2D2.items()
    if name in ("buffer_size", "train_batch_size", "updates_per_call", "publish_every")
    or name.startswith(("model.", "replay_seq", "zero_", "prior"))
}
_SEQUENCES |= {"learning_starts": 1000, "burn_in": 5}
_LADDER = dict.fromkeys(name for name in _VALUES if name.startswith("exploration_config."))

_WINDOWS = {
    "n_step",
    "worker_side_prioritization",
    "hindsight_goals",
    "hindsight_strategy",
    "twin_q",
    "tau",
    "target_network_update_freq",
    "policy_delay",
    "policy_average",
    *(name for name in DEFAULTS if "prioritized_replay" in name),
}
_REPLAY = {
    *_WINDOWS,
    "input_config.format",
    "input_config.paths",
    "shuffle_buffer_size",
    "actions_in_input_normalized",
    "input_evaluation",
    "input_evaluation_num_episodes",
    "buffer_size",
    "learning_starts",
    "training_intensity",
    "compress_observations",
    "store_buffer_in_checkpoints",
    "num_replay_shards",
    "custom_resources_for_replay",
    "memory_for_replay",
    "updates_per_call",
    "publish_every",
}
_IMITATION = {
    "learning_starts": 0,
    "rollout_fragment_length": 200,
    "train_batch_size": 512,
    "training_intensity": 1.0,
    "updates_per_call": 100,
    "timesteps_per_iteration": 51_200,
    "evaluation_interval": 1,
    "lr": 1e-3,
    "bc_logstd_coeff": 0.0,
    "model.fcnet_hiddens": [64, 64],
    "model.fcnet_activation": "tanh",
    "model.layer_norm": False,
    "model.residual_blocks": False,
    "model.free_log_std": False,
}
_RECORDED = {
    "n_step": 1,
    "evaluation_interval": 1,
    "learning_starts": 0,
    "rollout_fragment_length": 200,
    "training_intensity": 1.0,
    "timesteps_per_iteration": 100_000,
}
_MARWIL = {
    "beta": 1.0,
    "vf_coeff": 1.0,
    "vf_share_layers": False,
    "max_advantage_weight": 20.0,
    "moving_average_sqd_adv_norm_start": None,
    "moving_average_sqd_adv_norm_update_rate": 0.01,
}
_SDE = {"use_sde": False, "log_std_init": -2.0}
_ON_POLICY = {
    "num_envs_per_worker": 8,
    "rollout_fragment_length": 128,
    "batch_mode": "truncate_episodes",
    "train_batch_size": 2048,
    "lr": 3e-4,
    "adam_epsilon": 1e-5,
    "grad_clip": 0.5,
    "use_critic": True,
    "use_gae": True,
    "lambda": 0.95,
    "vf_loss_coeff": 0.5,
    "vf_share_layers": False,
    "entropy_coeff": 0.0,
    "_fake_gpus": False,
    "model.fcnet_hiddens": [64, 64],
    "model.fcnet_activation": "tanh",
    "model.layer_norm": False,
    "model.residual_blocks": False,
    "model.use_lstm": False,
    "model.lstm_cell_size": 64,
    "model.max_seq_len": 20,
    "model.free_log_std": False,
    "model.log_std_init": 0.0,
    "model.log_std_min": -20.0,
    "model.lstm_use_prev_action_reward": False,
    "model.custom_action_dist": None,
}
_PPO = {
    "num_sgd_iter": 10,
    "sgd_minibatch_size": 128,
    "shuffle_sequences": True,
    "clip_param": 0.2,
    "vf_clip_param": None,
    "kl_coeff": 0.0,
    "kl_target": 0.01,
}
_DDPPO = {"train_batch_size": None, "straggler_cutoff": 0.6}
_PQN = {
    "rollout_fragment_length": 32,
    "train_batch_size": 256,
    "lr": 1e-3,
    "grad_clip": 10.0,
    "min_iter_time_s": 0.0,
    "lambda": 0.65,
    "num_sgd_iter": 4,
    "sgd_minibatch_size": 64,
    "shuffle_sequences": True,
    "model.fcnet_activation": "relu",
    "model.layer_norm": True,
    "exploration_config.type": "EpsilonGreedy",
    "exploration_config.random_timesteps": 0,
    "exploration_config.initial_epsilon": 1.0,
    "exploration_config.final_epsilon": 0.05,
    "exploration_config.epsilon_timesteps": 20_000,
}
_NO_ACTOR = {
    *(
        "use_critic",
        "use_gae",
        "vf_loss_coeff",
        "vf_share_layers",
        "entropy_coeff",
        "model.use_lstm",
        "model.max_seq_len",
    ),
    *("model.lstm_cell_size", "model.free_log_std", "model.log_std_init", "model.log_std_min"),
    "model.lstm_use_prev_action_reward",
    "model.custom_action_dist",
}
_A2C = {
    "rollout_fragment_length": 16,
    "train_batch_size": 128,
    "lr": 1e-3,
    "entropy_coeff": 0.01,
    "standardize_advantages": False,
    "microbatch_size": None,
}
_PG = {
    "rollout_fragment_length": 64,
    "train_batch_size": 512,
    "lr": 3e-3,
    "use_gae": False,
    "standardize_advantages": True,
}
_A3C = {
    "num_workers": 2,
    "rollout_fragment_length": 20,
    "train_batch_size": None,
    "lr": 1e-3,
    "lambda": 1.0,
    "entropy_coeff": 0.01,
    "opt_type": "adam",
    "decay": 0.99,
    "momentum": 0.0,
    "epsilon": 4e-7,
    "xla": False,
}
_IMPALA = {
    "num_workers": 2,
    "rollout_fragment_length": 50,
    "train_batch_size": 800,
    "lr": 1e-3,
    "lambda": 1.0,
    "entropy_coeff": 0.01,
    "vtrace": True,
    "vtrace_clip_rho_threshold": 1.0,
    "vtrace_clip_pg_rho_threshold": 1.0,
    "num_sgd_iter": 1,
    "minibatch_buffer_size": 1,
    "replay_buffer_num_slots": 0,
    "replay_proportion": 0.0,
    "learner_queue_size": 2,
    "learner_queue_timeout": 300.0,
    "max_sample_requests_in_flight_per_worker": 2,
    "broadcast_interval": 1,
    "num_aggregation_workers": 0,
    "opt_type": "adam",
    "decay": 0.99,
    "momentum": 0.0,
    "epsilon": 4e-7,
}
_APPO = {
    "lr": 5e-4,
    "num_sgd_iter": 4,
    "clip_param": 0.4,
    "use_kl_loss": False,
    "kl_coeff": 1.0,
    "kl_target": 0.01,
    "target_update_frequency": 1,
}

_TRPO = {
    "xla": False,
    "lr": 1e-3,
    "grad_clip": None,
    "adam_epsilon": 1e-8,
    "vf_loss_coeff": 1.0,
    "max_kl": 0.02,
    "cg_iterations": 10,
    "cg_damping": 0.1,
    "fisher_fraction": 0.25,
    "line_search_steps": 10,
    "line_search_shrink": 0.8,
    "vf_iterations": 10,
    "sgd_minibatch_size": 128,
}

_EVOLUTION = {
    "gamma": 1.0,
    "num_workers": 2,
    "num_envs_per_worker": 32,
    "rollout_fragment_length": 1000,
    "observation_filter": "MeanStdFilter",
    "xla": False,
    "model.fcnet_hiddens": [],
    "model.fcnet_activation": "tanh",
    "model.layer_norm": False,
    "model.residual_blocks": False,
    "noise_stdev": 0.1,
    "noise_size": None,
    "action_noise_std": 0.0,
    "eval_prob": 0.0,
    "report_length": 10,
}
_ES = {
    "episodes_per_batch": 64,
    "train_batch_size": 0,
    "stepsize": 0.1,
    "l2_coeff": 0.005,
    "return_proc_mode": "centered_rank",
}
_ARS = {"num_rollouts": 32, "rollouts_used": 16, "sgd_stepsize": 0.1, "offset": 0.0}
_SEEN = {
    "no_done_at_end",
    "soft_horizon",
    "synchronize_filters",
    "broadcast_dtype",
    "remote_worker_envs",
    "record_env",
    "render_env",
}
_EXPLORING = {
    *_SEEN,
    "explore",
    "exploration_config.type",
    *(f"exploration_config.{name}" for name in KEYS_OF_EXPLORATION),
}

_TEAM_VALUES = {
    **_VALUES,
    "grad_clip": 10.0,
    "n_step": 1,
    "share_weights": True,
    "mixer": "qmix",
    "mixing_embed_dim": 32,
    "hypernet_hiddens": [64],
    "double_q": True,
    "model.use_lstm": False,
    "model.lstm_cell_size": 64,
    "model.max_seq_len": 20,
    "burn_in": 0,
    "replay_sequence_length": None,
    "zero_init_states": False,
    "prioritized_replay_eta": 0.9,
}
_MADDPG = {
    "train_batch_size": 256,
    "exploration_config.type": "StochasticSampling",
    "exploration_config.final_scale": None,
    "gamma": 0.95,
    "n_step": 1,
    "prioritized_replay": False,
    "share_weights": False,
    "action_reg": 0.001,
    "gumbel_temperature": 1.0,
}
_LEARNERS = {"num_learners": 1, "num_cpus_per_learner": 1.0}
_CUTOFF = {"straggler_cutoff": 1.0}
_MAPPO = {"share_weights": True, "value_normalization": True, "death_masking": True, "shared_reward": False}
_NO_STREAMS = {"hiddens", "noisy", "sigma0"}
_NO_SMOOTHING = {"huber_threshold", "l2_reg", "policy_delay", "smooth_target_policy", "use_huber"}
_NO_SMOOTHING |= {"target_noise", "target_noise_clip"}

_SERVED = {"input", *(f"policy_server.{name}" for name in ("address", "port", "token_file", "episode_timeout_s"))}

DIFFERENCES = {
    "SAC": ({}, set()),
    "TQC": (
        {"num_critics": 2, "n_quantiles": 25, "top_quantiles_to_drop_per_net": 2},
        {"twin_q", "target_entropy_fraction", "target_critics", "policy_q", "critic_dropout"},
    ),
    "RNNSAC": (_SEQUENCES, {"target_entropy_fraction", *_ENSEMBLE}),
    "RNNTD3": ({**_DDPG, **_TD3, **_SEQUENCES}, _SOFT),
    "CROSSQ": (
        {"policy_delay": 3, "bn_momentum": 0.99, "beta_1": 0.5},
        {"tau", "target_network_update_freq", "target_entropy_fraction", *_ENSEMBLE},
    ),
    "XQC": (
        {
            "num_atoms": 101,
            "v_min": -5.0,
            "v_max": 5.0,
            "tau": 0.05,
            "policy_delay": 3,
            "bn_momentum": 0.99,
            "beta_1": 0.9,
            "initial_alpha": 0.01,
            "reward_scaling": True,
        },
        {"target_entropy_fraction", *_ENSEMBLE},
    ),
    "CQL": (
        {
            **_RECORDED,
            "bc_iters": 1000,
            "temperature": 1.0,
            "num_actions": 4,
            "lagrangian": False,
            "lagrangian_thresh": 5.0,
            "min_q_weight": 5.0,
            "backup_entropy": False,
        },
        set(),
    ),
    "IQL": (
        {
            **{
                name: value
                for name, value in _DDPG.items()
                if name.endswith(("hiddens", "activation", "layer_norm", "residual_blocks", "_lr"))
            },
            **_RECORDED,
            "expectile": 0.7,
            "beta": 3.0,
            "max_advantage_weight": 100.0,
            "value_lr": 1e-3,
        },
        {*_SOFT, "policy_delay"},
    ),
    "TD3BC": (
        {**_DDPG, **_TD3, **_RECORDED, "observation_filter": "MeanStdFilter", "train_batch_size": 128, "alpha": 2.5},
        _SOFT,
    ),
    "DDPG": (_DDPG, _SOFT),
    "TD3": ({**_DDPG, **_TD3}, _SOFT),
    "APEX_DDPG": (
        {
            **_DDPG,
            **_APEX,
            "exploration_config.type": "PerWorkerOrnsteinUhlenbeckNoise",
            "exploration_config.final_scale": None,
        },
        _SOFT,
    ),
    "DQN": (_DQN, {*_SOFT, "twin_q", "policy_delay"}),
    "QRDQN": ({**_VALUES, **_QRDQN}, {*_SOFT, "twin_q", "policy_delay"}),
    "SimpleQ": ({**_DQN, **_SIMPLE_Q}, {*_SOFT, "twin_q", "policy_delay"}),
    "APEX": (
        {**_DQN, **_APEX, **_LADDER, "exploration_config.type": "PerWorkerEpsilonGreedy"},
        {*_SOFT, "twin_q", "policy_delay"},
    ),
    "R2D2": ({**_VALUES, **_R2D2}, {*_SOFT, "twin_q", "policy_delay"}),
    "PQN": ({**_ON_POLICY, **_PQN}, {*_SOFT, *_REPLAY - {"policy_average"}, *_NO_ACTOR}),
    "QMIX": (_TEAM_VALUES, {*_SOFT, *_NO_STREAMS, "twin_q", "policy_delay"}),
    "VDN": ({**_TEAM_VALUES, "mixer": "vdn"}, {*_SOFT, *_NO_STREAMS, "twin_q", "policy_delay"}),
    "MADDPG": ({**_DDPG, **_MADDPG}, {*_SOFT, *_NO_SMOOTHING}),
    "MAPPO": (
        {**_ON_POLICY, **_CUTOFF, **_LEARNERS, **_PPO, **_SDE, **_MAPPO},
        {*_SOFT - {*_SDE}, *_REPLAY - {"policy_average"}},
    ),
    "PG": ({**_ON_POLICY, **_CUTOFF, **_LEARNERS, **_PG}, {*_SOFT, *_REPLAY - {"policy_average"}}),
    "A2C": ({**_ON_POLICY, **_CUTOFF, **_LEARNERS, **_A2C, **_SDE}, {*_SOFT - {*_SDE}, *_REPLAY - {"policy_average"}}),
    "A3C": ({**_ON_POLICY, **_A3C}, {*_SOFT, *_REPLAY}),
    "PPO": ({**_ON_POLICY, **_CUTOFF, **_LEARNERS, **_PPO, **_SDE}, {*_SOFT - {*_SDE}, *_REPLAY - {"policy_average"}}),
    "DDPPO": ({**_ON_POLICY, **_PPO, **_SDE, **_DDPPO}, {*_SOFT - {*_SDE}, *_REPLAY - {"policy_average"}}),
    "TRPO": ({**_ON_POLICY, **_CUTOFF, **_TRPO, **_SDE}, {*_SOFT - {*_SDE}, *_REPLAY - {"policy_average"}}),
    "IMPALA": ({**_ON_POLICY, **_LEARNERS, **_IMPALA}, {*_SOFT, *_REPLAY - {"policy_average"}}),
    "APPO": ({**_ON_POLICY, **_LEARNERS, **_IMPALA, **_APPO}, {*_SOFT, *_REPLAY - {"policy_average"}}),
    "MARWIL": ({**_IMITATION, **_MARWIL}, {*_SOFT, *_WINDOWS}),
    "BC": (_IMITATION, {*_SOFT, *_WINDOWS}),
    "ES": ({**_EVOLUTION, **_ES}, {*_SOFT, *_REPLAY, *_EXPLORING, *_SERVED, "grad_clip"}),
    "ARS": ({**_EVOLUTION, **_ARS}, {*_SOFT, *_REPLAY, *_EXPLORING, *_SERVED, "grad_clip", "train_batch_size"}),
}
"""What each algorithm has in other values than SAC or in addition, and which of SAC's keys it lacks."""
_BLOCKS = {"deterministic": False, "num_env_blocks": 4}
for _name in ("SAC", "DQN", "SimpleQ", "APEX", "CQL", "PPO", "MAPPO", "IMPALA", "APPO"):
    DIFFERENCES[_name][0].update(_BLOCKS)
DIFFERENCES["ES"][0]["deterministic"] = False


def nested(path, value):
    """Return the mapping in which only the key at ``path`` is set."""
    for name in reversed(path):
        value = {name: value}
    return value


def at(data, path):
    for name in path:
        data = data[name]
    return data


@pytest.mark.parametrize("name", SCHEMAS)
def test_defaults_are_those_of_the_contract(name):
    data = SCHEMAS[name]().model_dump(mode="json", by_alias=True)
    others, without = DIFFERENCES[name]
    wanted = {path: value for path, value in {**DEFAULTS, **others}.items() if path not in without}
    assert {".".join(path): at(data, path) for path, _ in leaves(SCHEMAS[name])} == wanted


@pytest.mark.parametrize("name", SCHEMAS)
def test_key_has_a_meaning_and_says_what_it_allows(name):
    wrong = [
        path
        for path, field in leaves(SCHEMAS[name])
        if len(field.description) <= 20 or not field.description.endswith(".") or len(allowed(field)) < 4
    ]
    assert wrong == []


@pytest.mark.parametrize("name", SCHEMAS)
def test_key_that_differs_from_rllib_says_why(name):
    wrong = []
    for path, field in leaves(SCHEMAS[name]):
        notes = field.json_schema_extra
        says = "rllib" in notes and notes["rllib"] != field.default and len(notes["why"]) > 15
        if not says and {"rllib", "why"} & set(notes):
            wrong.append(path)
    assert wrong == []


@pytest.mark.parametrize("name", SCHEMAS)
def test_key_that_needs_another_names_one_of_the_config(name):
    needs = [field.json_schema_extra["needs"] for _, field in leaves(SCHEMAS[name])]
    assert {need[0] for need in needs if need} <= set(SCHEMAS[name].model_fields)


NEVER_VALID = {
    "text that is no choice": "~~",
    "a mapping of lists": {"x": []},
    "a list of nulls": [None],
    "a huge number": 1e300,
}


def accepts(schema, path, value):
    try:
        schema.model_validate(nested(path, value))
    except ValidationError:
        return False
    return True


ANY_TEXT = ("env", "input", "output", "record_env", "custom_model", "callbacks", "custom_eval_function") + (
    "custom_action_dist",
    "custom_preprocessor",
    "policy_mapping_fn",
    "observation_fn",
    "env_task_fn",
    "address",
    "token_file",
)
"""Keys whose value is a path or a name that no schema knows."""


@pytest.mark.parametrize("name", SCHEMAS)
def test_key_refuses_every_wrong_type(name):
    accepted = []
    for path, _ in leaves(SCHEMAS[name]):
        for value in NEVER_VALID.values():
            plain_mapping = path[-1] == "env_config" and isinstance(value, dict)
            text = path[-1] in ANY_TEXT and isinstance(value, str)
            if not plain_mapping and not text and accepts(SCHEMAS[name], path, value):
                accepted.append((path, value))
    assert accepted == []


def wrong_kind(path, value):
    """Return a value that Python takes for one like ``value`` and that a config must not: true for 1, 1 for true."""
    if isinstance(value, bool):
        return 1
    maybe_bool = path[-1] in ("clip_rewards", "framestack", "grayscale", "record_env", "xla")
    maybe_bool = maybe_bool or path[-1] in ("recreate_failed_workers", "evaluation_parallel_to_training")
    return object() if maybe_bool or isinstance(value, (str, list, dict)) else True


@pytest.mark.parametrize("name", SCHEMAS)
def test_number_refuses_a_bool_and_bool_refuses_a_number(name):
    schema = SCHEMAS[name]
    data = schema().model_dump(mode="json", by_alias=True)
    accepted = [path for path, _ in leaves(schema) if accepts(schema, path, wrong_kind(path, at(data, path)))]
    assert accepted == []


@pytest.mark.parametrize("name", SCHEMAS)
def test_defaults_are_valid_and_survive_json(name):
    config = SCHEMAS[name]()
    assert SCHEMAS[name].model_validate(json.loads(json.dumps(config.model_dump(mode="json", by_alias=True)))) == config


class Parent(Section):
    """A key with type, bounds, unit and a note."""

    a: int = key(1, "A key of the parent.", "steps", ge=0, le=5, rllib=2, why="because of this and that")
    b: int | None = key(None, "Another key of the parent.", ge=0)


class Child(Parent, defaults={"a": default(4)}):
    """Another default."""


class Grandchild(Child, defaults={"b": default(3, rllib=7, why="because of that and this")}):
    """One more, and a key of its own."""

    c: bool = key(False, "A key of the child.")


def test_another_default_keeps_type_bounds_meaning_and_unit():
    assert [(one().a, one().b) for one in (Parent, Child, Grandchild)] == [(1, None), (4, None), (4, 3)]
    field = Grandchild.model_fields["a"]
    assert (field.description, allowed(field)) == ("A key of the parent.", "a whole number in [0, 5]")
    assert field.json_schema_extra == {"unit": "steps", "allowed": None, "needs": None}
    assert Grandchild.model_fields["b"].json_schema_extra["rllib"] == 7
    assert not accepts(Grandchild, ("a",), 6) and not accepts(Grandchild, ("b",), -1)
    assert Grandchild(c=True).c is True and Parent.model_fields["a"].default == 1


def test_config_survives_json_unchanged():
    config = SACConfig.model_validate(
        {"optimization": {"actor_learning_rate": [[0, 1e-3], [100000, 0]]}, "buffer_size": 1e5}
    )
    assert (
        SACConfig.model_validate(json.loads(json.dumps(config.model_dump(mode="json", by_alias=True), allow_nan=False)))
        == config
    )
    assert config.optimization.actor_learning_rate == ((0, 0.001), (100000, 0.0))


def test_whole_number_written_as_float_is_an_int():
    config = SACConfig.model_validate({"buffer_size": 1e6})
    assert config.buffer_size == 1_000_000 and isinstance(config.buffer_size, int)


def test_config_is_frozen():
    with pytest.raises(ValidationError):
        SACConfig().gamma = 0.5
    assert SACConfig().gamma == 0.99


@pytest.mark.parametrize(
    ("given", "kept"), [(None, None), (True, True), (False, False), (1, 1.0), (0.5, 0.5), ([-1, 2], (-1.0, 2.0))]
)
def test_clip_rewards_takes_each_of_its_forms(given, kept):
    config = SACConfig.model_validate({"clip_rewards": given})
    assert config.clip_rewards == kept and isinstance(config.clip_rewards, type(kept))


@pytest.mark.parametrize("given", [0, -1, [2, 1], [1], [1, 2, 3], "sign"])
def test_clip_rewards_refuses_other_forms(given):
    with pytest.raises(ValidationError):
        SACConfig.model_validate({"clip_rewards": given})
    assert SACConfig().clip_rewards is None


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"learner_actor": True}, "needs num_workers 1 or more"),
        ({"custom_resources_for_learner": {"fast": 1}}, "only a Ray actor is placed by resources: set learner_actor"),
        ({"custom_resources_for_replay": {"big": 1}, "num_workers": 1}, "set num_replay_shards and num_workers to 1"),
        ({"memory_for_replay": 1, "num_replay_shards": 1, "num_workers": 0}, "set num_replay_shards and num_workers"),
        (
            {"memory_for_replay": 1, "num_replay_shards": 1, "num_workers": 1, "deterministic": True},
            "deterministic to false",
        ),
        ({"worker_side_prioritization": True}, "needs prioritized_replay true"),
        ({"buffer_size": 2000, "num_envs_per_worker": 501}, "need 2004 or more"),
        (
            {"buffer_size": 63, "learning_starts": 0, "num_workers": 3, "num_replay_shards": 2},
            "n_step 3 from 8 environments in each part of the replay need 64 or more",
        ),
    ],
)
def test_keys_that_contradict_are_refused(given, why):
    with pytest.raises(ValidationError, match=why):
        SACConfig.model_validate(given)


@pytest.mark.parametrize(
    ("name", "kept", "refused"),
    [
        ("prioritized_replay_alpha", (0, 1), (-0.1, 1.1)),
        ("prioritized_replay_beta", (0, 1), (-0.1, 1.1)),
        ("final_prioritized_replay_beta", (0, 1), (-0.1, 1.1)),
        ("prioritized_replay_eps", (1e-9, 1.0), (0.0, -1e-6)),
        ("prioritized_replay_beta_annealing_timesteps", (1, 1e7), (0, -1)),
        ("num_replay_shards", (0, 64), (-1, 65)),
    ],
)
def test_key_of_the_replay_keeps_to_its_bounds(name, kept, refused):
    for value in kept:
        assert getattr(SACConfig.model_validate({name: value, "num_workers": 2}), name) == value
    for value in refused:
        with pytest.raises(ValidationError):
            SACConfig.model_validate({name: value, "num_workers": 2})


@pytest.mark.parametrize(
    "given",
    [
        {"buffer_size": 2000, "num_envs_per_worker": 500},
        {"buffer_size": 64, "learning_starts": 64, "num_workers": 3, "num_replay_shards": 2},
        {"num_replay_shards": 4},
        {"num_workers": 1, "learner_actor": True},
    ],
)
def test_keys_that_just_fit_are_taken(given):
    assert SACConfig.model_validate(given).model_fields_set == set(given)


@pytest.mark.parametrize(
    ("name", "given", "why"),
    [
        ("TQC", {"top_quantiles_to_drop_per_net": 25}, "leaves none of n_quantiles 25"),
        ("DQN", {"num_atoms": 51, "v_min": 3, "v_max": 3}, "3 is not below v_max 3"),
        ("DQN", {"noisy": True, "exploration_config": {"type": "ParameterNoise"}}, "perturb the weights"),
        ("SAC", {"use_sde": True, "exploration_config": {"type": "GaussianNoise"}}, "GaussianNoise is another one"),
        ("SAC", {"worker_side_prioritization": True, "prioritized_replay": True}, "the learner computes all of them"),
        ("SAC", {"exploration_config": {"sde_sample_freq": 8}}, "it needs use_sde: true"),
        ("TD3BC", {"worker_side_prioritization": True, "prioritized_replay": True}, "the learner computes all of them"),
        (
            "IMPALA",
            {"use_critic": False, "use_gae": False, "batch_mode": "complete_episodes"},
            "V-trace corrects values",
        ),
        ("APPO", {"replay_proportion": 0.5}, "above 0 needs replay_buffer_num_slots 1 or more to draw from"),
        ("APPO", {"num_gpus": 2.0}, "must be at most 1"),
        ("APPO", {"num_learners": 2, "num_workers": 1}, "2: APPO has one learner; PPO"),
        ("TRPO", {"sgd_minibatch_size": 9, "train_batch_size": 8}, "9 is more than train_batch_size 8"),
        ("PPO", {"sgd_minibatch_size": 9, "model": {"use_lstm": True}}, "less than one sequence, model.max_seq_len 20"),
        ("PPO", {"clip_param": None}, "null needs a kl_coeff above 0"),
        ("PPO", {"use_sde": True, "model": {"use_lstm": True}}, "true fits no LSTM"),
        ("PPO", {"use_sde": True, "model": {"free_log_std": True}}, "true makes the deviations of the features"),
        ("PPO", {"model": {"custom_action_dist": "own", "log_std_min": -1}}, "is of the Gaussian, which custom_action"),
        ("PPO", {"model": {"log_std_min": 3}}, "less than or equal to 2"),
        (
            "PPO",
            {"model": {"custom_action_dist": "own", "log_std_init": -2}},
            "is of the Gaussian, which custom_action",
        ),
        ("A3C", {"model": {"log_std_min": -1, "log_std_init": -2}}, "-2 is below log_std_min"),
        ("PPO", {"use_sde": True, "model": {"log_std_init": -1}}, "that of use_sde is log_std_init"),
        ("A2C", {"exploration_config": {"sde_sample_freq": 8}}, "it needs use_sde: true"),
        ("PPO", {"num_gpus": 1.5}, "1.5 is neither a share of one GPU nor a whole number of them"),
        ("PPO", {"learner_actor": True}, "needs num_workers 1 or more"),
        ("A2C", {"num_learners": 2}, "2 needs num_workers 1 or more"),
        ("DDPPO", {"train_batch_size": 2048}, "each worker learns from its own fragment. Omit the key"),
        ("DDPPO", {"num_gpus": 1}, "1 is for a learner, and workers learn on their CPUs"),
        ("DDPPO", {"learner_actor": True, "num_workers": 1}, "true needs a learner, and workers learn themselves"),
        ("DDPPO", {"broadcast_dtype": "float16", "num_workers": 1}, "float16 is for weights that are sent to workers"),
        ("DDPPO", {"input": "policy_server"}, "workers that learn themselves step environments; use PPO"),
        ("A3C", {"broadcast_dtype": "float16"}, "float16 rounds weights that workers differentiate"),
        (
            "BC",
            {"broadcast_dtype": "float16", "input": "x.json"},
            "float16 is for workers that act, and these read files",
        ),
        ("PPO", {"num_learners": 2, "num_workers": 1, "num_gpus": 1.0}, "2 needs num_gpus 0"),
        ("PPO", {"use_critic": False}, "its estimates are made of values"),
        ("PG", {"use_critic": False}, "false needs batch_mode complete_episodes"),
        ("A2C", {"microbatch_size": 129}, "129 is not between one sequence .1. and train_batch_size 128"),
        ("A2C", {"exploration_config": {"random_timesteps": 5}}, "actions that the policy did not draw"),
        ("APEX", {"prioritized_replay": False}, "worker_side_prioritization true needs prioritized_replay true"),
    ],
)
def test_keys_of_an_algorithm_that_contradict_are_refused(name, given, why):
    with pytest.raises(ValidationError, match=why):
        SCHEMAS[name].model_validate(given)


def test_intensity_null_is_two_fifths_of_an_update_per_step():
    assert intensity(SACConfig(train_batch_size=100)) == 40.0
    assert intensity(SACConfig(training_intensity=7.0)) == 7.0


def test_towers_that_are_only_tried_take_no_gpu():
    schema = SCHEMAS["PPO"]
    assert gpus(schema.model_validate({"num_gpus": 2, "_fake_gpus": True})) == 0.0
    assert (gpus(schema(num_gpus=2.0)), gpus(SACConfig(num_gpus=0.5))) == (2.0, 0.5)


def test_min_iter_seconds_null_depends_on_workers():
    assert min_iter_seconds(SACConfig()) == 0.0
    assert min_iter_seconds(SACConfig(num_workers=2)) == 1.0
    assert min_iter_seconds(SACConfig(min_iter_time_s=3.5)) == 3.5


@pytest.mark.parametrize("name", ["BC", "MARWIL"])
def test_a_stop_of_imitation_ends_after_one_call_of_the_learner_and_not_after_two(name):
    config = SCHEMAS[name]()
    steps = config.updates_per_call * config.train_batch_size / config.training_intensity
    assert config.timesteps_per_iteration == steps


def test_other_learners_ask_for_cpus_of_their_own():
    keys = {"num_workers": 1, "num_learners": 3, "num_cpus_per_learner": 0.5}
    assert bundles(SCHEMAS["PPO"].model_validate(keys)) == [{"CPU": 1}, {"CPU": 1}, {"CPU": 0.5}, {"CPU": 0.5}]
    assert bundles(SCHEMAS["PPO"].model_validate({"num_learners": 0})) == [{"CPU": 1}]
