"""Environments that go wrong in a worker, for tests over Ray; importing this registers them."""

import gymnasium
import numpy as np

RAISES = "RaisesInConstructor-v0"


class RaisesInConstructor(gymnasium.Env):
    """Cannot be made."""

    observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gymnasium.spaces.Box(-2, 2, (1,), np.float32)

    def __init__(self):
        raise OSError("no licence for the simulator")


if RAISES not in gymnasium.registry:
    gymnasium.register(RAISES, RaisesInConstructor)
