"""The scale of R2D2's values: literals, and that one way undoes the other."""

import numpy as np
import pytest

from drl_cli.algorithms.losses.value import squeezed, stretched
from drl_cli.tf1.tensorflow import tf

pytestmark = pytest.mark.tensorflow

X = np.float32([-1e5, -300.0, -3.0, -0.5, -1e-3, 0.0, 1e-3, 0.5, 1.0, 3.0, 99.0, 1e4, 1e6])


def run(function, x, epsilon):
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(function(tf.constant(x), epsilon))


def test_squeezed_values_are_these():
    # √4 − 1 + 3ε, √100 − 1 + 99ε, and the same with the other sign
    np.testing.assert_allclose(run(squeezed, np.float32([3, 99, -3, 0]), 1e-3), [1.003, 9.099, -1.003, 0.0], rtol=1e-6)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 1e-2, 1.0])
def test_each_way_undoes_the_other(epsilon):
    np.testing.assert_allclose(run(stretched, run(squeezed, X, epsilon), epsilon), X, rtol=2e-5, atol=1e-6)
    y = X[np.abs(X) < 1e3] / 10
    np.testing.assert_allclose(run(squeezed, run(stretched, y, epsilon), epsilon), y, rtol=2e-5, atol=1e-6)


def test_stretching_follows_the_proposition_in_float64():
    x, e = np.float64(X), 1e-3
    root = (np.sqrt(1 + 4 * e * (np.abs(x) + 1 + e)) - 1) / (2 * e)
    np.testing.assert_allclose(run(stretched, X, e), np.sign(x) * (root**2 - 1), rtol=1e-5, atol=1e-6)


def test_gradient_of_both_is_finite_everywhere():
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant(X)
        found = session.run([tf.gradients(each(x, 1e-3), [x])[0] for each in (squeezed, stretched)])
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[0][X == 3.0], [0.251], rtol=1e-5)  # 1/(2·√4) + ε
