"""R2D2 balances a pole whose velocities it does not see within half a minute."""

import pytest

from drl_cli import process

process.prepare()

from drl_cli.algorithms import table  # noqa: E402
from drl_cli.algorithms.r2d2 import R2D2Config  # noqa: E402
from drl_cli.envs import make  # noqa: E402
from drl_cli.runtime.driver import Driver  # noqa: E402

pytestmark = pytest.mark.process

ENV_ID = "drl/StatelessCartPole-v1"
GOAL, STEPS = 100.0, 40_000  # random: 22, without a memory: at most about 60

KEYS = {
    "seed": 0,
    "training_intensity": 8.0,
    "evaluation_interval": 1,
    "model": {"fcnet_hiddens": [64], "lstm_cell_size": 32, "max_seq_len": 10},
    "xla": False,
}


@pytest.mark.learning
def test_r2d2_balances_a_pole_without_seeing_velocities():
    spaces = make.check(ENV_ID, {}, table.find("R2D2"))
    assert spaces["obs"]["shape"] == [2]
    env = {"id": ENV_ID, "asked": ENV_ID, "env_config": {}, "spaces": spaces, "imports": ()}
    trainer = Driver("R2D2", R2D2Config.model_validate(KEYS), env)
    best = 0.0
    try:
        trainer.start()
        while best < GOAL and trainer.counters()["timesteps_total"] < STEPS:
            evaluation = trainer.train()["evaluation"]
            best = max(best, evaluation["episode_reward_mean"]) if evaluation else best
    finally:
        trainer.close()
    assert best >= GOAL, f"{best:.0f} after {trainer.counters()}"
