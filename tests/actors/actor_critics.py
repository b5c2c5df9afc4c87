"""What the tests of gradient workers and learners share: an A3CConfig, small actor-critics of CartPole."""

import numpy as np

from drl_cli.algorithms import actor_critic_nets
from drl_cli.algorithms.a3c import A3CConfig
from drl_cli.runtime.cluster import LocalHandle

ENV = {"id": "CartPole-v1", "env_config": {}, "imports": ()}
SPACES = {
    "obs": {"kind": "Box", "shape": [4], "dtype": "float32"},
    "action": {"kind": "Discrete", "n": 2, "start": 0, "shape": [], "dtype": "int64"},
}
LSTM = {"use_lstm": True, "lstm_cell_size": 4, "max_seq_len": 3}


def config(**keys):
    """Return an A3CConfig of short fragments, episodes of up to 13 steps and a small net; ``model``: keys over that net's."""
    model = {"fcnet_hiddens": (5,)} | keys.pop("model", {})
    small = {"num_workers": 0, "num_envs_per_worker": 2, "rollout_fragment_length": 5, "horizon": 13, "model": model}
    return A3CConfig.model_validate(small | keys)


def identity(index=0, base=0, streams=2):
    """Return the identity of a worker with two of ``streams`` environments, when ``base`` env steps had been sampled."""
    place = {"random_steps": 0, "stream": 0, "streams": streams, "base": base}
    return {"seed": 7, "index": index, "incarnation": 0} | place


def parts(made):
    """Return (PolicySpec, weights that are no special ones, handle of a parameter server that holds them as version 1)."""
    spec = actor_critic_nets.policy_spec(made, SPACES)
    rng = np.random.default_rng(1)
    first = actor_critic_nets.initial_weights(made, spec, 3)
    weights = {name: (value + rng.normal(0, 0.2, value.shape)).astype(np.float32) for name, value in first.items()}
    server = LocalHandle("parameter server", "drl_cli.actors.parameter_server:ParameterServer", ())
    server.call("push", {"default_policy": weights})
    return spec, weights, server
