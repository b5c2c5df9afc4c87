"""The squashed Gaussian in the graph: densities against SciPy, draws by seed, number and stream."""

import numpy as np
import pytest
from scipy import integrate, stats

from drl_cli.policies.distributions_tf import TFSquashedGaussian
from drl_cli.tf1.stateless_random import stateless_normal, stateless_uniform
from drl_cli.tf1.tensorflow import function, tf

pytestmark = pytest.mark.tensorflow

UNIT = (np.float32([-1.0, -1.0]), np.float32([1.0, 1.0]))
WIDE = (np.float32([-2.0, 0.0]), np.float32([2.0, 0.5]))


def _sample(bounds, mean, log_std, noise):
    with tf.Graph().as_default(), tf.Session() as session:
        heads = {"mean": tf.constant(mean, tf.float32), "log_std": tf.constant(log_std, tf.float32)}
        return session.run(TFSquashedGaussian(*bounds).sample(heads, tf.constant(noise, tf.float32)))


def _reference(bounds, mean, log_std, noise):
    """log N(x) − log |da/dx| with a = tanh(x)·half + middle, in float64: 1 − tanh² is 1 / cosh²."""
    low, high = (bound.astype(np.float64) for bound in bounds)
    mean, std, noise = np.float64(mean), np.exp(np.clip(np.float64(log_std), -20, 2)), np.float64(noise)
    raw = mean + std * noise
    slope = -2 * (np.abs(raw) + np.log1p(np.exp(-2 * np.abs(raw))) - np.log(2))  # log of 1 / cosh², without overflow
    return (stats.norm.logpdf(raw, mean, std) - slope - np.log((high - low) / 2)).sum(axis=-1)


@pytest.mark.parametrize("bounds", [UNIT, WIDE], ids=["unit", "wide"])
def test_log_probability_matches_the_change_of_variables(bounds):
    rng = np.random.default_rng(0)
    mean, log_std, noise = rng.normal(0, 2, (50, 2)), rng.uniform(-5, 2, (50, 2)), rng.normal(0, 1, (50, 2))
    action, logp = _sample(bounds, mean, log_std, noise)
    assert action.shape == (50, 2) and logp.shape == (50,)
    np.testing.assert_allclose(logp, _reference(bounds, mean, log_std, noise), rtol=1e-4, atol=1e-4)
    raw = mean + np.exp(log_std) * noise
    expected = np.tanh(raw) * (bounds[1] - bounds[0]) / 2 + (bounds[1] + bounds[0]) / 2
    np.testing.assert_allclose(action, expected, atol=1e-5)


@pytest.mark.parametrize("mean", [-40.0, -12.0, 12.0, 40.0])
def test_log_probability_in_a_saturated_tail_is_finite_and_right(mean):
    heads = [[mean, -mean]], [[-1.0, 0.5]], [[1.5, -2.0]]
    action, logp = _sample(UNIT, *heads)
    np.testing.assert_allclose(np.abs(action), 1.0, atol=1e-6)
    np.testing.assert_allclose(logp, _reference(UNIT, *heads), rtol=1e-5)


def test_log_probability_far_in_the_tail_has_a_finite_gradient():
    with tf.Graph().as_default(), tf.Session() as session:
        mean, log_std = tf.constant([[60.0, -60.0]]), tf.constant([[1.0, 1.0]])
        _, logp = TFSquashedGaussian(*UNIT).sample({"mean": mean, "log_std": log_std}, tf.constant([[1.0, 1.0]]))
        found = session.run(tf.gradients(logp, [mean, log_std]))
    # d/dx of −2(log 2 − x − softplus(−2x)) is 2·tanh(x); through log_std: −1 + 2·tanh(x)·std·noise
    np.testing.assert_allclose(found[0], [[2.0, -2.0]], atol=1e-5)
    np.testing.assert_allclose(found[1], [[4.4365637, -6.4365637]], rtol=1e-5)


def test_density_integrates_to_one_over_the_actions():
    points = np.linspace(-0.999999, 0.999999, 20_001)
    noise = ((np.arctanh(points) - 0.3) / np.exp(-0.5))[:, None]
    heads = np.full_like(noise, 0.3), np.full_like(noise, -0.5)
    _, logp = _sample((np.float32([-1.0]), np.float32([1.0])), *heads, noise)
    assert abs(integrate.trapezoid(np.exp(np.float64(logp)), points) - 1.0) < 1e-3


def _logp(bounds, mean, log_std, action):
    with tf.Graph().as_default(), tf.Session() as session:
        heads = {"mean": tf.constant(mean, tf.float32), "log_std": tf.constant(log_std, tf.float32)}
        logp = TFSquashedGaussian(*bounds).logp(heads, tf.constant(action, tf.float32))
        return session.run([logp, *tf.gradients(logp, list(heads.values()))])


