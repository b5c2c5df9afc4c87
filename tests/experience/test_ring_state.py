"""What a checkpoint holds of the ring."""

import numpy as np

from drl_cli.experience.ring_buffer import Ring


def test_state_of_end_rows_holds_zeros_and_not_what_lay_in_memory():
    ring = Ring(8, (1,), (1,))
    ring.action[:], ring.reward[:] = 9.0, 9.0  # what np.empty may find
    columns = {
        "obs": np.zeros((2, 1, 1), np.float32),
        "action": np.ones((2, 1, 1), np.float32),
        "reward": np.ones((2, 1), np.float32),
        "terminated": np.array([[True], [False]]),
        "truncated": np.zeros((2, 1), bool),
        "end_obs": np.full((1, 1), 5.0, np.float32),
        "tail_obs": np.full((1, 1), 6.0, np.float32),
        "cut": np.array([True]),
    }
    ring.add(0, columns)
    ring.cut(0)
    arrays, _ = ring.state()
    assert arrays["obs"].ravel().tolist() == [0.0, 0.0, 5.0, 6.0]
    assert arrays["action"].ravel().tolist() == [1.0, 1.0, 0.0, 0.0]
    assert arrays["reward"].tolist() == [1.0, 1.0, 0.0, 0.0]
