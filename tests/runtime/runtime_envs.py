"""Environments that go wrong in a worker, for tests over Ray; importing this registers them."""

import gymnasium
import numpy as np

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


if RAISES not in gymnasium.registry:
    gymnasium.register(RAISES, RaisesInConstructor)
