"""Losses of values of a few actions: one number, a distribution over fixed atoms, or quantiles. The caller reduces rows.

Used by ``algorithms.dqn_graph``; ``actors.initial_priorities`` computes the same targets in NumPy.
"""

from drl_cli.algorithms.losses.value import huber
from drl_cli.tf1.tensorflow import Tensor, tf


def value_target(reward: Tensor, discount: Tensor, next_value: Tensor) -> Tensor:
    """Return r + d·V(s′), [B], without gradient; all [B], ``discount`` γ^k·(1 − terminated).

    Source: Mnih et al. 2015, "Human-level control through deep reinforcement learning", algorithm 1.
    """
    return tf.stop_gradient(reward + discount * next_value)  # [B]


def projected(reward: Tensor, discount: Tensor, next_probabilities: Tensor, low: float, high: float) -> Tensor:
    """Return the distribution of r + d·Z(s′) on the atoms of Z, [B, atoms], without gradient.

    ``reward``, ``discount`` [B]; ``next_probabilities`` [B, atoms] over ``atoms`` values evenly spaced from ``low`` to
    ``high`` (floats). An atom's mass goes to its two neighbours in proportion to nearness, all of it where it hits one, and
    to the edge where it lies beyond: mass is kept, and so is the mean of what lies within. Source: Bellemare et al. 2017
    (arXiv 1707.06887), eq. 7; its algorithm 1 with floor and ceiling loses the mass of exact hits.
    """
    atoms = next_probabilities.shape[-1]
    support = tf.linspace(tf.constant(low, tf.float32), high, atoms)  # [atoms]
    moved = tf.expand_dims(reward, 1) + tf.expand_dims(discount, 1) * support  # [B, atoms]
    place = (moved - low) * ((atoms - 1) / (high - low))  # [B, atoms], counted in atoms
    place = tf.clip_by_value(place, 0.0, float(atoms - 1))  # [B, atoms]
    distance = tf.abs(tf.expand_dims(place, 1) - tf.range(atoms, dtype=tf.float32)[:, None])  # [B, to, from]
    share = tf.maximum(1.0 - distance, 0.0)  # [B, to, from]
    return tf.stop_gradient(tf.reduce_sum(share * tf.expand_dims(next_probabilities, 1), axis=-1))  # [B, atoms]


def cross_entropy(target: Tensor, logits: Tensor) -> Tensor:
    """Return −Σ m·log p over the atoms, [B]; ``target`` m [B, atoms] without gradient, ``logits`` of p [B, atoms].

    Source: Bellemare et al. 2017, algorithm 1.
    """
    return -tf.reduce_sum(tf.stop_gradient(target) * tf.nn.log_softmax(logits), axis=-1)  # [B]


def quantile_errors(quantiles: Tensor, target: Tensor) -> Tensor:
    """Return target_j − θ_i, [B, N, M]; ``quantiles`` θ [B, N], ``target`` [B, M]."""
    return tf.expand_dims(target, 1) - tf.expand_dims(quantiles, 2)  # [B, N, M]


def quantile_huber(errors: Tensor, threshold: float) -> Tensor:
    """Return Σ_i mean_j |τ_i − 1{e_ij < 0}|·L_κ(e_ij)/κ, [B], with τ_i = (i + ½)/N and ``threshold`` κ.

    ``errors`` [B, N, M] of ``quantile_errors``. Source: Dabney et al. 2018 (arXiv 1710.10044), eq. 10 and algorithm 1;
    divided by κ as in their later work, which changes nothing at κ = 1.
    """
    count = errors.shape[1]
    middles = ((tf.range(count, dtype=tf.float32) + 0.5) / float(count))[:, None]  # [N, 1]
    # Which side of the quantile the target lies on is a weight, not something to differentiate.
    side = tf.stop_gradient(tf.cast(errors < 0.0, tf.float32))  # [B, N, M]
    each = tf.abs(middles - side) * huber(errors, threshold) / threshold  # [B, N, M]
    return tf.reduce_sum(tf.reduce_mean(each, axis=2), axis=1)  # [B]
