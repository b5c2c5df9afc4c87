"""Losses of truncated quantile critics. Each returns one number per row and critic; the caller reduces.

Source: Kuznetsov et al. 2020, "Controlling Overestimation Bias with Truncated Mixture of Continuous Distributional
Quantile Critics" (arXiv 2005.04269).

Deviation: nothing is sorted. The kept quantiles enter the loss as a sum, in any order, so that a share for each is enough.
"""

import math

import tensorflow.compat.v1 as tf

from drl_cli.losses.value import huber

MOST_PASSES = 64  # from here on one sort costs less than the passes, and makes a smaller graph


def kept_shares(pooled, dropped):
    """Return how much of each quantile stays when the ``dropped`` largest of its row go, [B, K]; a row sums to K − dropped.

    ``pooled`` [B, K] are the quantiles of all critics, ``dropped`` an int in [0, K). A share is 1 or 0; quantiles that are
    equal to the smallest dropped one share what has to stay of them. Source: section 3.2, eq. 9 (their z_(i) of the
    smallest kN).

    Sorting [256, 50] takes XLA 0.92 ms on one core, more than a small update; four passes for the next smaller value
    take 0.03 ms.
    """
    if dropped == 0:
        return tf.ones_like(pooled)  # [B, K]
    pooled = tf.stop_gradient(pooled)  # [B, K]
    if dropped <= MOST_PASSES:
        border = _border_by_passes(pooled, dropped)  # [B, 1]
    else:
        border = tf.sort(pooled, axis=-1, direction="DESCENDING")[:, dropped - 1 : dropped]  # [B, 1]
    above = tf.cast(pooled > border, tf.float32)  # [B, K]
    at = tf.cast(tf.equal(pooled, border), tf.float32)  # [B, K]
    equals = tf.reduce_sum(at, axis=-1, keepdims=True)  # [B, 1]
    to_keep = tf.reduce_sum(above, axis=-1, keepdims=True) + equals - float(dropped)  # [B, 1]
    return 1.0 - above - at * (1.0 - to_keep / tf.maximum(equals, 1.0))  # [B, K]


def _border_by_passes(pooled, dropped):
    """The ``dropped``-th largest value of each row, [B, 1]: the maximum, then the largest below it, and so on."""
    border = tf.reduce_max(pooled, axis=-1, keepdims=True)  # [B, 1]
    for _ in range(dropped - 1):
        found = tf.reduce_sum(tf.cast(pooled >= border, tf.float32), axis=-1, keepdims=True)  # [B, 1]
        below = tf.reduce_max(tf.where_v2(pooled < border, pooled, -math.inf), axis=-1, keepdims=True)  # [B, 1]
        border = tf.where(found < float(dropped), below, border)  # [B, 1]
    return border


def soft_target_quantiles(reward, discount, next_quantiles, next_logp, alpha):
    """Return r + d·(z − α·log π(a′|s′)) for every quantile z of the next state, [B, K], without gradient.

    ``reward``, ``discount``, ``next_logp`` [B], ``next_quantiles`` [B, K], ``alpha`` scalar. Source: eq. 10 (y_i).
    """
    value = next_quantiles - tf.expand_dims(alpha * next_logp, 1)  # [B, K]
    return tf.stop_gradient(tf.expand_dims(reward, 1) + tf.expand_dims(discount, 1) * value)  # [B, K]


def shared_quantile_huber(quantiles, target, shares):
    """Return Σ_m Σ_i share_i·|τ_m − 1{e < 0}|·L₁(e) / (M·Σ share) with e = target_i − θ_m, [C, B].

    ``quantiles`` θ [C, B, M] of every critic, at τ_m = (m + ½)/M; ``target`` and ``shares`` [B, K] without gradient. Source:
    eq. 11 and 12 with Huber's threshold of 1; L₁ is ½e² up to 1, |e| − ½ beyond.
    """
    count = quantiles.shape[-1]
    middles = (tf.range(count, dtype=tf.float32) + 0.5)[:, None] / float(count)  # [M, 1]
    error = tf.stop_gradient(target)[None, :, None, :] - quantiles[..., None]  # [C, B, M, K]
    side = tf.stop_gradient(tf.abs(middles - tf.cast(error < 0.0, tf.float32)))  # [C, B, M, K]
    weights = shares / (float(count) * tf.reduce_sum(shares, axis=-1, keepdims=True))  # [B, K]
    return tf.reduce_sum(side * huber(error, 1.0) * tf.stop_gradient(weights)[None, :, None, :], axis=[2, 3])  # [C, B]
