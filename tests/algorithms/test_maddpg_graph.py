"""MADDPG against NumPy: central critics, own rewards and ends, whose policy learns from what, and keys that fit no team."""

import dataclasses

import numpy as np
import pytest
from machine import Machine
from team_spaces import team_spaces

from drl_cli.algorithms import maddpg, maddpg_graph, table
from drl_cli.config.parse import parse
from drl_cli.errors import ConfigError
from drl_cli.policies.forward import Forward

pytestmark = pytest.mark.tensorflow

AGENTS, OBS, N, ROWS = 2, 3, 3, 5
SMALL = {"actor_hiddens": (4,), "critic_hiddens": (4,)}
KEYS = SMALL | {
    "train_batch_size": ROWS,
    "updates_per_call": 1,
    "target_network_update_freq": 10_000,
    "training_intensity": float(ROWS),
    "exploration_config": {"type": "GaussianNoise"},
}


def spaces_for(box=True):
    """Agents that see 3 and 2 numbers and have 3 and 2 actions, or dimensions."""
    return team_spaces((OBS, 2), (N, 2), box=box)


def machine(box=True, **keys):
    given = KEYS | keys | ({} if box else {"exploration_config": {"type": "StochasticSampling"}})
    rates = {"actor_lr": 1e-2, "critic_lr": 1e-2}
    config = maddpg.MADDPGConfig.model_validate(given)
    return Machine(config, spaces_for(box), modules=(maddpg, maddpg_graph), rates=rates)


def block(box=True, seed=0, alive=(1.0, 1.0), next_alive=(1.0, 1.0)):
    """One batch of random transitions in which every agent may do all that it has."""
    spaces, rng = spaces_for(box), np.random.default_rng(seed)
    layout, size = spaces["team"], spaces["obs"]["shape"][0]
    obs, next_obs = rng.normal(0, 1, (2, 1, ROWS, size)).astype(np.float32)
    for seen, there in ((obs, alive), (next_obs, next_alive)):
        seen[..., layout["alive"][0] : sum(layout["alive"])] = there
        if not box:
            seen[..., layout["mask"][0] : sum(layout["mask"])] = [1, 1, 1, 1, 1, 0]
    actions = (1, ROWS, AGENTS * N) if box else (1, ROWS, AGENTS)
    action = rng.uniform(-1, 1, actions).astype(np.float32) if box else rng.integers(0, 2, actions, dtype=np.int32)
    return {
        "obs": obs,
        "next_obs": next_obs,
        "action": action,
        "reward": np.full((1, ROWS), 1e6, np.float32),  # the team's, which nobody learns from
        "discount": np.float32([[0.9, 0.9, 0.0, 0.9, 0.9]]),
    }


def joint_of(spec, weights, obs, prefix=""):
    """What the deterministic policies do at ``obs`` [ROWS, D], the missing dimension 0, [ROWS, A·n]."""
    each = obs[:, : AGENTS * OBS].reshape(ROWS, AGENTS, OBS).swapaxes(0, 1)
    net = spec.nets[0]
    own = {name: weights[prefix + name] for name in net.weight_shapes()}
    action = np.tanh(Forward(net, own)(each)["mean"]).swapaxes(0, 1).copy()
    action[:, 1, 2] = 0.0
    return action.reshape(ROWS, -1)


def critics_of(running, weights, obs, joint, prefix=""):
    """The critics' values, [C, A, ROWS]."""
    net = maddpg.critic_spec(running.config, running.spec)
    own = {name: weights[prefix + name] for name in net.weight_shapes()}
    values = Forward(net, own)(np.concatenate([obs[:, : AGENTS * OBS], joint], axis=1))["q"][..., 0]
    return values.reshape(-1, AGENTS, ROWS)


