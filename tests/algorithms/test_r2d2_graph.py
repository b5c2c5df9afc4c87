"""R2D2's graph: padding counts for nothing, compiled equals plain, a reward for ever is known, what an update changes."""

import numpy as np
import pytest
from r2d2_machine import config, machine, random_block

from drl_cli.policies.policy_spec import ValueSpec

pytestmark = pytest.mark.tensorflow


def test_net_is_dqns_with_an_lstm_and_a_state():
    with machine(config()) as running:
        spec = running.spec
        published = {name.removeprefix("default_policy/") for name in running.graph.published}
    assert (spec.distribution, spec.state, spec.value) == ("q", ((3,), (3,)), ValueSpec())
    assert spec.nets[0].lstm == 3 and spec.nets[0].heads == (("value", 1), ("advantage", 3))
    assert spec.misfit() is None and published == set(spec.weight_names())


@pytest.mark.parametrize("prioritized", [False, True])
def test_what_stands_in_padding_changes_neither_loss_nor_gradient_nor_priority(prioritized):
    made = config(prioritized_replay=prioritized)
    block, rng = random_block(made), np.random.default_rng(9)
    other = {name: values.copy() for name, values in block.items()}
    pads = block["mask"] == 0
    assert 5 < pads.sum() < pads.size - 5
    for name in ("action", "reward", "discount", "ahead"):
        other[name][pads] = {"action": 2, "ahead": 1}.get(name, 0.7)
    # before an episode's beginning, and behind the observation at its end
    first = np.where(block["begins"].any(axis=-1), block["begins"].argmax(axis=-1), 0)
    steps = np.arange(block["obs"].shape[2])
    last = made.burn_in + (block["ahead"] + np.arange(4)).max(axis=-1, where=~pads, initial=0)
    unseen = (steps < first[..., None]) | (steps > last[..., None])
    other["obs"][unseen] = rng.normal(0, 9, other["obs"][unseen].shape)
    assert not np.array_equal(other["obs"], block["obs"])
    outcomes = []
    for each in (block, other):
        with machine(made) as running:
            out = running.run(each, 4)
            outcomes.append((out["stats"], out["rows"]["priority"], running.values()))
    for name, value in outcomes[0][0].items():
        np.testing.assert_allclose(outcomes[1][0][name], value, rtol=1e-5, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(outcomes[1][1], outcomes[0][1], rtol=1e-5)
    for name, value in outcomes[0][2].items():
        np.testing.assert_allclose(outcomes[1][2][name], value, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.slow
def test_compiled_updates_equal_plain_ones():
    found = []
    for xla in (False, True):
        made = config(xla=xla, noisy=True)
        with machine(made, xla=xla) as running:
            out = running.run(random_block(made), 3)
            found.append(running.values() | out["stats"])
    for name, value in found[0].items():
        np.testing.assert_allclose(found[1][name], value, rtol=2e-3, atol=2e-4, err_msg=name)


def test_an_update_changes_net_and_adam_and_the_target_only_when_it_is_due():
    made = config(target_network_update_freq=3)
    block = random_block(made)
    with machine(made) as running:
        first, third = running.changed(block, 2), running.changed(block, 1)
        nets = {name for name in running.values() if name.startswith("q/")}
    assert nets <= first and not any(name.startswith("target_") for name in first)
    assert {f"target_{name}" for name in nets} <= third


@pytest.mark.parametrize("scaled", [False, True])
def test_values_of_a_reward_of_one_for_ever_come_to_ten_and_to_the_rest_of_an_episode(scaled):
    made = config(use_h_function=scaled, gamma=0.9, target_network_update_freq=4, double_q=True)
    rng, lead = np.random.default_rng(0), (4, 4)
    # Five steps, then a real end: what is left can only be told by counting, and every observation is the same but the first.
    obs = np.zeros((*lead, 8, 2), np.float32)
    obs[..., 2, 0] = 1.0
    block = {
        "obs": obs,
        "begins": np.tile(np.float32([0, 0, 1, 0, 0, 0, 0, 0]), (*lead, 1)),
        "reward": np.tile(np.float32([1.9, 1.9, 1.9, 1.0]), (*lead, 1)),
        "discount": np.tile(np.float32([0.81, 0.81, 0.0, 0.0]), (*lead, 1)),
        "ahead": np.tile(np.int32([2, 2, 2, 1]), (*lead, 1)),
        "mask": np.ones((*lead, 4), np.float32),
        "state_0": np.zeros((*lead, 3), np.float32),
        "state_1": np.zeros((*lead, 3), np.float32),
    }
    endless = block | {"begins": 0 * block["begins"], "obs": 0 * obs, "reward": 0 * block["reward"] + 1.9}
    endless |= {"discount": 0 * block["discount"] + np.float32(0.81), "ahead": 0 * block["ahead"] + 2}
    for given, low, high in ((block, 1.0, 1 + 0.9 + 0.81 + 0.729), (endless, 10.0, 10.0)):
        with machine(made) as running:
            for _ in range(500):
                given["action"] = rng.integers(0, 3, (*lead, 4), dtype=np.int32)
                stats = running.run(given, 4, lr=1e-2)["stats"]
        # the last step is worth 1, the first of the four the whole rest
        np.testing.assert_allclose([stats["min_q"], stats["max_q"]], [low, high], rtol=0.08)
