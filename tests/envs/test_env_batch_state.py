"""Running episodes as their actions, to a checkpoint and back."""

import gymnasium
import numpy as np

from drl_cli.envs.env_batch import EnvBatch


def test_state_of_an_episode_that_has_just_begun_is_an_empty_list_of_actions_and_loads():
    name = {"id": "Pendulum-v1", "env_config": {}}
    batch = EnvBatch(name, 2, (3, 0))
    batch.reset()
    batch.step(1, np.array([0.5], np.float32))
    arrays, facts = batch.state()
    assert arrays["actions_0"].size == 0
    assert arrays["actions_1"].tolist() == [[0.5]]

    again = EnvBatch(name, 2, (3, 0))
    again.load(arrays, facts)
    assert np.array_equal(again.obs(), batch.obs())
    action = np.array([-1.0], np.float32)
    assert [again.step(i, action)[0] for i in (0, 1)] == [batch.step(i, action)[0] for i in (0, 1)]
    batch.close()
    again.close()


class Quitter(gymnasium.Env):
    """Ends the program in its second step, as some simulators do."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, seed=None, options=None):
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        if self.steps == 2:
            raise SystemExit(0)
        return np.ones(1, np.float32), 1.0, False, False, {}


def test_environment_that_exits_costs_its_episode_and_not_the_run():
    gymnasium.register("Quitter-v0", Quitter)
    try:
        batch = EnvBatch({"id": "Quitter-v0", "env_config": {}}, 1, (3, 0))
        batch.reset()
        action = np.zeros(1, np.float32)
        assert batch.step(0, action)[0] == 1.0
        assert batch.step(0, action) is None
        assert batch.bad_steps == 1
        assert "SystemExit" in batch.notes[0]
    finally:
        del gymnasium.registry["Quitter-v0"]
