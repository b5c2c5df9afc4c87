"""What goes to environments, and the record of it."""

import gymnasium
import numpy as np
import pytest

from drl_cli.acting.actions import ActionLog, as_action

BOX = gymnasium.spaces.Box(-1, 1, (2,), np.float32)


def test_discrete_actions_become_python_integers_and_others_stay():
    box = np.float32([0.5])
    assert type(as_action(np.int32(3))) is int and as_action(np.int64(3)) == 3
    assert as_action(box) is box


@pytest.mark.parametrize(
    ("space", "dtype", "actions"),
    [
        (BOX, np.float32, np.arange(400, dtype=np.float32).reshape(200, 2)),
        (gymnasium.spaces.Discrete(300), np.int32, np.arange(200)),
    ],
)
def test_log_gives_back_what_it_was_given_beyond_its_first_room(space, dtype, actions):
    log = ActionLog(space)
    for action in actions:
        log.append(action)
    assert len(log) == 200 and log.taken().dtype == dtype and log.taken().tolist() == actions.tolist()
    assert log.fits(log.taken())
    log.clear()
    assert len(log) == 0 and log.taken().shape == (0, *space.shape)
    log.append(actions[7])
    assert log.taken().tolist() == [actions[7].tolist()]


@pytest.mark.parametrize("other", [np.zeros((3, 2), np.int32), np.zeros((3, 1), np.float32), np.zeros(3, np.float32)])
def test_log_knows_what_is_not_its_own(other):
    assert not ActionLog(BOX).fits(other)
    assert ActionLog(BOX).fits(np.zeros((3, 2), np.float32))
