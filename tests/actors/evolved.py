"""What the tests of evolution's worker, learner and loop share: configs, a policy of CartPole, a slow player of episodes."""

import gymnasium
import numpy as np

from drl_cli.evolution import net, noise_table
from drl_cli.evolution.keys import ARSConfig, ESConfig
from drl_cli.evolution.net import Flat
from drl_cli.policies import filters
from drl_cli.policies.numpy_policy import NumpyPolicy
from drl_cli.randomness import number
from drl_cli.runtime.cluster import LocalHandle

ENV = {"id": "CartPole-v1", "env_config": {}, "imports": ()}
CARTPOLE = {
    "obs": {"kind": "Box", "shape": [4], "dtype": "float32"},
    "action": {"kind": "Discrete", "n": 2, "start": 0, "shape": [], "dtype": "int64"},
}
PENDULUM = {
    "obs": {"kind": "Box", "shape": [3], "dtype": "float32"},
    "action": {"kind": "Box", "shape": [1], "dtype": "float32", "low": [-2.0], "high": [2.0]},
}
SMALL = {"seed": 7, "num_workers": 0, "num_envs_per_worker": 6, "horizon": 60}
IDENTITY = {"seed": 7, "index": 0, "incarnation": 0}
UPDATES = {"ES": "drl_cli.evolution.es_update", "ARS": "drl_cli.evolution.ars_update"}


def config(name="ES", **keys):
    """Return a small config of ES or ARS."""
    return {"ES": ESConfig, "ARS": ARSConfig}[name].model_validate(SMALL | keys)


def parts(made, spaces=CARTPOLE, version=1):
    """Return (PolicySpec, weights that are no special ones, a parameter server that holds them as ``version``)."""
    spec, rng = net.policy_spec(made, spaces), np.random.default_rng(1)
    first = net.initial_weights(made, spec, 3)
    weights = {name: (value + rng.normal(0, 0.2, value.shape)).astype(np.float32) for name, value in first.items()}
    weights |= filters.first_weights(spec)
    server = LocalHandle("parameter server", "drl_cli.actors.parameter_server:ParameterServer", ())
    for _ in range(version):
        server.call("push", {"default_policy": weights})
    return spec, weights, server


def played(made, spec, weights, index, sign, env_id="CartPole-v1", count=0):
    """One episode of direction ``index`` of round ``count``, by itself: (rewards, observations); ``sign`` 1, -1 or 0."""
    flat = Flat(spec.nets[0].weight_shapes())
    step = sign * made.noise_stdev * noise_table.make(made, flat.size).direction(count, index)
    policy = NumpyPolicy(spec, weights | flat.weights((flat.vector(weights) + step).astype(np.float32)))
    env = gymnasium.make(env_id)
    key = (count, index, 0) if sign else (count, index, 2, 0, 0)
    obs, rewards, seen, over = env.reset(seed=number(made.seed, "env", *key))[0], [], [], False
    while not over and len(rewards) < made.horizon:
        seen.append(obs)
        action, _, _ = policy.act(np.float32(obs[None]), (), None, False)
        given = policy.to_env(action)[0]
        obs, reward, terminated, truncated, _ = env.step(given if policy.is_box else int(given))
        rewards.append(float(reward))
        over = terminated or truncated
    return rewards, seen
