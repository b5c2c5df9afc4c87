"""DDPG's and TD3's update: against a slow one in float64, what moves when, what it converges to."""

import numpy as np
import pytest
from machine import Machine, random_block, spaces
from slow_ddpg import ACTION, OBS, RATES, SEED, Slow, compare

from drl_cli.algorithms import ddpg, ddpg_graph
from drl_cli.algorithms.ddpg import DDPGConfig, TD3Config

pytestmark = pytest.mark.tensorflow

MODULES = (ddpg, ddpg_graph)


def config(kind=TD3Config, **keys):
    """Return the config of a small net and batch."""
    small = {"actor_hiddens": (3,), "critic_hiddens": (3,), "train_batch_size": 4, "updates_per_call": 8}
    activations = {"actor_hidden_activation": "tanh", "critic_hidden_activation": "tanh"}
    return kind(**(small | activations | {"prioritized_replay": False} | keys))


def machine_of(made, low=-1.0, high=1.0, xla=False):
    return Machine(made, spaces(OBS, ACTION, low, high), SEED, xla, MODULES, RATES)


def block_of(made, seed=0):
    block = random_block(made, OBS, ACTION, seed)
    if made.prioritized_replay:
        block["weight"] = np.random.default_rng(1).uniform(0.1, 1, block["reward"].shape).astype(np.float32)
    return block


CASES = {
    "TD3": {},
    "DDPG": {"kind": DDPGConfig, "l2_reg": 0.1},
    "priorities": {"prioritized_replay": True},
    "Huber": {"use_huber": True, "huber_threshold": 0.3},
    "delay of three, one critic": {"policy_delay": 3, "twin_q": False},
    "bounds of the environment": {"normalize_actions": False, "target_noise": 1.0},
    "averaged policy": {"policy_average": 0.9},
    "several": {
        "prioritized_replay": True,
        "use_huber": True,
        "huber_threshold": 0.3,
        "policy_delay": 3,
        "twin_q": False,
        "normalize_actions": False,
        "target_noise": 1.0,
        "policy_average": 0.9,
    },
}


@pytest.mark.parametrize("keys", CASES.values(), ids=CASES)
def test_update_matches_the_papers_in_float64(keys):
    made = config(tau=0.2, **keys)
    low, high = (-1.0, 3.0) if keys.get("normalize_actions") is False else (-1.0, 1.0)
    with machine_of(made, low, high) as machine:
        slow = Slow(made, machine.values(), low, high)
        found = compare(machine, slow, block_of(made), updates=4)
    assert found["actor_adam/count"] == 4 // made.policy_delay
    assert found["num_updates"] == 4


def test_delayed_policy_and_targets_move_on_every_second_update_however_calls_are_split():
    made = config()
    block = block_of(made)
    with machine_of(made) as machine:
        first, second = machine.changed(block, 1), machine.changed(block, 1)
        assert {name.split("/")[0] for name in first} == {"critic", "critic_adam", "num_updates"}
        assert {"policy", "target_policy", "target_critic", "actor_adam"} <= {name.split("/")[0] for name in second}
        machine.run(block, 3)
        assert machine.values()["actor_adam/count"] == 2


@pytest.mark.slow
@pytest.mark.parametrize(("discount", "value"), [(0.9, 10.0), (0.0, 1.0)], ids=["never ends", "ends at once"])
def test_critics_reach_the_value_of_a_reward_of_one(discount, value):
    made = config(critic_hiddens=(16,), tau=0.2)
    block = block_of(made)
    block["reward"][:], block["discount"][:] = 1.0, discount
    with machine_of(made) as machine:
        for _ in range(150):
            out = machine.run(block, 8)
    assert abs(out["stats"]["mean_q"] - value) < 0.1 * max(1.0, value / 5)


def test_rate_of_zero_keeps_the_policy_and_not_the_critics():
    made = config(policy_delay=1)
    with machine_of(made) as machine:
        changed = machine.changed(block_of(made), 2, actor_lr=0.0)
    assert not any(name.startswith("policy/") for name in changed)
    assert any(name.startswith("critic/") for name in changed)


def test_compiled_and_plain_updates_agree():
    made = config()
    block, found = block_of(made), []
    for xla in (False, True):
        with machine_of(made, xla=xla) as machine:
            machine.run(block, 5)
            found.append(machine.values())
    for name in found[0]:
        np.testing.assert_allclose(found[0][name], found[1][name], atol=1e-5, err_msg=name)


def test_critics_travel_with_the_policy_where_workers_judge():
    made = config(worker_side_prioritization=True, prioritized_replay=True)
    with machine_of(made) as machine:
        published = {name.split("/")[1] for name in machine.graph.published}
        assert published == {"policy", "critic"}
        assert machine.spec.misfit() is None
