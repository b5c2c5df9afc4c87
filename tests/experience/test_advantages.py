"""Advantages in NumPy: the graph's numbers, a loop over episodes, and literals."""

import numpy as np
import pytest

from drl_cli.algorithms.losses import returns
from drl_cli.experience import advantages
from drl_cli.policies.actor_critic_tf import following as steps_after
from drl_cli.tf1.tensorflow import tf

pytestmark = pytest.mark.tensorflow

GAMMA, LAMBDA = 0.9, 0.8


def _columns(streams=3, steps=7):
    """Random trajectories: terminated and truncated steps, a stream that is shorter than the others."""
    rng = np.random.default_rng(11)
    terminated = rng.random((streams, steps)) < 0.2
    truncated = (rng.random((streams, steps)) < 0.2) & ~terminated
    mask = np.ones((streams, steps), np.float32)
    mask[1, 5:] = 0.0
    ends = [e * steps + t for e, t in np.argwhere(truncated & (mask > 0))]
    last = [steps - 1, steps + 4, 3 * steps - 1]
    end_at = np.int32([*last, *(at for at in ends if at not in last)])
    end_at = np.concatenate([end_at, np.full(12 - len(end_at), streams * steps, np.int32)])
    return {
        "reward": (rng.normal(0, 1, (streams, steps)) * mask).astype(np.float32),
        "discount": (GAMMA * ~terminated * mask).astype(np.float32),
        "trace": (~terminated & ~truncated).astype(np.float32),
        "mask": mask,
        "end_at": end_at,
        "values": rng.normal(0, 1, (streams, steps)).astype(np.float32),
        "end_values": rng.normal(0, 1, 12).astype(np.float32),
    }


@pytest.mark.parametrize("lambda_", [0.0, LAMBDA, 1.0])
def test_both_twins_give_the_same_numbers(lambda_):
    columns = _columns()
    with tf.Graph().as_default(), tf.Session() as session:
        given = {name: tf.constant(value) for name, value in columns.items()}
        following = steps_after(given["values"], given["end_values"], given["end_at"])
        expected = session.run(
            [
                following,
                returns.gae(given, given["values"], following, lambda_),
                returns.returns_to_go(given),
            ]
        )
    following = advantages.next_values(columns["values"], columns["end_values"], columns["end_at"])
    found = [
        following,
        advantages.gae(columns, columns["values"], following, lambda_),
        advantages.returns_to_go(columns),
    ]
    for one, other in zip(found, expected, strict=True):
        assert (one.shape, one.dtype) == ((3, 7), np.float32)
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_advantages_are_sums_over_the_rest_of_each_episode():
    columns = _columns()
    following = advantages.next_values(columns["values"], columns["end_values"], columns["end_at"])
    found = advantages.gae(columns, columns["values"], following, LAMBDA)
    deltas = columns["reward"] + columns["discount"] * following - columns["values"]
    for stream, length in enumerate((7, 5, 7)):
        for step in range(length):
            total, weight = 0.0, 1.0
            for later in range(step, length):
                total += weight * deltas[stream, later]
                if not columns["trace"][stream, later]:
                    break
                weight *= GAMMA * LAMBDA
            np.testing.assert_allclose(found[stream, step], total, atol=1e-5)
    np.testing.assert_array_equal(found[1, 5:], [0.0, 0.0])


def test_truncation_keeps_its_bootstrap_and_stops_what_flows_back():
    columns = {
        "reward": np.float32([[1.0, 1.0, 1.0]]),
        "discount": np.float32([[0.5, 0.5, 0.5]]),
        "trace": np.float32([[1.0, 0.0, 1.0]]),
        "mask": np.ones((1, 3), np.float32),
    }
    values = np.float32([[10.0, 20.0, 30.0]])
    following = advantages.next_values(values, np.float32([4.0, 8.0]), np.int32([2, 1]))
    np.testing.assert_array_equal(following, [[20.0, 8.0, 4.0]])
    # -15 = 1 + 0.5·8 - 20; 1 = 1 + 0.5·20 - 10, and half of -15 flows back
    np.testing.assert_array_equal(advantages.gae(columns, values, following, 1.0), [[-6.5, -15.0, -27.0]])
    np.testing.assert_array_equal(advantages.returns_to_go(columns), [[1.5, 1.0, 1.0]])


def test_padding_among_the_bootstraps_changes_nothing():
    values = np.float32([[1.0, 2.0]])
    found = advantages.next_values(values, np.float32([5.0, 99.0]), np.int32([1, 2]))
    np.testing.assert_array_equal(found, [[2.0, 5.0]])
