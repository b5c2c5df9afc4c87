"""Losses of policies that learn to act as recorded. Each returns one number per step; the caller reduces."""

import math

from drl_cli.tf1.tensorflow import Tensor, tf

LEAST_Q = 1e-6  # mean |Q| below which a policy's gain is not scaled any further


def weighted_imitation_loss(logp: Tensor, weight: Tensor) -> Tensor:
    """Return −w·log π(a|s), [B]; the gradient reaches ``logp`` alone. With weights of 1 that is behaviour cloning.

    Source: Wang et al. 2018 (MARWIL), algorithm 1.
    """
    return -logp * tf.stop_gradient(weight)  # [B]


def advantage_weight(advantage: Tensor, scale: Tensor, beta: float, most: float) -> Tensor:
    """Return min(exp(β·A/c), ``most``), [B], without gradient.

    ``advantage`` A [B]; ``scale`` c, scalar, in the same unit, 0 where all advantages were; β ≥ 0, ``most`` ≥ 1 numbers. The
    exponent is bounded before it is taken, so that no weight is infinite. Source: Wang et al. 2018 (MARWIL), eq. 2, with c
    the root of their mean square (section 3); the bound is that of Wang et al. 2020, "Critic Regularized Regression", eq. 4.
    """
    exponent = beta * advantage / (scale + 1e-8)  # [B]
    return tf.stop_gradient(tf.exp(tf.minimum(exponent, math.log(most))))  # [B]


def cloned_gain_loss(q: Tensor, distance: Tensor, alpha: float) -> Tensor:
    """Return −λ·Q(s, π(s)) + mean_i (π(s) − a)²_i, [B], with λ = α / mean |Q| over the batch, a number without gradient.

    ``q`` [B], ``distance`` [B, A] from the recorded actions, ``alpha`` α a float. The mean over the A dimensions of an action
    is that of the authors' code. Source: Fujimoto & Gu 2021, "A Minimalist Approach to Offline
    Reinforcement Learning" (arXiv 2106.06860), eq. 3 and 5.
    """
    scale = alpha / tf.maximum(tf.stop_gradient(tf.reduce_mean(tf.abs(q))), LEAST_Q)  # scalar
    return tf.reduce_mean(tf.square(distance), axis=-1) - scale * q  # [B]
