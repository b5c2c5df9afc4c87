"""A recurrent run without workers goes on from a checkpoint as if it had not stopped, its running episodes included."""

import pytest
from runtime_runs import SINCE_RESTORE, timeless
from test_inline_exact import assert_same_state, state_of_run

from drl_cli import checkpoints
from drl_cli.algorithms import table
from drl_cli.algorithms.r2d2 import R2D2Config
from drl_cli.envs import make
from drl_cli.runtime.driver import Driver

pytestmark = pytest.mark.process

ENV_ID = "drl/StatelessCartPole-v1"
SMALL = {
    "seed": 7,
    "learning_starts": 200,
    "timesteps_per_iteration": 200,
    "buffer_size": 1500,
    "train_batch_size": 8,
    "rollout_fragment_length": 10,
    "burn_in": 2,
    "model": {"fcnet_hiddens": [8], "lstm_cell_size": 8, "max_seq_len": 4},
    "hiddens": [8],
    "exploration_config": {"epsilon_timesteps": 400},
    "evaluation_interval": 2,
    "evaluation_num_episodes": 2,
    "xla": False,
}


@pytest.fixture
def run():
    """Function (config, restore) → a started Driver of R2D2."""
    trainers = []
    spaces = make.check(ENV_ID, {}, table.find("R2D2"))

    def start(config, restore=None):
        facts = {"id": ENV_ID, "asked": ENV_ID, "env_config": {}, "spaces": spaces, "imports": ()}
        trainers.append(Driver("R2D2", config, facts))
        if restore:
            trainers[-1].restore(checkpoints.load(restore), True)
        trainers[-1].start()
        return trainers[-1]

    yield start
    for trainer in trainers:
        trainer.close()


def results(trainer, count):
    return [timeless(trainer.train(), SINCE_RESTORE) for _ in range(count)]


@pytest.mark.parametrize("prioritized", [False, True])
def test_recurrent_run_interrupted_after_two_iterations_equals_the_whole_run(run, tmp_path, prioritized):
    config = R2D2Config.model_validate(SMALL | {"prioritized_replay": prioritized})
    whole = run(config)
    before = results(whole, 2)
    path = whole.save(tmp_path)
    after = results(whole, 2)
    assert whole.loop.ledger.updates > 100
    resumed = run(config, path)
    assert results(resumed, 2) == after != before
    end = state_of_run(whole)
    assert_same_state(state_of_run(resumed), end)
    assert {"replay/state_0", "replay/position", "worker/state_1", "worker/position"} <= set(end[0])
