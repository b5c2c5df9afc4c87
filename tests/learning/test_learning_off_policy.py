"""Short runs in one process that have to get somewhere: values, twin critics, images."""

import gymnasium
import numpy as np
import pytest

from drl_cli import process

process.prepare()

from drl_cli.algorithms import table  # noqa: E402
from drl_cli.envs import make, preprocessors  # noqa: E402
from drl_cli.extras import load  # noqa: E402
from drl_cli.runtime.driver import Driver  # noqa: E402

pytestmark = pytest.mark.process

STEPS = 60_000  # env steps, several times what each takes
COMMON = {"seed": 0, "num_workers": 0, "evaluation_interval": 1, "evaluation_num_episodes": 10, "xla": False}
SMALL = {"fcnet_hiddens": [32]}


class Patch(gymnasium.Env):
    """A bright patch left or right on 16 x 16 noisy pixels says which action is worth 1; eight looks an episode."""

    observation_space = gymnasium.spaces.Box(0, 255, (16, 16, 1), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)
    metadata = {"render_modes": []}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.looks = 0
        return self._seen(), {}

    def step(self, action):
        reward = float(action == self.side)
        self.looks += 1
        return self._seen(), reward, self.looks == 8, False, {}

    def _seen(self):
        image = self.np_random.integers(0, 100, (16, 16, 1), np.uint8)
        self.side = int(self.np_random.integers(0, 2))
        row, column = self.np_random.integers(0, 12), self.np_random.integers(0, 5) + 8 * self.side
        image[row : row + 4, column : column + 4] += 120
        return image


gymnasium.register("Patch-v0", entry_point=Patch)


def best_of(name, env_id, keys, goal):
    """Train until an evaluation reaches ``goal``; returns the best one and the counters."""
    row = table.find(name)
    config = load(row.config).model_validate(COMMON | keys)
    plan = preprocessors.plan(config, env_id)
    facts = {"id": env_id, "asked": env_id, "env_config": {}, "imports": (), "preprocessing": plan}
    trainer = Driver(name, config, facts | {"spaces": make.check(env_id, {}, row, plan)})
    best = -np.inf
    try:
        trainer.start()
        while best < goal and trainer.counters()["timesteps_total"] < STEPS:
            evaluation = trainer.train()["evaluation"]
            best = max(best, evaluation["episode_reward_mean"]) if evaluation else best
    finally:
        trainer.close()
    return best, trainer.counters()


@pytest.mark.learning
@pytest.mark.parametrize(
    ("name", "env_id", "keys", "goal"),
    [
        ("DQN", "CartPole-v1", {"lr": 1e-3, "exploration_config": {"epsilon_timesteps": 3000}}, 200.0),
        ("TD3", "Pendulum-v1", {}, -300.0),
        (
            "XQC",
            "Pendulum-v1",
            {
                "n_step": 1,
                "learning_starts": 500,
                "timesteps_per_iteration": 500,
                "train_batch_size": 64,
                "training_intensity": 64.0,
            },
            -300.0,
        ),
        ("SAC", "drl/SteerAndStop-v1", {"gamma": 0.95, "policy_average": 0.99}, 1.5),
        (
            "DQN",
            "Patch-v0",
            {
                "model": {"conv_filters": [[8, 4, 2], [16, 3, 2]]} | SMALL,
                "hiddens": [],
                "gamma": 0.0,
                "n_step": 1,
                "lr": 1e-3,
                "learning_starts": 200,
                "timesteps_per_iteration": 500,
                "train_batch_size": 32,
                "exploration_config": {"epsilon_timesteps": 1000},
            },
            7.5,
        ),
    ],
    ids=["DQN CartPole", "TD3 Pendulum", "XQC Pendulum", "SAC Tuple", "DQN images"],
)
def test_run_gets_where_it_should(name, env_id, keys, goal):
    best, counters = best_of(name, env_id, keys, goal)
    assert best >= goal, f"{best:.1f} after {counters}"
