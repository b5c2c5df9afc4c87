"""SAC with its default config learns Pendulum-v1 within about a minute."""

import pytest

from drl_cli import process

process.prepare()

from drl_cli.algorithms import table  # noqa: E402
from drl_cli.algorithms.sac import SACConfig  # noqa: E402
from drl_cli.envs import make  # noqa: E402
from drl_cli.runtime.driver import Driver  # noqa: E402

pytestmark = pytest.mark.process

GOAL, STEPS = -250.0, 60_000  # env steps; 15,000 were enough


@pytest.mark.learning
def test_sac_with_default_config_swings_the_pendulum_up():
    spaces = make.check("Pendulum-v1", {}, table.find("SAC"))
    env = {"id": "Pendulum-v1", "asked": "Pendulum-v1", "env_config": {}, "spaces": spaces, "imports": ()}
    trainer = Driver("SAC", SACConfig.model_validate({"seed": 0}), env)
    best = -2000.0
    try:
        trainer.start()
        while best < GOAL and trainer.counters()["timesteps_total"] < STEPS:
            evaluation = trainer.train()["evaluation"]
            best = max(best, evaluation["episode_reward_mean"]) if evaluation else best
    finally:
        trainer.close()
    assert best >= GOAL, f"{best:.0f} after {trainer.counters()}"
    assert evaluation["episodes_this_iter"] == 10
