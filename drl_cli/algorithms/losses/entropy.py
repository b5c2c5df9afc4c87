"""Losses of maximum-entropy policies. Each returns one number per row, or per row and action; the caller reduces."""

from drl_cli.tf1.tensorflow import Tensor, tf


def soft_policy_loss(logp: Tensor, q: Tensor, alpha: Tensor) -> Tensor:
    """Return α·log π(a|s) − min_j Q_j(s, a), [B]; gradients reach the policy through ``logp`` and the action in ``q``.

    ``logp`` [B], ``q`` [C, B], ``alpha`` scalar, treated as a constant. Source: Haarnoja et al. 2018, "Soft Actor-Critic
    Algorithms and Applications", eq. 7. With ``logp`` [B, n] and ``q`` [C, B, n] of all actions it is the term of each
    action, [B, n], whose ``expectation`` is the loss of Christodoulou 2019 (arXiv 1910.07207), eq. 12.
    """
    return tf.stop_gradient(alpha) * logp - tf.reduce_min(q, axis=0)  # [B]


def temperature_loss(log_alpha: Tensor, logp: Tensor, target_entropy: Tensor) -> Tensor:
    """Return −log α·(log π + H̄), [B]; the gradient reaches ``log_alpha`` alone.

    ``log_alpha`` scalar, ``logp`` [B] of the actions drawn, or its expectation over all of them (Christodoulou 2019, eq.
    11), ``target_entropy`` H̄ scalar. Source: Haarnoja et al. 2018, eq. 18, with log α in place of α as in its authors'
    code (the same fixed point; α stays positive).
    """
    return -log_alpha * tf.stop_gradient(logp + target_entropy)  # [B]


def expectation(probabilities: Tensor, values: Tensor) -> Tensor:
    """Return Σ_a π(a|s)·x(s, a), [B]; ``probabilities`` and ``values`` [B, n], gradients reach both."""
    return tf.reduce_sum(probabilities * values, axis=-1)  # [B]
