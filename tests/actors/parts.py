"""What the tests of actors share: a config, a small policy, a parameter server that answers at once."""

import numpy as np

from drl_cli.algorithms.sac import SACConfig
from drl_cli.policies.policy_spec import ActionSpec, Dense, NetSpec, PolicySpec
from drl_cli.runtime.cluster import LocalHandle


def spec(obs, low, high, units=8, **action):
    """Return a PolicySpec for ``obs`` inputs and actions between ``low`` and ``high`` (tuples), two layers of ``units``."""
    size = len(low)
    net = NetSpec(
        "policy", (("obs", obs),), (Dense(units, "tanh"), Dense(units, "tanh")), (("mean", size), ("log_std", size))
    )
    return PolicySpec((net,), "squashed_gaussian", (obs,), ActionSpec(low, high, **action))


def weights(of_spec, seed=0):
    """Return weights of a policy that is no special one."""
    return of_spec.nets[0].initial_weights(np.random.default_rng(seed), head_scale=3.0)


def server():
    """Return a handle of a parameter server in this process."""
    return LocalHandle("parameter server", "drl_cli.actors.parameter_server:ParameterServer", ())


def config(**keys):
    """Return a SACConfig with one environment and short fragments."""
    return SACConfig(
        **({"num_envs_per_worker": 1, "rollout_fragment_length": 5, "buffer_size": 1000, "learning_starts": 100} | keys)
    )


def identity(index=0, random_steps=10**9):
    """Return the identity of a worker with one environment, the only one of its run."""
    place = {"random_steps": random_steps, "stream": 0, "streams": 1, "base": 0}
    return {"seed": 7, "index": index, "incarnation": 0} | place
