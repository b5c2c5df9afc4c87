"""Environments that go wrong in a worker, for tests over Ray; importing this registers them."""

import os

import gymnasium
import numpy as np
from gymnasium.envs.classic_control import CartPoleEnv

from drl_cli.actors.weight_pulls import WeightPulls


class Reader:
    """A part that pulls weights as a worker does."""

    def __init__(self, server):
        self._pulls = WeightPulls(server, 0)

    def pull(self, version):
        """Return {name: (dtype, first value)} of the policy's weights of ``version``."""
        found = []
        self._pulls.adopt(version, None, found.append)
        return {name: (str(array.dtype), float(array.flat[0])) for name, array in found[-1]["default_policy"].items()}


RAISES = "RaisesInConstructor-v0"


class RaisesInConstructor(gymnasium.Env):
    """Cannot be made."""

    observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gymnasium.spaces.Box(-2, 2, (1,), np.float32)

    def __init__(self):
        raise OSError("no licence for the simulator")


class Gated(CartPoleEnv):
    """Waits once, at its third step, until something is written to a pipe: in the first process that makes one.

    ``folder`` holds the pipe "gate"; in the others nothing waits.
    """

    def __init__(self, folder):
        super().__init__()
        self._gate, self._steps = os.path.join(folder, "gate"), 0
        try:
            os.close(os.open(os.path.join(folder, "taken"), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            self._steps = 3

    def step(self, action):
        self._steps += 1
        if self._steps == 3:
            with open(self._gate, encoding="ascii") as gate:  # waits for the one who writes
                gate.read()
        return super().step(action)


if "Gated-v0" not in gymnasium.registry:
    gymnasium.register("Gated-v0", Gated, max_episode_steps=500)
if RAISES not in gymnasium.registry:
    gymnasium.register(RAISES, RaisesInConstructor)
