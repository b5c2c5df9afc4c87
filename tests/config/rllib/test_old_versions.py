"""Keys and values as RLlib's own files of 0.8 to 2.4 have them: the facts of those files, not the files."""

import pytest

from drl_cli.algorithms import table
from drl_cli.config.parse import read
from drl_cli.runtime import pace
from drl_cli.runtime.ledger import Ledger


def reading(name, mapping):
    """Return (config, problems, notices)."""
    return read(table.find(name), mapping, "--config", table.built_in())


def value_at(config, path):
    for part in path.split("."):
        config = getattr(config, part)
    return config


BUFFER = "replay_buffer_config"
SPAN = {"schedule_max_timesteps": 2_000_000}

READ = [
    # 0.8: a schedule's length is a share of schedule_max_timesteps
    ("DQN", {**SPAN, "exploration_fraction": 0.1}, "exploration_config.epsilon_timesteps", 200_000),
    ("DQN", {"exploration_fraction": 0.5}, "exploration_config.epsilon_timesteps", 50_000),
    ("DQN", {"schedule_max_timesteps": 50_000}, "exploration_config.epsilon_timesteps", 5000),
    ("DQN", {**SPAN, "beta_annealing_fraction": 1.0}, "prioritized_replay_beta_annealing_timesteps", 2_000_000),
    ("DDPG", {"exploration_should_anneal": True, **SPAN}, "exploration_config.scale_timesteps", 200_000),
    ("DDPG", {"exploration_should_anneal": True}, "exploration_config.final_scale", 0.02),
    (
        "DDPG",
        {"exploration_should_anneal": True, "exploration_final_scale": 0.1},
        "exploration_config.final_scale",
        0.1,
    ),
    (
        "TD3",
        {"exploration_should_anneal": False, "exploration_final_scale": 0.1},
        "exploration_config.final_scale",
        1.0,
    ),
    ("SAC", {"exploration_enabled": True}, "explore", True),
    ("DQN", {"grad_norm_clipping": 10.0}, "grad_clip", 10.0),
    ("SAC", {"Q_model": {"hidden_layer_sizes": [512]}}, "Q_model.fcnet_hiddens", (512,)),
    ("SAC", {"policy_model": {"hidden_activation": "tanh"}}, "policy_model.fcnet_activation", "tanh"),
    ("SAC", {"q_model_config": {"hidden_activation": "tanh"}}, "Q_model.fcnet_activation", "tanh"),
    ("SAC", {"use_state_preprocessor": True}, "tau", 0.01),
    # 0.8.6 and later: exploration per worker
    ("APEX", {"exploration_config": {"final_epsilon": 0.01, "epsilon_timesteps": 200_000}}, "num_workers", 2),
    ("APEX", {"exploration_final_eps": 0.01, "exploration_fraction": 0.1, **SPAN}, "num_workers", 2),
    ("APEX_DDPG", {"exploration_config": {"scale_timesteps": 10, "final_scale": 0.1}}, "num_workers", 2),
    # 1.8 to 2.4: the replay's section, the learner's
    ("DQN", {BUFFER: {"min_size_for_sampling": 20_000}}, "learning_starts", 20_000),
    ("DQN", {BUFFER: {"storage_unit": "timesteps"}}, "learning_starts", 1000),
    ("R2D2", {BUFFER: {"storage_unit": "sequences", "replay_burn_in": 20}}, "burn_in", 20),
    ("R2D2", {BUFFER: {"zero_init_states": True}}, "zero_init_states", True),
    ("R2D2", {BUFFER: {"replay_sequence_length": -1}}, "replay_sequence_length", None),
    ("APEX", {BUFFER: {"no_local_replay_buffer": True, "capacity": 20_000}}, "buffer_size", 20_000),
    (
        "PPO",
        {"rollout_fragment_length": "auto", "train_batch_size": 5000, "num_workers": 32},
        "rollout_fragment_length",
        20,
    ),
    ("DQN", {"rollout_fragment_length": "auto", "n_step": 5}, "rollout_fragment_length", 5),
    ("ARS", {"rollout_fragment_length": "auto"}, "rollout_fragment_length", 1000),
    ("PPO", {"evaluation_interval": 0}, "evaluation_interval", None),
    ("PPO", {"evaluation_num_env_runners": 1}, "evaluation_num_workers", 1),
    ("PPO", {"enable_connectors": True, "_enable_rl_module_api": True, "_enable_learner_api": True}, "num_workers", 0),
    ("APPO", {"num_multi_gpu_tower_stacks": 1, "num_learner_workers": 1}, "num_workers", 2),
    ("PPO", {"disable_env_checking": True, "grad_clip_by": "global_norm"}, "num_workers", 0),
    ("A3C", {"optimizer": {"grads_per_step": 1000}}, "num_workers", 2),
    ("DQN", {"per_worker_exploration": False}, "num_workers", 0),
    ("DQN", {"learning_starts": 10_000, "buffer_size": 2000}, "learning_starts", 10_000),
    ("SAC", {"gumbel_softmax_temperature": 1.0}, "tau", 0.01),
    ("PPO", {"distributed_data_parallel_optimizer": False}, "num_workers", 0),
    ("IMPALA", {"max_requests_in_flight_per_sampler_worker": 1}, "max_sample_requests_in_flight_per_worker", 1),
    ("A3C", {"max_requests_in_flight_per_sampler_worker": 1}, "num_workers", 2),
    ("APPO", {"replay_ratio": 0.0, "enable_async_evaluation": True}, "replay_proportion", 0.0),
    # towers on the CPU, where no batch is split
    *(
        (name, {"num_gpus": 2, "_fake_gpus": True}, "num_gpus", 0.0)
        for name in ("DQN", "SAC", "APEX", "IMPALA", "APPO")
    ),
]


