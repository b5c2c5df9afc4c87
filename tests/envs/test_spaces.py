"""Spaces as plain data, and which of them fit."""

import gymnasium
import numpy as np

from drl_cli.algorithms import table
from drl_cli.envs import spaces


def described(actions):
    obs = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32)
    return {"obs": spaces.describe_space(obs), "action": spaces.describe_space(actions)}


def test_misfit_of_seventy_equal_bounds_is_none():
    box = gymnasium.spaces.Box(-2.0, 2.0, (70,), np.float32)
    assert spaces.misfit(described(box), table.find("SAC")) is None


def test_misfit_names_the_unbounded_action():
    box = gymnasium.spaces.Box(np.array([-1.0, -np.inf], np.float32), np.array([1.0, 1.0], np.float32))
    assert "action 1 has the bounds" in spaces.misfit(described(box), table.find("SAC"))


def test_a_board_is_the_only_box_of_three_axes_in_a_dict():
    box = gymnasium.spaces.Box
    mask, board, bytes_ = box(0, 1, (7,), np.int8), box(0, 1, (6, 7, 2), np.int8), box(0, 255, (6, 7, 2), np.uint8)
    found = [
        spaces.find_board(gymnasium.spaces.Dict(parts), gymnasium.spaces.flatdim)
        for parts in (
            {"action_mask": mask, "observation": board},
            {"observation": bytes_},
            {"one": board, "two": board},
            {"action_mask": mask},
        )
    ]
    assert found == [[7, 6, 7, 2], None, None, None]
    assert spaces.find_board(board, gymnasium.spaces.flatdim) is None
