"""Losses of policies that learn from trajectories. Each returns one number per step; the caller reduces over valid ones."""

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
