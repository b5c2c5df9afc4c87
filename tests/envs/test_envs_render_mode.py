"""Environments whose constructors know nothing of rendering."""

import gymnasium
import numpy as np

from drl_cli.envs import make


class Blind(gymnasium.Env):
    """Takes no argument at all."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)


def test_environment_without_a_render_mode_argument_can_be_made():
    gymnasium.register("Blind-v0", Blind)
    try:
        assert isinstance(make.make("Blind-v0", {}).unwrapped, Blind)
    finally:
        del gymnasium.registry["Blind-v0"]
