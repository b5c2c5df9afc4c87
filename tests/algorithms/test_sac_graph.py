"""SAC's update: which variables it changes and when, what it reports, what its critics and its policy converge to."""

import numpy as np
import pytest
from machine import RATES, SCOPE, Machine, config, random_block, spaces

from drl_cli.algorithms import sac, sac_graph
from drl_cli.algorithms.max_entropy_update_graph import target_entropy
from drl_cli.policies import net_builders
from drl_cli.policies.forward import Forward

pytestmark = pytest.mark.tensorflow

OBS, ACTION = 2, 2
LAYER = ("kernel", "bias")
POLICY = {f"policy/{at}/{what}" for at in ("dense_0", "mean", "log_std") for what in LAYER}
CRITIC = {f"critic/{at}/{what}" for at in ("dense_0", "q") for what in LAYER}
TARGET = {"target_" + name for name in CRITIC}
ALPHA = {"log_alpha"}


def _slots(part, names):
    return {f"{part}_adam/{name}/{slot}" for name in names for slot in "mv"} | {f"{part}_adam/count"}


CRITIC_PART = CRITIC | _slots("critic", CRITIC) | {"num_updates"}
ACTOR_PART = POLICY | _slots("actor", POLICY) | ALPHA | _slots("entropy", ALPHA)


@pytest.fixture(scope="module")
def made():
    return config(initial_alpha=0.3, tau=0.25)


@pytest.fixture
def machine(made):
    with Machine(made, spaces(OBS, ACTION)) as started:
        yield started


@pytest.fixture
def block(made):
    return random_block(made, OBS, ACTION)


def test_graph_has_exactly_these_variables_and_publishes_the_policy(machine):
    assert set(machine.values()) == CRITIC_PART | TARGET | ACTOR_PART
    assert set(machine.graph.published) == {SCOPE + name for name in POLICY}
    assert machine.values()["log_alpha"] == np.float32(-1.2039728)  # log 0.3


def test_targets_begin_as_copies_of_the_critics(machine):
    values = machine.values()
    assert all(np.array_equal(values[name], values["target_" + name]) for name in CRITIC)


def test_one_update_changes_every_variable(machine, block):
    assert machine.changed(block, 1) == CRITIC_PART | TARGET | ACTOR_PART


def test_targets_move_by_tau_towards_the_critics_after_their_step(machine, block):
    before = machine.values()
    machine.run(block, 1)
    after = machine.values()
    for name in CRITIC:
        expected = 0.75 * before["target_" + name] + 0.25 * after[name]
        np.testing.assert_allclose(after["target_" + name], expected, rtol=1e-6, atol=1e-7)


def test_entropy_rate_of_zero_keeps_alpha_to_the_bit(machine, block):
    before = machine.values()["log_alpha"]
    machine.run(block, 8, entropy_learning_rate=0.0)
    assert machine.values()["log_alpha"] == before


def test_actor_rate_of_zero_keeps_the_policy_and_not_the_critics(machine, block):
    changed = machine.changed(block, 2, actor_learning_rate=0.0)
    assert not POLICY & changed
    assert changed >= CRITIC


def test_alpha_does_not_reach_the_critics_through_their_loss_on_real_ends(machine, block):
    """With discount 0 everywhere the targets are the rewards, whatever the temperature."""
    ends = block | {"discount": np.zeros_like(block["discount"])}
    start = machine.values()
    found = []
    for log_alpha in (-5.0, 1.0):
        machine.set(**(start | {"log_alpha": np.float32(log_alpha)}))
        machine.run(ends, 1)
        found.append(machine.values())
    assert all(np.array_equal(found[0][name], found[1][name]) for name in CRITIC)
    assert not np.array_equal(found[0]["policy/mean/kernel"], found[1]["policy/mean/kernel"])


def test_a_bad_reward_stops_before_its_update(machine, block):
    reward = block["reward"].copy()
    reward[2, 0] = np.nan
    out = machine.run(block | {"reward": reward}, 5)
    assert out["done"] == 2 and not out["finite"]
    assert machine.values()["num_updates"] == 2
    assert all(np.isfinite(value).all() for value in machine.values().values())


def test_weights_that_overflow_are_found_before_they_are_applied(machine, block):
    machine.set(**{"critic/q/bias": np.full((2, 1), 1e30, np.float32)})
    before = machine.values()
    out = machine.run(block, 1)
    assert out["done"] == 0 and not out["finite"]
    assert all(np.array_equal(before[name], value) for name, value in machine.values().items())


