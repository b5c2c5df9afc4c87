"""Names of settings in other libraries (Stable-Baselines3, its zoo, CleanRL, RLlib 2), and their equivalents in drl.

Used where an unknown name is answered: by ``config.rllib.refused_keys`` (keys), ``runs.stop_rules`` (stop fields),
``config.experiment_keys`` (fields of a file) and ``cli.endings`` (options). No name is read as the key beside it: the values of
many count something else, and the answer says what. RLlib 2's names of equal meaning are read, by ``config.rllib.aliases``.
Sources: Stable-Baselines3 2, rl-baselines3-zoo, the scripts of CleanRL, AlgorithmConfig of Ray 2.
"""

from collections.abc import Callable
from typing import NamedTuple

from drl_cli.config.key_description import fields_of, leaves
from drl_cli.config.rllib.common_defaults import SEVERAL
from drl_cli.config.schema import Section

SB3, CLEANRL = "Stable-Baselines3", "CleanRL"

RLLIB_2: dict[str, str] = {
    "num_epochs": "num_sgd_iter",
    "minibatch_size": "sgd_minibatch_size",
    "train_batch_size_per_learner": "train_batch_size",
    "lambda_": "lambda",
    "num_cpus_per_env_runner": "num_cpus_per_worker",
    "num_gpus_per_env_runner": "num_gpus_per_worker",
    "custom_resources_per_env_runner": "custom_resources_per_worker",
    "evaluation_num_env_runners": "evaluation_num_workers",
}
"""Names of RLlib 2 → the keys of equal meaning as which they are read."""


class Name(NamedTuple):
    """``origin``: where it is a name. ``here``: (key, what its value is) pairs; the first key that an algorithm has counts."""

    origin: str
    here: tuple[tuple[str, str], ...]


def _of(origin: str, *here: str | tuple[str, str]) -> Name:
    return Name(origin, tuple(one if isinstance(one, tuple) else (one, "") for one in here))


_RATES = ("lr", "stepsize", "sgd_stepsize")
_PER_ENV = (
    "env steps of each environment between two updates; the batch is train_batch_size, that times the environments"
)
_INTENSITY = "updates per env step times train_batch_size"
_STEPS_OVER_FREQ = f"{_INTENSITY}; gradient_steps / train_freq are the updates per env step"
_IN_STEPS = "in env steps; 0: after every update"