@pytest.mark.parametrize("twin_q", [False, True])
def test_critics_learn_each_agent_s_own_reward_and_the_lower_target(twin_q):
    given = block(next_alive=(1.0, 0.0))
    layout = spaces_for()["team"]
    with machine(twin_q=twin_q) as running:
        weights = running.values()
        out = running.run(given, 1)
    obs, next_obs = given["obs"][0], given["next_obs"][0]
    next_joint = joint_of(running.spec, weights, next_obs, "target_")
    next_q = critics_of(running, weights, next_obs, next_joint, "target_").min(axis=0)
    rewards = next_obs[:, layout["rewards"][0] : sum(layout["rewards"])].T
    target = rewards + given["discount"][0] * np.array([[1.0], [0.0]]) * next_q  # the second agent has ended
    joint = given["action"][0].copy()
    joint[:, 5] = 0.0
    q = critics_of(running, weights, obs, joint)
    assert q.shape == (2 if twin_q else 1, AGENTS, ROWS)
    assert out["stats"]["critic_loss"] == pytest.approx(0.5 * np.square(target - q).mean(axis=2).sum(), rel=1e-4)
    assert out["rows"]["priority"][0].tolist() == pytest.approx(np.abs(target - q).mean(axis=(0, 1)), rel=1e-4)


def test_loss_of_policies_is_the_value_of_each_agent_s_action_among_those_that_the_others_took():
    given = block()
    with machine(action_reg=0.0) as running:
        weights = running.values()
        out = running.run(given, 1)
    obs, taken = given["obs"][0], given["action"][0].copy()
    taken[:, 5] = 0.0
    own, expected = joint_of(running.spec, weights, obs), 0.0
    for agent, part in enumerate((slice(0, 3), slice(3, 6))):
        joint = taken.copy()
        joint[:, part] = own[:, part]
        expected -= critics_of(running, weights, obs, joint)[0, agent].mean()
    assert out["stats"]["actor_loss"] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("box", [True, False])
def test_each_policy_learns_from_its_own_critic_alone(box):
    with machine(box, action_reg=0.0) as running:
        values = running.values()
        deaf = {name: value * np.float32([[[1]], [[0]]]) for name, value in values.items() if name == "critic/q/kernel"}
        running.set(**deaf)
        before, _ = running.values(), running.run(block(box), 1)
        after = running.values()
    moved = before["policy/dense_0/kernel"] != after["policy/dense_0/kernel"]
    assert moved[0].any() and not moved[1].any()


@pytest.mark.parametrize("box", [True, False])
def test_agents_that_are_gone_learn_nothing(box):
    with machine(box) as running:
        before = running.values()
        running.run(block(box, alive=(0.0, 1.0)), 1)
        after = running.values()
    for name in ("policy/dense_0/kernel", "critic/dense_0/kernel"):
        moved = before[name] != after[name]
        assert moved[1].any() and not moved[0].any()


def test_dimensions_that_an_agent_does_not_have_change_nothing():
    found = []
    for padding in (-1.0, 1.0):
        given = block()
        given["action"][..., 5] = padding
        with machine() as running:
            running.run(given, 1)
            found.append(running.values())
    assert all(np.array_equal(value, found[1][name]) for name, value in found[0].items())


def test_shared_weights_are_one_net_and_critics_stay_each_agent_s_own():
    config = maddpg.MADDPGConfig.model_validate(KEYS | {"share_weights": True})
    spec = maddpg.policy_spec(config, spaces_for())
    assert spec.nets[0].copies == 1
    assert maddpg.critic_spec(config, spec).copies == AGENTS
    assert dataclasses.replace(spec).misfit() is None


@pytest.mark.parametrize(
    ("box", "kind", "message"),
    [
        (True, "StochasticSampling", "StochasticSampling draws Discrete actions; those of a Box are named outright"),
        (False, "GaussianNoise", "GaussianNoise is for Box actions. Give StochasticSampling"),
    ],
)
def test_exploration_that_does_not_fit_the_actions_is_refused(box, kind, message):
    config = maddpg.MADDPGConfig.model_validate(SMALL | {"exploration_config": {"type": kind}})
    with pytest.raises(ConfigError, match=message):
        maddpg.policy_spec(config, spaces_for(box))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"n_step": 3}, "n_step: 3: the agents' own rewards are known of one step; set it to 1"),
        ({"reward_scaling": True}, "reward_scaling: true: it changes the reward of the team"),
        ({"clip_rewards": 1.0}, "clip_rewards: it changes the reward of the team"),
        ({"worker_side_prioritization": True, "prioritized_replay": True}, "worker_side_prioritization"),
    ],
)
def test_keys_that_no_team_can_have_are_refused(keys, message):
    with pytest.raises(ConfigError) as caught:
        parse(table.find("MADDPG"), keys, "config")
    assert message in str(caught.value)
