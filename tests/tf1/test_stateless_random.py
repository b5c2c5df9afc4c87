"""Random numbers that are hashes of their places: against the hash written out, and alike inside XLA and outside."""

import numpy as np
import pytest

from drl_cli.tf1.stateless_random import hashed_uniform, stateless_bits
from drl_cli.tf1.tensorflow import function, tf

pytestmark = pytest.mark.tensorflow

SHAPE, SEED, STREAM = (2, 50, 30), 5, 6


def _fmix32(h):
    """MurmurHash3's finaliser on a whole number."""
    h = ((h ^ (h >> 16)) * 0x85EBCA6B) % 2**32
    h = ((h ^ (h >> 13)) * 0xC2B2AE35) % 2**32
    return h ^ (h >> 16)


def _drawn(number, xla=False):
    with tf.Graph().as_default(), tf.Session() as session:
        fed = tf.placeholder(tf.int64, [])
        made = tf.xla.experimental.compile(lambda n: hashed_uniform(SHAPE, SEED, n, STREAM), [fed])[0] if xla else None
        uniform = hashed_uniform(SHAPE, SEED, fed, STREAM) if made is None else made
        return session.run([uniform, stateless_bits([2], SEED, fed, STREAM)], {fed: number})


def test_number_is_the_keyed_hash_of_its_place():
    uniform, (first, second) = _drawn(3)
    expected = [_fmix32((_fmix32(place ^ int(first)) + int(second)) % 2**32) for place in range(3000)]
    np.testing.assert_array_equal(uniform.ravel(), np.float32([(h >> 8) / 2**24 for h in expected]))


def test_numbers_are_uniform_and_those_of_neighbours_and_updates_unrelated():
    uniform, later = _drawn(0)[0].ravel(), _drawn(1)[0].ravel()
    assert (uniform >= 0).all() and (uniform < 1).all()
    counts, _ = np.histogram(uniform, bins=10, range=(0, 1))
    assert (abs(counts - 300) < 70).all()  # four standard deviations
    for other in (later, np.roll(uniform, 1), np.roll(uniform, 30), np.roll(uniform, 1500)):
        assert abs(np.corrcoef(uniform, other)[0, 1]) < 0.08  # 1 / sqrt(3000) = 0.018


def test_compiled_draws_the_same_bits():
    np.testing.assert_array_equal(_drawn(2, xla=True)[0], _drawn(2)[0])


def _program(seed):
    """Return the operations of a compiled update that draws, as text: what XLA names its stored code after."""
    with tf.Graph().as_default():
        update = function(lambda number: stateless_bits(SHAPE, seed, number, STREAM), autograph=False)
        return str(update.get_concrete_function(tf.placeholder(tf.int64, [])).graph.as_graph_def().node)


def test_one_compiled_program_serves_every_seed():
    assert _program(1) == _program(2)
