"""The Python door over Ray: an environment that only the program itself has, which Ray moves by value."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

PROGRAM = """
import signal
import sys

import gymnasium
import numpy as np
import ray

from drl_cli import Trainer, register_exploration


class Walk(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, config):
        self.reward = config["reward"]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.full(2, 0.5, np.float32), self.reward, self.steps == 5, False, {}


class Shy:
    def __init__(self, settings, spec, count):
        self.by = settings["by"]

    def act(self, policy, obs, state, rng, at):
        action, state, columns = policy.act(obs, state, rng, False)
        return action * 0 + self.by, state, columns

    def describe(self, t):
        return {"by": self.by}


COMMON = {"num_workers": 1, "env_config": {"reward": 2.0}, "evaluation_interval": None, "seed": 1}
COMMON["timesteps_per_iteration"] = 100
OWN = {"learning_starts": 50, "xla": False, "exploration_config": {"type": "Shy", "by": 0.25}}

if __name__ == "__main__":
    before = signal.getsignal(signal.SIGTERM)
    register_exploration("Shy", Shy, {"by": 0.5})
    keys = {"ES": {"episodes_per_batch": 8, "train_batch_size": 20}, "TD3": OWN}
    for name in sys.argv[1:]:
        try:
            with Trainer(name, env=Walk, config={**COMMON, **keys[name]}) as trainer:
                result = trainer.train()
                print(result["episode_reward_mean"], result["num_healthy_workers"], result["info"]["exploration"])
                assert signal.getsignal(signal.SIGTERM) is before
                1 / 0
        except ZeroDivisionError:
            print("ray", ray.is_initialized())
"""


PRINTED = {"ES": ["10.0 1 {}", "ray False"], "TD3": ["10.0 1 {'by': 0.25}", "ray False"]}


@pytest.mark.ray
@pytest.mark.parametrize("rows", [["TD3"], ["ES", "TD3"]], ids=["once", "twice"])
def test_program_with_everything_of_its_own_trains_and_closes_ray(tmp_path, rows):
    (tmp_path / "program.py").write_text(PROGRAM)
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TUNE_RESULT_DIR": str(tmp_path)}
    words = [sys.executable, str(tmp_path / "program.py"), *rows]
    done = subprocess.run(words, capture_output=True, text=True, timeout=180, env=environ)
    assert done.stdout.splitlines() == [line for row in rows for line in PRINTED[row]], done.stderr
