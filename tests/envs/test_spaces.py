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
