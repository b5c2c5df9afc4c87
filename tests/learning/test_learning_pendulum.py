"""SAC with its default config learns Pendulum-v1 within about a minute."""

import time

import pytest

from drl_cli import process

process.prepare()

from drl_cli.acting import envs  # noqa: E402
from drl_cli.algorithms import table  # noqa: E402
from drl_cli.configs.sac import SACConfig  # noqa: E402
from drl_cli.runtime.trainer import Trainer  # noqa: E402

GOAL, SECONDS = -250.0, 120.0  # 15 s on an idle core; twice the minute for a busy one


@pytest.mark.learning
def test_sac_with_default_config_swings_the_pendulum_up():
    spaces = envs.check("Pendulum-v1", {}, table.find("SAC"))
    env = {"id": "Pendulum-v1", "asked": "Pendulum-v1", "env_config": {}, "spaces": spaces, "imports": ()}
    trainer = Trainer("SAC", SACConfig.model_validate({"seed": 0}), env)
    best, began = -2000.0, time.monotonic()
    try:
        trainer.start()
        while best < GOAL and time.monotonic() - began < SECONDS:
            evaluation = trainer.train()["evaluation"]
            best = max(best, evaluation["episode_reward_mean"]) if evaluation else best
    finally:
        trainer.close()
    assert best >= GOAL, f"{best:.0f} after {trainer.counters()}"
    assert evaluation["episodes_this_iter"] == 10
