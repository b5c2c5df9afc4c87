"""Losses of action values against numbers made by hand and slow float64 references, their gradients, and what gets none."""

import numpy as np
import pytest

from drl_cli.algorithms.losses.value import (
    cross_entropy,
    looked_ahead,
    lowest_distribution,
    projected,
    quantile_errors,
    quantile_huber,
    sequence_priority,
    soft_projected,
    value_target,
)
from drl_cli.tf1.tensorflow import tf

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def run():
    """Evaluate tensors, gradients that do not exist as None."""
    with tf.Graph().as_default(), tf.Session() as session:
        yield lambda tensors: [None if t is None else session.run(t).tolist() for t in tensors]


def test_value_target_discounts_what_follows_and_ends_with_the_reward(run):
    target = value_target(tf.constant([1.0, 2.0]), tf.constant([0.5, 0.0]), tf.constant([8.0, 8.0]))
    assert run([target]) == [[5.0, 2.0]]


def test_value_target_gives_no_gradient_to_any_of_its_inputs(run):
    inputs = [tf.constant([1.0]), tf.constant([0.5]), tf.constant([3.0])]
    assert run(tf.gradients(value_target(*inputs), inputs)) == [None] * 3


def _moved(reward, discount, chances, low=-1.0, high=1.0):
    chances = tf.constant(chances)
    return projected(tf.constant(reward), tf.constant(discount), chances, low, high)


def test_projected_splits_mass_between_neighbours_by_nearness(run):
    # 0.25 + 1·(−1, 0, 1) lies a quarter of the way from its atom to the next; the last is beyond the edge
    assert run([_moved([0.25], [1.0], [[0.5, 0.5, 0.0]])]) == [[[0.375, 0.5, 0.125]]]
    assert run([_moved([0.25], [1.0], [[0.0, 0.0, 1.0]])]) == [[[0.0, 0.0, 1.0]]]


