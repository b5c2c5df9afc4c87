"""Workers with several agents in environments of ``agents_at_random``, for tests."""

from agents_at_random import AGENTS, SPACES, AtRandom

from drl_cli.actors.multi_agent_worker import MultiAgentWorker
from drl_cli.actors.policy_slots import PolicySetup
from drl_cli.algorithms.dqn import DQN, DQNConfig
from drl_cli.algorithms.ppo import PPO, PPOConfig
from drl_cli.envs.multi_agent import open_envs
from drl_cli.extras import load
from drl_cli.policies import filters
from drl_cli.runtime.cluster import InlineCluster

GAMMA = 0.9
SHARED = {"default_policy": AGENTS}
APART = {"first": ("a",), "others": ("b", "c")}


def policies_setup(kind, policies, own, **keys):
    """Return (the run's config, {policy id: PolicySetup}, the nets); ``own``: {policy id: keys in which it differs}."""
    given = {"num_workers": 0, "num_envs_per_worker": 2, "rollout_fragment_length": 8, "gamma": GAMMA, **keys}
    schema = PPOConfig if kind == "ppo" else DQNConfig
    nets = load((PPO if kind == "ppo" else DQN).nets)
    configs = {name: schema(**given | own.get(name, {}), seed=0) for name in policies}
    setups = {
        name: PolicySetup(configs[name], nets.policy_spec(configs[name], SPACES), agents, True)
        for name, agents in policies.items()
    }
    return schema(**given, seed=0), setups, nets


def agents_worker(monkeypatch, kind="ppo", policies=SHARED, breaks=0.0, always=False, identity=None, own=None, **keys):
    """Return (a MultiAgentWorker in environments of AtRandom, these environments)."""
    made, function = [], keys.pop("mapping_fn", None)
    is_turn_based = keys.pop("is_turn_based", False)

    def open_setup(env, render_mode=None):
        made.append(AtRandom(breaks, always))
        return made[-1]

    monkeypatch.setattr(open_envs, "open_setup", open_setup)
    config, setups, nets = policies_setup(kind, policies, own or {}, **keys)
    env = {
        "id": "at-random",
        "env_config": {},
        "agents": {
            "spaces": dict.fromkeys(AGENTS, SPACES),
            "policies": {name: {"agents": agents} for name, agents in policies.items()},
            "mapping": None if function else {agent: name for name, agents in policies.items() for agent in agents},
            "mapping_fn": function,
            "is_turn_based": is_turn_based,
        },
    }
    server = InlineCluster().spawn("server", "drl_cli.actors.parameter_server:ParameterServer", (), "here")
    weights = {
        name: nets.initial_weights(one.config, one.spec, 0) | filters.first_weights(one.spec)
        for name, one in setups.items()
    }
    acting = {name: {one: own[one] for one in setups[name].spec.weight_names()} for name, own in weights.items()}
    server.call("push", acting)
    place = {"seed": 3, "index": 0, "incarnation": 0, "random_steps": 0, "stream": 0, "streams": 2, "base": 0}
    return MultiAgentWorker(config, env, setups, place | (identity or {}), server), made


def lived_by(made, agents):
    """Return {number of the first observation: step} of all environments' agents."""
    return {one["obs"]: one for env in made for one in env.lived if one["agent"] in agents}
