"""Losses of action values. Each returns one number per row; the caller reduces."""

from drl_cli.tf1.tensorflow import Tensor, tf


def soft_td_target(reward: Tensor, discount: Tensor, next_q: Tensor, next_logp: Tensor, alpha: Tensor) -> Tensor:
    """Return r + d·(min_j Q_j(s′, a′) − α·log π(a′|s′)), [B], without gradient.

    ``reward``, ``discount`` [B] (γ^k·(1 − terminated)), ``next_q`` [C, B] of the target critics, ``next_logp`` [B],
    ``alpha`` scalar. Source: Haarnoja et al. 2018, "Soft Actor-Critic Algorithms and Applications", eq. 3 and 5, with the
    smaller of the critics (Fujimoto et al. 2018, eq. 10).
    """
    soft_value = tf.reduce_min(next_q, axis=0) - alpha * next_logp  # [B]
    return tf.stop_gradient(reward + discount * soft_value)  # [B]


def expected_soft_td_target(
    reward: Tensor, discount: Tensor, next_q: Tensor, next_probabilities: Tensor, next_logp: Tensor, alpha: Tensor
) -> Tensor:
    """Return r + d·Σ_a π(a|s′)·(min_j Q_j(s′, a) − α·log π(a|s′)), [B], without gradient.

    ``next_q`` [C, B, n] of the target critics, ``next_probabilities`` and ``next_logp`` [B, n], the rest as above. Source:
    Christodoulou 2019, "Soft Actor-Critic for Discrete Action Settings" (arXiv 1910.07207), eq. 10.
    """
    soft_value = next_probabilities * (tf.reduce_min(next_q, axis=0) - alpha * next_logp)  # [B, n]
    return tf.stop_gradient(reward + discount * tf.reduce_sum(soft_value, axis=-1))  # [B]


def td_target(reward: Tensor, discount: Tensor, next_q: Tensor) -> Tensor:
    """Return r + d·min_j Q_j(s′, a′), [B], without gradient.

    ``reward``, ``discount`` [B] (γ^k·(1 − terminated)), ``next_q`` [C, B] of the target critics. Source: Fujimoto et al.
    2018, eq. 10; with one critic, Lillicrap et al. 2016, algorithm 1.
    """
    return tf.stop_gradient(reward + discount * tf.reduce_min(next_q, axis=0))  # [B]


def td_error(q: Tensor, target: Tensor) -> Tensor:
    """Return target − Q for every critic, [C, B]; ``q`` [C, B], ``target`` [B]."""
    return tf.expand_dims(target, 0) - q  # [C, B]


def squared(error: Tensor) -> Tensor:
    """Return ½·error², element-wise."""
    return 0.5 * tf.square(error)


def huber(error: Tensor, threshold: float) -> Tensor:
    """Return ½·error² up to ``threshold``, then threshold·(|error| − ½·threshold), element-wise (Huber 1964)."""
    size = tf.abs(error)
    small = tf.minimum(size, threshold)
    return small * (size - 0.5 * small)


def expectile_loss(error: Tensor, expectile: float) -> Tensor:
    """Return |τ − 1{u < 0}|·u² of ``error`` u, element-wise; ``expectile`` τ a float in (0, 1), ½ is ½·u².

    u is target − value: with τ above ½ a value below its target costs more than one above it. Source: Kostrikov et al. 2021,
    "Offline Reinforcement Learning with Implicit Q-Learning" (arXiv 2110.06169), eq. 3 and 5.
    """
    below = tf.stop_gradient(tf.cast(error < 0.0, tf.float32))
    return tf.abs(expectile - below) * tf.square(error)
