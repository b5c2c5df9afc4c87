"""The scale on which R2D2 learns values: large returns are squeezed, so that rewards need no clipping.

Used by ``algorithms.r2d2_graph``. Source: Pohlen et al. 2018, "Observe and Look Further" (arXiv 1805.11593), section 3.2 and
proposition A.2.
"""

from drl_cli.tf1.tensorflow import Tensor, tf


def squeezed(x: Tensor, epsilon: float) -> Tensor:
    """Return h(x) = sign(x)·(√(|x| + 1) − 1) + εx, element-wise."""
    return tf.sign(x) * (tf.sqrt(tf.abs(x) + 1.0) - 1.0) + epsilon * x


def stretched(x: Tensor, epsilon: float) -> Tensor:
    """Return h⁻¹(x), element-wise.

    Proposition A.2 has sign(x)·((√(1 + 4ε·(|x| + 1 + ε)) − 1)² / (2ε)² − 1), whose difference of nearly equal roots loses
    half of float32's digits at ε = 0.001. Multiplied out: with u = (√(1 + 4ε·(|x| + 1 + ε)) − 1) / (2ε), u ≥ 1,
    u = 2·(|x| + 1 + ε) / (√(1 + 4ε·(|x| + 1 + ε)) + 1), and u² − 1 = (u − 1)·(u + 1).
    """
    within = tf.abs(x) + 1.0 + epsilon
    root = 2.0 * within / (tf.sqrt(1.0 + 4.0 * epsilon * within) + 1.0)
    return tf.sign(x) * (root - 1.0) * (root + 1.0)
