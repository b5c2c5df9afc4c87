"""RLlib's keys that are no keys here: old spellings that are read, and keys that are refused with the reason.

Used by ``configs.parse``. Source: RLlib 0.8 to 2.x, its COMMON_CONFIG, MODEL_DEFAULTS and the defaults of its
algorithms.
"""

ALIASES = {
    ("sample_batch_size",): ("rollout_fragment_length",),
    ("metrics_num_episodes_for_smoothing",): ("metrics_smoothing_episodes",),
    ("min_time_s_per_reporting",): ("min_iter_time_s",),
    ("min_time_s_per_iteration",): ("min_iter_time_s",),
    ("min_sample_timesteps_per_reporting",): ("timesteps_per_iteration",),
    ("min_sample_timesteps_per_iteration",): ("timesteps_per_iteration",),
    ("evaluation_duration",): ("evaluation_num_episodes",),
    ("q_model_config",): ("Q_model",),
    ("policy_model_config",): ("policy_model",),
    ("num_rollout_workers",): ("num_workers",),
    ("num_env_runners",): ("num_workers",),
    ("num_envs_per_env_runner",): ("num_envs_per_worker",),
    ("replay_buffer_config", "capacity"): ("buffer_size",),
    ("replay_buffer_config", "learning_starts"): ("learning_starts",),
    ("num_steps_sampled_before_learning_starts",): ("learning_starts",),
}
"""Other spellings with the same meaning → the key."""

WITHOUT_EFFECT = {
    ("evaluation_duration_unit",): ("episodes",),
    ("replay_buffer_config", "type"): ("ReplayBuffer", "MultiAgentReplayBuffer"),
}
"""Keys that may stand beside an alias with one of these values, which say what happens here anyway."""

_EAGER = "drl is graphs only (TensorFlow 1 style), so there is nothing to choose. Remove the key."
_INTERNAL = "internal to RLlib; drl has no such part. Remove the key."
_PYTHON = "a Python object, which a config of plain data cannot hold."
_QUOTA = (
    "Ray's memory quotas are not used. Limit the replay with buffer_size, the store with --ray-object-store-memory."
)

NEVER = {
    "framework": _EAGER,
    "eager": _EAGER,
    "use_pytorch": _EAGER,
    "eager_tracing": _EAGER,
    "eager_max_retraces": _EAGER,
    "no_eager_on_workers": _EAGER,
    "optimizer": "arguments of RLlib's old policy optimizers; drl's keys are at the top level, such as "
    "num_replay_shards.",
    "callbacks": _PYTHON,
    "custom_eval_function": _PYTHON,
    "env_task_fn": _PYTHON,
    "logger_config": _PYTHON,
    "observation_space": "the spaces are the environment's own.",
    "action_space": "the spaces are the environment's own.",
    "in_evaluation": _INTERNAL,
    "fake_sampler": _INTERNAL,
    "sample_collector": _INTERNAL,
    "_use_trajectory_view_api": _INTERNAL,
    "_fake_gpus": _INTERNAL,
    "_disable_preprocessor_api": _INTERNAL,
    "_disable_execution_plan_api": _INTERNAL,
    "collect_metrics_timeout": "statistics come with each fragment; nothing waits for them.",
    "metrics_episode_collection_timeout_s": "statistics come with each fragment; nothing waits for them.",
    "always_attach_evaluation_results": "drl always attaches the newest evaluation to each result. Remove the key.",
    "disable_env_checking": "every environment is checked once before a run; it takes one episode start and one step.",
    "extra_python_environs_for_driver": "a config sets no environment variables. Set them before the command.",
    "extra_python_environs_for_worker": "a config sets no environment variables. Set them before the command.",
    "sample_async": "workers sample in processes of their own. Remove the key.",
    "remote_worker_envs": "one Ray actor per environment costs more than it gives. Raise num_workers instead.",
    "remote_env_batch_wait_ms": "one Ray actor per environment costs more than it gives. Raise num_workers instead.",
    "memory": _QUOTA,
    "object_store_memory": _QUOTA,
    "memory_per_worker": _QUOTA,
    "object_store_memory_per_worker": _QUOTA,
    "placement_strategy": "Ray places the parts by the resources they ask for.",
    "no_done_at_end": "terminated and truncated are kept apart here, so a time limit never counts as an end. "
    "Remove the key.",
}
"""Keys of RLlib's that will not come, with the reason."""

