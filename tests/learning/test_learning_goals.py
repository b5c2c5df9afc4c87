"""SAC learns to reach goals from a reward that says only whether they are reached, with hindsight."""

import pytest

from drl_cli import process

process.prepare()

from drl_cli.algorithms import table  # noqa: E402
from drl_cli.algorithms.sac import SACConfig  # noqa: E402
from drl_cli.envs import make  # noqa: E402
from drl_cli.runtime.driver import Driver  # noqa: E402

pytestmark = pytest.mark.process

KEYS = {"seed": 0, "hindsight_goals": 4, "n_step": 1, "gamma": 0.95, "evaluation_interval": 1, "min_iter_time_s": 0}
STEPS = 40_000  # env steps; 12,000 were enough


@pytest.mark.learning
def test_sac_with_hindsight_reaches_nine_goals_of_ten():
    env_id = "drl/PointReach-v1"
    spaces = make.check(env_id, {}, table.find("SAC"))
    env = {"id": env_id, "asked": env_id, "env_config": {}, "spaces": spaces, "imports": ()}
    trainer = Driver("SAC", SACConfig.model_validate(KEYS), env)
    best = 0.0
    try:
        trainer.start()
        while best < 0.9 and trainer.counters()["timesteps_total"] < STEPS:
            evaluation = trainer.train()["evaluation"]
            best = max(best, evaluation["success_rate"]) if evaluation else best
    finally:
        trainer.close()
    assert best >= 0.9, f"{best:.0%} after {trainer.counters()}"
