"""What a checkpoint holds of the ring."""

import numpy as np

from drl_cli.experience.ring_buffer import Ring


def one_step(**changed):
    """A fragment of one step that begins an episode and does not end it."""
    no = np.zeros((1, 1), bool)
    columns = {"obs": np.ones((1, 1, 3), np.float32), "action": np.ones((1, 1, 2), np.float32), "cut": np.array([True])}
    columns |= {"reward": np.ones((1, 1), np.float32), "terminated": no, "truncated": no}
    return columns | {"end_obs": np.zeros((0, 3), np.float32), "tail_obs": np.ones((1, 3), np.float32)} | changed


def test_bytes_are_those_of_every_column_of_the_rows_present_or_of_all():
    ring = Ring(10, (3,), (2,))
    ring.add(0, one_step())
    # observation 3·4, action 2·4, reward 4, link 4, flags 1
    assert (ring.nbytes(), ring.reserved()) == (29, 290)
    looking_back = Ring(10, (3,), (2,), frames=2)
    looking_back.add(0, one_step())
    assert (looking_back.nbytes(), looking_back.reserved()) == (33, 330)


def test_stream_that_waits_after_the_very_first_row_is_restored():
    ring, other = Ring(10, (3,), (2,)), Ring(10, (3,), (2,))
    ring.add(0, one_step())
    other.load(*ring.state())
    other.add(0, one_step(cut=np.array([False])))
    assert other.link.tolist()[:2] == [1, -1]


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