NOT_YET = {
    "model": "SAC's networks are Q_model and policy_model.",
    "lr": "SAC's learning rates are optimization.actor_learning_rate, .critic_learning_rate and "
    ".entropy_learning_rate.",
    "lr_schedule": "write [[env_step, value], …] in optimization.actor_learning_rate and its neighbours.",
    "use_state_preprocessor": "Q_model and policy_model describe the networks.",
    "local_tf_session_args": "tf_session_args are those of the learner's session.",
    "soft_horizon": "an episode that reaches the horizon is truncated, which learning does not take for an end.",
    "monitor": "record a video with: drl rollout CHECKPOINT --video-dir DIR",
    "record_env": "record a video with: drl rollout CHECKPOINT --video-dir DIR",
    "render_env": "watch with: drl rollout CHECKPOINT --render",
    "evaluation_num_workers": "one tester scores several episodes side by side.",
    "evaluation_parallel_to_training": "",
    "evaluation_duration_unit": "evaluations are counted in episodes.",
    "batch_mode": "",
    "create_env_on_driver": "",
    "ignore_worker_failures": "lost workers are restarted.",
    "recreate_failed_workers": "lost workers are restarted.",
    "restart_failed_sub_environments": "",
    "log_sys_usage": "",
    "observation_filter": "",
    "synchronize_filters": "",
    "keep_per_episode_custom_metrics": "",
    "num_cpus_for_driver": "",
    "min_train_timesteps_per_reporting": "",
    "min_train_timesteps_per_iteration": "",
    "input": "",
    "input_config": "",
    "actions_in_input_normalized": "",
    "input_evaluation": "",
    "off_policy_estimation_methods": "",
    "postprocess_inputs": "",
    "shuffle_buffer_size": "",
    "output": "",
    "output_config": "",
    "output_compress_columns": "",
    "output_max_file_size": "",
    "multiagent": "",
    "replay_sequence_length": "",
    "replay_mode": "",
    "replay_buffer_config": "its keys are buffer_size and learning_starts here.",
    "_use_beta_distribution": "",
    "_deterministic_loss": "",
}
"""Keys of RLlib's common config and its SAC/DQN family that are not built yet, with what helps instead."""

OTHER_ALGORITHMS = {
    "DQN": "num_atoms v_min v_max noisy sigma0 dueling hiddens double_q adam_epsilon burn_in zero_init_states "
    "use_h_function",
    "DDPG and TD3": "smooth_target_policy target_noise target_noise_clip actor_hiddens actor_hidden_activation "
    "critic_hiddens critic_hidden_activation critic_lr actor_lr use_huber huber_threshold l2_reg",
    "PPO": "use_critic use_gae lambda kl_coeff sgd_minibatch_size shuffle_sequences num_sgd_iter vf_share_layers "
    "vf_loss_coeff "
    "entropy_coeff entropy_coeff_schedule clip_param vf_clip_param kl_target simple_optimizer",
    "A2C": "microbatch_size",
    "IMPALA and APPO": "vtrace vtrace_clip_rho_threshold vtrace_clip_pg_rho_threshold vtrace_drop_last_ts "
    "num_data_loader_buffers minibatch_buffer_size replay_proportion replay_buffer_num_slots learner_queue_size "
    "learner_queue_timeout max_sample_requests_in_flight_per_worker broadcast_interval num_aggregation_workers "
    "opt_type decay momentum epsilon use_kl_loss",
    "ES and ARS": "action_noise_std l2_coeff noise_stdev episodes_per_batch eval_prob return_proc_mode stepsize "
    "noise_size report_length num_rollouts rollouts_used sgd_stepsize offset",
    "MARWIL and BC": "beta vf_coeff replay_buffer_size bc_logstd_coeff moving_average_sqd_adv_norm_start "
    "moving_average_sqd_adv_norm_update_rate",
    "CQL": "bc_iters temperature num_actions lagrangian lagrangian_thresh min_q_weight",
}
"""Keys of algorithms' own."""

