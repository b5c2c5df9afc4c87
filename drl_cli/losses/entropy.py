"""Losses of maximum-entropy policies. Each returns one number per row; the caller reduces."""

import tensorflow.compat.v1 as tf


def soft_policy_loss(logp, q, alpha):
    """Return α·log π(a|s) − min_j Q_j(s, a), [B]; gradients reach the policy through ``logp`` and the action in ``q``.

    ``logp`` [B], ``q`` [C, B], ``alpha`` scalar, treated as a constant. Source: Haarnoja et al. 2018, "Soft Actor-Critic
    Algorithms and Applications", eq. 7.
    """
    return tf.stop_gradient(alpha) * logp - tf.reduce_min(q, axis=0)  # [B]


def temperature_loss(log_alpha, logp, target_entropy):
    """Return −log α·(log π + H̄), [B]; the gradient reaches ``log_alpha`` alone.

    ``log_alpha`` scalar, ``logp`` [B], ``target_entropy`` H̄ scalar. Source: ibid., eq. 18, with log α in place of α as
    in its authors' code (the same fixed point; α stays positive).
    """
    return -log_alpha * tf.stop_gradient(logp + target_entropy)  # [B]
