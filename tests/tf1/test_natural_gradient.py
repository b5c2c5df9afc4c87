"""Fisher products, conjugate gradients and the line search against NumPy, and what they leave alone."""

import numpy as np
import pytest

from drl_cli.tf1.natural_gradient import (
    conjugate_gradients,
    fisher_product,
    flat,
    full_step,
    line_search,
    shaped,
)
from drl_cli.tf1.tensorflow import function, tf

pytestmark = pytest.mark.tensorflow

ROWS, INPUTS, HIDDEN, ACTIONS = 7, 2, 3, 3
SHAPES = [(INPUTS, HIDDEN), (HIDDEN,), (HIDDEN, ACTIONS), (ACTIONS,)]
SIZE = sum(int(np.prod(shape)) for shape in SHAPES)


@pytest.fixture(params=[None, True], ids=["plain", "xla"])
def run(request):
    """Evaluate a function of no arguments inside of a compiled function, as learning does."""
    with tf.Graph().as_default(), tf.Session() as session:
        yield lambda made: session.run(function(made, jit_compile=request.param, autograph=False)())


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.fixture
def net(rng):
    """A softmax policy over three actions with one hidden layer: (weights, rows)."""
    weights = [rng.normal(0, 0.7, shape).astype(np.float32) for shape in SHAPES]
    return weights, rng.normal(0, 1, (ROWS, INPUTS)).astype(np.float32)


def _logits(weights, rows, lib=np):
    hidden = lib.tanh(lib.matmul(rows, weights[0]) + weights[1])
    return lib.matmul(hidden, weights[2]) + weights[3]


def _mean_kl(weights, old, rows):
    before = tf.nn.log_softmax(_logits(old, rows, tf))  # [B, A]
    after = tf.nn.log_softmax(_logits(weights, rows, tf))  # [B, A]
    return tf.reduce_mean(tf.reduce_sum(tf.exp(before) * (before - after), axis=-1))


