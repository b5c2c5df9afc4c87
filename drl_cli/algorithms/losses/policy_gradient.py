"""Losses of policies: those that learn from trajectories, and maximum-entropy ones. The caller reduces over valid steps.

Each returns one number per step, those of maximum-entropy policies one per row, or per row and action.
"""

from drl_cli.tf1.tensorflow import Tensor, tf


def standardized(advantages: Tensor, mask: Tensor) -> Tensor:
    """Return ``advantages`` [E, T] less their mean, over their standard deviation, both of the valid steps; 0 in padding.

    Advantages that are all alike become 0.
    """
    count = tf.maximum(tf.reduce_sum(mask), 1.0)
    centred = (advantages - tf.reduce_sum(advantages * mask) / count) * mask  # [E, T]
    return centred / (tf.sqrt(tf.reduce_sum(tf.square(centred)) / count) + 1e-8)  # [E, T]


def policy_gradient_loss(logp: Tensor, advantages: Tensor) -> Tensor:
    """Return −log π(a|s)·A, [B]; the gradient reaches ``logp`` alone.

    Sources: Williams 1992, "Simple statistical gradient-following algorithms for connectionist reinforcement learning"
    (REINFORCE, with A the return to go); Mnih et al. 2016 (arXiv 1602.01783), section 4 (with A an advantage).
    """
    return -logp * tf.stop_gradient(advantages)  # [B]


def surrogate_loss(ratio: Tensor, advantages: Tensor, clip: float | None) -> Tensor:
    """Return −min(ρA, clip(ρ, 1 ± ``clip``)A), [B]; −ρA where ``clip`` is None. The gradient reaches ``ratio`` alone.

    ``ratio`` ρ = π(a|s)/π_old(a|s). Source: Schulman et al. 2017 (arXiv 1707.06347), eq. 7 and 6.
    """
    advantages = tf.stop_gradient(advantages)
    plain = ratio * advantages  # [B]
    if clip is None:
        return -plain
    return -tf.minimum(plain, tf.clip_by_value(ratio, 1.0 - clip, 1.0 + clip) * advantages)  # [B]


def clipped_value_loss(value: Tensor, old_value: Tensor, target: Tensor, clip: float | None) -> Tensor:
    """Return max((V − R)², (V_old + clip(V − V_old, ±``clip``) − R)²), [B]; (V − R)² where ``clip`` is None.

    The gradient reaches ``value`` alone. ``clip`` in units of return. Source: RLlib's PPO, after OpenAI's baselines; the
    paper has no such clip.
    """
    old_value, target = tf.stop_gradient(old_value), tf.stop_gradient(target)
    plain = tf.square(value - target)  # [B]
    if clip is None:
        return plain
    near = old_value + tf.clip_by_value(value - old_value, -clip, clip)  # [B]
    return tf.maximum(plain, tf.square(near - target))  # [B]


def clip_fraction(ratio: Tensor, clip: float) -> Tensor:
    """Return 1 where the ratio is beyond 1 ± ``clip``, else 0, [B]."""
    return tf.cast(tf.abs(ratio - 1.0) > clip, tf.float32)  # [B]


def explained_variance(target: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Return 1 − Var[R − V]/Var[R] over the valid steps, scalar: 1 is a perfect value, 0 one that explains nothing."""
    count = tf.maximum(tf.reduce_sum(mask), 1.0)

    def variance(x: Tensor) -> Tensor:
        return tf.reduce_sum(tf.square(x - tf.reduce_sum(x * mask) / count) * mask) / count

    return 1.0 - variance(target - value) / tf.maximum(variance(target), 1e-8)


def adapted(coefficient: Tensor, kl: Tensor, target: float) -> Tensor:
    """Return the coefficient of the KL penalty after an iteration: 1.5 times it above 2·``target``, half below half of it.

    Source: Schulman et al. 2017, section 4, with RLlib's factors (the paper: 2, ½ and bounds of 1.5).
    """
    factor = tf.where(kl > 2.0 * target, 1.5, tf.where(kl < 0.5 * target, 0.5, 1.0))
    return coefficient * factor


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
