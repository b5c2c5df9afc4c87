"""Log-probabilities and entropies of actions, by hand; their gradients, by differences."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from drl_cli.policies import score_gradients
from drl_cli.policies.action_specs import ActionSpec, CompositeSpec, DiscreteSpec, MultiDiscreteSpec
from drl_cli.policies.policy_spec import PolicySpec

FILL = np.float32(-1e9)
RNG = np.random.default_rng(5)
ROWS = 4


def _case(name, heads, action, described=None):
    return name, SimpleNamespace(action=described, log_std_min=-20.0), heads, action


CASES = {
    "categorical": _case("categorical", {"logits": RNG.normal(0, 1, (ROWS, 3))}, np.int32([0, 2, 1, 2])),
    "multi_categorical": _case(
        "multi_categorical",
        {"logits": RNG.normal(0, 1, (ROWS, 5))},
        np.int32([[0, 2], [1, 0], [1, 1], [0, 0]]),
        MultiDiscreteSpec((2, 3), (0, 0)),
    ),
    "multi_bernoulli": _case(
        "multi_bernoulli", {"logits": RNG.normal(0, 2, (ROWS, 3))}, RNG.integers(0, 2, (ROWS, 3), np.int32)
    ),
    "gaussian": _case(
        "gaussian",
        {"mean": RNG.normal(0, 1, (ROWS, 2)), "log_std": RNG.normal(-1, 0.5, (ROWS, 2))},
        RNG.normal(0, 1, (ROWS, 2)),
    ),
}
PARTS = CompositeSpec((DiscreteSpec(3), ActionSpec((-1.0, 0.0), (1.0, 2.0))))
CASES["composite"] = (
    "composite",
    PolicySpec((), "composite", (1,), PARTS),
    {head: RNG.normal(-0.5, 0.5, (ROWS, size)) for head, size in PARTS.heads()},
    np.float32([[0, 0.5, 1], [2, -1, 0], [1, 0.25, 0.5], [2, 0, -0.5]]),
)


@pytest.mark.parametrize("case", CASES)
def test_gradients_are_slopes_of_differences(case):
    name, spec, heads, action = CASES[case]
    score = score_gradients.BY_NAME[name](spec)
    of_logp, of_entropy = RNG.normal(0, 1, ROWS), RNG.normal(0, 1, ROWS)
    found = score(heads, action).gradients(of_logp, of_entropy)
    assert set(found) == set(heads)

    def total(heads):
        scored = score(heads, action)
        return (of_logp * scored.logp + of_entropy * scored.entropy).sum()

    for head, values in heads.items():
        for at in np.ndindex(values.shape):
            moved = np.zeros_like(values)
            moved[at] = 1e-6
            slope = (total(heads | {head: values + moved}) - total(heads | {head: values - moved})) / 2e-6
            np.testing.assert_allclose(found[head][at], slope, rtol=1e-6, atol=1e-8)


def test_categorical_by_hand():
    logits = np.log(np.float32([[0.5, 0.25, 0.25]]))
    scored = score_gradients.CategoricalScore(None)({"logits": logits}, np.int32([1]))
    np.testing.assert_allclose(scored.logp, [math.log(0.25)], rtol=1e-6)
    np.testing.assert_allclose(scored.entropy, [1.5 * math.log(2)], rtol=1e-6)
    nothing = np.zeros(1, np.float32)
    np.testing.assert_allclose(scored.gradients(nothing + 2, nothing)["logits"], [[-1.0, 1.5, -0.5]], rtol=1e-6)
    # dH/dl = -p (log p + H)
    expected = [[-0.5 * 0.5 * math.log(2), 0.25 * 0.5 * math.log(2), 0.25 * 0.5 * math.log(2)]]
    np.testing.assert_allclose(scored.gradients(nothing, nothing + 1)["logits"], expected, rtol=1e-5)


def test_multi_categorical_adds_its_choices_up():
    logits = np.log(np.float32([[0.5, 0.5, 0.2, 0.8]]))
    scored = score_gradients.MultiCategoricalScore(CASES["multi_categorical"][1])
    scored = scored({"logits": np.float32([[*logits[0], FILL]])}, np.int32([[0, 1]]))
    np.testing.assert_allclose(scored.logp, [math.log(0.4)], rtol=1e-5)
    entropy = math.log(2) - 0.2 * math.log(0.2) - 0.8 * math.log(0.8)
    np.testing.assert_allclose(scored.entropy, [entropy], rtol=1e-5)


def test_multi_bernoulli_by_hand():
    logits = np.float32([[0.0, math.log(3.0)]])  # probabilities 1/2 and 3/4
    scored = score_gradients.MultiBernoulliScore(None)({"logits": logits}, np.int32([[1, 0]]))
    np.testing.assert_allclose(scored.logp, [math.log(0.5 * 0.25)], rtol=1e-6)
    np.testing.assert_allclose(scored.entropy, [math.log(2) + 2 * math.log(2) - 0.75 * math.log(3)], rtol=1e-6)
    one, none = np.ones(1, np.float32), np.zeros(1, np.float32)
    np.testing.assert_allclose(scored.gradients(one, none)["logits"], [[0.5, -0.75]], rtol=1e-6)


def test_gaussian_by_hand():
    heads = {"mean": np.float32([[1.0]]), "log_std": np.float32([[math.log(2.0)]])}
    scored = score_gradients.GaussianScore(CASES["gaussian"][1])(heads, np.float32([[5.0]]))  # two deviations away
    np.testing.assert_allclose(scored.logp, [-2.0 - math.log(2.0) - 0.5 * math.log(2 * math.pi)], rtol=1e-6)
    np.testing.assert_allclose(scored.entropy, [0.5 * math.log(2 * math.pi * math.e * 4.0)], rtol=1e-6)
    found = scored.gradients(np.ones(1, np.float32), np.float32([0.5]))
    np.testing.assert_allclose(found["mean"], [[1.0]], rtol=1e-6)
    np.testing.assert_allclose(found["log_std"], [[3.5]], rtol=1e-5)


def test_gaussian_beyond_its_bounds_is_held_there_and_has_no_slope():
    heads = {"mean": np.zeros((1, 3), np.float32), "log_std": np.float32([[-30.0, 0.0, 9.0]])}
    scored = score_gradients.GaussianScore(CASES["gaussian"][1])(heads, np.zeros((1, 3), np.float32))
    np.testing.assert_allclose(scored.logp, [20.0 - 2.0 - 1.5 * math.log(2 * math.pi)], rtol=1e-5)
    found = scored.gradients(np.ones(1, np.float32), np.ones(1, np.float32))
    np.testing.assert_array_equal(found["log_std"], [[0.0, 0.0, 0.0]])
    found = scored.gradients(np.zeros(1, np.float32), np.ones(1, np.float32))
    np.testing.assert_array_equal(found["log_std"], [[0.0, 1.0, 0.0]])


def test_filled_logits_give_no_entropy_and_get_no_gradient():
    logits = np.float32([[0.0, FILL, 0.0]])
    scored = score_gradients.CategoricalScore(None)({"logits": logits}, np.int32([2]))
    np.testing.assert_allclose(scored.entropy, [math.log(2)], rtol=1e-6)
    found = scored.gradients(np.ones(1, np.float32), np.ones(1, np.float32))["logits"]
    np.testing.assert_allclose(found, [[-0.5, 0.0, 0.5]], atol=1e-7)


def test_extreme_logits_stay_finite():
    for name, action in (("categorical", np.int32([1])), ("multi_bernoulli", np.int32([[1, 0]]))):
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            scored = score_gradients.BY_NAME[name](None)({"logits": np.float32([[800.0, -800.0]])}, action)
            found = scored.gradients(np.ones(1, np.float32), np.ones(1, np.float32))["logits"]
        assert np.isfinite(found).all() and np.isfinite(scored.logp).all()
        assert scored.logp[0] <= 0 and scored.entropy[0] >= 0