def test_policy_delay_of_three_moves_actor_and_alpha_on_every_third_update(block):
    with Machine(config(policy_delay=3), spaces(OBS, ACTION)) as machine:
        found = [machine.changed(block, 1) for _ in range(5)]
        counts = machine.values()
    assert found[0] == found[3] == CRITIC_PART | TARGET | ACTOR_PART
    assert found[1] == found[2] == found[4] == CRITIC_PART | TARGET
    assert counts["critic_adam/count"] == 5
    assert counts["actor_adam/count"] == counts["entropy_adam/count"] == 2


def test_policy_average_publishes_a_running_average_of_the_learnt_policy(block):
    with Machine(config(policy_average=0.75), spaces(OBS, ACTION)) as machine:
        expected = {name: machine.values()[name] for name in POLICY}
        for _ in range(3):
            machine.run(block, 1)
            learnt = machine.values()
            expected = {name: 0.75 * value + 0.25 * learnt["learnt_" + name] for name, value in expected.items()}
        acting = machine.values()
        published = set(machine.graph.published)
    assert published == {SCOPE + name for name in POLICY}
    for name in POLICY:
        np.testing.assert_allclose(acting[name], expected[name], rtol=1e-5, atol=1e-7)
        assert not np.array_equal(acting[name], acting["learnt_" + name])


def test_target_network_update_freq_moves_targets_after_every_fourth_update(block):
    # 4 transitions trained per env step in batches of 4 are one update per step
    with Machine(config(target_network_update_freq=4, training_intensity=4.0), spaces(OBS, ACTION)) as machine:
        found = [bool(machine.changed(block, 1) & TARGET) for _ in range(9)]
    assert found == [False, False, False, True, False, False, False, True, False]


@pytest.mark.parametrize(
    ("freq", "batch", "intensity", "every"), [(0, 4, 4.0, 1), (1, 4, 4.0, 1), (10, 4, 2.0, 5), (10, 128, None, 4)]
)
def test_updates_per_target_update_come_from_env_steps_and_intensity(freq, batch, intensity, every):
    made = config(target_network_update_freq=freq, train_batch_size=batch, training_intensity=intensity)
    assert net_builders.updates_per_target_update(made) == every
    assert sac.target_updates(made, 21) == 21 // every


@pytest.mark.parametrize(("asked", "expected"), [("auto", -3.0), (None, -3.0), (-1.5, -1.5), (0.0, 0.0), (2, 2.0)])
def test_target_entropy_auto_is_minus_the_action_dimensions(asked, expected):
    made = config(target_entropy=asked)
    assert target_entropy(made, sac.policy_spec(made, spaces(OBS, 3))) == expected


def test_statistics_of_an_update_are_those_of_its_batch(machine, block):
    stats = machine.run(block, 1, critic_learning_rate=0.0)["stats"]
    values, inputs = machine.initial, np.concatenate([block["obs"][0], block["action"][0]], axis=-1)
    net = sac.critic_spec(config(twin_q=False), machine.spec)
    q = np.stack(
        [Forward(net, {n: values[n][copy] for n in net.weight_shapes()})(inputs)["q"][:, 0] for copy in (0, 1)]
    )
    np.testing.assert_allclose(stats["mean_q"], q.mean(), rtol=1e-5)
    np.testing.assert_allclose(stats["min_q"], q.min(), rtol=1e-5)
    np.testing.assert_allclose(stats["max_q"], q.max(), rtol=1e-5)
    np.testing.assert_allclose(stats["alpha_value"], 0.3, rtol=1e-6)
    assert stats["target_entropy"] == -2.0
    assert set(stats) == {
        *("mean_q", "min_q", "max_q", "mean_td_error", "actor_loss", "critic_loss", "alpha_loss", "alpha_value"),
        *("target_entropy", "policy_entropy", "grad_norm_critic", "grad_norm_actor"),
    }


