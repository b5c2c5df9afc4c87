"""What the tests of recurrent policies share: a small one over the scripted environment's observations, a config."""

import gymnasium
import numpy as np
from scripted_envs import Scripted

from drl_cli.algorithms.r2d2 import R2D2Config
from drl_cli.policies.policy_spec import Dense, DiscreteSpec, NetSpec, PolicySpec, ValueSpec

ENV = {"id": "ScriptedDiscrete-v0", "env_config": {}, "imports": ()}
NET = NetSpec("q", (("obs", 2),), (Dense(4, "tanh"),), (("q", 3),), lstm=5)
SPEC = PolicySpec((NET,), "q", (2,), DiscreteSpec(3), state=NET.state_shapes, value=ValueSpec())


class ScriptedDiscrete(Scripted):
    """The scripted environment with three actions."""

    action_space = gymnasium.spaces.Discrete(3)

    def step(self, action):
        return super().step(np.array([action]))


gymnasium.register("ScriptedDiscrete-v0", entry_point=ScriptedDiscrete)


def weights(seed=0):
    """Return weights under which the state matters."""
    return NET.initial_weights(np.random.default_rng(seed), head_scale=5.0)


def config(**keys):
    """Return an R2D2Config of short fragments and sequences."""
    small = {
        "num_envs_per_worker": 1,
        "rollout_fragment_length": 5,
        "buffer_size": 500,
        "learning_starts": 50,
        "train_batch_size": 6,
        "updates_per_call": 4,
        "n_step": 2,
        "burn_in": 3,
        "model": {"max_seq_len": 4, "lstm_cell_size": 5},
    }
    return R2D2Config.model_validate(small | keys)
