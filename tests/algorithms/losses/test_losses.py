"""Losses against numbers made by hand, their gradients, and what must get none."""

import numpy as np
import pytest

from drl_cli.algorithms.losses.policy_gradient import expectation, soft_policy_loss, temperature_loss
from drl_cli.algorithms.losses.value import expected_soft_td_target, huber, soft_td_target, squared, td_error, td_target
from drl_cli.tf1.tensorflow import tf

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def run():
    """Evaluate tensors, gradients that do not exist as None."""
    with tf.Graph().as_default(), tf.Session() as session:
        yield lambda tensors: [None if t is None else session.run(t).tolist() for t in tensors]


def test_soft_td_target_takes_the_smaller_critic_minus_the_entropy_term(run):
    target = soft_td_target(
        reward=tf.constant([1.0, 2.0, 3.0]),
        discount=tf.constant([0.5, 0.25, 0.0]),
        next_q=tf.constant([[10.0, 4.0, 7.0], [8.0, 6.0, 9.0]]),
        next_logp=tf.constant([2.0, -4.0, 1.0]),
        alpha=tf.constant(0.5),
    )
    # 1 + 0.5·(8 − 1), 2 + 0.25·(4 + 2), and a real end: the reward alone
    assert run([target]) == [[4.5, 3.5, 3.0]]


def test_soft_td_target_gives_no_gradient_to_any_of_its_inputs(run):
    inputs = [tf.constant([1.0]), tf.constant([0.5]), tf.constant([[3.0], [4.0]]), tf.constant([2.0]), tf.constant(0.1)]
    assert run(tf.gradients(soft_td_target(*inputs), inputs)) == [None] * 5


def test_expected_soft_td_target_weighs_the_soft_value_of_each_action_by_its_probability(run):
    target = expected_soft_td_target(
        reward=tf.constant([1.0, 3.0]),
        discount=tf.constant([0.5, 0.0]),
        next_q=tf.constant([[[10.0, 4.0], [7.0, 7.0]], [[8.0, 6.0], [9.0, 9.0]]]),
        next_probabilities=tf.constant([[0.25, 0.75], [0.5, 0.5]]),
        next_logp=tf.constant([[2.0, -4.0], [1.0, 1.0]]),
        alpha=tf.constant(0.5),
    )
    # 1 + 0.5·(¼·(8 − 1) + ¾·(4 + 2)), and a real end: the reward alone
    assert run([target]) == [[4.125, 3.0]]


def test_expected_soft_td_target_gives_no_gradient_to_any_of_its_inputs(run):
    rows = [tf.constant([1.0]), tf.constant([0.5])]
    actions = [tf.constant([[[3.0, 1.0]], [[4.0, 2.0]]]), tf.constant([[0.5, 0.5]]), tf.constant([[2.0, 1.0]])]
    inputs = [*rows, *actions, tf.constant(0.1)]
    assert run(tf.gradients(expected_soft_td_target(*inputs), inputs)) == [None] * 6


def test_td_target_of_clipped_double_q_takes_the_smaller_critic_without_gradient(run):
    inputs = [tf.constant([1.0, 3.0]), tf.constant([0.5, 0.0]), tf.constant([[10.0, 7.0], [8.0, 9.0]])]
    assert run([td_target(*inputs)]) == [[5.0, 3.0]]
    assert run(tf.gradients(td_target(*inputs), inputs)) == [None] * 3


def test_huber_is_a_square_up_to_its_threshold_and_a_line_of_the_same_slope_beyond(run):
    error = tf.constant([0.0, 1.0, -2.0, 5.0, -5.0])
    loss = huber(error, 2.0)
    # ½·1, ½·4, 2·(5 − 1)
    assert run([loss]) == [[0.0, 0.5, 2.0, 8.0, 8.0]]
    assert run(tf.gradients(loss, [error])) == [[0.0, 1.0, -2.0, 2.0, -2.0]]


def test_expectation_over_actions_gives_a_gradient_to_chances_and_values(run):
    probabilities, values = tf.constant([[0.25, 0.75], [0.5, 0.5]]), tf.constant([[8.0, 4.0], [1.0, -3.0]])
    found = expectation(probabilities, values)
    assert run([found]) == [[5.0, -1.0]]
    assert run(tf.gradients(found, [probabilities, values])) == [[[8.0, 4.0], [1.0, -3.0]], [[0.25, 0.75], [0.5, 0.5]]]


def test_td_error_is_target_minus_every_critic(run):
    q, target = tf.constant([[1.0, 2.0, 0.0], [3.0, 5.0, 0.0]]), tf.constant([4.0, 5.0, 6.0])
    assert run([td_error(q, target)]) == [[[3.0, 3.0, 6.0], [1.0, 0.0, 6.0]]]


def test_squared_td_error_pulls_each_critic_to_the_target(run):
    q, target = tf.constant([[1.0, 2.0], [3.0, 5.0]]), tf.constant([4.0, 4.0])
    loss = squared(td_error(q, target))
    assert run([loss]) == [[[4.5, 2.0], [0.5, 0.5]]]
    # d/dq of ½(target − q)² is q − target
    assert run(tf.gradients(loss, [q])) == [[[-3.0, -2.0], [-1.0, 1.0]]]


def test_soft_policy_loss_is_entropy_term_minus_the_smaller_critic(run):
    loss = soft_policy_loss(tf.constant([2.0, -1.0]), tf.constant([[5.0, 1.0], [3.0, 4.0]]), tf.constant(0.5))
    assert run([loss]) == [[-2.0, -1.5]]


def test_soft_policy_loss_moves_the_smaller_critic_and_logp_and_never_alpha(run):
    logp, q, alpha = tf.constant([2.0, -1.0]), tf.constant([[5.0, 1.0], [3.0, 4.0]]), tf.constant(0.5)
    by_logp, by_q, by_alpha = run(tf.gradients(soft_policy_loss(logp, q, alpha), [logp, q, alpha]))
    assert by_logp == [0.5, 0.5]
    assert by_q == [[0.0, -1.0], [-1.0, 0.0]]
    assert by_alpha is None


def test_temperature_loss_falls_with_alpha_while_entropy_is_above_its_target(run):
    log_alpha, logp = tf.constant(np.float32(-1.5)), tf.constant([2.0, -3.0])
    loss = temperature_loss(log_alpha, logp, -2.0)
    assert run([loss]) == [[0.0, -7.5]]
    by_alpha, by_logp = run(tf.gradients(tf.reduce_mean(loss), [log_alpha, logp]))
    # −mean(logp + H̄) = −mean(0, −5): entropy 3 is above the target −2, so descending lowers alpha
    assert by_alpha == 2.5
    assert by_logp is None
