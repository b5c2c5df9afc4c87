"""RLlib's keys that are no keys of the algorithm that runs: why each is refused, and what helps instead.

Used by ``config.parse``. Which algorithms that run here have a key is read off their schemas. Source: RLlib 0.6 to 2.x, its
COMMON_CONFIG, MODEL_DEFAULTS and the defaults of its algorithms.
"""

from collections.abc import Iterable

from drl_cli.config.key_description import fields_of
from drl_cli.config.origins import Path
from drl_cli.config.rllib.other_libraries import KEYS, RLLIB_2, key_here
from drl_cli.config.schema import SchemaRow, Section
from drl_cli.extras import load

_ONE_STEP = "policy and value share one optimizer with learning rate lr; vf_loss_coeff weights the value loss."
_LEARNER = (
    "PPO, A2C, PG, MAPPO and IMPALA split batches over num_learners processes, DDPPO's workers learn themselves; other "
    "algorithms have one learner."
)
_INTERNAL = "internal to RLlib; drl has no equivalent. Remove the key."
_SPACES = (
    "the spaces are the environment's own; those of an external simulator are keys of env_config (drl/External-v1)."
)
_STORE = "set the size of the object store with --ray-object-store-memory."
_FILM = "its workers play perturbed policies; record the learnt one with: drl rollout CHECKPOINT --video-dir DIR"

NEVER = {
    "optimizer": "arguments of RLlib's old policy optimizers. Of them num_replay_buffer_shards is read, as num_replay_shards.",
    "logger_config": "select loggers with --logger NAME, in addition to the files of the run's folder.",
    "observation_space": _SPACES,
    "action_space": _SPACES,
    "in_evaluation": _INTERNAL,
    "fake_sampler": _INTERNAL,
    "sample_collector": _INTERNAL,
    "_disable_preprocessor_api": _INTERNAL,
    "distributed_data_parallel_optimizer": "num_learners of PPO, A2C, PG, MAPPO and IMPALA splits each batch over processes, num_gpus over GPUs.",
    "gumbel_softmax_temperature": "discrete actions are sampled from the policy with a temperature of 1. Remove "
    "the key.",
    "num_learner_workers": _LEARNER,
    "num_learners": _LEARNER,
    "_separate_vf_optimizer": _ONE_STEP,
    "_lr_vf": _ONE_STEP,
    "num_gpus_per_learner_worker": "num_gpus sets the GPUs of the learner.",
    "num_gpus_per_learner": "num_gpus sets the GPUs of the learner.",
    "memory": "Ray does not place the run's own process, so it cannot reserve memory for it. Limit the replay buffer with buffer_size.",
    "object_store_memory": _STORE,
    "object_store_memory_per_worker": _STORE,
    "keep_per_episode_custom_metrics": "custom_metrics holds mean, min and max; hist_data of callbacks is copied to hist_stats unchanged.",
    "restart_failed_sub_environments": "an environment that fails is always constructed again, and repeated failures end the run.",
    "vtrace_drop_last_ts": "the observation after the last step is available for bootstrapping, so nothing has to be dropped.",
}
"""RLlib's keys that are not planned, with the reason."""

NOT_YET = {
    "output_config": "output_max_file_size and output_compress_columns are keys next to output.",
    "replay_buffer_config": "use buffer_size, learning_starts and prioritized_replay….",
    "_use_beta_distribution": "",
    "_deterministic_loss": "",
    "td_error_loss_fn": "DQN always uses the Huber loss; DDPG and related algorithms have use_huber.",
}
"""Keys of RLlib's common config and its SAC, DDPG and DQN family that are not read, with what helps instead."""

OLD = {
    "annealing_timesteps": "exploration_config: {epsilon_timesteps: …}, or scale_timesteps for noise",
    "exploration_noise_type": "exploration_config: {type: OrnsteinUhlenbeckNoise} or {type: GaussianNoise}",
    "parameter_noise": "exploration_config: {type: ParameterNoise}",
    "soft_q": "exploration_config: {type: SoftQ}",
    "per_worker_exploration": "exploration_config: {type: PerWorkerEpsilonGreedy} or {type: PerWorkerGaussianNoise}",
    "gpu": "num_gpus: 1, or as many as there are",
}
"""Keys of RLlib before 0.8.6 whose values mean something else today, with what is written for them."""

_PLAYS = "it evaluates weights by playing episodes, which recorded experience cannot do"
_NEWEST = "it is on-policy, and recorded steps are from another policy"

