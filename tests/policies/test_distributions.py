"""Scored distributions in NumPy: log-probabilities, entropies and divergences against SciPy, sums and literals; masks."""

import dataclasses

import numpy as np
import pytest
from scipy import stats
from scored_policies import ACTIONS, bare, heads

from drl_cli.policies.composite_distributions import distribution_of

LN2, LN3 = np.log(2.0), np.log(3.0)
EVERY = list(ACTIONS)


def _of(name):
    spec = bare(name)
    return distribution_of(spec)


def _logits(*rows):
    return {"logits": np.float32(rows)}


def test_log_density_of_a_gaussian_is_the_sum_of_scipys():
    given = heads("gaussian")
    action = np.random.default_rng(1).normal(0, 3, (5, 2)).astype(np.float32)
    expected = stats.norm.logpdf(action, given["mean"], np.exp(np.minimum(given["log_std"], 2.0))).sum(axis=-1)
    np.testing.assert_allclose(_of("gaussian").logp(given, action), expected, rtol=1e-5)


def test_deviations_of_a_gaussian_are_bounded():
    made, zero = _of("gaussian"), np.zeros((1, 2), np.float32)
    wide, narrow = ({"mean": zero, "log_std": zero + bound} for bound in (50.0, -50.0))
    # ln N(0; 0, e²) = −2 − ½·ln 2π each, and e^−20 likewise
    np.testing.assert_allclose(made.logp(wide, zero), [2 * (-2.0 - 0.9189385)], rtol=1e-6)
    np.testing.assert_allclose(made.logp(narrow, zero), [2 * (20.0 - 0.9189385)], rtol=1e-6)
    np.testing.assert_allclose(made.entropy(wide), [2 * (2.0 + 1.4189385)], rtol=1e-6)
    drawn = np.concatenate([made.sample(wide, np.random.default_rng(seed)) for seed in range(500)])
    assert abs(drawn.std() - np.exp(2.0)) < 0.5
    assert made.kl(wide, {"mean": zero, "log_std": zero + 2.0}).tolist() == [0.0]


@pytest.mark.parametrize("name", ["gaussian", "composite"])
def test_deviations_below_log_std_min_act_and_count_as_those_at_it(name):
    made = distribution_of(dataclasses.replace(bare(name), log_std_min=-1.0))
    given = heads(name)
    lifted = _lifted(given, -1.0)
    assert any((given[h] < lifted[h]).any() for h in given)
    action = made.sample(given, np.random.default_rng(2))
    assert np.array_equal(action, _of(name).sample(lifted, np.random.default_rng(2)))
    assert np.array_equal(made.logp(given, action), _of(name).logp(lifted, action))
    assert np.array_equal(made.entropy(given), _of(name).entropy(lifted))
    assert np.array_equal(made.kl(given, heads(name, 1)), _of(name).kl(lifted, _lifted(heads(name, 1), -1.0)))


def _lifted(given, least):
    return {h: np.maximum(v, np.float32(least)) if h.startswith("log_std") else v for h, v in given.items()}


def test_divergence_of_gaussians_is_the_published_one():
    one = {"mean": np.float32([[1.0]]), "log_std": np.float32([[0.0]])}
    other = {"mean": np.float32([[0.0]]), "log_std": np.float32([[LN2]])}
    # ln(σ₂/σ₁) + (σ₁² + (μ₁ − μ₂)²)/(2σ₂²) − ½
    np.testing.assert_allclose(_of("gaussian").kl(one, other), [LN2 + 2.0 / 8.0 - 0.5], rtol=1e-6)
    np.testing.assert_allclose(_of("gaussian").kl(other, one), [-LN2 + 5.0 / 2.0 - 0.5], rtol=1e-6)


def test_categorical_in_literals():
    made, given = _of("categorical"), _logits([0.0, LN2, LN3])  # chances 1/6, 2/6, 3/6
    found = [made.logp(given, np.int32([action]))[0] for action in range(3)]
    np.testing.assert_allclose(found, np.log([1 / 6, 2 / 6, 3 / 6]), rtol=1e-5)
    np.testing.assert_allclose(made.entropy(given), [stats.entropy([1, 2, 3])], rtol=1e-5)
    np.testing.assert_allclose(made.kl(given, _logits([0, 0, 0])), [stats.entropy([1, 2, 3], [1, 1, 1])], rtol=1e-5)
    assert made.greedy(given).tolist() == [2]


def test_log_probabilities_of_several_choices_add_up():
    made, logits = _of("multi_categorical"), np.random.default_rng(0).normal(0, 2, (4, 9)).astype(np.float32)
    action = np.int32([[0, 3, 2], [1, 0, 1], [1, 2, 0], [0, 1, 2]])
    parts = [logits[:, :2], logits[:, 2:6], logits[:, 6:]]
    each = [np.log(np.exp(part) / np.exp(part).sum(axis=-1, keepdims=True)) for part in parts]
    expected = sum(own[np.arange(4), action[:, index]] for index, own in enumerate(each))
    np.testing.assert_allclose(made.logp({"logits": logits}, action), expected, rtol=1e-5)
    entropy = sum(stats.entropy(np.exp(own), axis=-1) for own in each)
    np.testing.assert_allclose(made.entropy({"logits": logits}), entropy, rtol=1e-5)
    assert made.greedy({"logits": logits}).tolist() == np.stack([part.argmax(axis=-1) for part in parts], 1).tolist()


