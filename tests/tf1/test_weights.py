"""Weights in and out of a graph by exact name."""

import numpy as np
import pytest

from drl_cli.tf1.tensorflow import tf
from drl_cli.tf1.weights import Weights

pytestmark = pytest.mark.tensorflow

VALUES = {
    "policy/x": np.float32([[1.0, 2.0]]),
    "policy_target/x": np.float32([[3.0, 4.0]]),
    "count": np.int64(7),
}


@pytest.fixture
def named():
    """(session, {name: variable}) of three variables."""
    with tf.Graph().as_default(), tf.Session() as session:
        variables = {name: tf.Variable(value, name=name, use_resource=True) for name, value in VALUES.items()}
        session.run(tf.variables_initializer(list(variables.values())))
        yield session, variables


def test_get_returns_every_value_by_name(named):
    found = Weights(*named, with_ray=False).get()
    assert set(found) == {"policy/x", "policy_target/x", "count"}
    assert found["policy_target/x"].tolist() == [[3.0, 4.0]]
    assert found["count"] == 7 and found["count"].dtype == np.int64


def test_set_then_get_gives_back_the_same_bits(named):
    weights = Weights(*named, with_ray=False)
    new = {
        "policy/x": np.float32([[1e-40, -0.0]]),
        "policy_target/x": np.float32([[3.4e38, 1 / 3]]),
        "count": np.int64(2**53 + 1),
    }
    weights.set(new)
    found = weights.get()
    assert all(found[name].tobytes() == new[name].tobytes() for name in new)


def test_get_is_a_copy_that_later_changes_do_not_touch(named):
    weights = Weights(*named, with_ray=False)
    before = weights.get()
    weights.set({name: value + 1 for name, value in VALUES.items()})
    assert before["policy/x"].tolist() == [[1.0, 2.0]]
    assert weights.get()["policy/x"].tolist() == [[2.0, 3.0]]


def _changed(**changes):
    return {name: value for name, value in (VALUES | changes).items() if value is not None}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (_changed(count=None), r"missing \['count'\], unknown \[\]"),
        (_changed(other=np.float32(1)), r"missing \[\], unknown \['other'\]"),
        (
            {"policy/x": VALUES["policy/x"], "policy_target/y": VALUES["policy/x"], "count": np.int64(1)},
            r"missing \['policy_target/x'\], unknown \['policy_target/y'\]",
        ),
        (_changed(count=np.zeros(2, np.int64)), r"count: shape \(2,\), expected \(\)"),
        (VALUES | {"policy/x": np.zeros((2, 1), np.float32)}, r"policy/x: shape \(2, 1\), expected \(1, 2\)"),
        (VALUES | {"policy/x": np.zeros((1, 2), np.float64)}, "policy/x: float64, expected float32"),
        (VALUES | {"count": np.float32(1.5)}, "count: float32, expected int64"),
    ],
)
def test_set_of_what_does_not_match_is_refused_and_changes_nothing(named, values, said):
    weights = Weights(*named, with_ray=False)
    with pytest.raises(ValueError, match=said):
        weights.set(values)
    assert weights.get()["policy/x"].tolist() == [[1.0, 2.0]]
    assert weights.get()["count"] == 7


def test_a_variable_that_tensorflow_renamed_is_refused():
    with tf.Graph().as_default(), tf.Session() as session:
        first, second = (tf.Variable(1.0, name="x", use_resource=True) for _ in range(2))
        assert second.op.name == "x_1"
        with pytest.raises(ValueError, match="named otherwise than the graph says: y"):
            Weights(session, {"x": first, "y": second}, with_ray=False)