INSTEAD = {
    "input": (("noise_stdev", _PLAYS),),
    "input_evaluation": (("vf_loss_coeff", _NEWEST), ("noise_stdev", _PLAYS)),
    "off_policy_estimation_methods": (("vf_loss_coeff", _NEWEST), ("noise_stdev", _PLAYS)),
    "beta": (("bc_logstd_coeff", "BC is MARWIL with a beta of 0"),),
    "replay_buffer_size": (("bc_logstd_coeff", "the capacity is counted in steps, by buffer_size"),),
    "use_gae": (("bc_logstd_coeff", "it uses Monte Carlo returns, up to the end of each episode"),),
    "lr": (
        ("stepsize", "the learning rate is stepsize"),
        ("sgd_stepsize", "the learning rate is sgd_stepsize"),
    ),
    "stepsize": (("sgd_stepsize", "the learning rate is sgd_stepsize"),),
    "sgd_stepsize": (("stepsize", "the learning rate is stepsize"),),
    "episodes_per_batch": (("num_rollouts", "num_rollouts counts directions of two episodes each"),),
    "num_rollouts": (("episodes_per_batch", "episodes_per_batch counts episodes, two for each direction"),),
    "synchronize_filters": (("noise_stdev", "its workers perturb weights that belong to one filter"),),
    "shuffle_buffer_size": (("vf_loss_coeff", _NEWEST), ("noise_stdev", _PLAYS)),
    "remote_worker_envs": (("noise_stdev", "its workers already play environments in parallel; raise num_workers"),),
    "batch_mode": (("noise_stdev", "its episodes are always complete, as with complete_episodes"),),
    "exploration_config": (("noise_stdev", "it explores by perturbing weights, with noise_stdev"),),
    "compress_observations": (
        ("vf_share_layers", "fragments are trained on as they arrive and not stored"),
        ("noise_stdev", "observations do not leave the worker"),
    ),
    "monitor": (("noise_stdev", _FILM),),
    "record_env": (("noise_stdev", _FILM),),
    "render_env": (("noise_stdev", "watch the policy with: drl rollout CHECKPOINT --render"),),
    "actor_lr": (("lr", "the learning rate is lr"),),
    "critic_lr": (("lr", "the learning rate is lr"),),
    "optimization": (("actor_lr", "the learning rates are actor_lr and critic_lr"), ("lr", "the learning rate is lr")),
    "Q_model": (
        ("critic_hiddens", "the critics' layers are critic_hiddens"),
        ("hiddens", "the layers are model.fcnet_hiddens and hiddens"),
    ),
    "policy_model": (
        ("actor_hiddens", "the policy's layers are actor_hiddens"),
        ("hiddens", "the layers are model.fcnet_hiddens and hiddens"),
    ),
    "hiddens": (
        ("Q_model", "the layers are Q_model.fcnet_hiddens and policy_model.fcnet_hiddens"),
        ("actor_hiddens", "the layers are actor_hiddens and critic_hiddens"),
    ),
    "actor_hiddens": (("policy_model", "the policy's layers are policy_model.fcnet_hiddens"),),
    "critic_hiddens": (("Q_model", "the critics' layers are Q_model.fcnet_hiddens"),),
    "twin_q": (
        ("num_critics", "set the number of critics with num_critics"),
        ("double_q", "the equivalent key is double_q"),
    ),
    "tau": (("bn_momentum", "it has no target networks"),),
    "target_network_update_freq": (("bn_momentum", "it has no target networks"),),
    "num_atoms": (("n_quantiles", "it learns n_quantiles quantiles"),),
    "fcnet_hiddens": (("actor_hiddens", "the layers are actor_hiddens and critic_hiddens"),),
    "fcnet_activation": (("actor_hiddens", "write actor_hidden_activation and critic_hidden_activation"),),
}
"""Key → for a schema with the first key of a pair, what stands there in its place."""

UNBUILT_SECTIONS = frozenset({"replay_buffer_config", "optimizer"})
"""Keys that hold a mapping of which parts are read, so that the other parts are named one by one."""

RECURRENT = ("use_lstm", "lstm_cell_size", "max_seq_len")
"""Keys of a network with a memory, which R2D2 has."""

