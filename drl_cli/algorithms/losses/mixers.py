"""How the values of a team's agents become one, and what each of them chooses."""

from collections.abc import Mapping

from drl_cli.policies.distributions import FILL
from drl_cli.tf1.tensorflow import Tensor, tf


def summed_values(values: Tensor) -> Tensor:
    """Return Σ_a Q_a, [B], of ``values`` [B, A]. Source: Sunehag et al. 2018 (arXiv 1706.05296), eq. 3."""
    return tf.reduce_sum(values, axis=1)  # [B]


def monotonic_mix(values: Tensor, weights: Mapping[str, Tensor]) -> Tensor:
    """Return Q_tot = |w2|·elu(|W1|ᵀQ + b1) + b2, [B], which grows with every agent's value.

    ``values`` Q [B, A]; ``weights``, made of the state: w1 [B, A·E], b1 [B, E], w2 [B, E], b2 [B, 1]. Source: Rashid et al.
    2018 (arXiv 1803.11485), section 4.1 and figure 2.
    """
    agents, width = values.shape[1], weights["b1"].shape[1]
    first = tf.abs(tf.reshape(weights["w1"], [-1, agents, width]))  # [B, A, E]
    hidden = tf.nn.elu(tf.reduce_sum(tf.expand_dims(values, 2) * first, axis=1) + weights["b1"])  # [B, E]
    return tf.reduce_sum(hidden * tf.abs(weights["w2"]), axis=1) + weights["b2"][:, 0]  # [B]


def best_of_each(values: Tensor, allowed: Tensor) -> Tensor:
    """Return each agent's best allowed action, int32 [B, A]; ``values`` [B, A, n], ``allowed`` bool [B, A, n]."""
    filled = tf.where(allowed, values, tf.fill(tf.shape(values), float(FILL)))  # [B, A, n]
    return tf.argmax(filled, axis=2, output_type=tf.int32)  # [B, A]


def value_of_each(values: Tensor, action: Tensor) -> Tensor:
    """Return the value of each agent's ``action`` (int32 [B, A]) among ``values`` [B, A, n], [B, A]."""
    # A sum over a few actions, because the gradient of a gather is a scatter, which XLA runs row by row.
    return tf.reduce_sum(values * tf.one_hot(action, values.shape[2]), axis=2)  # [B, A]
