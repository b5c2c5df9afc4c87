"""TRPO's update against a slow float64 reference, its trust region, and what leaves everything as it was."""

import batch_machine
import numpy as np
import pytest
from trpo_machine import OBS, STEPS, STREAMS, Machine, Slow, batch, config, kl, spaces

from drl_cli.policies.distributions import BY_NAME
from drl_cli.policies.numpy_policy import NumpyPolicy

pytestmark = pytest.mark.tensorflow

POLICY = {f"policy/{at}/{what}" for at in ("dense_0", "mean", "log_std") for what in ("kernel", "bias")}
VALUE = {f"value/{at}/{what}" for at in ("dense_0", "value") for what in ("kernel", "bias")}
FIT = VALUE | {f"value_adam/{name}/{slot}" for name in VALUE for slot in "mv"} | {"value_adam/count"}
STATS = {
    "kl", "entropy", "surrogate_improvement", "expected_improvement", "step_fraction", "line_search_steps",
    "cg_residual", "cg_iterations", "grad_norm", "vf_loss", "grad_norm_value", "vf_explained_var", "cur_lr", "entropy_coeff",
}  # fmt: skip
FITTED = 8  # steps of the value's fit: two passes of four minibatches over sixteen real steps


@pytest.fixture(scope="module")
def machines():
    """One machine for each set of keys, made when it is first asked for."""
    made = {}

    def machine(**keys):
        name = str(sorted(keys.items()))
        if name not in made:
            started = Machine(config(**keys))
            made[name] = started, started.values()
        started, values = made[name]
        started.set(values)
        return started

    yield machine
    for started, _ in made.values():
        started.session.close()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_update_is_that_of_the_slow_reference(machines, seed):
    machine, given = machines(), batch(seed)
    slow = Slow(config(), machine.values(), given)
    expected, fraction = slow.step()
    fitted, steps = slow.fitted(0)
    stats, updates, finite = machine.learn(given)
    found = machine.values()
    for name in POLICY:
        # a full step moves weights by some hundredths: what is asked for is a thousandth of it
        np.testing.assert_allclose(found[name], expected[name], atol=1e-4, err_msg=name)
    for name in VALUE:
        np.testing.assert_allclose(found[name], fitted[name], atol=1e-4, err_msg=name)
    assert fraction > 0
    np.testing.assert_allclose(stats["step_fraction"], fraction, rtol=1e-6)
    assert (steps, updates, found["num_updates"], finite) == (FITTED, FITTED + 1, FITTED + 1, True)
    assert set(stats) == STATS


def test_first_moments_of_the_reference_are_those_of_the_graph_s_statistics(machines):
    machine, given = machines(), batch(1)
    before = machine.values()
    stats, _, _ = machine.learn(given)
    after, slow = machine.values(), Slow(config(), before, given)
    advantage, target = slow.advantages()
    values = target - advantage
    advantage = (advantage - advantage.mean()) / advantage.std()
    gain = slow.surrogate(after, advantage) - slow.surrogate(before, advantage)
    np.testing.assert_allclose(stats["surrogate_improvement"], gain, rtol=1e-3)
    np.testing.assert_allclose(stats["kl"], kl(before, after, slow.rows["obs"]).mean(), rtol=1e-3)
    explained = 1 - np.var(target - values) / np.var(target)
    np.testing.assert_allclose(stats["vf_explained_var"], explained, rtol=1e-4, atol=1e-5)
    # the linear model promises more than the curved surrogate gives, but not another order of it
    assert 0.3 < gain / stats["expected_improvement"] < 1.5
    assert stats["cg_residual"] < 1e-2


@pytest.mark.parametrize("max_kl", [0.001, 0.05, 1.0])
def test_step_improves_the_surrogate_within_the_trust_region(machines, max_kl):
    machine, given = machines(max_kl=max_kl), batch(3)
    before = machine.values()
    stats, _, _ = machine.learn(given)
    after = machine.values()
    rows = given["obs"][given["mask"] > 0]
    moved = kl(before, {name: np.float64(value) for name, value in after.items()}, rows).mean()
    assert 0.1 * max_kl < moved <= max_kl * (1 + 1e-4)
    assert stats["surrogate_improvement"] > 0
    assert stats["step_fraction"] in np.float32(0.8) ** np.arange(10, dtype=np.float32)
    assert 0.8 ** (stats["line_search_steps"] - 1) == pytest.approx(stats["step_fraction"])