def _log_policy(vector, rows):
    """log π of all actions in float64, [B, A]."""
    parts, at = [], 0
    for shape in SHAPES:
        parts.append(vector[at : at + int(np.prod(shape))].reshape(shape))
        at += int(np.prod(shape))
    logits = _logits(parts, np.float64(rows))
    logits -= logits.max(axis=-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def _kl(new, old, rows):
    before, after = _log_policy(old, rows), _log_policy(new, rows)
    return np.mean((np.exp(before) * (before - after)).sum(axis=-1))


def _fisher(vector, rows, step=1e-5):
    """E[∇log π·∇log πᵀ] of the paper's section 6, its gradients by central differences."""
    slopes = np.zeros((SIZE, ROWS, ACTIONS))
    for index in range(SIZE):
        side = np.zeros(SIZE)
        side[index] = step
        slopes[index] = (_log_policy(vector + side, rows) - _log_policy(vector - side, rows)) / (2 * step)
    chances = np.exp(_log_policy(vector, rows))
    return np.einsum("iba,jba,ba->ij", slopes, slopes, chances) / ROWS


def _vector(weights):
    return np.float64(np.concatenate([weight.ravel() for weight in weights]))


def _product(net):
    weights, rows = ([tf.constant(weight) for weight in net[0]], tf.constant(net[1]))
    return fisher_product(lambda here: _mean_kl(here, weights, rows), weights)


def test_flat_and_shaped_are_inverse_and_keep_the_order(run):
    tensors = [tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([5.0]), tf.constant([[6.0]])]
    vector, back = run(lambda: (flat(tensors), shaped(flat(tensors), tensors)))
    assert vector.tolist() == [1, 2, 3, 4, 5, 6]
    assert [part.tolist() for part in back] == [[[1, 2], [3, 4]], [5], [[6]]]


def test_fisher_product_is_the_fisher_matrix_times_the_vector(run, net, rng):
    vectors = rng.normal(0, 1, (4, SIZE)).astype(np.float32)
    found = run(lambda: [_product(net)(tf.constant(vector)) for vector in vectors])
    expected = vectors @ _fisher(_vector(net[0]), net[1])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_fisher_product_is_the_curvature_of_the_kl_by_finite_differences(run, net, rng):
    vector = rng.normal(0, 1, SIZE).astype(np.float32)
    (found,) = run(lambda: [_product(net)(tf.constant(vector))])
    theta, step = _vector(net[0]), 1e-3
    for other in (np.float64(vector), rng.normal(0, 1, SIZE)):
        corners = [
            one * two * _kl(theta + step * (one * vector + two * other), theta, net[1])
            for one in (1, -1)
            for two in (1, -1)
        ]
        np.testing.assert_allclose(other @ found, sum(corners) / (4 * step**2), rtol=1e-3)


def test_fisher_product_of_a_gaussian_with_a_free_deviation_is_known(run):
    # One weight w and one log σ: mean w·x. F = diag(mean(x²)/σ², 2).
    rows = tf.constant([[1.0], [3.0]])
    weights = [tf.constant([[0.5]]), tf.constant([np.log(0.5)], tf.float32)]

    def mean_kl(here):
        gap = tf.matmul(rows, here[0]) - tf.matmul(rows, weights[0])  # [B, 1]
        ratio = tf.exp(2.0 * (weights[1] - here[1]))  # [1]
        rows_kl = here[1] - weights[1] + 0.5 * (ratio + gap**2 * tf.exp(-2.0 * here[1])) - 0.5
        return tf.reduce_mean(rows_kl)

    (found,) = run(lambda: [fisher_product(mean_kl, weights)(tf.constant([1.0, 10.0]))])
    np.testing.assert_allclose(found, [5.0 / 0.25, 20.0], rtol=1e-5)


def _positive(rng, size):
    root = rng.normal(0, 1, (size, size))
    return root @ root.T / size + 0.1 * np.eye(size)


def test_conjugate_gradients_solve_what_numpy_solves(run, rng):
    matrix, right = _positive(rng, 6), rng.normal(0, 1, 6)
    a, b = (tf.constant(np.float32(x)) for x in (matrix, right))
    x, taken = run(lambda: conjugate_gradients(lambda v: tf.linalg.matvec(a, v), b, 12))
    np.testing.assert_allclose(x, np.linalg.solve(matrix, right), rtol=1e-3, atol=1e-4)
    assert 5 <= taken <= 12


def test_conjugate_gradients_after_a_few_products_are_the_best_of_their_krylov_space(run, rng):
    matrix, right = _positive(rng, 6), rng.normal(0, 1, 6)
    a, b = (tf.constant(np.float32(x)) for x in (matrix, right))
    x, taken = run(lambda: conjugate_gradients(lambda v: tf.linalg.matvec(a, v), b, 2))
    space = np.stack([right, matrix @ right], axis=1)
    best = space @ np.linalg.solve(space.T @ matrix @ space, space.T @ right)
    np.testing.assert_allclose(x, best, rtol=1e-4, atol=1e-5)
    assert taken == 2


def test_conjugate_gradients_end_when_nothing_is_left_and_take_nothing_for_zeros(run):
    a = tf.constant([2.0, 2.0, 2.0])  # one eigenvalue: one product
    x, taken = run(lambda: conjugate_gradients(lambda v: a * v, tf.constant([1.0, 2.0, 3.0]), 10))
    assert (x.tolist(), taken) == ([0.5, 1.0, 1.5], 1)
    x, taken = run(lambda: conjugate_gradients(lambda v: a * v, tf.zeros([3]), 10))
    assert (x.tolist(), taken) == ([0.0, 0.0, 0.0], 0)


def test_full_step_is_as_long_as_the_trust_region_in_the_damped_metric(run, rng):
    matrix, right = _positive(rng, 5), rng.normal(0, 1, 5)
    a, b = (tf.constant(np.float32(x)) for x in (matrix, right))
    step = run(lambda: full_step(lambda v: tf.linalg.matvec(a, v), b, 0.02, 0.3, 20))
    damped = matrix + 0.3 * np.eye(5)
    direction = np.linalg.solve(damped, right)
    expected = direction * np.sqrt(2 * 0.02 / (right @ direction))
    np.testing.assert_allclose(step.full, expected, rtol=1e-4)
    np.testing.assert_allclose(step.full @ damped @ step.full / 2, 0.02, rtol=1e-4)
    np.testing.assert_allclose(step.expected, right @ expected, rtol=1e-4)
    assert step.residual < 1e-4


def test_full_step_of_no_gradient_is_no_step(run):
    step = run(lambda: full_step(lambda v: 0.0 * v, tf.zeros([3]), 0.02, 0.0, 10))
    assert step.full.tolist() == [0.0, 0.0, 0.0]
    assert (step.expected, step.residual, step.iterations) == (0.0, 0.0, 0)


START, FULL = np.float32([0.1, 1e-7, 3.0]), np.float32([1.0, 1.0, 1.0])


def _search(bound, most=5):
    """Search for a step no longer than ``bound``; its measure is ten times its length, or −7."""

    def measured(vector):
        length = tf.reduce_max(tf.abs(vector - START))
        return length <= bound, (10.0 * length,)

    return lambda: line_search(measured, tf.constant(START), tf.constant(FULL), (most, 0.5), (tf.constant(-7.0),))


def test_line_search_takes_the_first_acceptable_candidate(run):
    found = run(_search(0.3))
    assert (found.accepted, found.fraction, found.tried) == (True, 0.25, 3)
    np.testing.assert_array_equal(found.vector, START + np.float32(0.25))
    np.testing.assert_allclose(found.measures, [2.5], rtol=1e-6)


def test_line_search_without_an_acceptable_candidate_returns_the_start_bit_for_bit(run):
    found = run(_search(0.001))
    assert (found.accepted, found.fraction, found.tried) == (False, 0.0, 5)
    assert found.vector.tobytes() == START.tobytes()
    assert found.measures == (-7.0,)


def test_line_search_with_candidates_that_are_no_numbers_returns_the_start(run):
    full = tf.constant([np.inf, np.nan, 1.0], tf.float32)

    def measured(vector):
        return tf.reduce_sum(tf.abs(vector)) < 1e9, ()

    found = run(lambda: line_search(measured, tf.constant(START), full, (3, 0.5), ()))
    assert (found.accepted, found.tried, found.vector.tobytes()) == (False, 3, START.tobytes())


def test_line_search_of_no_candidates_looks_at_none(run):
    found = run(_search(10.0, most=0))
    assert (found.accepted, found.tried, found.vector.tobytes()) == (False, 0, START.tobytes())
