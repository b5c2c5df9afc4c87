"""What the tests of exploration share: small policies, explorations from real configs, and a stream of observations."""

import copy
import json

import numpy as np

from drl_cli.algorithms.ddpg import DDPGConfig
from drl_cli.algorithms.dqn import DQNConfig
from drl_cli.algorithms.sac import SACConfig
from drl_cli.policies import exploration
from drl_cli.policies.numpy_policy import NumpyPolicy
from drl_cli.policies.policy_spec import ActionSpec, Dense, DiscreteSpec, NetSpec, PolicySpec, ValueSpec
from drl_cli.randomness import set_state, state_of

CONFIGS = {"deterministic": DDPGConfig, "q": DQNConfig, "squashed_gaussian": SACConfig}
LOW, HIGH = (-2.0, 0.0), (4.0, 1.0)


def spec(distribution, units=8, sde=False, n=3, **keys):
    """Return a PolicySpec for 3 observations: two Box actions, or ``n`` Discrete ones."""
    heads = {
        "deterministic": (("mean", 2),),
        "squashed_gaussian": (("mean", 2), ("log_std", 2)),
        "q": (("q", n),),
    }[distribution]
    net = NetSpec("policy", (("obs", 3),), (Dense(units, "tanh"),), heads, sde=sde)
    if distribution == "q":
        return PolicySpec((net,), "q", (3,), DiscreteSpec(n), value=ValueSpec())
    return PolicySpec((net,), distribution, (3,), ActionSpec(LOW, HIGH, **keys))


def policy(of_spec, head_scale=1.0, seed=0, **keys):
    """Return a NumpyPolicy with initial weights."""
    rng = np.random.default_rng(seed)
    return NumpyPolicy(of_spec, of_spec.nets[0].initial_weights(rng, head_scale=head_scale, **keys))


def constant(of_spec, **heads):
    """Return a policy whose heads are constants (what is not given is 0)."""
    weights = {name: np.zeros(shape, np.float32) for name, shape in of_spec.nets[0].weight_shapes().items()}
    for head, values in heads.items():
        weights[f"policy/{head}/bias"] = np.float32(values)
    return NumpyPolicy(of_spec, weights)


def explorer(of_spec, count=4, explore=True, use_sde=False, place=(), **settings):
    """Return an Exploration of ``count`` environments, the only ones of the run, without a random phase."""
    place = {"stream": 0, "streams": count, "random_steps": 0, "base": 0} | dict(place)
    extra = {"use_sde": True} if use_sde else {}
    settings = {"random_timesteps": 0} | settings if settings.get("type") != "Random" else settings
    config = CONFIGS[of_spec.distribution](
        num_envs_per_worker=count, explore=explore, exploration_config=settings, **extra
    )
    return exploration.make(config, of_spec, place)


def acted(explored, by, steps, seed=0, count=4, begin=0, ends=()):
    """Return the actions [steps, count, …] on ones; ``ends``: pairs (step, env) at which an episode ends."""
    rng = np.random.default_rng(seed) if isinstance(seed, int) else seed
    obs, found = np.ones((count, 3), np.float32), []
    for step in range(steps):
        action, state, _ = explored.act(by, obs, (), rng, begin + step)
        assert state == () and len(action) == count
        found.append(action)
        for index in [env for at, env in ends if at == step]:
            explored.ended(index)
    return np.stack(found)


def wandered(explored, by, rng, steps, begin=0, count=4):
    """Return the actions on changing observations, with ends of episodes now and then; a function of its arguments."""
    found = []
    for step in range(begin, begin + steps):
        obs = np.random.default_rng(step).standard_normal((count, 3)).astype(np.float32)
        action, _, _ = explored.act(by, obs, (), rng, step)
        found.append(action)
        if step % 7 == 3:
            explored.ended(step % count)
    return np.stack(found)


def saved(explored, rng):
    """Return (arrays, facts, random state) as a checkpoint would hold them."""
    arrays, facts = copy.deepcopy(explored.state())
    return arrays, json.loads(json.dumps(facts)), json.loads(json.dumps(state_of(rng)))


def restored(explored, state):
    """Continue a fresh Exploration from ``saved``; returns the generator."""
    arrays, facts, random = state
    explored.load(arrays, facts)
    rng = np.random.default_rng(99)
    set_state(rng, random)
    return rng