def test_line_search_that_finds_nothing_leaves_every_bit_of_the_policy_and_fits_the_value(machines):
    # One candidate, of a length at which the quadratic model of the KL no longer holds.
    machine = machines(max_kl=8.0, line_search_steps=1, cg_damping=0.0)
    changed, (stats, updates, finite) = machine.changed(batch(3))
    assert changed == FIT | {"num_updates"}
    assert (stats["step_fraction"], stats["kl"], stats["surrogate_improvement"]) == (0.0, 0.0, 0.0)
    assert (stats["expected_improvement"], stats["line_search_steps"]) == (0.0, 1.0)
    assert (updates, finite) == (FITTED, True)


def test_padding_changes_no_bit_whatever_it_holds(machines):
    machine, given = machines(fisher_fraction=0.5), batch(4)
    machine.learn(given)
    expected, values = machine.values(), machines(fisher_fraction=0.5).values()
    padding = given["mask"] == 0
    for name in ("obs", "action", "logp"):
        given[name] = given[name].copy()
        given[name][padding] = 9.0
    machine.learn(given)
    assert not np.array_equal(expected["policy/mean/kernel"], values["policy/mean/kernel"])
    found = machine.values()
    assert [name for name in expected if expected[name].tobytes() != found[name].tobytes()] == []


def test_batch_of_padding_alone_changes_nothing(machines):
    given = {name: np.zeros_like(column) for name, column in batch().items()}
    changed, (stats, updates, finite) = machines().changed(given)
    assert (changed, updates, finite) == (set(), 0, True)
    assert all(np.isfinite(value) for value in stats.values())
    assert stats["line_search_steps"] == 0


@pytest.mark.parametrize("column", ["reward", "obs", "logp"])
def test_what_is_no_number_is_not_learnt_from(machines, column):
    given = batch()
    given[column][1, 2] = np.nan
    changed, (_, updates, finite) = machines().changed(given)
    assert (changed, updates, finite) == (set(), 0, False)


def test_value_fit_that_diverges_ends_there(machines):
    changed, (_, updates, finite) = machines().changed(batch(), lr=1e38)
    assert changed == POLICY | FIT | {"num_updates"}
    assert (updates, finite) == (2, False)  # the policy's step, and the one after which no value is a number


def test_gradient_is_weighted_with_the_recorded_probability(machines):
    given = batch(2)
    whole, _, _ = machines().learn(given)
    given["logp"] = given["logp"] - np.float32(np.log(2.0))
    doubled, _, _ = machines().learn(given)
    np.testing.assert_allclose(doubled["grad_norm"], 2 * whole["grad_norm"], rtol=1e-4)


def test_fisher_products_alone_see_the_subsample_which_moves_on_with_the_updates(machines):
    given = batch(2)
    whole, _, _ = machines().learn(given)
    machine, residuals = machines(fisher_fraction=0.3), []
    start = machine.values()
    for number in range(2):
        machine.set(start | {"num_updates": np.int64(number)})
        stats, _, _ = machine.learn(given)
        assert stats["grad_norm"] == whole["grad_norm"]
        assert stats["kl"] <= 0.05
        residuals.append(machine.values()["policy/mean/kernel"])
    assert not np.allclose(*residuals, atol=1e-4)


def test_entropy_coefficient_makes_a_policy_that_earns_nothing_more_random(machines):
    given = batch()
    given["reward"][:] = 0.0
    machine = machines(use_gae=False, use_critic=False, batch_mode="complete_episodes")
    stats, updates, _ = machine.learn(given)
    assert (stats["step_fraction"], updates) == (0.0, 0)
    again, updates, _ = machine.learn(given, entropy_coeff=0.1)
    assert updates == 1
    np.testing.assert_allclose(again["surrogate_improvement"], 0.1 * (again["entropy"] - stats["entropy"]), rtol=1e-3)