MODEL_NOT_YET = frozenset(
    [
        "free_log_std",
        "no_final_linear",
        "vf_share_layers",
        "use_lstm",
        "max_seq_len",
        "lstm_cell_size",
        "lstm_use_prev_action_reward",
        "lstm_use_prev_action",
        "lstm_use_prev_reward",
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

OWN = ("custom_model", "custom_model_config", "custom_options")
"""Keys of a network of one's own, which stand in ``model`` alone."""

OF_ACTOR_CRITICS = "PPO, A2C, A3C, PG, TRPO, IMPALA and APPO"
"""Algorithms that take an action distribution of one's own."""

EXPLORATION_NOT_YET = frozenset(
    ["feature_net_config", "inverse_net_hiddens", "inverse_net_activation", "forward_net_hiddens"]
    + ["forward_net_activation", "beta", "embeds_dim", "k_nn", "rho", "beta_schedule", "framework"]
    + ["warmup_timesteps", "random_seed", "worker_index", "num_workers", "policy_config"]
)
"""Arguments of exploration classes that are not built (Curiosity, RE3) or that RLlib fills in itself."""

OPTIMIZER = {
    "max_weight_sync_delay": "workers take the newest weights before each fragment; publish_every counts the updates between two pushes.",
}
"""Arguments of RLlib's old policy optimizers that something here answers to."""

SESSION_NOT_YET = frozenset(
    {"inter_op_thread_pool", "session_inter_op_thread_pool", "placement_period", "graph_options"}
)
"""Fields of TensorFlow's ConfigProto that are not passed on."""


def refusal(path: Path, algorithm: str, schema: type[Section], rows: Iterable[SchemaRow] = ()) -> str | None:
    """Return why a key that ``schema`` lacks is refused, or None if neither RLlib nor another algorithm has such a key.

    ``path`` is a tuple of keys, ``algorithm`` the name of the one that runs, ``rows`` those of ``algorithms.table``.
    """
    section, name = path[:-1], path[-1]
    if not section:
        return _top_level(name, algorithm, schema, rows)
    if section[0] in ("Q_model", "policy_model") and name in OWN:
        return "one network of your own sees for policy and critics, in front of their layers: write model: {custom_model: …}."
    if section[0] in ("Q_model", "policy_model") and name == "custom_preprocessor":
        return "policy and critics see the same observations: write model: {custom_preprocessor: …}."
    if section[0] in ("Q_model", "policy_model", "model") and name == "custom_action_dist":
        return (
            f"the update of {algorithm} is made for the distribution that it has; {OF_ACTOR_CRITICS} take a custom one."
        )
    if section[0] in ("Q_model", "policy_model", "model") and name in MODEL_NOT_YET:
        recurrent = section == ("model",) and name in RECURRENT and "hiddens" in fields_of(schema)
        return "not supported yet; DQN with an LSTM is --run R2D2." if recurrent else "not supported yet."
    if section == ("model",):
        return instead(name, schema)
    if section == ("exploration_config",) and name in EXPLORATION_NOT_YET:
        return "not supported yet."
    if section == ("evaluation_config",):
        return _top_level(name, algorithm, schema, rows)
    if section[0] == "tf_session_args" and name in SESSION_NOT_YET:
        return "not supported yet."
    if section == ("replay_buffer_config",):
        return _because("not supported yet.", NOT_YET["replay_buffer_config"])
    if section == ("optimizer",):
        return f"not supported: {OPTIMIZER.get(name, NEVER['optimizer'])}"
    return None


def _top_level(name: str, algorithm: str, schema: type[Section], rows: Iterable[SchemaRow]) -> str | None:
    if name in RLLIB_2:
        why = _top_level(RLLIB_2[name], algorithm, schema, rows)
        return f"RLlib 2's name of {RLLIB_2[name]}, {why}" if why else None
    if name in NEVER:
        return f"not supported: {NEVER[name]}"
    other = instead(name, schema)
    owners = [row.name for row in rows if name in fields_of(load(row.config))]
    if owners:
        text = f"a key of {', '.join(owners)}, not of {algorithm}"
        return f"{text}: {other}." if other else f"{text}."
    if name in OLD:
        return f"a key of old versions of RLlib. Write {OLD[name]}."
    if name in NOT_YET:
        return _because("not supported yet.", NOT_YET[name])
    if other:
        return f"no key of {algorithm}: {other}."
    return key_here(name, schema) or _elsewhere(name, algorithm, schema, rows)


def _elsewhere(name: str, algorithm: str, schema: type[Section], rows: Iterable[SchemaRow]) -> str | None:
    """Return why a name from elsewhere has no key in this algorithm, or None if it is no such name."""
    if name not in KEYS:
        return None
    right = KEYS[name].here[0][0]
    why = _top_level(right, algorithm, schema, rows) if "." not in right else f"which {algorithm} has not."
    return f"a name of {KEYS[name].origin} for {right}, {why}"


def instead(name: str, schema: type[Section]) -> str | None:
    """Return in words what ``schema`` has in place of ``name``, or None."""
    fields = fields_of(schema)
    return next((text for key, text in INSTEAD.get(name, ()) if key in fields), None)


def _because(text: str, hint: str) -> str:
    return f"{text[:-1]}: {hint}" if hint else text
