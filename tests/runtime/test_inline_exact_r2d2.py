"""A recurrent run without workers goes on from a checkpoint as if it had not stopped, its running episodes included."""

import pytest
from runtime_runs import SINCE_RESTORE, timeless
from test_inline_exact import assert_same_state, state_of_run

from drl_cli import checkpoints
from drl_cli.algorithms import table
from drl_cli.envs import make
from drl_cli.extras import load
from drl_cli.runtime.driver import Driver

pytestmark = pytest.mark.process

ENVS = {"R2D2": "drl/StatelessCartPole-v1", "RNNSAC": "drl/StatelessPendulum-v1", "RNNTD3": "drl/StatelessPendulum-v1"}
SMALL = {
    "seed": 7,
    "learning_starts": 200,
    "timesteps_per_iteration": 200,
    "buffer_size": 1500,
    "train_batch_size": 8,
    "rollout_fragment_length": 10,
    "burn_in": 2,
    "evaluation_interval": 2,
    "evaluation_num_episodes": 2,
    "xla": False,
}
MEMORY = {"lstm_cell_size": 8, "max_seq_len": 4}
OWN = {
    "R2D2": {
        "model": {"fcnet_hiddens": [8], **MEMORY},
        "hiddens": [8],
        "exploration_config": {"epsilon_timesteps": 400},
    },
    "RNNSAC": {"model": MEMORY, "policy_model": {"fcnet_hiddens": [8]}, "Q_model": {"fcnet_hiddens": [8]}},
    "RNNTD3": {"model": MEMORY, "actor_hiddens": [8], "critic_hiddens": [8]},
}


@pytest.fixture
def run():
    """Function (name of a row, config, restore) → a started Driver."""
    trainers = []

    def start(name, config, restore=None):
        env_id, spaces = ENVS[name], make.check(ENVS[name], {}, table.find(name))
        facts = {"id": env_id, "asked": env_id, "env_config": {}, "spaces": spaces, "imports": ()}
        trainers.append(Driver(name, config, facts))
        if restore:
            trainers[-1].restore(checkpoints.load(restore), True)
        trainers[-1].start()
        return trainers[-1]

    yield start
    for trainer in trainers:
        trainer.close()


def results(trainer, count):
    return [timeless(trainer.train(), SINCE_RESTORE) for _ in range(count)]


@pytest.mark.parametrize(
    ("name", "prioritized"), [("R2D2", False), ("R2D2", True), ("RNNSAC", True), ("RNNTD3", False)]
)
def test_recurrent_run_interrupted_after_two_iterations_equals_the_whole_run(run, tmp_path, name, prioritized):
    schema = load(table.find(name).config)
    config = schema.model_validate(SMALL | OWN[name] | {"prioritized_replay": prioritized})
    whole = run(name, config)
    before = results(whole, 2)
    path = whole.save(tmp_path)
    after = results(whole, 2)
    assert whole.loop.ledger.updates > 100
    resumed = run(name, config, path)
    assert results(resumed, 2) == after != before
    end = state_of_run(whole)
    assert_same_state(state_of_run(resumed), end)
    assert {"replay/state_0", "replay/position", "worker/state_1", "worker/position"} <= set(end[0])
