"""DQN's update: which variables it changes and when, what it reports, and how its noise and its targets behave."""

import numpy as np
import pytest
from dqn_machine import VARIANTS, config, machine, random_block
from machine import SCOPE, discrete_spaces

from drl_cli.algorithms import dqn
from drl_cli.policies import net_builders
from drl_cli.policies.numpy_policy import NumpyPolicy

pytestmark = pytest.mark.tensorflow

OBS, ACTIONS = 2, 3
NET = {f"q/{at}/{what}" for at in ("dense_0", "q/dense_0", "q") for what in ("kernel", "bias")}
TARGET = {"target_" + name for name in NET}
SLOTS = {f"q_adam/{name}/{slot}" for name in NET for slot in "mv"} | {"q_adam/count"}


@pytest.fixture
def spaces():
    return discrete_spaces(OBS, ACTIONS)


def _policy(running):
    values = running.values()
    return NumpyPolicy(running.spec, {name: values[name] for name in running.spec.weight_names()})


def test_graph_has_exactly_these_variables_and_publishes_the_policy(spaces):
    with machine(config(), spaces) as running:
        values, published = running.values(), set(running.graph.published)
    assert set(values) == NET | TARGET | SLOTS | {"num_updates"}
    assert published == {SCOPE + name for name in NET}
    assert all(np.array_equal(values[name], values["target_" + name]) for name in NET)


@pytest.mark.parametrize("keys", VARIANTS.values(), ids=VARIANTS)
def test_one_update_changes_every_variable_and_none_at_a_rate_of_zero(spaces, keys):
    made = config(**keys)
    with machine(made, spaces) as running:
        everything = set(running.values())
        assert running.changed(random_block(made, OBS, ACTIONS), 1) == everything
    with machine(made, spaces) as running:
        resting = {name for name in everything if not name.startswith("q_adam/")} - {"num_updates"}
        assert not running.changed(random_block(made, OBS, ACTIONS), 2, lr=0.0) & resting


def test_targets_are_copied_after_every_third_update_and_never_between(spaces):
    made = config(target_network_update_freq=3)
    block = random_block(made, OBS, ACTIONS)
    with machine(made, spaces) as running:
        found = []
        for _ in range(7):
            changed = running.changed(block, 1)
            assert changed >= NET
            found.append(changed & TARGET == TARGET)
            if found[-1]:
                values = running.values()
                assert all(np.array_equal(values[name], values["target_" + name]) for name in NET)
    assert found == [False, False, True, False, False, True, False]


@pytest.mark.parametrize(
    "keys", [VARIANTS["double dueling"], VARIANTS["atoms"] | {"noisy": True}], ids=["means", "noisy"]
)
def test_updates_split_over_calls_give_the_same_bits(spaces, keys):
    made = config(target_network_update_freq=3, prioritized_replay=True, policy_average=0.5, **keys)
    block = random_block(made, OBS, ACTIONS)
    with machine(made, spaces) as running:
        whole = running.run(block, 7)["rows"]["priority"][:7]
        at_once = running.values()
    with machine(made, spaces) as running:
        parts = []
        for start, count in ((0, 2), (2, 1), (3, 4)):
            rolled = {name: np.roll(values, -start, axis=0) for name, values in block.items()}
            parts.append(running.run(rolled, count)["rows"]["priority"][:count])
        split = running.values()
    assert np.array_equal(whole, np.concatenate(parts))
    assert all(np.array_equal(at_once[name], split[name]) for name in at_once)


def test_soft_targets_move_by_tau_after_the_step(spaces):
    made = config(tau=0.25)
    with machine(made, spaces) as running:
        before = running.values()
        running.run(random_block(made, OBS, ACTIONS), 1)
        after = running.values()
    for name in NET:
        expected = 0.75 * before["target_" + name] + 0.25 * after[name]
        np.testing.assert_allclose(after["target_" + name], expected, rtol=1e-6, atol=1e-7)