KEYS: dict[str, Name] = {
    "learning_rate": _of(f"{SB3} and {CLEANRL}", *_RATES),
    "n_steps": _of(SB3, "n_step", ("rollout_fragment_length", _PER_ENV)),
    "num_steps": _of(CLEANRL, ("rollout_fragment_length", _PER_ENV)),
    "n_envs": _of(SB3, ("num_envs_per_worker", "times num_workers, if there are workers")),
    "num_envs": _of(CLEANRL, ("num_envs_per_worker", "times num_workers, if there are workers")),
    "batch_size": _of(
        SB3,
        ("sgd_minibatch_size", "the size of a minibatch; train_batch_size is the batch of all epochs"),
        ("train_batch_size", "the batch of one update"),
    ),
    "num_minibatches": _of(CLEANRL, ("sgd_minibatch_size", "train_batch_size divided by num_minibatches")),
    "n_epochs": _of(SB3, "num_sgd_iter"),
    "update_epochs": _of(CLEANRL, "num_sgd_iter"),
    "gae_lambda": _of(f"{SB3} and {CLEANRL}", "lambda"),
    "clip_range": _of(SB3, "clip_param"),
    "clip_coef": _of(CLEANRL, "clip_param"),
    "clip_range_vf": _of(SB3, "vf_clip_param"),
    "ent_coef": _of(
        f"{SB3} and {CLEANRL}",
        "entropy_coeff",
        ("initial_alpha", "the temperature, which is learnt; optimization.entropy_learning_rate 0 keeps it fixed"),
    ),
    "vf_coef": _of(f"{SB3} and {CLEANRL}", "vf_loss_coeff"),
    "max_grad_norm": _of(f"{SB3} and {CLEANRL}", "grad_clip"),
    "target_kl": _of(SB3, ("kl_target", "the target of kl_coeff; there is no early stopping of epochs"), "max_kl"),
    "anneal_lr": _of(CLEANRL, ("lr", "a list [[env_step, value], …] is a linear schedule")),
    "target_update_interval": _of(SB3, ("target_network_update_freq", _IN_STEPS)),
    "target_network_frequency": _of(CLEANRL, ("target_network_update_freq", _IN_STEPS)),
    "train_freq": _of(SB3, ("training_intensity", _STEPS_OVER_FREQ)),
    "train_frequency": _of(CLEANRL, ("training_intensity", f"{_INTENSITY}, 1 / train_frequency of them per env step")),
    "gradient_steps": _of(SB3, ("training_intensity", _STEPS_OVER_FREQ)),
    "polyak": _of("Spinning Up", ("tau", "1 - polyak")),
    "policy_frequency": _of(CLEANRL, "policy_delay"),
    "target_policy_noise": _of(SB3, "target_noise"),
    "policy_noise": _of(CLEANRL, "target_noise"),
    "noise_clip": _of(CLEANRL, "target_noise_clip"),
    "exploration_noise": _of(CLEANRL, ("exploration_config.stddev", "with type GaussianNoise")),
    "start_e": _of(CLEANRL, "exploration_config.initial_epsilon"),
    "end_e": _of(CLEANRL, "exploration_config.final_epsilon"),
    "q_lr": _of(CLEANRL, "optimization.critic_learning_rate", "critic_lr", "lr"),
    "policy_lr": _of(CLEANRL, "optimization.actor_learning_rate", "actor_lr", "lr"),
    "replay_size": _of("Spinning Up", "buffer_size"),
    "start_steps": _of("Spinning Up", ("learning_starts", "random actions end there as well")),
    "random_steps": _of(SB3, "exploration_config.random_timesteps"),
    "net_arch": _of(SB3, "model.fcnet_hiddens", "policy_model.fcnet_hiddens", "actor_hiddens"),
    "policy_kwargs": _of(SB3, ("model", "net_arch is fcnet_hiddens, activation_fn fcnet_activation")),
    "activation_fn": _of(SB3, "model.fcnet_activation", "policy_model.fcnet_activation", "actor_hidden_activation"),
    "hidden_sizes": _of("Spinning Up", "model.fcnet_hiddens", "policy_model.fcnet_hiddens", "actor_hiddens"),
    "normalize": _of(SB3, ("observation_filter", "MeanStdFilter; rewards by reward_scaling: true")),
    "env_wrapper": _of(
        SB3, ("env_wrappers", "a list of names of gymnasium.wrappers or registered ones, without their modules")
    ),
    "replay_buffer_class": _of(SB3, ("hindsight_goals", "for HerReplayBuffer: its n_sampled_goal")),
    "n_sampled_goal": _of(SB3, "hindsight_goals"),
    "goal_selection_strategy": _of(SB3, ("hindsight_strategy", "future or final")),
    "frame_stack": _of(SB3, "model.framestack"),
    "n_eval_episodes": _of(SB3, "evaluation_num_episodes"),
    "eval_freq": _of(SB3, ("evaluation_interval", "in iterations of timesteps_per_iteration env steps")),
    "log_interval": _of(SB3, ("timesteps_per_iteration", "in env steps")),
    "stats_window_size": _of(SB3, "metrics_smoothing_episodes"),
    "device": _of(SB3, ("num_gpus", "1 for a GPU, 0 for none")),
    "cuda": _of(CLEANRL, ("num_gpus", "1 for a GPU, 0 for none")),
    "capture_video": _of(CLEANRL, "record_env"),
}
"""Name elsewhere → the key here, with what its value counts where that differs."""

STOPS: dict[str, str] = {
    "timesteps": "timesteps_total",
    "total_timesteps": "timesteps_total",
    "n_timesteps": "timesteps_total",
    "num_timesteps": "timesteps_total",
    "env_steps": "timesteps_total",
    "steps": "timesteps_total",
    "max_steps": "timesteps_total",
    "global_step": "timesteps_total",
    "num_env_steps_sampled_lifetime": "timesteps_total",
    "env_runners/num_env_steps_sampled_lifetime": "timesteps_total",
    "iterations": "training_iteration",
    "iteration": "training_iteration",
    "iters": "training_iteration",
    "training_iterations": "training_iteration",
    "time": "time_total_s",
    "seconds": "time_total_s",
    "episodes": "episodes_total",
    "num_episodes": "episodes_total",
    "num_episodes_lifetime": "episodes_total",
    "reward": "episode_reward_mean",
    "mean_reward": "episode_reward_mean",
    "episode_reward": "episode_reward_mean",
    "ep_rew_mean": "episode_reward_mean",
    "episodic_return": "episode_reward_mean",
    "episode_return_mean": "episode_reward_mean",
    "env_runners/episode_return_mean": "episode_reward_mean",
    "env_runners/episode_reward_mean": "episode_reward_mean",
    "sampler_results/episode_reward_mean": "episode_reward_mean",
    "evaluation/episode_return_mean": "evaluation/episode_reward_mean",
    "evaluation/env_runners/episode_return_mean": "evaluation/episode_reward_mean",
    "evaluation/env_runners/episode_reward_mean": "evaluation/episode_reward_mean",
    "eval/mean_reward": "evaluation/episode_reward_mean",
}
"""Result field elsewhere → the field here."""

