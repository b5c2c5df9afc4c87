"""What goes to environments, and the record of it."""

import gymnasium
import numpy as np
import pytest

from drl_cli.envs.steps import ActionLogs, as_action, as_actions

BOX = gymnasium.spaces.Box(-1, 1, (2,), np.float32)


def test_discrete_actions_become_python_integers_and_others_stay():
    box = np.float32([0.5])
    assert type(as_action(np.int32(3))) is int and as_action(np.int64(3)) == 3
    assert as_action(box) is box


def test_actions_of_several_environments_are_integers_or_copies_that_may_be_written_to():
    assert [type(one) for one in as_actions(np.array([2, 0]))] == [int, int]
    actions = np.float32([[1, 2], [3, 4]])
    given = as_actions(actions)
    given[0][:] = 9
    assert actions.tolist() == [[1, 2], [3, 4]] and given[1].tolist() == [3, 4]


@pytest.mark.parametrize(
    ("space", "dtype", "actions"),
    [
        (BOX, np.float32, np.arange(400, dtype=np.float32).reshape(200, 2)),
        (gymnasium.spaces.Discrete(300), np.int32, np.arange(200)),
        (gymnasium.spaces.MultiDiscrete([300, 500]), np.int32, np.arange(400).reshape(200, 2)),
    ],
)
def test_log_gives_back_what_it_was_given_beyond_its_first_room(space, dtype, actions):
    logs = ActionLogs(1, space)
    for action in actions:
        logs.append(action, 0)
    assert logs.lengths.tolist() == [200]
    assert logs.taken(0).dtype == dtype and logs.taken(0).tolist() == actions.tolist()
    assert logs.fits(logs.taken(0))
    logs.clear(0)
    assert logs.taken(0).shape == (0, *space.shape)
    logs.append(actions[7], 0)
    assert logs.taken(0).tolist() == [actions[7].tolist()]


def test_logs_of_several_environments_grow_and_end_each_for_itself():
    logs, expected = ActionLogs(3, BOX), [[], [], []]
    rng = np.random.default_rng(0)
    for step in range(500):
        actions = rng.uniform(-1, 1, (3, 2)).astype(np.float32)
        logs.append(actions)
        for which in range(3):
            expected[which].append(actions[which].tolist())
        if step % 7 == 3:
            logs.drop(1)
            logs.append(actions[0], 1)
            expected[1][-1] = actions[0].tolist()
        if step % 90 == 89:
            logs.clear(2)
            expected[2] = []
    assert [logs.taken(which).tolist() for which in range(3)] == expected
    assert logs.lengths.tolist() == [500, 500, 50]


@pytest.mark.parametrize("other", [np.zeros((3, 2), np.int32), np.zeros((3, 1), np.float32), np.zeros(3, np.float32)])
def test_log_knows_what_is_not_its_own(other):
    assert not ActionLogs(4, BOX).fits(other)
    assert ActionLogs(4, BOX).fits(np.zeros((3, 2), np.float32))