def test_policy_average_publishes_a_running_average_of_the_learnt_net(spaces):
    made = config(policy_average=0.75)
    block = random_block(made, OBS, ACTIONS)
    with machine(made, spaces) as running:
        expected = {name: running.values()[name] for name in NET}
        for _ in range(3):
            running.run(block, 1)
            learnt = running.values()
            expected = {name: 0.75 * value + 0.25 * learnt["learnt_" + name] for name, value in expected.items()}
        published = set(running.graph.published)
    assert published == {SCOPE + name for name in NET}
    for name in NET:
        np.testing.assert_allclose(learnt[name], expected[name], rtol=1e-5, atol=1e-7)
        assert not np.array_equal(learnt[name], learnt["learnt_" + name])
        assert np.array_equal(learnt["target_" + name], learnt["learnt_" + name])  # targets follow what is learnt


def test_rows_of_weight_zero_teach_nothing_and_still_get_a_priority(spaces):
    made = config(prioritized_replay=True)
    block = random_block(made, OBS, ACTIONS)
    block["weight"][0] = [1.0, 0.0, 0.0, 0.0]
    other = {name: values.copy() for name, values in block.items()}
    other["reward"][0, 1:] += 5.0
    found, priorities = [], []
    for given in (block, other):
        with machine(made, spaces) as running:
            priorities.append(running.run(given, 1)["rows"]["priority"][0])
            found.append(running.values())
    assert all(np.array_equal(found[0][name], found[1][name]) for name in found[0])
    assert priorities[0][0] == priorities[1][0]
    assert np.all(priorities[0][1:] != priorities[1][1:])


def test_statistics_of_an_update_are_those_of_its_batch(spaces):
    made = config(double_q=True, dueling=True)
    block = random_block(made, OBS, ACTIONS)
    with machine(made, spaces) as running:
        policy = _policy(running)
        stats = running.run(block, 1)["stats"]
    q = policy.q_values(block["obs"][0])[np.arange(4), block["action"][0]]
    following = policy.q_values(block["next_obs"][0]).max(axis=1)
    error = block["reward"][0] + block["discount"][0] * following - q
    np.testing.assert_allclose(stats["mean_q"], q.mean(), rtol=1e-5)
    np.testing.assert_allclose(stats["min_q"], q.min(), rtol=1e-5)
    np.testing.assert_allclose(stats["max_q"], q.max(), rtol=1e-5)
    np.testing.assert_allclose(stats["mean_td_error"], error.mean(), rtol=1e-4)
    np.testing.assert_allclose(
        stats["loss"], np.where(abs(error) < 1, error**2 / 2, abs(error) - 0.5).mean(), rtol=1e-4
    )
    assert set(stats) == {"loss", "mean_td_error", "mean_q", "min_q", "max_q", "grad_norm"}


def test_edge_mass_of_atoms_tells_of_returns_beyond_the_range(spaces):
    made = config(**VARIANTS["atoms"])
    block = random_block(made, OBS, ACTIONS) | {"discount": np.zeros((8, 4), np.float32)}
    found = []
    for rewards in ([0.0] * 4, [9.0, 0.5, -7.0, 0.5], [9.0] * 4):
        block["reward"][0] = rewards
        with machine(made, spaces) as running:
            found.append(running.run(block, 1)["stats"]["edge_mass"])
    np.testing.assert_allclose(found, [0.0, 0.5, 1.0], atol=1e-6)


