"""A checkpoint of two policies, for two copies of CartPole: what a run with several agents leaves."""

import json

import numpy as np

from drl_cli import checkpoints
from drl_cli.policies.policy_from_manifest import policy_spec
from drl_cli.policies.policy_spec import Dense, DiscreteSpec, NetSpec, PolicySpec

OBS = {"kind": "Box", "shape": [4], "dtype": "float32", "low": [-4.8, None, -0.4, None], "high": [4.8, None, 0.4, None]}
SPACES = {"obs": OBS, "action": {"kind": "Discrete", "n": 2, "start": 0, "shape": [], "dtype": "int64"}}
SPEC = PolicySpec(
    (NetSpec("policy", (("obs", 4),), (Dense(6, "tanh"),), (("logits", 2),)),), "categorical", (4,), DiscreteSpec(2)
)


def agents_setup(policy_of):
    """The AgentsSetup of as many copies as ``policy_of`` ({agent: policy id}) has agents."""
    policies = {
        name: {
            "agents": [agent for agent, own in policy_of.items() if own == name],
            "spaces": SPACES,
            "config": {},
            "is_trained": True,
        }
        for name in dict.fromkeys(policy_of.values())
    }
    return {
        "kind": "copies",
        "count": len(policy_of),
        "is_turn_based": False,
        "spaces": dict.fromkeys(policy_of, SPACES),
        "policies": policies,
        "mapping": policy_of,
        "mapping_fn": None,
        "observation_fn": None,
    }


def write_pair(run_folder, number=10, policy_of=None, **facts):
    """Write a checkpoint into ``run_folder``, the best one of it, and return its path; ``facts`` replaces facts."""
    agents = agents_setup(policy_of or {"0": "a", "1": "b"})
    data = json.loads(json.dumps(SPEC.to_dict()))
    assert policy_spec(data) == SPEC
    rng = np.random.default_rng(number)
    weights = {
        f"{policy}/{name}": rng.normal(0, 0.5, shape).astype(np.float32)
        for policy in agents["policies"]
        for name, shape in SPEC.weight_shapes().items()
    }
    run_folder.mkdir(exist_ok=True)
    with checkpoints.Writer(run_folder, number) as writer:
        checkpoints.write_arrays(writer.folder / "weights.safetensors", weights)
        checkpoints.write_json(writer.folder / "state.json", {})
        path = writer.commit(
            {
                "algorithm": "PPO",
                "env": "CartPole-v1",
                "env_asked": "CartPole-v1",
                "env_config": {},
                "horizon": None,
                "spaces": SPACES,
                "policies": dict.fromkeys(agents["policies"], data),
                "agents": agents,
                "counters": {"training_iteration": number, "timesteps_total": 1000 * number},
                **facts,
            }
        )
    (run_folder / "best.json").write_text(json.dumps({"checkpoint": path.name}), encoding="utf-8")
    return path
