"""RLlib's keys that have no effect here: read, named in a notice, and dropped.

Used by ``config.rllib.aliases``. Two kinds: a key that asks, with this value, for what happens anyway; and a key whose
every value comes to the same here, with the reason. A value of the wrong type is refused as any other. Keys that would
change what a run does are never here: they work, or ``config.rllib.refused_keys`` refuses them. Source: RLlib 0.6 to 2.x.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

ANYWAY = {
    ("lr_schedule",): (None,),
    ("entropy_coeff_schedule",): (None,),
    ("optimizer", "debug"): (False,),
    ("batch_mode",): ("truncate_episodes",),
    ("synchronize_filters",): (True,),
    ("shuffle_buffer_size",): (0,),
    ("parameter_noise",): (False,),
    ("soft_q",): (False,),
    ("per_worker_exploration",): (False,),
    ("num_learner_workers",): (0, 1),
    ("num_learners",): (0, 1),
    ("num_gpus_per_learner_worker",): (0,),
    ("grad_clip_by",): ("global_norm",),
    ("_separate_vf_optimizer",): (False,),
    ("replay_buffer_config", "replay_burn_in"): (0,),
    ("replay_buffer_config", "replay_sequence_length"): (1, -1),
    ("monitor",): (False,),
    ("record_env",): (False, None),
    ("render_env",): (False, None),
    ("no_done_at_end",): (False,),
    ("soft_horizon",): (False,),
    ("compress_observations",): (False,),
    ("logger_config",): (None,),
    ("observation_space",): (None,),
    ("action_space",): (None,),
    ("in_evaluation",): (False,),
    ("fake_sampler",): (False,),
    ("sample_collector",): (None,),
    ("memory",): (0,),
    ("object_store_memory",): (0,),
    ("object_store_memory_per_worker",): (0,),
    ("remote_worker_envs",): (False,),
    ("keep_per_episode_custom_metrics",): (False,),
    ("restart_failed_sub_environments",): (True,),
    ("vtrace_drop_last_ts",): (False,),
    ("input_evaluation",): ([],),
    ("off_policy_estimation_methods",): ([], {}, None),
    ("evaluation_config", "input"): ("sampler",),
    ("replay_sequence_length",): (1,),
    ("_fake_gpus",): (False,),
    ("distributed_data_parallel_optimizer",): (False,),
    ("gumbel_softmax_temperature",): (1, 1.0),
    ("replay_ratio",): (0, 0.0),
    ("_use_beta_distribution",): (False,),
    ("_deterministic_loss",): (False,),
    ("_disable_preprocessor_api",): (False,),
    ("Q_model", "custom_model"): (None,),
    ("Q_model", "custom_model_config"): ({},),
    ("policy_model", "custom_model"): (None,),
    ("policy_model", "custom_model_config"): ({},),
    ("model", "custom_action_dist"): (None,),
    ("model", "custom_preprocessor"): (None,),
    ("model", "use_attention"): (False,),
    ("model", "use_lstm"): (False,),
    ("model", "free_log_std"): (False,),
    ("model", "_time_major"): (False,),
    ("model", "custom_options"): ({}, -1),
    ("model", "no_final_linear"): (False,),
    ("model", "lstm_use_prev_action_reward"): (False, -1),
    ("model", "lstm_use_prev_action"): (False,),
    ("model", "lstm_use_prev_reward"): (False,),
    ("model", "post_fcnet_hiddens"): ([],),
    ("model", "_disable_preprocessor_api"): (False,),
}
"""Key → the values with which it asks for what happens here anyway."""

IN_EVOLUTION = {("batch_mode",): ("complete_episodes",)}
"""The same where whole weights are tried, in place of what ``ANYWAY`` and ``IDLE`` say: episodes are played to their end."""


class Idle(NamedTuple):
    """Why a key has no effect, and what its values are: ``kinds`` (types), or ``words`` that it takes."""

    why: str
    kinds: tuple[type, ...] = (bool,)
    words: tuple[str, ...] = ()


GRAPHS = "drl always uses TensorFlow-1-style graphs, with hundreds of updates in one call"
_EVERY_WORKER = "workers are separate processes and sample while the learner learns"
_NOTHING_WAITS = "statistics arrive with each fragment and are never waited for"
_SHARDS = "only num_replay_shards sets the number of replay shards, which stay on the run's own machine"
_IN_MEMORY = "every policy is held in memory"
_INTERNAL = "it selects between internal components of RLlib"

_NO_LSTM = "it is for an LSTM, which this network does not have"
_NO_ATTENTION = "it is for use_attention, which this network does not have"
_ATTENTION = (
    *("num_transformer_units", "dim", "num_heads", "head_dim", "memory_inference", "memory_training"),
    *("position_wise_mlp_dim", "init_gru_gate_bias", "use_n_prev_actions", "use_n_prev_rewards"),
)

IDLE = {
    ("framework",): Idle(GRAPHS, (), ("tf", "tf2", "tfe", "torch")),
    ("eager",): Idle(GRAPHS),
    ("use_pytorch",): Idle(GRAPHS),
    ("eager_tracing",): Idle(GRAPHS),
    ("no_eager_on_workers",): Idle(GRAPHS),
    ("eager_max_retraces",): Idle(GRAPHS, (int, type(None))),
    ("batch_mode",): Idle(
        "learning does not depend on where fragments end; they only determine when new weights are adopted",
        (),
        ("truncate_episodes", "complete_episodes"),
    ),
    ("sample_async",): Idle(_EVERY_WORKER),
    ("max_requests_in_flight_per_sampler_worker",): Idle(
        "each request to a worker is sized by what this algorithm learns from", (int,)
    ),
    ("enable_async_evaluation",): Idle("evaluations run in parallel with training, and a lost tester is restarted"),
    ("remote_env_batch_wait_ms",): Idle(
        "the environments of a worker step in parallel, and all of them are awaited", (int, float)
    ),
    ("collect_metrics_timeout",): Idle(_NOTHING_WAITS, (int, float)),
    ("metrics_episode_collection_timeout_s",): Idle(_NOTHING_WAITS, (int, float)),
    ("always_attach_evaluation_results",): Idle("every result includes the newest evaluation"),
    ("create_env_on_driver",): Idle(
        "a run tests its environment once in its own process; evaluations construct their own"
    ),
    ("placement_strategy",): Idle(
        "Ray places actors by the resources they request; those with state stay on the run's own machine",
        (),
        ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"),
    ),
    ("postprocess_inputs",): Idle("advantages and n-step returns are always computed from the recorded rewards"),
    ("simple_optimizer",): Idle("only num_gpus sets the number of towers over which a batch is split"),
    ("num_data_loader_buffers",): Idle("the learner always loads the next batch during an update", (int,)),
    ("num_multi_gpu_tower_stacks",): Idle("the learner always loads the next batch during an update", (int,)),
    ("disable_env_checking",): Idle("every environment is checked once before a run: one reset and one step"),
    ("use_state_preprocessor",): Idle("images pass through the convolutions of model in any case"),
    ("keep_local_weights_in_sync",): Idle("the run's own process holds no weights that would have to be kept in sync"),
    ("torch_distributed_backend",): Idle(
        "gradients travel through Ray's object store", (), ("gloo", "nccl", "mpi", "ucc")
    ),
    ("optimizer", "grads_per_step"): Idle("each gradient is applied as it arrives", (int,)),
    ("replay_buffer_config", "storage_unit"): Idle(
        "the replay buffer stores steps and samples what the algorithm needs",
        (),
        ("timesteps", "sequences", "fragments", "episodes"),
    ),
    ("replay_buffer_config", "no_local_replay_buffer"): Idle(_SHARDS),
    ("replay_buffer_config", "replay_buffer_shards_colocated_with_driver"): Idle(_SHARDS),
    ("replay_buffer_config", "_enable_replay_buffer_api"): Idle(_INTERNAL),
    ("multiagent", "policy_map_capacity"): Idle(_IN_MEMORY, (int,)),
    ("multiagent", "policy_map_cache"): Idle(_IN_MEMORY, (str, type(None))),
    ("_use_trajectory_view_api",): Idle(_INTERNAL),
    ("model", "vf_share_layers"): Idle("the networks of this algorithm share no layers"),
    ("model", "max_seq_len"): Idle(_NO_LSTM, (int,)),
    ("model", "lstm_cell_size"): Idle(_NO_LSTM, (int,)),
    **{("model", f"attention_{name}"): Idle(_NO_ATTENTION, (int, float)) for name in _ATTENTION},
    ("_disable_execution_plan_api",): Idle(_INTERNAL),
    ("enable_connectors",): Idle(_INTERNAL),
    ("_enable_rl_module_api",): Idle(_INTERNAL),
    ("_enable_learner_api",): Idle(_INTERNAL),
    ("_tf_policy_handles_more_than_one_loss",): Idle(_INTERNAL),
    ("_enable_new_api_stack",): Idle(_INTERNAL),
    ("enable_rl_module_and_learner",): Idle(_INTERNAL),
    ("num_cpus_per_learner_worker",): Idle("the learner is part of the run's own process", (int, float)),
}
"""Key → why every value of it comes to the same here."""


def asks_for_nothing(values: Iterable[Any], value: Any) -> bool:
    """Return whether ``value`` is one of ``values``, type included."""
    return any(type(one) is type(value) and one == value for one in values)


def fits(idle: Idle, value: Any) -> bool:
    """Return whether ``value`` is one that such a key takes."""
    if idle.words:
        return isinstance(value, str) and value in idle.words
    return isinstance(value, idle.kinds) and (bool in idle.kinds or not isinstance(value, bool))


def taken(idle: Idle) -> str:
    """Return in words which values such a key takes."""
    if idle.words:
        return "one of " + ", ".join(map(repr, idle.words))
    return "true or false" if bool in idle.kinds else "a number" + ", or null" * (type(None) in idle.kinds)
