"""Soft horizons: the episode ends for those who learn, the environment goes on; films and resumed runs see the same."""

import copy

import numpy as np
import odd_envs  # noqa: F401 - registers the environments
from scripted_envs import ENV, Scripted

from drl_cli.envs.env_batch import EnvBatch
from drl_cli.envs.preprocessors import NOTHING

ZERO = np.zeros(1, np.float32)


def soft(*plan, horizon=2, count=1):
    Scripted.begin(*plan)
    batch = EnvBatch(ENV, count, (7, 3), horizon, soft=True)
    batch.reset()
    return batch


def test_environment_goes_on_behind_a_soft_horizon():
    batch = soft({})
    told = [batch.step(0, ZERO) for _ in range(5)]
    assert [(t, c) for _, t, c, _ in told] == [
        (False, False),
        (False, True),
        (False, False),
        (False, True),
        (False, False),
    ]
    assert [obs.tolist() for *_, obs in told] == [[0, 1], [0, 2], [0, 3], [0, 4], [0, 5]]
    assert Scripted.made == 1 and batch.episode_length(0) == 1


def test_stepping_all_at_once_goes_on_as_well():
    batch = soft({}, {}, count=2)
    stepped = [batch.step_all(np.zeros((2, 1), np.float32)) for _ in range(3)]
    ends = [[(index, t, c, obs.tolist()) for index, t, c, obs in one.ends] for one in stepped]
    assert ends == [[], [(0, False, True, [0, 2]), (1, False, True, [1, 2])], []]
    assert batch.obs().tolist() == [[0, 3], [1, 3]] and Scripted.made == 2


def test_end_of_the_environments_own_at_the_horizon_begins_anew():
    batch = soft({"ends": (2, "truncated")}, {"ends": (2, "terminated")})
    told = [batch.step(0, ZERO)[1:3] for _ in range(4)]
    assert told == [(False, False), (False, True), (False, False), (True, False)]
    assert batch.obs().tolist() == [[2, 0]]
    batch = soft({"ends": (2, "truncated")})
    for _ in range(2):
        batch.step_all(np.zeros((1, 1), np.float32))
    assert batch.obs().tolist() == [[1, 0]]


def test_resumed_run_goes_on_in_the_middle_of_a_soft_episode():
    batch = soft({}, horizon=3)
    for _ in range(7):
        batch.step(0, ZERO)
    stored = copy.deepcopy(batch.state())
    Scripted.begin({})
    other = EnvBatch(ENV, 1, (7, 3), 3, soft=True)
    other.load(*stored)
    assert other.obs().tolist() == [[0, 7]] and other.episode_length(0) == 1
    assert [other.step(0, ZERO)[2] for _ in range(2)] == [batch.step(0, ZERO)[2] for _ in range(2)] == [False, True]


def test_stack_of_frames_begins_anew_behind_a_soft_horizon():
    name = {"id": "Odd-gray-v0", "env_config": {}, "preprocessing": {**NOTHING, "frames": 3}}
    batch = EnvBatch(name, 1, (7, 3), 2, soft=True)
    batch.reset()
    action = np.zeros(1, np.int32)
    stacks = []
    for _ in range(3):
        batch.step_all(action)
        stacks.append(batch.stacked()[0, 0, 0].tolist())
    assert stacks == [[100, 100, 101], [102, 102, 102], [102, 102, 103]]
