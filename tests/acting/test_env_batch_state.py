"""Running episodes as their actions, to a checkpoint and back."""

import numpy as np

from drl_cli.acting.env_batch import EnvBatch


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
