"""n-step windows inside a fragment, against a slow walk over its steps."""

import numpy as np
import pytest

from drl_cli.experience.advantages import n_step


def _slow(columns, gamma, steps):
    """(reward, discount, last) of the window from every step on, walked one step at a time."""
    length, count = columns["reward"].shape
    found = np.zeros((3, length, count))
    for first in range(length):
        for env in range(count):
            total, at, power = 0.0, first, 0
            while True:
                total += gamma**power * columns["reward"][at, env]
                power += 1
                dead = columns["terminated"][at, env]
                if dead or columns["truncated"][at, env] or power == steps or at == length - 1:
                    break
                at += 1
            found[:, first, env] = total, 0.0 if dead else gamma**power, at
    return found


@pytest.mark.parametrize("steps", [1, 2, 3, 5, 20, 50])
@pytest.mark.parametrize("length", [1, 2, 20])
def test_windows_are_those_of_a_slow_walk(steps, length):
    rng = np.random.default_rng(steps + length)
    columns = {
        "reward": rng.standard_normal((length, 6)).astype(np.float32),
        "terminated": rng.random((length, 6)) < 0.15,
        "truncated": rng.random((length, 6)) < 0.15,
    }
    before = {name: array.copy() for name, array in columns.items()}
    windows = n_step(columns, 0.9, steps)
    for found, expected in zip(windows, _slow(columns, 0.9, steps), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert [array.dtype.name for array in windows] == ["float32", "float32", "int64"]
    assert all(np.array_equal(before[name], columns[name]) for name in columns)


def test_windows_of_one_environment_by_hand():
    columns = {
        "reward": np.float32([[1], [2], [4], [8], [16]]),
        "terminated": np.array([[False], [True], [False], [False], [False]]),
        "truncated": np.array([[False], [False], [False], [True], [False]]),
    }
    windows = n_step(columns, 0.5, 3)
    # From step 0 to the terminal 1; from 2 to the truncated 3; step 4 alone, cut short by the fragment's end.
    assert windows.reward[:, 0].tolist() == [2.0, 2.0, 8.0, 8.0, 16.0]
    assert windows.discount[:, 0].tolist() == [0.0, 0.0, 0.25, 0.5, 0.5]
    assert windows.last[:, 0].tolist() == [1, 1, 3, 3, 4]
