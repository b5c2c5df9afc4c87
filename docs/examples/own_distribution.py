"""A Beta distribution for continuous actions: all of its probability lies within the bounds of the action space.

    drl train --run PPO --env Pendulum-v1 --import own_distribution -s model.custom_action_dist=beta

A Gaussian is unbounded: what lies beyond the bounds is clipped, which biases the policy gradient. Source: Chou, Maturana and
Scherer 2017, "Improving Stochastic Policy Gradients in Continuous Control with Deep Reinforcement Learning using the Beta
Distribution": alpha and beta are 1 + softplus of the network's outputs, so that the density has one mode.

Workers load the first class alone, and no TensorFlow; the second is given TensorFlow where a graph is built.
"""

import numpy as np
from scipy.special import betaln, digamma

import drl_cli

EDGE = 1e-6  # how near to 0 or 1 a fraction of the range is taken to be at most: log 0 is not finite


class Beta:
    """In NumPy: x ~ Beta(alpha, beta) in (0, 1) for each action dimension, stretched to the policy's bounds."""

    def __init__(self, action, options):
        if action.kind != "Box":
            raise ValueError(f"a Beta distribution is for Box actions, not {action.kind}")
        self.heads = {"alpha": action.size, "beta": action.size}
        self.least = options.get("least", 1.0)  # what alpha and beta are at least
        low, high = action.policy_bounds()
        self.low, self.width = low, high - low

    def shapes(self, heads):
        return [self.least + np.logaddexp(0.0, heads[name]) for name in ("alpha", "beta")]  # softplus, [N, A]

    def greedy(self, heads):
        alpha, beta = self.shapes(heads)
        return self.low + self.width * alpha / (alpha + beta)  # the mean

    def sample(self, heads, rng):
        return self.low + self.width * rng.beta(*self.shapes(heads))

    def logp(self, heads, action):
        alpha, beta = self.shapes(heads)
        x = np.clip((action - self.low) / self.width, EDGE, 1.0 - EDGE)
        each = (alpha - 1.0) * np.log(x) + (beta - 1.0) * np.log1p(-x) - betaln(alpha, beta) - np.log(self.width)
        return each.sum(axis=-1)

    def entropy(self, heads):
        a, b = self.shapes(heads)
        each = betaln(a, b) - (a - 1) * digamma(a) - (b - 1) * digamma(b) + (a + b - 2) * digamma(a + b)
        return (each + np.log(self.width)).sum(axis=-1)


class TFBeta:
    """The same as tensors."""

    def __init__(self, tf, action, options):
        self.tf, self.least = tf, options.get("least", 1.0)
        low, high = action.policy_bounds()
        self.low, self.width = low, high - low

    def shapes(self, heads):
        return [self.least + self.tf.nn.softplus(heads[name]) for name in ("alpha", "beta")]  # [B, A]

    def betaln(self, alpha, beta):
        return self.tf.math.lgamma(alpha) + self.tf.math.lgamma(beta) - self.tf.math.lgamma(alpha + beta)

    def greedy(self, heads):
        alpha, beta = self.shapes(heads)
        return self.low + self.width * alpha / (alpha + beta)

    def logp(self, heads, action):
        tf, (alpha, beta) = self.tf, self.shapes(heads)
        x = tf.clip_by_value((action - self.low) / self.width, EDGE, 1.0 - EDGE)
        each = (alpha - 1.0) * tf.math.log(x) + (beta - 1.0) * tf.math.log1p(-x) - self.betaln(alpha, beta)
        return tf.reduce_sum(each - np.log(self.width), axis=-1)

    def entropy(self, heads):
        tf, digamma, (a, b) = self.tf, self.tf.math.digamma, self.shapes(heads)
        each = self.betaln(a, b) - (a - 1) * digamma(a) - (b - 1) * digamma(b) + (a + b - 2) * digamma(a + b)
        return tf.reduce_sum(each + np.log(self.width), axis=-1)

    def kl(self, old, new):
        tf, digamma, (a, b), (c, d) = self.tf, self.tf.math.digamma, self.shapes(old), self.shapes(new)
        each = self.betaln(c, d) - self.betaln(a, b) + (a - c) * digamma(a) + (b - d) * digamma(b)
        return tf.reduce_sum(each + (c - a + d - b) * digamma(a + b), axis=-1)


drl_cli.register_action_dist("beta", Beta, TFBeta)
