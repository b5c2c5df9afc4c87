"""TD3+BC's update: against a slow one in float64, between cloning and climbing, on observations as the filter leaves them."""

import numpy as np
import pytest
from machine import Machine, random_block, spaces
from slow_ddpg import ACTION, OBS, RATES, SEED, Slow, compare

from drl_cli.algorithms import ddpg, td3bc_graph
from drl_cli.algorithms.td3bc import TD3BCConfig

pytestmark = pytest.mark.tensorflow

LAYERS = {"actor_hiddens": (3,), "critic_hiddens": (3,)}
LAYERS |= {"actor_hidden_activation": "tanh", "critic_hidden_activation": "tanh"}


def config(**keys):
    """Return the config of a small net and batch."""
    small = {"train_batch_size": 4, "updates_per_call": 8, "observation_filter": "NoFilter"}
    return TD3BCConfig(**(LAYERS | small | keys))


def machine_of(made, low=-1.0, high=1.0):
    return Machine(made, spaces(OBS, ACTION, low, high), SEED, False, (ddpg, td3bc_graph), RATES)


def block_of(made):
    block = random_block(made, OBS, ACTION)
    if made.prioritized_replay:
        block["weight"] = np.random.default_rng(1).uniform(0.1, 1, block["reward"].shape).astype(np.float32)
    return block


class SlowClone(Slow):
    """The paper's policy loss, eq. 3 with λ of eq. 5, in place of TD3's."""

    def actor_loss(self, policy, batch):
        critic, rows = self.of("critic/"), range(self.config.train_batch_size)
        weight = batch.get("weight", np.ones(len(rows)))
        present = self.of(self.learnt + "policy/")

        def gain(weights, row):
            return self.q(critic, "critic", batch["obs"][row], self.act(weights, "policy", batch["obs"][row]))[0]

        scale = self.config.alpha / np.mean([abs(gain(present, row)) for row in rows])
        half, total = (self.high - self.low) / 2, 0.0
        for row in rows:
            distance = (self.act(policy, "policy", batch["obs"][row]) - batch["action"][row]) / half
            total += weight[row] * ((distance**2).mean() - scale * gain(policy, row))
        return total / len(rows) + self.decay(policy)


CASES = {
    "plain": {},
    "every update": {"policy_delay": 1},
    "hardly any cloning": {"alpha": 40.0, "policy_delay": 1},
    "prioritized": {"prioritized_replay": True},
    "bounds of the environment": {"normalize_actions": False},
    "averaged policy": {"policy_average": 0.9},
    "several": {
        "policy_delay": 1,
        "alpha": 40.0,
        "prioritized_replay": True,
        "normalize_actions": False,
        "policy_average": 0.9,
    },
}


@pytest.mark.parametrize("keys", CASES.values(), ids=CASES)
def test_update_matches_the_paper_in_float64(keys):
    made = config(tau=0.2, **keys)
    low, high = (-1.0, 3.0) if "normalize_actions" in keys else (-1.0, 1.0)
    with machine_of(made, low, high) as machine:
        slow = SlowClone(made, machine.values(), low, high)
        found = compare(machine, slow, block_of(made), updates=4)
    assert found["actor_adam/count"] == 4 // made.policy_delay


def test_alpha_of_zero_clones_the_recorded_actions():
    made = config(alpha=0.0, policy_delay=1, actor_hiddens=(16,))
    block = block_of(made)
    block["action"] = np.tanh(np.stack([block["obs"][..., 0], -0.5 * block["obs"][..., 1]], axis=-1)).astype(np.float32)
    with machine_of(made) as machine:
        for _ in range(150):
            out = machine.run(block, 8, actor_lr=1e-2)
    assert out["stats"]["actor_loss"] < 0.01


def test_policy_climbs_towards_the_better_of_two_recorded_actions_and_no_further():
    """Actions ±0.3 were recorded, the reward is the action: TD3 alone would go to the bound."""
    rng, block = np.random.default_rng(0), None
    found = {}
    for alpha in (0.0, 0.5, 100.0):
        made = config(alpha=alpha, train_batch_size=32, policy_delay=1, critic_hiddens=(16,))
        block = random_block(made, OBS, ACTION)
        block["action"] = (0.3 * rng.choice([-1, 1], block["action"].shape)).astype(np.float32)
        block["reward"], block["discount"] = block["action"].sum(axis=-1), np.zeros_like(block["discount"])
        with machine_of(made) as machine:
            for _ in range(60):
                machine.run(block, 8)
            values, obs = machine.values(), block["obs"][0]
            slow = Slow(made, values, -1.0, 1.0)
            found[alpha] = np.mean([slow.act(slow.of("policy/"), "policy", row) for row in obs])
    assert abs(found[0.0]) < 0.15
    assert found[0.0] + 0.1 < found[0.5] < 0.7
    assert found[100.0] > 0.9