@pytest.mark.parametrize("bounds", [UNIT, WIDE], ids=["unit", "wide"])
def test_log_probability_of_a_given_action_is_that_of_its_draw(bounds):
    rng = np.random.default_rng(0)
    mean, log_std, noise = rng.normal(0, 0.5, (50, 2)), rng.uniform(-3, 0, (50, 2)), rng.normal(0, 1, (50, 2))
    action, expected = _sample(bounds, mean, log_std, noise)
    np.testing.assert_allclose(_logp(bounds, mean, log_std, action)[0], expected, rtol=1e-3, atol=1e-3)


def test_log_probability_of_an_action_at_a_bound_is_that_of_one_a_thousandth_inside_and_has_finite_gradients():
    heads = [[0.3, -0.2]] * 3, [[-0.5, 0.1]] * 3
    logp, by_mean, by_log_std = _logp(UNIT, *heads, [[1.0, -1.0], [0.999, -0.999], [3.0, -7.0]])
    raw, std = np.arctanh([0.999, -0.999]), np.exp([-0.5, 0.1])
    expected = (stats.norm.logpdf(raw, [0.3, -0.2], std) - np.log(1 - 0.999**2)).sum()
    np.testing.assert_allclose(logp, [expected] * 3, rtol=1e-4)
    distance = (raw - [0.3, -0.2]) / std
    np.testing.assert_allclose(by_mean, [distance / std] * 3, rtol=1e-3)
    np.testing.assert_allclose(by_log_std, [distance**2 - 1] * 3, rtol=1e-3)


def test_several_draws_a_row_are_those_of_single_ones():
    rng = np.random.default_rng(0)
    mean, log_std, noise = rng.normal(0, 1, (4, 2)), rng.uniform(-2, 0, (4, 2)), rng.normal(0, 1, (4, 3, 2))
    action, logp = _sample(WIDE, mean[:, None], log_std[:, None], noise)
    assert action.shape == (4, 3, 2) and logp.shape == (4, 3)
    for index in range(3):
        one, likelihood = _sample(WIDE, mean, log_std, noise[:, index])
        np.testing.assert_allclose(action[:, index], one, rtol=1e-5)
        np.testing.assert_allclose(logp[:, index], likelihood, rtol=1e-5, atol=1e-6)


def test_actions_all_over_the_bounds_have_the_density_of_their_volume():
    with tf.Graph().as_default(), tf.Session() as session:
        action, log_density = TFSquashedGaussian(*WIDE).spread(tf.constant([[-1.0, 0.0], [0.5, 1.0]]))
        found = session.run(action)
    np.testing.assert_allclose(found, [[-2.0, 0.25], [1.0, 0.5]])
    assert log_density == pytest.approx(-np.log(4.0 * 0.5))


def test_uniform_draws_are_spread_evenly_and_depend_on_number_and_stream():
    with tf.Graph().as_default(), tf.Session() as session:
        number = tf.placeholder(tf.int64, [])
        draws = [stateless_uniform([50_000], 4, number, stream) for stream in (0, 1)]
        first, second = session.run(draws, {number: 2})
        later = session.run(draws[0], {number: 3})
    assert stats.kstest(first, "uniform", args=(-1, 2)).pvalue > 0.01
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.02 and not np.isclose(first, later).all()
    assert first.min() > -1 and first.max() < 1


def _draws(compiled, shape=(3, 2), cases=((5, 0, 0),)):
    with tf.Graph().as_default(), tf.Session() as session:
        number = tf.placeholder(tf.int64, [])
        found = []
        for seed, at, stream in cases:

            def draw(number, seed=seed, stream=stream):
                return stateless_normal(shape, seed, number, stream)

            made = function(draw, jit_compile=compiled or None, autograph=False)(number)
            found.append(session.run(made, {number: at}))
    return found


def test_draws_are_the_same_inside_and_outside_the_compiler():
    cases = [(0, 0, 0), (5, 7, 1), (2**31 - 1, 2**40, 1)]
    # The bits are the same; XLA's inverse error function is another approximation.
    for plain, compiled in zip(_draws(False, cases=cases), _draws(True, cases=cases), strict=True):
        np.testing.assert_allclose(plain, compiled, atol=1e-4)


def test_draws_depend_on_seed_number_and_stream_alone():
    same = [(5, 7, 0), (5, 7, 0)]
    others = [(6, 7, 0), (5, 8, 0), (5, 7, 1), (5, 8, 1), (6, 7, 1), (5, 7 + 2**32, 0), (5 + 2**26, 7, 0)]
    for compiled in (False, True):
        first, again, *found = _draws(compiled, cases=same + others)
        assert np.array_equal(first, again)
        for case, other in zip(others, found, strict=True):
            assert not np.isclose(first, other).any(), case


def test_draws_never_change():
    [found] = _draws(False, shape=(2, 2), cases=[(5, 7, 1)])
    np.testing.assert_allclose(found, [[1.747386, -0.619871], [0.073433, -1.109468]], atol=1e-5)


def test_draws_are_standard_normal_and_independent_between_streams():
    first, second = _draws(False, shape=(100_000,), cases=[(4, 2, 0), (4, 2, 1)])
    assert stats.kstest(first, "norm").pvalue > 0.01
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.01
