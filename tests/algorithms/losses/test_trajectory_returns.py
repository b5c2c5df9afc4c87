"""Advantages and returns of trajectories against the paper's sums, written out, and against numbers made by hand."""

import numpy as np
import pytest

from drl_cli.algorithms.losses.returns import backward, gae, returns_to_go
from drl_cli.tf1.tensorflow import function, tf

pytestmark = pytest.mark.tensorflow


def evaluated(make, *arrays, xla=False):
    """Return ``make(*tensors)`` as an array, compiled or not."""
    with tf.Graph().as_default(), tf.Session() as session:
        tensors = [tf.nest.map_structure(lambda x: tf.constant(x, tf.float32), array) for array in arrays]
        return session.run(function(make, jit_compile=True if xla else None, autograph=False)(*tensors))


def trajectories(seed, streams=4, steps=7):
    """Random columns with terminations, truncations and padding behind streams of unequal length."""
    rng = np.random.default_rng(seed)
    mask = np.arange(steps) < np.array([steps, 4, 1, steps])[:streams, None]
    terminated = rng.random(mask.shape) < 0.25
    truncated = (rng.random(mask.shape) < 0.25) & ~terminated
    columns = {
        "reward": rng.normal(size=mask.shape) * mask,
        "discount": 0.9 * (mask & ~terminated),
        "trace": (mask & ~terminated & ~truncated) * 1.0,
        "mask": mask * 1.0,
    }
    return columns, rng.normal(size=mask.shape), rng.normal(size=mask.shape)


def slow_gae(columns, values, following, lambda_):
    """Equation 16, each advantage as a sum over what follows until the episode or the stream ends."""
    found = np.zeros_like(values)
    for e, t in np.argwhere(columns["mask"] > 0):
        weight, at = 1.0, t
        while True:
            delta = columns["reward"][e, at] + columns["discount"][e, at] * following[e, at] - values[e, at]
            found[e, t] += weight * delta
            is_last = at + 1 == values.shape[1] or columns["mask"][e, at + 1] == 0
            if is_last or columns["trace"][e, at] == 0:
                break
            weight *= columns["discount"][e, at] * lambda_
            at += 1
    return found


@pytest.mark.parametrize("xla", [False, True])
@pytest.mark.parametrize("lambda_", [0.0, 0.9, 1.0])
def test_gae_is_the_sum_of_equation_16_over_each_episode(lambda_, xla):
    for seed in range(3 if not xla else 1):
        columns, values, following = trajectories(seed)
        fast = evaluated(lambda c, v, n: gae(c, v, n, lambda_), columns, values, following, xla=xla)
        np.testing.assert_allclose(fast, slow_gae(columns, values, following, lambda_), atol=1e-5)


def columns_of(terminated, truncated):
    """One stream of rewards 1, 2, 4 with γ ½ and ends of either kind."""
    ended = np.array([terminated]) | np.array([truncated])
    return {
        "reward": np.array([[1.0, 2.0, 4.0]]),
        "discount": 0.5 * ~np.array([terminated]),
        "trace": ~ended * 1.0,
        "mask": np.ones((1, 3)),
    }


def test_gae_keeps_the_bootstrap_of_a_truncation_and_lets_nothing_flow_back_over_it():
    values, following = np.zeros((1, 3)), np.array([[0.0, 10.0, 20.0]])
    cut = evaluated(lambda c, v, n: gae(c, v, n, 1.0), columns_of([False] * 3, [False, True, False]), values, following)
    # 4 + ½·20; 2 + ½·10 and nothing of what follows; 1 + ½·7
    assert cut.tolist() == [[4.5, 7.0, 14.0]]
    ended = evaluated(
        lambda c, v, n: gae(c, v, n, 1.0), columns_of([False, True, False], [False] * 3), values, following
    )
    assert ended.tolist() == [[2.0, 2.0, 14.0]]


def test_gae_of_lambda_zero_is_the_td_error():
    columns = columns_of([False] * 3, [False] * 3)
    found = evaluated(lambda c, v, n: gae(c, v, n, 0.0), columns, [[1.0, 1.0, 1.0]], [[2.0, 4.0, 6.0]])
    assert found.tolist() == [[1.0, 3.0, 6.0]]


def test_returns_to_go_stop_where_an_episode_ends():
    assert evaluated(returns_to_go, columns_of([False] * 3, [False] * 3)).tolist() == [[3.0, 4.0, 4.0]]
    assert evaluated(returns_to_go, columns_of([True, False, False], [False] * 3)).tolist() == [[1.0, 4.0, 4.0]]
    assert evaluated(returns_to_go, columns_of([False] * 3, [False, True, False])).tolist() == [[2.0, 2.0, 4.0]]


def test_returns_to_go_begin_at_the_last_real_step_and_are_0_in_padding():
    columns = columns_of([False] * 3, [False] * 3) | {"mask": np.array([[1.0, 1.0, 0.0]])}
    assert evaluated(returns_to_go, columns).tolist() == [[2.0, 2.0, 0.0]]


def test_backward_is_its_recursion_and_gives_no_gradient():
    deltas, factors = [[1.0, 2.0, 3.0]], [[0.5, 2.0, 100.0]]
    assert evaluated(backward, deltas, factors).tolist() == [[5.0, 8.0, 3.0]]
    with tf.Graph().as_default():
        inputs = [tf.constant(deltas), tf.constant(factors)]
        assert tf.gradients(backward(*inputs), inputs) == [None, None]
