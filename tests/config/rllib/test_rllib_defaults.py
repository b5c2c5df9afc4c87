"""The defaults that are ascribed to RLlib are those of its 1.0.1, read in its source; a text begins with the value."""

import pytest

from drl_cli.algorithms import table
from drl_cli.config import key_description
from drl_cli.extras import load

# keys of one column each: num_workers, rollout_fragment_length, train_batch_size, min_iter_time_s, timesteps_per_iteration, lr
FACTS = {
    "PPO": (2, 200, 4000, 0, 0, 5e-5),
    "DDPPO": (2, 100, -1, 0, 0, 5e-5),
    "PG": (0, 200, 200, 0, 0, 4e-4),
    "A2C": (2, 20, 200, 10, 0, 1e-4),
    "A3C": (2, 10, 200, 5, 0, 1e-4),
    "IMPALA": (2, 50, 500, 10, 0, 5e-4),
    "APPO": (2, 50, 500, 10, 0, 5e-4),
    "SAC": (0, 1, 256, 1, 100, None),
    "DDPG": (0, 1, 256, 1, 1000, None),
    "TD3": (0, 1, 100, 1, 1000, None),
    "DQN": (0, 4, 32, 1, 1000, 5e-4),
    "SimpleQ": (0, 4, 32, 1, 1000, 5e-4),
    "APEX": (32, 50, 512, 30, 25_000, 5e-4),
    "APEX_DDPG": (32, 50, 512, 30, 25_000, None),
    "ES": (10, 200, 10_000, 0, 0, None),
    "ARS": (2, 200, None, 0, 0, None),
    "MARWIL": (0, 200, 2000, 0, 0, 1e-4),
    "BC": (0, 200, 2000, 0, 0, 1e-4),
}
COLUMNS = (
    "num_workers",
    "rollout_fragment_length",
    "train_batch_size",
    "min_iter_time_s",
    "timesteps_per_iteration",
    "lr",
)
SINGLE = [
    ("PPO", "grad_clip", None),
    ("PPO", "num_sgd_iter", 30),
    ("PPO", "clip_param", 0.3),
    ("PPO", "lambda", 1.0),
    ("PPO", "adam_epsilon", 1e-8),
    ("APPO", "adam_epsilon", 1e-8),
    ("DDPPO", "num_envs_per_worker", 5),
    ("DDPPO", "sgd_minibatch_size", 50),
    ("DDPPO", "num_sgd_iter", 10),
    ("PPO", "normalize_actions", False),
    ("SAC", "normalize_actions", True),
    ("SAC", "tau", 0.005),
    ("DDPG", "tau", 0.002),
    ("DDPG", "actor_lr", 1e-3),
    ("DDPG", "buffer_size", 50_000),
    ("DDPG", "exploration_config.random_timesteps", 1000),
    ("TD3", "exploration_config.random_timesteps", 10_000),
    ("TD3", "learning_starts", 10_000),
    ("DQN", "model.fcnet_activation", "tanh"),
    ("DQN", "n_step", 1),
    ("DQN", "grad_clip", 40.0),
    ("APEX", "buffer_size", 2_000_000),
    ("APEX", "num_gpus", 1),
    ("APEX_DDPG", "num_gpus", 0.0),
    ("IMPALA", "num_gpus", 1),
    ("APPO", "num_gpus", 0.0),
]


def ascribed(name):
    """Return {key: RLlib's default} as ``drl algorithms`` tells it: its own note, else the default, which is the same."""
    return {row["key"]: row.get("rllib", row["default"]) for row in key_description.keys(load(table.find(name).config))}


@pytest.mark.parametrize("name", FACTS)
def test_default_called_rllibs_is_rllibs(name):
    told = ascribed(name)
    expected = {
        key: value for key, value in zip(COLUMNS, FACTS[name], strict=True) if value is not None and key in told
    }
    for key, value in expected.items():
        first = str(told[key]).partition(",")[0]
        assert told[key] == value or first == str(value), f"{key}: {told[key]!r}"


@pytest.mark.parametrize(("name", "key", "value"), SINGLE)
def test_single_default_called_rllibs_is_rllibs(name, key, value):
    assert ascribed(name)[key] == value
