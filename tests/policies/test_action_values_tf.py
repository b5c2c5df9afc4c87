"""Action values in the graph: literals, and agreement with the NumPy twin that acts."""

import numpy as np
import pytest

from drl_cli.policies import distributions
from drl_cli.policies.distributions_tf import TFActionValues
from drl_cli.policies.policy_spec import DiscreteSpec, NetSpec, PolicySpec, ValueSpec
from drl_cli.tf1.tensorflow import tf

pytestmark = pytest.mark.tensorflow

ACTIONS, ROWS = 3, 6
KINDS = {
    "scalar": ValueSpec(),
    "categorical": ValueSpec("categorical", 5, -2.0, 3.0),
    "quantile": ValueSpec("quantile", 4),
}


def _spec(value, dueling=True):
    heads = (("value", value.atoms), ("advantage", ACTIONS * value.atoms))
    net = NetSpec("q", (("obs", 2),), (), heads if dueling else (("q", ACTIONS * value.atoms),))
    return PolicySpec((net,), "q", (2,), DiscreteSpec(ACTIONS), value=value)


@pytest.mark.parametrize("dueling", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_graph_and_numpy_agree(kind, dueling):
    spec = _spec(KINDS[kind], dueling)
    rng = np.random.default_rng(0)
    heads = {head: rng.normal(0, 2, (ROWS, size)).astype(np.float32) for head, size in spec.nets[0].heads}
    with tf.Graph().as_default(), tf.Session() as session:
        values = TFActionValues(spec)
        atoms = values.atoms({head: tf.constant(value) for head, value in heads.items()})
        assert atoms.shape.as_list() == [ROWS, ACTIONS, spec.value.atoms]
        found = session.run([atoms, values.expected(atoms), values.greedy(atoms, None)])
    twin = distributions.ActionValues(spec)
    np.testing.assert_allclose(found[0], twin.atoms(heads), atol=1e-6)
    np.testing.assert_allclose(found[1], twin.values(heads), atol=1e-5)
    assert found[2].tolist() == twin.greedy(heads).tolist()
    assert found[2].dtype == np.int32


def test_dueling_streams_are_the_value_plus_centred_advantages():
    with tf.Graph().as_default(), tf.Session() as session:
        heads = {"value": tf.constant([[10.0]]), "advantage": tf.constant([[1.0, 2.0, 6.0]])}
        assert session.run(TFActionValues(_spec(ValueSpec())).atoms(heads)).tolist() == [[[8.0], [9.0], [13.0]]]


def test_chosen_takes_the_atoms_of_one_action_a_row_and_the_gradient_reaches_these_alone():
    with tf.Graph().as_default(), tf.Session() as session:
        atoms = tf.constant([[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [[1.5, 2.5], [3.5, 4.5], [5.5, 6.5]]])
        chosen = TFActionValues(_spec(KINDS["quantile"])).chosen(atoms, tf.constant([2, 0]))
        gradient = tf.gradients(chosen, [atoms])[0]
        assert session.run(chosen).tolist() == [[5.0, 6.0], [1.5, 2.5]]
        assert session.run(gradient).tolist() == [[[0, 0], [0, 0], [1, 1]], [[1, 1], [0, 0], [0, 0]]]