@pytest.mark.parametrize("keys", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_bad_reward_stops_before_its_update(spaces, keys, bad):
    made = config(**keys)
    block = random_block(made, OBS, ACTIONS)
    block["reward"][2, 0] = bad
    with machine(made, spaces) as running:
        out = running.run(block, 5)
        values = running.values()
    assert out["done"] == 2 and not out["finite"]
    assert values["num_updates"] == 2
    assert all(np.isfinite(value).all() for value in values.values())


def _losses_of_one_batch(made, spaces):
    """The losses of the same batch at the same weights, at updates 0, 1 and 2."""
    block = random_block(made, OBS, ACTIONS)
    block = {name: np.repeat(values[:1], 8, axis=0) for name, values in block.items()}
    with machine(made, spaces) as running:
        return [float(running.run(block, 1, lr=0.0)["stats"]["loss"]) for _ in range(3)]


def test_noisy_layers_draw_anew_at_every_update_and_quiet_ones_do_not(spaces):
    assert len(set(_losses_of_one_batch(config(noisy=True), spaces))) == 3
    assert len(set(_losses_of_one_batch(config(), spaces))) == 1


def test_noisy_layers_are_those_of_the_streams_and_their_outputs(spaces):
    spec = dqn.policy_spec(config(noisy=True, dueling=True, sigma0=0.4), spaces)
    sigmas = {name for name in spec.weight_names() if name.endswith("_sigma")}
    layers = {"q/value/dense_0", "q/value", "q/advantage/dense_0", "q/advantage"}
    assert sigmas == {f"{layer}/{part}_sigma" for layer in layers for part in ("kernel", "bias")}
    weights = dqn.initial_weights(config(sigma0=0.4), spec, 1)
    assert np.all(weights["q/value/kernel_sigma"] == np.float32(0.4 / np.sqrt(2)))


def test_vectors_may_be_stacked(spaces):
    made = config()
    with machine(made, spaces | {"frames": 3}) as running:
        assert running.graph.columns["next_obs"] == ((3 * OBS,), "float32")
        assert running.run(random_block(made, 3 * OBS, ACTIONS), 1)["finite"]


@pytest.mark.parametrize(
    ("keys", "heads", "kind", "atoms"),
    [
        ({}, (("q", 3),), "scalar", 1),
        ({"dueling": True}, (("value", 1), ("advantage", 3)), "scalar", 1),
        ({"num_atoms": 51, "dueling": True}, (("value", 51), ("advantage", 153)), "categorical", 51),
        ({"n_quantiles": 7}, (("q", 21),), "quantile", 7),
    ],
)
def test_policy_spec_has_the_heads_that_the_config_asks_for(spaces, keys, heads, kind, atoms):
    spec = dqn.policy_spec(config(**keys), spaces)
    assert spec.misfit() is None
    assert spec.nets[0].heads == heads
    assert [layer.units for layer in spec.nets[0].head_layers] == [2]
    assert (spec.value.kind, spec.value.atoms) == (kind, atoms)
    if kind == "categorical":
        assert (spec.value.low, spec.value.high) == (-10.0, 10.0)


def test_first_weights_depend_on_the_seed_alone_and_targets_begin_as_copies(spaces):
    made = config(dueling=True, noisy=True)
    spec = dqn.policy_spec(made, spaces)
    first, again, other = (dqn.initial_weights(made, spec, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["q/dense_0/kernel"], other["q/dense_0/kernel"])
    assert all(np.array_equal(first[name], first["target_" + name]) for name in spec.weight_names())


def test_target_updates_count_in_updates(spaces):
    made = config(target_network_update_freq=500, training_intensity=16.0, train_batch_size=32)
    assert net_builders.updates_per_target_update(made) == 250
    assert dqn.target_updates(made, 749) == 2


@pytest.mark.parametrize("keys", [{}, {"num_atoms": 5, "dueling": True, "noisy": True, "prioritized_replay": True}])
def test_images_of_bytes_are_learnt_from_and_acted_on(keys):
    made = config(double_q=True, conv_filters=((4, 3, 2), (5, 4, 1)), **keys)
    spaces = discrete_spaces((8, 8, 1), ACTIONS) | {"frames": 2}
    block = random_block(made, (8, 8, 2), ACTIONS)
    with machine(made, spaces) as running:
        assert running.graph.columns["obs"] == ((8, 8, 2), "uint8")
        assert running.changed(block, 2) == set(running.values())
        policy = _policy(running)
        out = running.run(block, 1, lr=0.0)
    assert running.spec.misfit() is None
    if not keys:
        q = policy.q_values(block["obs"][0])[np.arange(4), block["action"][0]]
        np.testing.assert_allclose(out["stats"]["mean_q"], q.mean(), rtol=1e-5)


@pytest.mark.slow
def test_compiled_and_plain_loops_agree(spaces):
    made = config(noisy=True, prioritized_replay=True, target_network_update_freq=2, **VARIANTS["atoms"])
    block = random_block(made, OBS, ACTIONS)
    found, priorities = [], []
    for xla in (False, True):
        with machine(made, spaces, xla=xla) as running:
            priorities.append(running.run(block, 5)["rows"]["priority"])
            found.append(running.values())
    np.testing.assert_allclose(priorities[0], priorities[1], rtol=1e-4, atol=1e-5)
    for name in found[0]:
        np.testing.assert_allclose(found[0][name], found[1][name], rtol=1e-3, atol=1e-4, err_msg=name)