def test_switches_in_literals():
    made, given = _of("multi_bernoulli"), _logits([0.0, LN3, -LN3])  # on with ½, ¾, ¼
    np.testing.assert_allclose(made.logp(given, np.int32([[1, 1, 1]])), [np.log(0.5 * 0.75 * 0.25)], rtol=1e-5)
    np.testing.assert_allclose(made.logp(given, np.int32([[0, 1, 0]])), [np.log(0.5 * 0.75 * 0.75)], rtol=1e-5)
    expected = stats.bernoulli(0.5).entropy() + 2 * stats.bernoulli(0.25).entropy()
    np.testing.assert_allclose(made.entropy(given), [expected], rtol=1e-5)
    kl = 2 * stats.entropy([0.75, 0.25], [0.5, 0.5])
    np.testing.assert_allclose(made.kl(given, _logits([0.0, 0.0, 0.0])), [kl], rtol=1e-5)
    assert made.greedy(given).tolist() == [[0, 1, 0]]


def test_switches_far_from_a_half_are_finite():
    made, given = _of("multi_bernoulli"), _logits([200.0, -200.0, 0.0])
    np.testing.assert_allclose(made.logp(given, np.int32([[0, 0, 0]])), [-200.0 - LN2], rtol=1e-5)
    assert np.isfinite([made.entropy(given), made.kl(given, _logits([-200.0, 200.0, 0.0]))]).all()


@pytest.mark.parametrize("name", [name for name in EVERY if name not in ("gaussian", "composite")])
def test_draws_come_as_often_as_their_log_probability_says(name):
    made, given, rng = _of(name), heads(name, rows=1), np.random.default_rng(0)
    if name == "masked":
        given["allowed"] = np.array([[True, False, True]])
    many = {head: np.repeat(values, 20_000, axis=0) for head, values in given.items()}
    action = made.sample(many, rng)
    assert action.dtype == np.int32 and action.shape == (20_000, *ACTIONS[name].shape)
    kinds, counts = np.unique(action, axis=0, return_counts=True)
    chances = np.exp(made.logp({head: values[: len(kinds)] for head, values in many.items()}, kinds))
    np.testing.assert_allclose(counts / 20_000, chances, atol=0.015)


def test_draws_of_a_gaussian_scatter_as_its_deviations_say():
    given = {"mean": np.full((40_000, 2), 3.0, np.float32), "log_std": np.full((40_000, 2), np.float32(LN2))}
    action = _of("gaussian").sample(given, np.random.default_rng(0))
    assert action.dtype == np.float32 and stats.kstest(action.ravel(), "norm", (3.0, 2.0)).pvalue > 0.01


@pytest.mark.parametrize("name", EVERY)
def test_a_distribution_does_not_diverge_from_itself_but_from_another(name):
    made, one, other = _of(name), heads(name), heads(name, seed=9)
    assert made.kl(one, one).tolist() == [0.0] * 5
    apart = made.kl(one, other)
    assert apart.dtype == np.float32 and (apart >= 0).all() and (apart > 0).sum() >= 3


def test_what_a_mask_forbids_never_happens_and_counts_for_nothing():
    made, given = _of("categorical"), _logits([5.0, 0.0, LN3]) | {"allowed": np.array([[False, True, True]])}
    assert made.greedy(given).tolist() == [2]
    np.testing.assert_allclose(made.logp(given, np.int32([1])), [np.log(0.25)], rtol=1e-5)
    np.testing.assert_allclose(made.entropy(given), [stats.entropy([1, 3])], rtol=1e-5)
    assert made.logp(given, np.int32([0]))[0] < -1e8
    level = _logits([-7.0, 0.0, 0.0]) | {"allowed": given["allowed"]}
    np.testing.assert_allclose(made.kl(given, level), [stats.entropy([1, 3], [1, 1])], rtol=1e-5)


def test_where_a_mask_allows_nothing_everything_is_allowed():
    made, given = _of("categorical"), _logits([0.0, LN2, LN3]) | {"allowed": np.zeros((1, 3), bool)}
    np.testing.assert_allclose(made.entropy(given), [stats.entropy([1, 2, 3])], rtol=1e-5)


def test_composite_is_the_product_of_its_parts():
    made, given = _of("composite"), heads("composite")
    action = made.sample(given, np.random.default_rng(2))
    assert action.dtype == np.float32 and action.shape == (5, 9)
    parts = {"categorical": (0, slice(0, 1)), "gaussian": (1, slice(1, 3)), "multi_categorical": (2, slice(3, 6))}
    parts["multi_bernoulli"] = (3, slice(6, 9))
    logp, entropy = np.zeros(5), np.zeros(5)
    for name, (index, at) in parts.items():
        own = {head.removesuffix(f"_{index}"): y for head, y in given.items() if head.endswith(f"_{index}")}
        chosen = action[:, at].reshape(5, *ACTIONS[name].shape).astype(ACTIONS[name].dtype)
        logp, entropy = logp + _of(name).logp(own, chosen), entropy + _of(name).entropy(own)
        np.testing.assert_array_equal(made.greedy(given)[:, at].reshape(chosen.shape), _of(name).greedy(own))
    np.testing.assert_allclose(made.logp(given, action), logp, rtol=1e-5)
    np.testing.assert_allclose(made.entropy(given), entropy, rtol=1e-5)


def test_composite_choices_come_as_often_as_their_logits_say():
    given = heads("composite", rows=1) | {"logits_0": np.log(np.float32([[0.5, 0.3, 0.2]]))}
    many = {head: np.repeat(values, 20_000, axis=0) for head, values in given.items()}
    drawn = _of("composite").sample(many, np.random.default_rng(0))[:, 0]
    np.testing.assert_allclose(np.bincount(drawn.astype(int)) / 20_000, [0.5, 0.3, 0.2], atol=0.015)
