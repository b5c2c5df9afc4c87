"""Frame stacks beside a slow list of frames."""

import numpy as np
import pytest

from drl_cli.envs.frame_stack import FrameStack


def _frame(number, shape=(2, 3, 2)):
    return (np.arange(np.prod(shape)).reshape(shape) + 20 * number).astype(np.uint8)


@pytest.mark.parametrize("frames", [1, 2, 4])
def test_stack_is_the_last_frames_oldest_first_with_the_first_one_repeated(frames):
    stack, history = FrameStack(3, (2, 3, 2), "uint8", frames), {}
    for number, (row, begins) in enumerate([(0, 1), (1, 1), (0, 0), (0, 0), (1, 0), (0, 0), (0, 0), (0, 1), (0, 0)]):
        if begins:
            history[row] = [_frame(number)] * frames
            stack.begin(row, _frame(number))
        else:
            history[row] = [*history[row][1:], _frame(number)]
            stack.push(row, _frame(number))
        for each, past in history.items():
            assert stack.stacked()[each].tolist() == np.concatenate(past, axis=-1).tolist()
            assert stack.newest()[each].tolist() == past[-1].tolist()
    assert stack.stacked().shape == (3, 2, 3, 2 * frames) and not stack.stacked()[2].any()


def test_one_row_keeps_its_axis_and_copies_do_not_follow():
    stack = FrameStack(2, (8, 8, 1), "uint8", 4)
    stack.begin(1, _frame(1, (8, 8, 1)))
    one, stacked, newest = stack.stacked(slice(1, 2)), stack.stacked(), stack.newest(slice(1, 2))
    stack.push(1, _frame(2, (8, 8, 1)))
    assert (one.shape, newest.shape) == ((1, 8, 8, 4), (1, 8, 8, 1))
    assert one[0, 0, 0].tolist() == [20] * 4 and stacked[1, 0, 0].tolist() == [20] * 4 and newest[0, 0, 0, 0] == 20
    assert stack.stacked()[1, 0, 0].tolist() == [20, 20, 20, 40]


def test_vectors_of_one_frame_are_float32():
    stack = FrameStack(2, (2,), "float32")
    stack.begin(0, stack.seen([0.5, 1]))
    assert stack.stacked().tolist() == [[0.5, 1.0], [0.0, 0.0]] and stack.stacked().dtype == np.float32


def test_observation_of_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"an observation of shape \(1,\) instead of \(2,\)"):
        FrameStack(1, (2,), "float32").seen(np.zeros(1))