@pytest.mark.parametrize(("name", "mapping", "path", "value"), READ)
def test_key_of_rllibs_files_is_read_or_said_to_change_nothing(name, mapping, path, value):
    config, problems, notices = reading(name, mapping)
    assert problems == [] and value_at(config, path) == value
    assert notices or "learning_starts" in mapping


def test_towers_on_the_cpu_are_said_to_be_none_where_no_batch_is_split():
    _, _, notices = reading("DQN", {"num_gpus": 2, "_fake_gpus": True})
    assert notices == [
        "_fake_gpus true (--config) is read as num_gpus 0 in place of 2: no batch is split here, and the mean over its "
        "parts has the gradient of the whole."
    ]
    config, _, notices = reading("PPO", {"num_gpus": 2, "_fake_gpus": True})
    assert (config.num_gpus, config.fake_gpus, notices) == (2.0, True, [])
    assert 'num_gpus: "two" is not allowed' in " ".join(reading("DQN", {"num_gpus": "two", "_fake_gpus": True})[1])


def test_key_that_has_no_effect_is_said_with_the_reason():
    _, _, notices = reading("APEX", {"exploration_config": {"final_epsilon": 0.01}})
    assert notices == [
        "exploration_config.final_epsilon 0.01 has no effect: PerWorkerEpsilonGreedy gives each environment a fixed "
        "value of its own."
    ]
    _, _, notices = reading("DDPG", {"exploration_final_scale": 0.1})
    assert notices == [
        "exploration_final_scale 0.1 (--config) has no effect: exploration_should_anneal is false, so that the noise keeps "
        "its size."
    ]


@pytest.mark.parametrize(
    ("name", "mapping", "text"),
    [
        ("DQN", {"exploration_fraction": "half"}, 'exploration_fraction: "half" is not allowed; it takes a number'),
        (
            "DDPG",
            {"exploration_should_anneal": 1},
            "exploration_should_anneal: 1 is not allowed; it takes true or false",
        ),
        ("DQN", {"schedule_max_timesteps": True}, "schedule_max_timesteps: true is not allowed"),
        (
            "DQN",
            {"exploration_fraction": 0.1, "exploration_config": {"epsilon_timesteps": 5}},
            "exploration_fraction (--config): it stands for exploration_config.epsilon_timesteps, which is given as well.",
        ),
        ("PPO", {"exploration_fraction": 0.1}, "exploration_fraction: unknown key"),
        (
            "APPO",
            {"num_learner_workers": 4},
            "num_learner_workers: not supported: PPO, A2C, PG, MAPPO and IMPALA split",
        ),
        ("DQN", {"gpu": True}, "gpu: a key of old versions of RLlib. Write num_gpus: 1"),
        ("PPO", {"distributed_data_parallel_optimizer": True}, "not supported: num_learners of PPO, A2C"),
        ("SAC", {"gumbel_softmax_temperature": 0.5}, "gumbel_softmax_temperature: not supported: "),
        ("APEX", {"exploration_config": {"final_epsilon": "x"}}, "exploration_config.final_epsilon"),
        ("DQN", {BUFFER: {"storage_unit": "pages"}}, "storage_unit"),
        ("DQN", {"exploration_fraction": float("inf")}, "exploration_fraction: Infinity is not allowed"),
        ("DQN", {"exploration_fraction": 0.1, "exploration_config": {"type": ["Random"]}}, "exploration_config.type"),
        ("DQN", {"exploration_fraction": 0.1, "exploration_config": "Random"}, "exploration_config"),
        ("PPO", {"rollout_fragment_length": "auto", "train_batch_size": float("inf")}, "train_batch_size"),
    ],
)
def test_key_that_cannot_be_meant_is_refused_in_one_line(name, mapping, text):
    _, problems, _ = reading(name, mapping)
    assert len(problems) == 1 and text in problems[0]


def test_learning_starts_after_more_steps_than_the_replay_holds():
    config, _, _ = reading("SAC", {"learning_starts": 2000, "buffer_size": 1000})
    ledger = Ledger(config)
    made = pace.make(config, ledger)
    ledger.sampled = 1990
    assert made.owed(0) == 0
    ledger.sampled = 2010
    assert made.owed(0) == 4
