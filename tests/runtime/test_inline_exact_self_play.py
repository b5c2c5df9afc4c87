"""Self-play repeats bit for bit, and goes on from a checkpoint with its copies, ratings and odds as if it had not stopped."""

import pytest
from runtime_runs import SINCE_RESTORE, timeless

from drl_cli import checkpoints
from drl_cli.algorithms import table
from drl_cli.experiments import env_facts
from drl_cli.extras import load
from drl_cli.runtime.driver import Driver

pytestmark = pytest.mark.process

ENV = "drl/TicTacToe-v1"
SELF_PLAY = {
    "opponents": 2,
    "scripted": ["random"],
    "freeze_interval": 150,
    "choose": "prioritised",
    "evaluate_against": ["tic-tac-toe-minimax", "random"],
}
SHARED = {
    "seed": 7,
    "num_workers": 0,
    "num_envs_per_worker": 2,
    "evaluation_interval": 2,
    "evaluation_num_episodes": 4,
    "model": {"fcnet_hiddens": [8, 8]},
    "multiagent": {"self_play": SELF_PLAY},
    "xla": False,
}
OWN = {
    "PPO": {"train_batch_size": 128, "rollout_fragment_length": 32, "sgd_minibatch_size": 64, "num_sgd_iter": 2},
    "DQN": {
        "learning_starts": 100,
        "timesteps_per_iteration": 100,
        "buffer_size": 2000,
        "train_batch_size": 16,
        "rollout_fragment_length": 5,
        "publish_every": 10,
    },
}


@pytest.fixture
def run():
    """Function (algorithm, restore=(checkpoint, exact)) → a started Driver."""
    drivers = []

    def start(algorithm, restore=None):
        row = table.find(algorithm)
        found = env_facts.found(row, load(row.config).model_validate(SHARED | OWN[algorithm]), ENV)
        drivers.append(Driver(algorithm, found.config, {**found.facts, "asked": ENV, "imports": ()}))
        if restore:
            drivers[-1].restore(*restore)
        drivers[-1].start()
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.close()


def _results(driver, count):
    return [timeless(driver.train(), SINCE_RESTORE) for _ in range(count)]


@pytest.mark.usefixtures("quick_learner")
@pytest.mark.parametrize("algorithm", ["PPO", "DQN"])
def test_self_play_goes_on_from_a_checkpoint_as_if_it_had_not_stopped(run, tmp_path, algorithm):
    whole = run(algorithm)
    before, after = _results(whole, 3), _results(whole, 3)
    stats = after[-1]["info"]["learner"]["main"]
    assert stats["copies_frozen"] > before[-1]["info"]["learner"]["main"]["copies_frozen"] > 0
    assert stats["games_random"] > 0
    assert {"main", "random", "tic-tac-toe-minimax"} == set(after[-1]["evaluation"]["policy_reward_mean"])
    assert after[-1]["evaluation"]["episode_reward_mean"] == after[-1]["evaluation"]["policy_reward_mean"]["main"]
    first = run(algorithm)
    assert _results(first, 3) == before, "a run does not repeat"
    resumed = run(algorithm, (checkpoints.load(first.save(tmp_path)), True))
    assert _results(resumed, 3) == after
