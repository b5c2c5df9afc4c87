"""Returns and advantages of trajectories. Tensors are [E, T]: E streams of T steps, several episodes in each.

Used by the algorithms that learn from trajectories (``experience.trajectories`` makes the columns). Two factors keep apart what
one cannot say: ``discount`` = γ·(1 − terminated) is what the next state's value is worth; ``trace`` is 0 where an episode
ends, either way, and 1 elsewhere: what comes after it belongs to another episode. A truncated step has discount γ and
trace 0: it is bootstrapped, and nothing flows back over it.

Source: Schulman et al. 2016, "High-Dimensional Continuous Control Using Generalized Advantage Estimation" (arXiv
1506.02438), eq. 11 and 16.
"""

from collections.abc import Mapping

from drl_cli.tf1.tensorflow import Tensor, tf


def backward(deltas: Tensor, factors: Tensor) -> Tensor:
    """Return x with x_t = deltas_t + factors_t·x_{t+1} and x_T = 0 after the last step, [E, T]; both arguments [E, T].

    A loop over time, whose body is one product and one sum: XLA compiles it once, whatever T is. No gradient flows.
    """
    deltas, factors = tf.stop_gradient(deltas), tf.stop_gradient(factors)
    streams, steps = deltas.shape.as_list()
    by_time = tf.transpose(deltas), tf.transpose(factors)  # [T, E] each
    found = tf.TensorArray(tf.float32, steps, element_shape=[streams])

    def step(index: Tensor, later: Tensor, found: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        here = by_time[0][index] + by_time[1][index] * later  # [E]
        return index - 1, here, found.write(index, here)

    start = (tf.constant(steps - 1), tf.zeros([streams]), found)
    _, _, found = tf.while_loop(lambda index, *_: index >= 0, step, start, maximum_iterations=steps)
    return tf.stop_gradient(tf.transpose(found.stack()))  # [E, T]


def gae(columns: Mapping[str, Tensor], values: Tensor, next_values: Tensor, lambda_: float) -> Tensor:
    """Return the generalised advantage estimates, [E, T], without gradient (eq. 16).

    ``columns``: dict of ``reward``, ``discount``, ``trace``, ``mask``, each [E, T]; ``values`` and ``next_values``
    [E, T]; ``lambda_`` a float. Padding gives 0. The value's target is this plus ``values``.
    """
    reward, discount, trace, mask = (columns[name] for name in ("reward", "discount", "trace", "mask"))
    deltas = reward + discount * next_values - values  # [E, T]
    return backward(deltas * mask, discount * trace * lambda_ * mask)  # [E, T]


def returns_to_go(columns: Mapping[str, Tensor]) -> Tensor:
    """Return the discounted rewards from each step to the end of its episode, [E, T], without gradient.

    ``columns`` as for ``gae``. Nothing stands in for what a truncation or the stream's end cut off: with values, that is
    ``gae`` with λ = 1, plus the values.
    """
    reward, discount, trace, mask = (columns[name] for name in ("reward", "discount", "trace", "mask"))
    return backward(reward * mask, discount * trace * mask)  # [E, T]
