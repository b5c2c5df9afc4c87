"""Losses of conservative Q-learning. Each returns one number per row and critic; the caller reduces.

Source: Kumar et al. 2020, "Conservative Q-Learning for Offline Reinforcement Learning" (arXiv 2006.04779).

Deviations: a temperature scales the soft maximum (RLlib's key; 1 is the paper's). With one, densities enter by themselves and
are not divided by it as RLlib's are: the estimate is that of the same integral at every temperature.
"""

import math

from drl_cli.tf1.tensorflow import Tensor, tf


def soft_maximum(q: Tensor, temperature: float) -> Tensor:
    """Return T·log Σ_a exp(Q(s, a)/T) over all n actions, [C, B]; ``q`` [C, B, n], ``temperature`` T a float.

    Source: eq. 4, the maximisation over the policy solved in closed form, CQL(H).
    """
    return temperature * tf.reduce_logsumexp(q / temperature, axis=-1)  # [C, B]


def sampled_soft_maximum(q: Tensor, log_density: Tensor, temperature: float) -> Tensor:
    """Return the estimate T·log (1/M)·Σ_m exp(Q(s, a_m)/T) / p(a_m) of T·log ∫ exp(Q(s, a)/T) da, [C, B].

    ``q`` [C, B, M] of M drawn actions, ``log_density`` [B, M] the logarithm of the density p that each was drawn with, without
    gradient; ``temperature`` T a float. Source: appendix F, whose mean over uniform and policy samples it is (RLlib and the
    authors' code have the sum: T·log M more, so that a Lagrange threshold means another one with every ``num_actions``).
    """
    importance = tf.stop_gradient(log_density) + math.log(log_density.shape[-1])  # [B, M]
    return temperature * tf.reduce_logsumexp(q / temperature - importance, axis=-1)  # [C, B]


def multiplier_loss(log_multiplier: Tensor, gap: Tensor, threshold: float) -> Tensor:
    """Return −log α′·(gap − τ), [C, B]; the gradient reaches ``log_multiplier`` alone, which grows while ``gap`` is above.

    ``log_multiplier`` log α′ scalar, ``gap`` [C, B], ``threshold`` τ a float. Source: appendix F, the Lagrange form, with log
    α′ in place of the factor α′, as in ``policy_gradient.temperature_loss``: the same fixed point, and steps of the same size
    wherever it is.
    """
    return -log_multiplier * tf.stop_gradient(gap - threshold)  # [C, B]
