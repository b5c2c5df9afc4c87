"""Targets and losses of action values, and the scale on which R2D2 learns them. Each returns one number per row.

Values are a number, a distribution over fixed atoms, or quantiles; the caller reduces over rows. ``actors.initial_priorities``
computes the targets of DQN's in NumPy.
"""

from drl_cli.tf1.tensorflow import Tensor, tf


def soft_td_target(reward: Tensor, discount: Tensor, next_q: Tensor, next_logp: Tensor, alpha: Tensor) -> Tensor:
    """Return r + d·(min_j Q_j(s′, a′) − α·log π(a′|s′)), [B], without gradient.

    ``reward``, ``discount`` [B] (γ^k·(1 − terminated)), ``next_q`` [C, B] of the target critics, ``next_logp`` [B],
    ``alpha`` scalar. Source: Haarnoja et al. 2018, "Soft Actor-Critic Algorithms and Applications", eq. 3 and 5, with
    clipped double Q-learning (Fujimoto et al. 2018, eq. 10).
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
    """Return the target of clipped double Q-learning, r + d·min_j Q_j(s′, a′), [B], without gradient.

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


def squeezed(x: Tensor, epsilon: float) -> Tensor:
    """Return h(x) = sign(x)·(√(|x| + 1) − 1) + εx, element-wise: large returns are squeezed, so that no reward is clipped.

    Source: Pohlen et al. 2018, "Observe and Look Further" (arXiv 1805.11593), section 3.2.
    """
    return tf.sign(x) * (tf.sqrt(tf.abs(x) + 1.0) - 1.0) + epsilon * x


def stretched(x: Tensor, epsilon: float) -> Tensor:
    """Return h⁻¹(x) of ``squeezed``, element-wise.

    Proposition A.2 there has sign(x)·((√(1 + 4ε·(|x| + 1 + ε)) − 1)² / (2ε)² − 1), whose difference of nearly equal roots loses
    half of float32's digits at ε = 0.001. Multiplied out: with u = (√(1 + 4ε·(|x| + 1 + ε)) − 1) / (2ε), u ≥ 1,
    u = 2·(|x| + 1 + ε) / (√(1 + 4ε·(|x| + 1 + ε)) + 1), and u² − 1 = (u − 1)·(u + 1).
    """
    within = tf.abs(x) + 1.0 + epsilon
    root = 2.0 * within / (tf.sqrt(1.0 + 4.0 * epsilon * within) + 1.0)
    return tf.sign(x) * (root - 1.0) * (root + 1.0)


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
    distance = tf.abs(tf.expand_dims(place, 2) - tf.range(atoms, dtype=tf.float32))  # [B, from, to]
    share = tf.maximum(1.0 - distance, 0.0)  # [B, from, to]
    # A product of matrices, which with 101 atoms takes a quarter of the time of a sum over the atoms from which mass comes.
    return tf.stop_gradient(tf.matmul(tf.expand_dims(next_probabilities, 1), share)[:, 0])  # [B, atoms]


def soft_projected(
    reward: Tensor,
    discount: Tensor,
    next_probabilities: Tensor,
    next_entropy: Tensor,
    low: float,
    high: float,
) -> Tensor:
    """Return the distribution of r + d·(Z(s′, a′) + entropy) on the atoms of Z, [B, atoms], without gradient.

    ``next_entropy`` −α·log π(a′|s′) [B], the rest as for ``projected``: each atom moves by what the entropy is worth. Source:
    Palenicek et al. 2025, "XQC" (arXiv 2509.25174), which combines the target of C51 with that of SAC.
    """
    return projected(reward + discount * next_entropy, discount, next_probabilities, low, high)  # [B, atoms]


def lowest_distribution(probabilities: Tensor, support: Tensor) -> Tensor:
    """Return of C distributions that with the lowest mean (the first of equal ones) in each row, [B, atoms].

    ``probabilities`` [C, B, atoms] of the values ``support`` [atoms]: clipped double Q-learning (Fujimoto et al. 2018, eq. 10)
    for distributions, as in the code of the authors of XQC.
    """
    means = tf.reduce_sum(probabilities * support, axis=-1)  # [C, B]
    chosen = tf.one_hot(tf.argmin(means, axis=0), probabilities.shape[0], axis=0)  # [C, B]
    return tf.reduce_sum(probabilities * tf.expand_dims(chosen, -1), axis=0)  # [B, atoms]


def cross_entropy(target: Tensor, logits: Tensor) -> Tensor:
    """Return −Σ m·log p over the atoms, [B]; ``target`` m [B, atoms] without gradient, ``logits`` of p [B, atoms].

    [C, B] for ``logits`` [C, B, atoms] of C critics.

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


def looked_ahead(value: Tensor, ahead: Tensor) -> Tensor:
    """Return ``value`` [B, L + n] as it is ``ahead`` (int32 [B, L], 0 to n) steps after each of the first L, [B, L]."""
    steps = ahead.shape[1]
    furthest = value.shape[1] - steps
    later = tf.stack([value[:, at : at + steps] for at in range(furthest + 1)], axis=-1)  # [B, L, n + 1]
    return tf.reduce_sum(later * tf.one_hot(ahead, furthest + 1), axis=-1)  # [B, L]


def sequence_priority(error: Tensor, mask: Tensor, eta: float) -> Tensor:
    """Return η·max |δ| + (1 − η)·mean |δ| over the steps of each sequence, [B], without gradient.

    ``error`` δ [B, L], 0 where ``mask`` (0 or 1, [B, L]) is 0. Source: Kapturowski et al. 2019, "Recurrent Experience Replay in
    Distributed Reinforcement Learning", section 2.3.
    """
    size = tf.abs(error)  # [B, L]
    mean = tf.reduce_sum(size, axis=1) / tf.maximum(tf.reduce_sum(mask, axis=1), 1.0)  # [B]
    return tf.stop_gradient(eta * tf.reduce_max(size, axis=1) + (1.0 - eta) * mean)  # [B]
