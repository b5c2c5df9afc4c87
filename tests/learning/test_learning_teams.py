"""Short runs of teams in one process that have to get somewhere, or must not: the two-step game of Rashid et al. 2018."""

import pytest
import team_envs

from drl_cli import process

process.prepare()

from drl_cli.algorithms import table  # noqa: E402
from drl_cli.envs import make, preprocessors  # noqa: E402
from drl_cli.extras import load  # noqa: E402
from drl_cli.runtime.driver import Driver  # noqa: E402

pytestmark = pytest.mark.process

COMMON = {"seed": 0, "num_workers": 0, "evaluation_interval": 1, "evaluation_num_episodes": 10, "xla": False}
RANDOM = {"exploration_config": {"initial_epsilon": 1.0, "final_epsilon": 1.0}}


def evaluations(name, env_id, keys, steps):
    """Train for ``steps`` env steps; returns the mean return of every evaluation."""
    row = table.find(name)
    config = load(row.config).model_validate(COMMON | keys)
    plan = preprocessors.plan(config, env_id)
    facts = {"id": env_id, "asked": env_id, "env_config": {}, "imports": (team_envs.__name__,), "preprocessing": plan}
    trainer, found = Driver(name, config, facts | {"spaces": make.check(env_id, {}, row, plan)}), []
    try:
        trainer.start()
        while trainer.counters()["timesteps_total"] < steps:
            evaluation = trainer.train()["evaluation"]
            found.append(evaluation["episode_reward_mean"])
    finally:
        trainer.close()
    return found


@pytest.mark.learning
@pytest.mark.parametrize(("name", "value"), [("QMIX", 8.0), ("VDN", 7.0)])
def test_qmix_solves_the_two_step_game_from_random_actions_and_vdn_cannot(name, value):
    keys = RANDOM | {"lr": 1e-3, "learning_starts": 200, "target_network_update_freq": 200}
    found = evaluations(name, "TwoStepTeam-v0", keys, 4000)
    assert found[-2:] == [value, value], found


MEMORY = {"use_lstm": True, "lstm_cell_size": 16, "max_seq_len": 2}


@pytest.mark.learning
@pytest.mark.parametrize(
    ("name", "model", "least", "most"), [("QMIX", MEMORY, 1.0, 1.0), ("VDN", MEMORY, 1.0, 1.0), ("QMIX", {}, 0.0, 0.6)]
)
def test_team_with_memory_recalls_what_it_saw_and_one_without_stays_at_chance(name, model, least, most):
    keys = RANDOM | {
        "lr": 3e-3,
        "learning_starts": 200,
        "target_network_update_freq": 100,
        "evaluation_num_episodes": 50,
        "model": {"fcnet_hiddens": [16], **model},
    }
    found = evaluations(name, "RecallTeam-v0", keys, 3000)
    assert least <= found[-1] <= most, found
