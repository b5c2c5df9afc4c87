"""The graph's filters are NumPy's, and every row with a replay learns from what its policy sees."""

import numpy as np
import pytest

from drl_cli.policies import filters, filters_tf
from drl_cli.policies.filters import moments
from drl_cli.policies.policy_spec import ActionSpec, NetSpec, PolicySpec
from drl_cli.tf1.tensorflow import tf

pytestmark = pytest.mark.tensorflow

NET = NetSpec("policy", (("obs", 3),), (), (("mean", 1),))
SPEC = PolicySpec((NET,), "deterministic", (3,), ActionSpec((-2.0,), (2.0,)), filter=True, scaled=True)
RNG = np.random.default_rng(0)
ROWS = RNG.normal([0, 300, 5], [1e-3, 40, 0], (50, 3)).astype(np.float32)


def _values(returns):
    return filters.weights_of(SPEC, moments(ROWS), returns)


@pytest.mark.parametrize("returns", [None, moments(np.float32([1, 5, 9]))])
@pytest.mark.parametrize("steps", [(), (4,)], ids=["rows", "sequences"])
def test_graph_and_numpy_agree(returns, steps):
    values = _values(returns)
    obs = RNG.normal([0, 300, 5], [1e-3, 4000, 3], (6, *steps, 3)).astype(np.float32)
    reward = RNG.normal(0, 9, (6, *steps)).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        tensors = {name: tf.constant(value) for name, value in values.items()}
        seen, scaled = session.run([filters_tf.normalised(obs, tensors), filters_tf.rescaled(reward, tensors)])
    expected = filters.Filter(SPEC, values)(obs)
    np.testing.assert_allclose(seen, expected, rtol=1e-6, atol=1e-6)
    assert np.abs(expected).max() == 10.0 and seen.dtype == np.float32  # some are clipped
    scale = 1.0 if returns is None else (32 / 3) ** 0.5
    np.testing.assert_allclose(scaled, reward / scale, rtol=1e-6)


def test_without_filters_everything_stays_as_it_is():
    obs, reward = object(), object()
    assert filters_tf.normalised(obs, {}) is obs and filters_tf.rescaled(reward, {}) is reward


def test_variables_are_named_after_the_weights_and_keep_exact_moments_beside_them():
    with tf.Graph().as_default(), tf.Session() as session:
        made = filters_tf.variables(SPEC, "scope/")
        assert {name: variable.op.name for name, variable in made.items()} == {name: "scope/" + name for name in made}
        session.run(tf.variables_initializer(list(made.values())))
        found = {name: (value.tolist(), value.dtype.name) for name, value in session.run(made).items()}
    zeros = [0.0] * 3
    assert found == {
        "filter/mean": (zeros, "float32"),
        "filter/var": ([1.0] * 3, "float32"),
        "filter/return_var": (0.0, "float32"),
        "filter/count": (0.0, "float64"),
        "filter/exact_mean": (zeros, "float64"),
        "filter/m2": (zeros, "float64"),
        "filter/return_count": (0.0, "float64"),
        "filter/return_exact_mean": (0.0, "float64"),
        "filter/return_m2": (0.0, "float64"),
    }
