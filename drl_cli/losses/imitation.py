"""Losses of policies that learn to act as recorded. Each returns one number per step; the caller reduces."""

import math

import tensorflow.compat.v1 as tf


def weighted_imitation_loss(logp, weight):
    """Return −w·log π(a|s), [B]; the gradient reaches ``logp`` alone. With weights of 1 that is behaviour cloning.

    Source: Wang et al. 2018 (MARWIL), algorithm 1.
    """
    return -logp * tf.stop_gradient(weight)  # [B]


def advantage_weight(advantage, scale, beta, most):
    """Return min(exp(β·A/c), ``most``), [B], without gradient.

    ``advantage`` A [B]; ``scale`` c, scalar, in the same unit, 0 where all advantages were; β ≥ 0, ``most`` ≥ 1 numbers. The
    exponent is bounded before it is taken, so that no weight is infinite. Source: Wang et al. 2018 (MARWIL), eq. 2, with c
    the root of their mean square (section 3); the bound is that of Wang et al. 2020, "Critic Regularized Regression", eq. 4.
    """
    exponent = beta * advantage / (scale + 1e-8)  # [B]
    return tf.stop_gradient(tf.exp(tf.minimum(exponent, math.log(most))))  # [B]
