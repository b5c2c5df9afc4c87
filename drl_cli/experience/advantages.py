"""Returns and advantages of trajectories in NumPy: the twin of ``algorithms.losses.returns`` for workers, which load no
TensorFlow.

Arrays are [E, T], float32, the columns of ``experience.trajectories``. Source: Schulman et al. 2016 (arXiv 1506.02438), eq. 11
and 16. Used by ``algorithms.a3c_gradients``; ``tests/data/test_advantages.py`` holds it together with its twin.
"""

import numpy as np


def next_values(values, end_values, end_at):
    """Return the value of the observation behind each step, [E, T]; arguments as for
    ``algorithms.losses.returns.next_values``."""
    flat = np.zeros(values.size + 1, np.float32)  # one place more takes what is padding
    flat[:-1].reshape(values.shape)[:, :-1] = values[:, 1:]
    flat[end_at] = end_values
    return flat[:-1].reshape(values.shape)


def gae(columns, values, following, lambda_):
    """Return the generalised advantage estimates, [E, T]: ``columns`` of reward, discount, trace, mask.

    ``following``: ``next_values``. Padding gives 0. The value's target is this plus ``values``.
    """
    reward, discount, trace, mask = (columns[name] for name in ("reward", "discount", "trace", "mask"))
    deltas = reward + discount * following - values
    return _backward(deltas * mask, discount * trace * np.float32(lambda_) * mask)


def returns_to_go(columns):
    """Return the discounted rewards from each step to the end of its episode, [E, T]; nothing stands in for what was cut."""
    reward, discount, trace, mask = (columns[name] for name in ("reward", "discount", "trace", "mask"))
    return _backward(reward * mask, discount * trace * mask)


def _backward(deltas, factors):
    """Return x with x_t = deltas_t + factors_t·x_{t+1}, and nothing behind the last step."""
    found, behind = np.empty_like(deltas), np.zeros(len(deltas), np.float32)
    for step in range(deltas.shape[1] - 1, -1, -1):
        behind = deltas[:, step] + factors[:, step] * behind
        found[:, step] = behind
    return found