UNBUILT_SECTIONS = frozenset({"replay_buffer_config"})
"""Keys of NOT_YET that hold a mapping of which parts are read, so that the other parts are named one by one."""

MODEL_NOT_YET = frozenset(
    [
        "conv_filters",
        "conv_activation",
        "free_log_std",
        "no_final_linear",
        "vf_share_layers",
        "use_lstm",
        "max_seq_len",
        "lstm_cell_size",
        "lstm_use_prev_action_reward",
        "lstm_use_prev_action",
        "lstm_use_prev_reward",
        "framestack",
        "dim",
        "grayscale",
        "zero_mean",
        "custom_model",
        "custom_model_config",
        "custom_action_dist",
        "custom_preprocessor",
        "post_fcnet_hiddens",
        "post_fcnet_activation",
        "use_attention",
        "attention_num_transformer_units",
        "attention_dim",
        "attention_num_heads",
        "attention_head_dim",
        "attention_memory_inference",
        "attention_memory_training",
        "attention_position_wise_mlp_dim",
        "attention_init_gru_gate_bias",
        "attention_use_n_prev_actions",
        "attention_use_n_prev_rewards",
        "_disable_preprocessor_api",
    ]
)
"""Keys of a network (MODEL_DEFAULTS) that are not built yet."""

EXPLORATION_NOT_YET = frozenset(
    [
        "random_timesteps",
        "initial_epsilon",
        "final_epsilon",
        "epsilon_timesteps",
        "epsilon_schedule",
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
        "temperature",
        "feature_dim",
        "beta",
        "eta",
        "lr",
    ]
)
"""Arguments of exploration classes that are not built yet."""

SESSION_NOT_YET = frozenset(
    {"inter_op_thread_pool", "session_inter_op_thread_pool", "placement_period", "graph_options"}
)
"""Fields of TensorFlow's ConfigProto that are not passed on."""


def refusal(path, algorithm):
    """Return why a key of RLlib's is refused, or None if RLlib has no such key.

    ``path`` is a tuple of keys, ``algorithm`` the name of the one that runs.
    """
    section, name = path[:-1], path[-1]
    if not section:
        return _top_level(name, algorithm)
    if section[0] in ("Q_model", "policy_model") and name in MODEL_NOT_YET:
        return "not supported yet; networks are fully connected."
    if section == ("exploration_config",) and name in EXPLORATION_NOT_YET:
        hint = " Actions are uniformly random until learning_starts." if name == "random_timesteps" else ""
        return f"not supported yet.{hint}"
    if section == ("evaluation_config",) and (name in NOT_YET or name in NEVER):
        return "not supported yet; evaluations may differ from training in explore, env_config and horizon."
    if section[0] == "tf_session_args" and name in SESSION_NOT_YET:
        return "not supported yet."
    if section == ("replay_buffer_config",):
        return _because("not supported yet.", NOT_YET["replay_buffer_config"])
    return None


def _top_level(name, algorithm):
    if name in NEVER:
        return f"not supported: {NEVER[name]}"
    if name in NOT_YET:
        return _because("not supported yet.", NOT_YET[name])
    for owner, names in OTHER_ALGORITHMS.items():
        if name in names.split():
            return f"not supported yet: a key of {owner}, not of {algorithm}."
    return None


def _because(text, hint):
    return f"{text[:-1]}: {hint}" if hint else text
