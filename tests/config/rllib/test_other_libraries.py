"""Names of other libraries: each is answered with the key, the stop field, the option or the field that it is here."""

import pytest

from drl_cli import cli
from drl_cli.algorithms import table
from drl_cli.config.experiment_keys import ExperimentKeys
from drl_cli.config.experiment_keys import refusal as field_refusal
from drl_cli.config.origins import Where
from drl_cli.config.parse import read
from drl_cli.config.result_names import is_number_field
from drl_cli.config.rllib import other_libraries
from drl_cli.errors import ConfigError, nearest
from drl_cli.experiments import experiment_files
from drl_cli.extras import load
from drl_cli.runs import stop_rules


def said(name, key, value=1):
    """Return what is said of ``key`` under the algorithm ``name``."""
    _, problems, notices = read(table.find(name), {key: value}, "-s", table.rows())
    return (problems or notices)[0]


@pytest.mark.parametrize(
    ("name", "key", "right"),
    [
        ("PPO", "n_steps", "Write rollout_fragment_length: env steps of each environment"),
        ("DQN", "n_steps", "Write n_step"),
        ("PPO", "num_steps", "Write rollout_fragment_length"),
        ("PPO", "max_grad_norm", "Write grad_clip"),
        ("PPO", "num_envs", "Write num_envs_per_worker"),
        ("PPO", "learning_rate", "Write lr"),
        ("SAC", "learning_rate", "Write lr"),
        ("ES", "learning_rate", "Write stepsize"),
        ("DQN", "target_update_interval", "Write target_network_update_freq"),
        ("PPO", "ent_coef", "Write entropy_coeff"),
        ("SAC", "ent_coef", "Write initial_alpha"),
        ("PPO", "vf_coef", "Write vf_loss_coeff"),
        ("PPO", "clip_range", "Write clip_param"),
        ("PPO", "gae_lambda", "Write lambda"),
        ("PPO", "batch_size", "Write sgd_minibatch_size"),
        ("SAC", "batch_size", "Write train_batch_size"),
        ("DQN", "train_freq", "Write training_intensity"),
        ("SAC", "gradient_steps", "Write training_intensity"),
        ("TD3", "exploration_noise", "Write exploration_config.stddev"),
        ("TD3", "policy_frequency", "Write policy_delay"),
        (
            "DQN",
            "clip_range",
            "a name of Stable-Baselines3 for clip_param, a key of PPO, DDPPO, MAPPO, APPO, not of DQN",
        ),
        ("PPO", "num_epochs", "is read as num_sgd_iter"),
        ("DQN", "train_batch_size_per_learner", "is read as train_batch_size"),
        ("PPO", "num_env_runners", "is read as num_workers"),
        (
            "DQN",
            "num_epochs",
            "RLlib 2's name of num_sgd_iter, a key of PPO, DDPPO, MAPPO, IMPALA, APPO, PQN, not of DQN",
        ),
    ],
)
def test_name_from_elsewhere_is_answered_with_the_key(name, key, right):
    assert right in said(name, key)


@pytest.mark.parametrize("name", ["tau", "buffer_size", "learning_starts", "gamma", "policy_delay"])
def test_name_that_is_the_same_everywhere_is_a_key(name):
    assert name not in other_libraries.KEYS
    assert name in other_libraries.keys_of(load(table.find("TD3").config))


def test_every_name_leads_to_a_key_of_some_algorithm_and_is_none_itself():
    known = set().union(*(other_libraries.keys_of(load(row.config)) for row in table.rows()))
    assert [name for name, told in other_libraries.KEYS.items() if {key for key, _ in told.here} - known] == []
    assert set(other_libraries.RLLIB_2.values()) <= known
    assert [name for name in (*other_libraries.KEYS, *other_libraries.RLLIB_2) if name in known] == []


def test_every_stop_field_leads_to_one_of_a_result_and_is_none_itself():
    assert [field for field in other_libraries.STOPS.values() if not is_number_field(field)] == []
    assert [field for field in other_libraries.STOPS if is_number_field(field)] == []
    assert set(other_libraries.FIELDS) & set(ExperimentKeys.model_fields) == set()


@pytest.mark.parametrize(
    ("field", "right"),
    [("timesteps", "timesteps_total"), ("episode_return_mean", "episode_reward_mean"), ("time", "time_total_s")],
)
def test_stop_field_from_elsewhere_is_answered_with_the_field(field, right):
    assert stop_rules.problems({field: 1}, Where("--stop")) == [
        f"stop: unknown result field {field!r} (--stop). Write {right}."
    ]


@pytest.mark.parametrize(
    ("typed", "right"),
    [
        ("--learning-rate 1", "Type -s lr=VALUE."),
        ("--total-timesteps 9", "Type --stop timesteps_total=N."),
        ("--n_steps 5", "Type -s rollout_fragment_length=VALUE, or -s n_step=VALUE for an algorithm with a replay."),
        ("--num-envs 3", "Type -s num_envs_per_worker=VALUE"),
        ("--env-id X", "Type --env ID."),
        ("--num-env-runners 3", "Type -s num_workers=VALUE."),
        ("--num-epochs 3", "Type -s num_sgd_iter=VALUE."),
        ("--gamma 0.9", "Type -s gamma=VALUE."),
        ("--num-workers 4", "Type -s num_workers=VALUE."),
    ],
)
def test_option_from_elsewhere_is_answered_with_what_is_typed_here(capsys, typed, right):
    assert cli.main(["train", *typed.split()]) == 2
    assert right in capsys.readouterr().err.splitlines()[-1]


def test_option_that_resembles_none_gets_no_guess(capsys):
    assert cli.main(["train", "--bogus"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "Error: No such option '--bogus'."


@pytest.mark.parametrize(
    ("word", "choices"),
    [("bogus", ["verbose"]), ("num_stations", ["num_gpus", "model.layer_norm"]), ("ent_coef", ["env_config"])],
)
def test_word_that_is_not_near_is_no_guess(word, choices):
    assert nearest(word, choices) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("enviroment", "no field of an experiment. Write env: ID"),
        ("total_timesteps", "no field of an experiment. Write stop: {timesteps_total: N}"),
        ("lr", "a key of the config. Indent it under config: {lr: …}"),
        ("learning_rate", "a name of Stable-Baselines3 and CleanRL. Write config: {lr or stepsize or sgd_stepsize: …}"),
        ("episodes", "no field of an experiment. Write stop: {episodes_total: …}"),
    ],
)
def test_field_of_a_file_from_elsewhere_is_answered_with_what_stands_here(name, text):
    assert field_refusal((name,), {"lr"}) == text


def test_flat_file_is_told_to_put_a_name_above(tmp_path):
    path = tmp_path / "flat.yaml"
    path.write_text("run: PPO\nenv: CartPole-v1\nconfig:\n  lr: 0.1\n")
    with pytest.raises(
        ConfigError, match=r"run \(.*flat.yaml:1\) stands where the name of an experiment does. Write a name"
    ):
        experiment_files.load(path)


def test_file_that_is_the_config_of_a_run_is_told_how_it_is_used(tmp_path):
    path = tmp_path / "params.yaml"
    path.write_text("env: CartPole-v1\nlr: 0.1\nhiddens: [64]\n")
    with pytest.raises(ConfigError) as refused:
        experiment_files.load(path)
    assert str(refused.value) == (
        f"{path}: env ({path}:1) stands where the name of an experiment does, and no run is named: it is a config. Type: "
        f"drl train --run NAME --config @{path}"
    )