def test_first_weights_depend_on_the_seed_alone_and_start_with_small_actions():
    made = config(hiddens=(64, 64), activation="relu")
    spec = sac.policy_spec(made, spaces(8, 2))
    first, again, other = (sac.initial_weights(made, spec, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["policy/dense_0/kernel"], other["policy/dense_0/kernel"])
    assert not np.array_equal(first["critic/dense_0/kernel"][0], first["critic/dense_0/kernel"][1])
    assert all(np.array_equal(first[name], first["target_" + name]) for name in first if name.startswith("critic/"))
    heads = Forward(spec.nets[0], {name: first[name] for name in spec.weight_names()})(np.ones((1, 8), np.float32))
    assert np.abs(heads["mean"]).max() < 0.3 and np.abs(heads["log_std"]).max() < 0.3


def test_policy_spec_of_many_equal_bounds_has_as_many_action_dimensions():
    """``describe`` writes one number for more than 64 equal bounds."""
    action = {"shape": [100], "low": -1.0, "high": 1.0}
    spec = sac.policy_spec(config(), {"obs": {"shape": [8]}, "action": {"kind": "Box"} | action})
    assert spec.action.size == 100
    assert spec.action.low == (-1.0,) * 100 and spec.action.high == (1.0,) * 100


LOOP, CUT, FIRST, LAST, AIM = range(5)


def _synthetic(made):
    """Transitions between five states (one-hot) whose values are known, with uniform actions."""
    rng = np.random.default_rng(0)
    lead = (made.updates_per_call, made.train_batch_size)
    state, action = rng.integers(0, 5, lead), rng.uniform(-1, 1, (*lead, 1)).astype(np.float32)
    following = np.array([LOOP, LOOP, LAST, LAST, AIM])[state]
    reward = np.float32([1.0, 1.0, 1.0, 2.0, 0.0])[state]
    reward = np.where(state == AIM, -4 * (action[..., 0] - 0.5) ** 2, reward)
    one_hot = np.eye(5, dtype=np.float32)
    return {
        "obs": one_hot[state],
        "action": action,
        "reward": reward.astype(np.float32),
        "discount": np.float32([0.9, 0.9, 0.9, 0.0, 0.0])[state],
        "next_obs": one_hot[following],
    }


def test_critics_reach_the_values_of_a_synthetic_world_and_the_policy_its_aim():
    """Reward 1 for ever at gamma 0.9 is worth 10, also from behind a truncation; a real end is worth its exact sum."""
    made = config(hiddens=(32,), train_batch_size=64, updates_per_call=50, tau=0.1, initial_alpha=1e-6)
    with Machine(made, spaces(5, 1), xla=True) as machine:
        for rate in [1e-2] * 30 + [1e-3] * 10:
            block = _synthetic(made)
            out = machine.run(block, 50, entropy_learning_rate=0.0, critic_learning_rate=rate)
            assert out["finite"]
        values = machine.values()
    net = sac.critic_spec(config(hiddens=(32,), twin_q=False), machine.spec)
    inputs = np.concatenate([np.eye(5), np.float32([[0.0], [0.0], [0.0], [0.0], [0.5]])], axis=1).astype(np.float32)
    for copy in (0, 1):
        q = Forward(net, {name: values[name][copy] for name in net.weight_shapes()})(inputs)["q"][:, 0]
        np.testing.assert_allclose(q[[LOOP, CUT]], 10.0, atol=0.3)
        np.testing.assert_allclose(q[[FIRST, LAST]], [2.8, 2.0], atol=0.1)  # 1 + 0.9·2
        assert abs(q[AIM]) < 0.4  # of −9 to 0
    policy = Forward(machine.spec.nets[0], {name: values[name] for name in machine.spec.weight_names()})
    assert abs(np.tanh(policy(np.eye(5, dtype=np.float32))["mean"])[AIM, 0] - 0.5) < 0.1
    assert values["log_alpha"] == np.float32(np.log(1e-6))


def test_state_dependent_deviations_start_where_asked_and_are_learnt():
    made = config(use_sde=True, log_std_init=-1.5)
    with Machine(made, spaces(OBS, ACTION)) as machine:
        start = machine.values()
        changed = machine.changed(random_block(made, OBS, ACTION), 1)
    np.testing.assert_array_equal(start["policy/log_std/kernel"], np.full((3, ACTION), -1.5, np.float32))
    assert "policy/log_std/bias" not in start
    assert changed == set(start)


def test_critics_of_images_see_them_through_convolutions_of_their_own():
    made = config(hiddens=(4,), updates_per_call=1, model={"conv_filters": [[2, 3, 2]]})
    pictures = spaces(OBS, ACTION) | {"obs": {"kind": "Box", "shape": [8, 8, 1], "dtype": "uint8"}, "frames": 2}
    rng = np.random.default_rng(0)
    block = random_block(made, OBS, ACTION)
    for name in ("obs", "next_obs"):
        block[name] = rng.integers(0, 256, (1, 4, 8, 8, 2), dtype=np.uint8)
    with Machine(made, pictures) as machine:
        assert machine.graph.columns["obs"] == ((8, 8, 2), "uint8")
        assert machine.values()["critic/conv_0/kernel"].shape == (2, 3, 3, 2, 2)
        changed = machine.changed(block, 1)
        assert changed == set(machine.values())


def test_rates_are_three_and_named_as_in_the_config():
    assert {f"optimization.{name}" for name in RATES} == set(sac_graph.RATES)
