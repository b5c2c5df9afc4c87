"""Losses of policies that stay near what recorded actions show. Each returns one number per row; the caller reduces.

Sources: implicit Q-learning, Kostrikov et al. 2021 (arXiv 2110.06169); TD3+BC, Fujimoto & Gu 2021 (arXiv 2106.06860).
"""

import tensorflow.compat.v1 as tf

LEAST_Q = 1e-6  # mean |Q| below which a policy's gain is not scaled any further


def expectile_loss(error, expectile):
    """Return |τ − 1{u < 0}|·u² of ``error`` u, element-wise; ``expectile`` τ a float in (0, 1), ½ is ½·u².

    u is target − value: with τ above ½ a value below its target costs more than one above it. Source: Kostrikov et al. 2021,
    eq. 3 and 5.
    """
    below = tf.stop_gradient(tf.cast(error < 0.0, tf.float32))
    return tf.abs(expectile - below) * tf.square(error)


def advantage_weight(advantage, beta, most):
    """Return min(exp(β·A), ``most``), [B], without gradient; ``advantage`` [B], ``beta`` and ``most`` floats.

    Source: Kostrikov et al. 2021, eq. 7, capped as in the authors' code. The exponent is capped, so that nothing overflows.
    """
    return tf.stop_gradient(tf.exp(tf.minimum(beta * advantage, tf.math.log(most))))  # [B]


def weighted_likelihood_loss(logp, weight):
    """Return −w·log π(a|s), [B]; the gradient reaches ``logp`` alone. Source: Kostrikov et al. 2021, eq. 7."""
    return -tf.stop_gradient(weight) * logp  # [B]


def cloned_gain_loss(q, distance, alpha):
    """Return −λ·Q(s, π(s)) + mean_i (π(s) − a)²_i, [B], with λ = α / mean |Q| over the batch, a number without gradient.

    ``q`` [B], ``distance`` [B, A] from the recorded actions, ``alpha`` α a float. The mean over the A dimensions of an action
    is that of the authors' code. Source: Fujimoto & Gu 2021, eq. 3 and 5.
    """
    scale = alpha / tf.maximum(tf.stop_gradient(tf.reduce_mean(tf.abs(q))), LEAST_Q)  # scalar
    return tf.reduce_mean(tf.square(distance), axis=-1) - scale * q  # [B]