FIELDS: dict[str, str] = {
    "algorithm": "run: NAME",
    "agent": "run: NAME",
    "trainer": "run: NAME",
    "environment": "env: ID",
    "enviroment": "env: ID",
    "env_id": "env: ID",
    "env_name": "env: ID",
    "stopping": "stop: {…}",
    "stop_criteria": "stop: {…}",
    "hyperparams": "config: {…}",
    "hyperparameters": "config: {…}",
    "params": "config: {…}",
    "n_timesteps": "stop: {timesteps_total: N}",
    "total_timesteps": "stop: {timesteps_total: N}",
    "timesteps": "stop: {timesteps_total: N}",
    "policy": "config: {model: {…}}, where networks are described",
    "save_freq": "checkpoint_freq: N, in iterations",
}
"""Field of an experiment elsewhere → what stands there here."""

OPTIONS: dict[str, str] = {
    "total-timesteps": "--stop timesteps_total=N",
    "n-timesteps": "--stop timesteps_total=N",
    "timesteps": "--stop timesteps_total=N",
    "stop-timesteps": "--stop timesteps_total=N",
    "stop-iters": "--stop training_iteration=N",
    "iterations": "--stop training_iteration=N",
    "stop-reward": "--stop episode_reward_mean=X",
    "as-test": "--assert 'episode_reward_mean>=X'",
    "n-steps": "-s rollout_fragment_length=VALUE, or -s n_step=VALUE for an algorithm with a replay",
    "env-id": "--env ID",
    "gym-id": "--env ID",
    "environment": "--env ID",
    "agent": "--run NAME",
    "algorithm": "--run NAME",
    "exp-name": "--experiment-name NAME",
    "track": "--logger wandb",
    "wandb-project-name": "--logger wandb, with WANDB_PROJECT=NAME before the command",
    "tensorboard-log": "--local-dir DIR: every run writes TensorBoard files",
    "log-folder": "--local-dir DIR",
    "logdir": "--local-dir DIR",
    "output-dir": "--local-dir DIR",
    "save-freq": "--checkpoint-freq N, in iterations",
    "save-model": "--checkpoint-freq N for more than the best and the last checkpoint",
    "hyperparams": "-s KEY=VALUE or --config OBJECT",
    "conf-file": "-f FILE",
    "config-path": "-f FILE",
    "trained-agent": "--restore CHECKPOINT",
    "resume-from": "--restore CHECKPOINT",
    "torch-deterministic": "--seed N: a run without workers is reproducible bit for bit",
    "n-jobs": "-s num_workers=N",
}
"""Option elsewhere, without its dashes → what is typed here; others are looked up among ``KEYS``."""


def keys_of(schema: type[Section]) -> set[str]:
    """Return the keys that may be written for an algorithm: dotted ones, sections, and those that set several."""
    found = {".".join(path) for path, _ in leaves(schema)} | set(fields_of(schema))
    several = {name for name, targets in SEVERAL.items() if any(".".join(path) in found for path in targets)}
    return found | several


def keys_meant(name: str, schema: type[Section]) -> list[str]:
    """Return the keys of ``schema`` that a name of another program stands for, or a key that sets several; [] for none."""
    own = {".".join(path) for path, _ in leaves(schema)}
    names = [name, *(key for key, _ in KEYS[name].here)] if name in KEYS else [name]
    for each in names:
        if found := [key for key in (each, *map(".".join, SEVERAL.get(each, ()))) if key in own]:
            return found
    return []


def key_here(name: str, schema: type[Section]) -> str | None:
    """Return what a key that ``schema`` lacks is there, in a sentence without its end; or None."""
    found, keys = KEYS.get(name), keys_of(schema)
    if found is None:
        return None
    key, counts = next((pair for pair in found.here if pair[0] in keys), (None, ""))
    if key is None:
        return None
    return f"a name of {found.origin}. Write {key}{': ' + counts if counts else ''}"


def option_here(name: str, keys: Callable[[], dict[str, str]]) -> str | None:
    """Return what is typed here for an unknown option (without its dashes), or None.

    ``keys``: makes {key of a config, in any spelling that is read: the key}; asked for only where nothing else fits.
    """
    known = OPTIONS.get(name.replace("_", "-"))
    if known is not None:
        return known
    key = name.replace("-", "_")
    found = KEYS.get(key)
    if found is None:
        right = keys().get(key)
        return f"-s {right}=VALUE" if right else None
    right, counts = found.here[0]
    return f"-s {right}=VALUE{' (' + counts + ')' if counts else ''}"
