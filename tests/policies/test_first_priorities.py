"""First priorities against numbers made by hand; ``tests/algorithms/test_dqn_priorities.py`` has the learner's own."""

import numpy as np
import pytest

from drl_cli.actors.initial_priorities import first_priorities, projected
from drl_cli.policies.numpy_policy import NumpyPolicy
from drl_cli.policies.policy_spec import ActionSpec, DiscreteSpec, NetSpec, PolicySpec, ValueSpec


def _table(value, biases):
    """A policy whose atoms of two actions are the columns of its kernel: observations are one-hot states."""
    kernel = np.float32(biases)
    net = NetSpec("q", (("obs", len(kernel)),), (), (("q", kernel.shape[1]),))
    spec = PolicySpec((net,), "q", (len(kernel),), DiscreteSpec(2), value=value)
    return NumpyPolicy(spec, {"q/q/kernel": kernel, "q/q/bias": np.zeros(kernel.shape[1], np.float32)})


def _given(reward, discount, action):
    obs, following = np.float32([[1, 0]] * len(reward)), np.float32([[0, 1]] * len(reward))
    return obs, np.int32(action), np.float32(reward), np.float32(discount), following


def test_means_give_the_size_of_the_error_with_the_best_next_action():
    policy = _table(ValueSpec(), [[1.0, 2.0], [5.0, 4.0]])
    # 1 + 0.5·5 − 1; a real end: 1 − 2
    found = first_priorities(policy, *_given([1.0, 1.0], [0.5, 0.0], [0, 1]))
    assert found.tolist() == [2.5, 1.0]
    assert found.dtype == np.float32


def test_atoms_give_the_cross_entropy_with_the_projected_target():
    logits = np.log([[0.5, 0.5, 0.9, 0.1], [0.75, 0.25, 0.25, 0.75]])  # atoms 0 and 1 of both actions
    policy = _table(ValueSpec("categorical", 2, 0.0, 1.0), logits)
    # next: the second action. 0.5·(0 and 1) + 0.25 is 0.25 and 0.75: mass 0.25·0.75 + 0.75·0.25 on the lower atom
    found = first_priorities(policy, *_given([0.25, 9.0], [0.5, 1.0], [0, 1]))
    np.testing.assert_allclose(found, [np.log(2.0), -np.log(0.1)], rtol=1e-5)


def test_quantiles_give_the_mean_size_of_all_errors():
    policy = _table(ValueSpec("quantile", 2), [[0.0, 1.0, 5.0, 5.0], [2.0, 4.0, 0.0, 0.0]])
    # targets 2 and 3 against 0 and 1
    assert first_priorities(policy, *_given([1.0], [0.5], [0])).tolist() == [2.0]


def test_deterministic_policies_give_the_mean_over_their_critics_of_errors_against_the_lower_one():
    actor = NetSpec("policy", (("obs", 2),), (), (("mean", 1),))
    critic = NetSpec("critic", (("obs", 2), ("action", 1)), (), (("q", 1),), copies=2)
    spec = PolicySpec((actor, critic), "deterministic", (2,), ActionSpec((-2.0,), (2.0,)))
    weights = {
        "policy/mean/kernel": np.float32([[0.0], [20.0]]),  # acts 1 in the next state
        "policy/mean/bias": np.zeros(1, np.float32),
        "critic/q/kernel": np.float32([[[1.0], [5.0], [2.0]], [[3.0], [4.0], [-1.0]]]),
        "critic/q/bias": np.zeros((2, 1), np.float32),
    }
    obs, _, reward, discount, following = _given([1.0, 1.0], [0.5, 0.0], [0, 0])
    found = first_priorities(NumpyPolicy(spec, weights), obs, np.float32([[0.5], [0.0]]), reward, discount, following)
    # next: 5 + 2 and 4 − 1. target 1 + ½·3 against 1 + 1 and 3 − ½; a real end: 1 against 1 and 3
    np.testing.assert_allclose(found, [0.25, 1.0], rtol=1e-6)


def test_a_policy_without_a_judge_is_refused():
    actor = NetSpec("policy", (("obs", 2),), (), (("mean", 1), ("log_std", 1)))
    spec = PolicySpec((actor,), "squashed_gaussian", (2,), ActionSpec((-2.0,), (2.0,)))
    with pytest.raises(ValueError, match="squashed_gaussian with 1 nets has no critic"):
        first_priorities(NumpyPolicy(spec), *_given([1.0], [0.5], [0]))


def test_no_transitions_have_no_priorities():
    found = first_priorities(
        _table(ValueSpec(), [[1.0, 2.0], [5.0, 4.0]]), *(value[:0] for value in _given([1], [1], [0]))
    )
    assert found.shape == (0,) and found.dtype == np.float32


def test_projection_keeps_mass_and_mean_and_exact_hits():
    value = ValueSpec("categorical", 3, -1.0, 1.0)
    chances = np.float32([[0.5, 0.5, 0.0], [0.25, 0.5, 0.25], [0.25, 0.5, 0.25]])
    found = projected(np.float32([0.25, 0.0, 9.0]), np.float32([1.0, 1.0, 1.0]), chances, value)
    assert found.tolist() == [[0.375, 0.5, 0.125], [0.25, 0.5, 0.25], [0.0, 0.0, 1.0]]
