"""Kernels on the unit sphere: each column divided by its length, in every copy by itself."""

import numpy as np
import pytest

from drl_cli.tf1.optimizers import project_columns
from drl_cli.tf1.tensorflow import tf

pytestmark = pytest.mark.tensorflow


def projected(value):
    """``value`` after the projection in a session of its own."""
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        kernel = tf.Variable(np.float32(value), use_resource=True)
        session.run(kernel.initializer)
        before = graph.get_operations()
        project_columns([kernel])
        session.run([op for op in graph.get_operations() if op not in before and op.type == "AssignVariableOp"])
        return session.run(kernel).tolist()


def test_columns_are_divided_by_their_lengths():
    assert np.allclose(projected([[3.0, 0.0], [4.0, -2.0]]), [[0.6, 0.0], [0.8, -1.0]])


def test_columns_of_each_copy_are_divided_by_their_own_lengths():
    assert np.allclose(projected([[[3.0], [4.0]], [[0.0], [5.0]]]), [[[0.6], [0.8]], [[0.0], [1.0]]])


def test_column_of_length_one_but_for_rounding_stays_as_it_is():
    assert projected([[0.6], [0.8000002]]) == np.float32([[0.6], [0.8000002]]).tolist()
    assert projected([[0.6], [0.800002]]) != np.float32([[0.6], [0.800002]]).tolist()


def test_column_of_zeros_stays_one():
    assert projected([[0.0], [0.0]]) == [[0.0], [0.0]]
