"""Environments that come with this program, for what no registered one asks of a policy.

Registered by ``envs.make`` and imported when one is made. Source: RLlib's StatelessCartPole example.
"""

import gymnasium
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

SEEN = (0, 2)  # of (position, velocity, angle, angular velocity)


class StatelessCartPole(gymnasium.ObservationWrapper):
    """CartPole whose observation is position and angle: the velocities have to be remembered from step to step."""

    metadata = CartPoleEnv.metadata  # gymnasium reads the class's, and a wrapper has it only once it is made

    def __init__(self, **kwargs):
        """Arguments are CartPole's."""
        super().__init__(CartPoleEnv(**kwargs))
        low, high = (bound[list(SEEN)] for bound in (self.env.observation_space.low, self.env.observation_space.high))
        self.observation_space = gymnasium.spaces.Box(low, high, dtype=np.float32)

    def observation(self, observation):
        """Return [position, angle], float32."""
        return observation[list(SEEN)]
