"""Noise of noisy layers: its shapes, its distribution, and that passes draw independently."""

import dataclasses

import numpy as np
import pytest

from drl_cli.policies.forward_tf import TFNet
from drl_cli.policies.layers_tf import layer_noise
from drl_cli.policies.policy_spec import Dense, NetSpec
from drl_cli.tf1.tensorflow import tf

pytestmark = pytest.mark.tensorflow

NET = NetSpec("q", (("obs", 300),), (Dense(200, noisy=True),), (("q", 100),), noisy_heads=True)


@pytest.fixture
def drawn():
    """Return the pieces of noise of one pass of NET: 300 and 200 numbers, then 200 and 100."""
    with tf.Graph().as_default(), tf.Session() as session:

        def draw(seed=1, number=0, stream=0):
            noise = layer_noise(NET, seed, tf.constant(number, tf.int64), stream)
            return session.run([noise([300, 1]), noise([1, 200]), noise([200, 1]), noise([1, 100])])

        yield draw


def test_noise_is_the_signed_root_of_normals(drawn):
    values = np.concatenate([piece.ravel() for piece in drawn()])
    squares = np.sign(values) * values**2  # standard normals again
    assert len(values) == 800
    assert abs(squares.mean()) < 0.1 and abs(squares.std() - 1.0) < 0.1


def test_noise_of_layers_is_not_one_and_the_same(drawn):
    first, second, third, _ = drawn()
    assert not np.isin(second, first).any() and not np.isin(third, second).any()


@pytest.mark.parametrize("other", [{"stream": 1}, {"number": 1}, {"seed": 2}])
def test_noise_of_other_streams_updates_and_seeds_is_independent(drawn, other):
    first, again, different = (np.concatenate([p.ravel() for p in drawn(**keys)]) for keys in ({}, {}, other))
    assert np.array_equal(first, again)
    assert abs(np.corrcoef(first, different)[0, 1]) < 0.12  # of 800 numbers: over three deviations


def test_noise_has_exactly_the_numbers_that_a_pass_uses():
    with tf.Graph().as_default():
        used = []
        noise = layer_noise(NET, 1, tf.constant(0, tf.int64), 0)
        weights = {name: tf.zeros(shape) for name, shape in NET.weight_shapes().items()}
        TFNet(NET, weights, lambda shape: used.append(shape) or noise(shape))(tf.zeros([2, 300]))
        assert used == [[300, 1], [1, 200], [200, 1], [1, 100]]
        with pytest.raises(ValueError):
            noise([1, 1])


def test_a_net_without_noisy_layers_has_none():
    quiet = dataclasses.replace(NET, layers=(Dense(4),), noisy_heads=False)
    with tf.Graph().as_default():
        assert layer_noise(quiet, 1, tf.constant(0, tf.int64), 0) is None
