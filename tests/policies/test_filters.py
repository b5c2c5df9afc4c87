"""What a filter makes of observations, what its weights are at first and later, and which policies have one."""

import dataclasses
import json

import numpy as np
import pytest

from drl_cli.errors import CheckpointError
from drl_cli.policies import filters, policy_from_manifest
from drl_cli.policies.filters import moments
from drl_cli.policies.numpy_policy import NumpyPolicy
from drl_cli.policies.policy_spec import ActionSpec, Conv, Dense, DiscreteSpec, NetSpec, PolicySpec, ValueSpec

NET = NetSpec("policy", (("obs", 3),), (Dense(4, "tanh"),), (("mean", 1),))
SPEC = PolicySpec((NET,), "deterministic", (3,), ActionSpec((-2.0,), (2.0,)), filter=True, scaled=True)
ROWS = np.float32([[1, 5, 0.1], [3, 5, 0.1], [5, 5, 0.1], [7, 5, 0.1]])  # mean 4, variance 5; two that never vary


def _filter(**over):
    return filters.Filter(SPEC, filters.weights_of(SPEC, moments(ROWS), None) | over)


def test_normalised_observations_are_in_deviations_from_the_mean():
    found = _filter()(np.float32([[4, 5, 0.1], [4 + 5**0.5, 6, -0.4]]))
    np.testing.assert_allclose(found, [[0, 0, 0], [1, 1, -0.5]], atol=1e-6)
    assert found.dtype == np.float32


def test_a_number_that_never_varied_keeps_its_unit_and_nothing_leaves_ten_deviations():
    weights = filters.weights_of(SPEC, moments(ROWS), None)
    assert weights["filter/mean"].tolist() == [4.0, 5.0, np.float32(0.1)]
    assert weights["filter/var"].tolist() == [5.0, 1.0, 1.0]
    np.testing.assert_allclose(_filter()(np.float32([[1e6, 6, -1e6]])), [[10, 1, -10]], atol=1e-6)


def test_normalising_leaves_the_observations_alone():
    obs = np.float32([[1, 2, 3]])
    _filter()(obs)
    assert obs.tolist() == [[1, 2, 3]]


def test_first_weights_let_observations_pass():
    first = filters.first_weights(SPEC)
    assert {name: (value.shape, value.dtype.name) for name, value in first.items()} == {
        "filter/mean": ((3,), "float32"),
        "filter/var": ((3,), "float32"),
        "filter/return_var": ((), "float32"),
    }
    obs = np.float32([[0.3, -7, 9.5]])
    assert np.array_equal(filters.Filter(SPEC, first)(obs), obs)
    assert filters.reward_scale(first) is None
    assert filters.first_weights(dataclasses.replace(SPEC, filter=False, scaled=False)) == {}


def test_rewards_are_scaled_by_the_deviation_of_returns_where_they_vary():
    weights = filters.weights_of(SPEC, None, moments(np.float32([10, 20, 30, 20])))
    assert weights["filter/return_var"] == 50.0
    assert filters.reward_scale(weights) == pytest.approx(50**0.5)
    constant = filters.weights_of(SPEC, None, moments(np.float32([0.1, 0.1, 0.1])))
    assert filters.reward_scale(constant) is None and filters.reward_scale(None) is None


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("filter/mean", np.zeros(2, np.float32), "expected float32 of shape"),
        ("filter/mean", np.zeros(3), "found float64"),
        ("filter/var", np.float32([1, -1, 1]), "a variance below 0"),
    ],
)
def test_weights_that_are_no_filter_are_refused(name, value, text):
    with pytest.raises(ValueError, match=f"{name}: .*{text}"):
        _filter(**{name: value})


def test_policy_acts_on_normalised_observations_and_its_weights_hold_the_filter():
    rng = np.random.default_rng(0)
    weights = NET.initial_weights(rng) | filters.weights_of(SPEC, moments(ROWS), None)
    assert SPEC.weight_names() == [*NET.weight_shapes(), "filter/mean", "filter/var", "filter/return_var"]
    policy, obs = NumpyPolicy(SPEC, weights), rng.normal(4, 3, (5, 3)).astype(np.float32)
    plain = NumpyPolicy(dataclasses.replace(SPEC, filter=False), weights)
    seen = filters.Filter(SPEC, weights)(obs)
    assert np.array_equal(policy.act(obs, (), rng, False)[0], plain.act(seen, (), rng, False)[0])
    assert not np.array_equal(policy.act(obs, (), rng, False)[0], plain.act(obs, (), rng, False)[0])
    assert np.array_equal(policy.heads_and_features(obs)[1], plain.heads_and_features(seen)[1])
    with pytest.raises(ValueError, match="filter/mean: expected float32 of shape .*, found missing"):
        policy.set_weights(NET.initial_weights(rng))


def test_judging_nets_see_normalised_observations():
    critic = NetSpec("critic", (("obs", 3), ("action", 1)), (), (("q", 1),))
    spec = dataclasses.replace(SPEC, nets=(NET, critic))
    weights = {
        name: value for net in spec.nets for name, value in net.initial_weights(np.random.default_rng(1)).items()
    }
    weights |= filters.weights_of(spec, moments(ROWS), None)
    obs, action = ROWS + 1, np.zeros((4, 1), np.float32)
    plain = NumpyPolicy(dataclasses.replace(spec, filter=False), weights)
    found = NumpyPolicy(spec, weights).judged(obs, action)[0]["q"]
    assert np.array_equal(found, plain.judged(filters.Filter(spec, weights)(obs), action)[0]["q"])


def test_spec_with_filters_through_json_comes_back_equal_and_an_older_one_has_none():
    data = json.loads(json.dumps(SPEC.to_dict()))
    assert policy_from_manifest.policy_spec(data) == SPEC
    del data["filter"], data["scaled"]
    older = policy_from_manifest.policy_spec(data)
    assert (older.filter, older.scaled) == (False, False) and older.weight_names() == list(NET.weight_shapes())


def test_filter_of_images_is_refused():
    image = (8, 8, 1)
    net = NetSpec("q", (("obs", 64),), (), (("q", 2),), image=image, convs=(Conv(2, 3, 2),))
    spec = PolicySpec((net,), "q", image, DiscreteSpec(2), obs_dtype="uint8", value=ValueSpec())
    assert spec.misfit() is None
    with pytest.raises(CheckpointError, match="description: a filter of observations that are images"):
        policy_from_manifest.policy_spec(dataclasses.replace(spec, filter=True).to_dict())