def test_without_a_critic_the_value_rests(machines):
    machine = machines(use_gae=False, use_critic=False, batch_mode="complete_episodes")
    changed, (stats, updates, _) = machine.changed(batch())
    assert changed == POLICY | {"num_updates"}
    assert updates == 1
    assert "vf_loss" not in stats


def test_rates_of_zero_fit_nothing(machines):
    changed, _ = machines().changed(batch(), lr=0.0)
    assert changed == POLICY | (FIT - VALUE) | {"num_updates"}


@pytest.mark.slow
def test_xla_computes_the_same(machines):
    given = batch(1)
    plain, _, _ = machines().learn(given)
    expected = machines().values()
    machine = machines()
    machine.learn(given)
    expected = machine.values()
    compiled = machines(xla=True)
    stats, updates, finite = compiled.learn(given)
    assert (updates, finite) == (FITTED + 1, True)
    for name, value in compiled.values().items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-3, atol=1e-4, err_msg=name)
    np.testing.assert_allclose(stats["kl"], plain["kl"], rtol=1e-2)


def test_lstm_is_moved_by_the_policy_s_step_and_its_value_head_alone_by_the_fit():
    lstm = {"use_lstm": True, "lstm_cell_size": 3, "max_seq_len": 3}
    made = batch_machine.config("TRPO", model=lstm, train_batch_size=18, sgd_minibatch_size=6, max_kl=0.02)
    head = {f"policy/value/{part}" for part in ("kernel", "bias")}
    with batch_machine.BatchMachine("TRPO", made, shape=(3, 6, 6)) as machine:
        given, start = machine.batch(), machine.values()
        stats, updates, finite = machine.learn(given)
        found = machine.values()
        assert (finite, updates) == (True, 1 + 3 * made.vf_iterations)  # sequences of three streams: 2, 2 and 2
        assert 0.002 < stats["kl"] <= 0.02
        assert 0.5 < stats["surrogate_improvement"] / stats["expected_improvement"] < 1.5
        assert [name for name in found if np.array_equal(found[name], start[name])] == []
        machine.set(**start)
        machine.learn(given, lr=0.0)
        rested = machine.values()
        weights = {name for name in start if name.startswith("policy/")}
        assert {name for name in weights if np.array_equal(rested[name], start[name])} == head
        assert {name for name in weights if not np.array_equal(rested[name], found[name])} == head
        padding = given["mask"] == 0
        machine.set(**start)
        for name in ("obs", "action", "logp"):
            given[name][padding] = 9.0
        machine.learn(given)
        assert [name for name, value in machine.values().items() if value.tobytes() != found[name].tobytes()] == []


KINDS = {
    "Discrete": ({"kind": "Discrete", "n": 3, "start": 0}, lambda rng, lead: rng.integers(0, 3, lead, np.int32)),
    "MultiDiscrete": (
        {"kind": "MultiDiscrete", "nvec": [3, 2], "start": [0, 0]},
        lambda rng, lead: rng.integers(0, 2, (*lead, 2), np.int32),
    ),
    "MultiBinary": ({"kind": "MultiBinary", "n": 3}, lambda rng, lead: rng.integers(0, 2, (*lead, 3), np.int32)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_action_is_learnt_from_what_the_numpy_policy_did(kind):
    action, drawn = KINDS[kind]
    given = batch(5, drawn)
    with Machine(config(max_kl=0.02), spaces(action)) as machine:
        policy = NumpyPolicy(machine.spec, {name: machine.values()[name] for name in machine.spec.weight_names()})
        heads = policy.heads(given["obs"].reshape(-1, OBS))
        taken = given["action"].reshape(STREAMS * STEPS, *machine.spec.action.shape)
        given["logp"] = BY_NAME[machine.spec.distribution](machine.spec).logp(heads, taken).reshape(STREAMS, STEPS)
        stats, updates, finite = machine.learn(given)
    assert finite
    assert 0.002 < stats["kl"] <= 0.02
    assert 0.3 < stats["surrogate_improvement"] / stats["expected_improvement"] < 1.5
    assert updates == FITTED + 1