def test_projected_keeps_all_mass_of_an_exact_hit_on_its_atom(run):
    # moved by a whole atom; by nothing; a real end whose reward is an atom
    found = _moved([1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [[0.5, 0.5, 0.0], [0.25, 0.5, 0.25], [0.25, 0.5, 0.25]])
    assert run([found]) == [[[0.0, 0.5, 0.5], [0.25, 0.5, 0.25], [0.0, 1.0, 0.0]]]


def test_projected_puts_what_lies_beyond_on_the_edges(run):
    found = _moved([-7.0, 9.0], [1.0, 0.0], [[0.25, 0.5, 0.25], [0.25, 0.5, 0.25]])
    assert run([found]) == [[[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]]


def test_projected_gives_no_gradient(run):
    reward, discount, chances = tf.constant([0.25]), tf.constant([1.0]), tf.constant([[0.5, 0.5, 0.0]])
    found = projected(reward, discount, chances, -1.0, 1.0)
    assert run(tf.gradients(found, [reward, discount, chances])) == [None] * 3


def slow_projection(reward, discount, chances, support):
    """Bellemare et al. 2017, algorithm 1, one atom at a time, with the mass of exact hits kept."""
    step, found = support[1] - support[0], np.zeros_like(chances)
    for row in range(len(reward)):
        for atom, chance in zip(support, chances[row], strict=True):
            place = (np.clip(reward[row] + discount[row] * atom, support[0], support[-1]) - support[0]) / step
            below = min(int(np.floor(place)), len(support) - 2)
            found[row, below] += chance * (below + 1 - place)
            found[row, below + 1] += chance * (place - below)
    return found


@pytest.mark.parametrize(
    ("low", "high", "atoms"), [(-10.0, 10.0, 51), (0.0, 500.0, 51), (-1.5, 0.25, 2), (-3.0, 4.0, 8)]
)
def test_projected_keeps_mass_and_mean_of_random_targets(run, low, high, atoms):
    rng = np.random.default_rng(atoms)
    support = np.linspace(low, high, atoms)
    chances = rng.dirichlet(np.full(atoms, 0.3), 200)
    discount = rng.choice([0.0, 0.5, 0.9, 0.99, 1.0], 200)
    # half of them anywhere, half such that they hit atoms exactly; all kinds lie within or beyond the edges
    anywhere = rng.uniform(1.5 * low - 0.5 * high, 1.5 * high - 0.5 * low, 200)
    reward = np.where(rng.random(200) < 0.5, rng.choice(support, 200) * (1 - discount), anywhere)
    inputs = [tf.constant(np.float32(value)) for value in (reward, discount, chances)]
    found = np.array(run([projected(*inputs, low, high)])[0])
    clipped = np.clip(reward[:, None] + discount[:, None] * support, low, high)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-5)
    np.testing.assert_allclose(found @ support, (chances * clipped).sum(axis=1), atol=2e-6 * (high - low) * atoms)
    np.testing.assert_allclose(found, slow_projection(reward, discount, chances, support), atol=2e-5)
    assert found.min() >= 0.0


def test_soft_projected_moves_each_atom_by_what_the_entropy_is_worth(run):
    # −0.5 + 0.5·(atom + 2) of the atoms −1, 0, 1 is 0, ½, 1; without entropy −1, −½, 0; what ends has none
    chances = tf.constant([[0.5, 0.25, 0.25]] * 3)
    reward, discount = tf.constant([-0.5, -0.5, -0.5]), tf.constant([0.5, 0.5, 0.0])
    found = soft_projected(reward, discount, chances, tf.constant([2.0, 0.0, 2.0]), -1.0, 1.0)
    assert run([found]) == [[[0.0, 0.625, 0.375], [0.625, 0.375, 0.0], [0.5, 0.5, 0.0]]]


def test_soft_projected_gives_no_gradient(run):
    inputs = [tf.constant([0.25]), tf.constant([1.0]), tf.constant([[0.5, 0.5, 0.0]]), tf.constant([0.5])]
    assert run(tf.gradients(soft_projected(*inputs, -1.0, 1.0), inputs)) == [None] * 4


def test_lowest_distribution_is_whole_that_of_the_lower_mean_in_each_row(run):
    # means 0 and 0.25; 0.5 and −0.5; equal ones, of which the first stays
    one = [[0.5, 0.0, 0.5], [0.0, 0.5, 0.5], [0.0, 1.0, 0.0]]
    other = [[0.25, 0.25, 0.5], [0.5, 0.5, 0.0], [0.5, 0.0, 0.5]]
    found = lowest_distribution(tf.constant([one, other]), tf.constant([-1.0, 0.0, 1.0]))
    assert run([found]) == [[one[0], other[1], one[2]]]


def test_cross_entropy_of_several_critics_has_the_same_target_for_each(run):
    logits = tf.constant(np.log(np.float32([[[0.25, 0.75]], [[0.5, 0.5]]])))
    found = run([cross_entropy(tf.constant([[1.0, 0.0]]), logits)])[0]
    np.testing.assert_allclose(found, [[1.3862944], [0.6931472]], rtol=1e-6)  # log 4, log 2


def test_cross_entropy_is_smallest_where_the_chances_are_the_target(run):
    logits = tf.constant(np.log(np.float32([[0.25, 0.75], [0.5, 0.5]])))
    loss = cross_entropy(tf.constant([[1.0, 0.0], [0.5, 0.5]]), logits)
    np.testing.assert_allclose(run([loss])[0], [1.3862944, 0.6931472], rtol=1e-6)  # log 4, log 2
    # softmax − target
    np.testing.assert_allclose(run(tf.gradients(loss, [logits]))[0], [[-0.75, 0.75], [0.0, 0.0]], atol=1e-6)


def test_cross_entropy_gives_its_target_no_gradient(run):
    target, logits = tf.constant([[0.5, 0.5]]), tf.constant([[1.0, 2.0]])
    assert run(tf.gradients(cross_entropy(target, logits), [target])) == [None]


def test_quantile_errors_pair_every_quantile_with_every_target(run):
    errors = quantile_errors(tf.constant([[1.0, 2.0]]), tf.constant([[10.0, 20.0, 30.0]]))
    assert run([errors]) == [[[[9.0, 19.0, 29.0], [8.0, 18.0, 28.0]]]]


def test_quantile_huber_weighs_by_side_takes_the_mean_over_targets_and_sums_over_quantiles(run):
    quantiles = tf.constant([[0.0, 1.0]])  # τ = ¼, ¾
    loss = quantile_huber(quantile_errors(quantiles, tf.constant([[0.5, -2.0]])), 1.0)
    # first: ¼·⅛ and ¾·1.5, mean 0.578125; second: errors −½ and −3, ¼·⅛ and ¼·2.5, mean 0.328125
    assert run([loss]) == [[0.90625]]
    # first: −(¼·½ − ¾)/2; second: (¼·½ + ¼)/2
    assert run(tf.gradients(loss, [quantiles])) == [[[0.3125, 0.1875]]]


def test_quantile_huber_matches_the_paper_in_float64(run):
    rng = np.random.default_rng(3)
    quantiles, target, kappa = rng.normal(0, 2, (6, 5)), rng.normal(0, 2, (6, 7)), 0.5
    expected = np.zeros(6)
    for row in range(6):
        for i in range(5):
            for j in range(7):
                error = target[row, j] - quantiles[row, i]
                huge = abs(error) > kappa
                size = kappa * (abs(error) - kappa / 2) if huge else error**2 / 2
                expected[row] += abs((2 * i + 1) / 10 - (error < 0)) * size / kappa / 7
    errors = quantile_errors(tf.constant(np.float32(quantiles)), tf.constant(np.float32(target)))
    np.testing.assert_allclose(run([quantile_huber(errors, kappa)])[0], expected, rtol=1e-5)


def test_looking_ahead_takes_each_step_the_value_as_many_steps_later(run):
    value = tf.constant([[1.0, 2.0, 3.0, 4.0, 5.0], [10.0, 20.0, 30.0, 40.0, 50.0]])
    ahead = tf.constant([[0, 2, 1], [2, 0, 2]])
    assert run([looked_ahead(value, ahead)]) == [[[1.0, 4.0, 4.0], [30.0, 20.0, 50.0]]]


def test_priority_of_a_sequence_is_between_its_largest_and_its_mean_error_without_gradient(run):
    error = tf.constant([[-4.0, 1.0, 1.0], [3.0, -1.0, 0.0], [0.0, 0.0, 0.0]])
    mask = tf.constant([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    priority = sequence_priority(error, mask, 0.75)
    assert run([priority, *tf.gradients(priority, [error, mask])]) == [[3.5, 2.75, 0.0], None, None]
