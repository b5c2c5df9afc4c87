"""Short runs in one process that have to get somewhere: everything that learns from trajectories."""

import pytest
from test_learning_off_policy import best_of

pytestmark = pytest.mark.process

STATELESS = "drl/StatelessCartPole-v1"
MEMORY = {"use_lstm": True, "lstm_cell_size": 32, "max_seq_len": 16, "fcnet_hiddens": [32]}
# What an LSTM brings is within ±1: values of 50 are far away for a head that both nets share, those of scaled rewards near.
WITH_MEMORY = {"model": MEMORY, "lr": 1e-3, "sgd_minibatch_size": 256, "reward_scaling": True}
FEW = {"timesteps_per_iteration": 4096, "evaluation_num_episodes": 5}
RUNS = {
    "PG": ("PG", "CartPole-v1", {}, 120.0),
    "A2C": ("A2C", "CartPole-v1", {}, 120.0),
    "A3C": ("A3C", "CartPole-v1", {}, 150.0),
    "PPO": ("PPO", "CartPole-v1", {}, 200.0),
    "DDPPO": ("DDPPO", "CartPole-v1", {}, 200.0),
    "TRPO": ("TRPO", "CartPole-v1", {}, 200.0),
    "PQN": ("PQN", "CartPole-v1", {}, 200.0),
    "IMPALA": ("IMPALA", "CartPole-v1", {}, 150.0),
    "APPO": ("APPO", "CartPole-v1", {}, 150.0),
    "PPO Pendulum": ("PPO", "Pendulum-v1", {"gamma": 0.9, "lr": 1e-3, "observation_filter": "MeanStdFilter"}, -700.0),
    "PPO Tuple": ("PPO", "drl/SteerAndStop-v1", {"gamma": 0.95, "lr": 1e-3}, 1.5),
    "PPO LSTM": ("PPO", STATELESS, WITH_MEMORY, 80.0),
}


@pytest.mark.learning
@pytest.mark.parametrize(("name", "env_id", "keys", "goal"), RUNS.values(), ids=RUNS)
def test_run_gets_where_it_should(name, env_id, keys, goal):
    best, counters = best_of(name, env_id, FEW | keys, goal)
    assert best >= goal, f"{best:.1f} after {counters}"
