"""Scored distributions in the graph give NumPy's numbers, with and without masks, and gradients that are finite."""

import dataclasses

import numpy as np
import pytest
from scored_policies import ACTIONS, MASK, bare, heads

from drl_cli.policies import distributions_tf
from drl_cli.policies.composite_distributions import distribution_of
from drl_cli.tf1.tensorflow import function, tf

pytestmark = pytest.mark.tensorflow


def _tensors(given):
    """The heads as ``ActorCritic.look`` has them: filled where they are masked."""
    made = {head: tf.constant(values) for head, values in given.items()}
    yes = made.pop("allowed", None)
    if yes is not None:
        made["logits"] = distributions_tf.masked(made["logits"], yes)
    return made


@pytest.mark.parametrize("log_std_min", [-20.0, -1.0])
@pytest.mark.parametrize("name", ACTIONS)
def test_graph_and_numpy_agree(name, log_std_min):
    spec, one, other = dataclasses.replace(bare(name), log_std_min=log_std_min), heads(name), heads(name, seed=9)
    twin = distribution_of(spec)
    action = twin.sample(one, np.random.default_rng(4))
    with tf.Graph().as_default(), tf.Session() as session:
        made = distributions_tf.BY_NAME[spec.distribution](spec)
        seen, later = _tensors(one), _tensors(other)
        found = session.run([made.logp(seen, tf.constant(action)), made.entropy(seen), made.kl(seen, later)])
    expected = twin.logp(one, action), twin.entropy(one), twin.kl(one, other)
    for graph, numpy in zip(found, expected, strict=True):
        assert graph.shape == numpy.shape == (5,)
        np.testing.assert_allclose(graph, numpy, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", ACTIONS)
def test_gradients_are_finite_and_none_flows_through_what_is_forbidden(name, compiled):
    spec, one = bare(name), heads(name)
    action = distribution_of(spec).sample(one, np.random.default_rng(4))
    given = {head: values for head, values in one.items() if head != "allowed"}
    with tf.Graph().as_default(), tf.Session() as session:
        made = distributions_tf.BY_NAME[spec.distribution](spec)

        def gradients(*values):
            leaves = dict(zip(given, values, strict=True))
            seen, fixed = dict(leaves), {head: tf.stop_gradient(2.0 * value) for head, value in leaves.items()}
            if "allowed" in one:
                seen, fixed = (
                    {"logits": distributions_tf.masked(h["logits"], tf.constant(one["allowed"]))} for h in (seen, fixed)
                )
            total = made.logp(seen, tf.constant(action)) + made.entropy(seen) + made.kl(fixed, seen)
            return tf.gradients(total, list(leaves.values()))

        run = function(gradients, jit_compile=compiled or None, autograph=False)
        found = session.run(run(*(tf.constant(value) for value in given.values())))
    assert all(np.isfinite(part).all() and part.any() for part in found)
    if "allowed" in one:
        assert (found[0][~one["allowed"]] == 0.0).all()
        # Where one action alone is allowed there is nothing to learn.
        assert one["allowed"][0].sum() == 1 and np.abs(found[0][0]).max() == 0.0


def test_gradient_of_a_deviation_beyond_its_bounds_is_zero():
    with tf.Graph().as_default(), tf.Session() as session:
        log_std = tf.constant([[5.0, -30.0, 1.0]])
        mean = tf.zeros([1, 3])
        for least, expected in ((-20.0, [[0.0, 0.0, 1.0]]), (1.5, [[0.0, 0.0, 0.0]])):
            made = distributions_tf.TFGaussian(dataclasses.replace(bare("gaussian"), log_std_min=least))
            total = made.entropy({"mean": mean, "log_std": log_std})
            assert session.run(tf.gradients(total, log_std))[0].tolist() == expected


def test_allowed_reads_its_slice_and_allows_everything_where_it_allows_nothing():
    obs = np.float32([[9, 9, 1, 0, 1, 9], [9, 9, 0, 0, 0, 9]])
    with tf.Graph().as_default(), tf.Session() as session:
        found = session.run(distributions_tf.allowed(MASK, tf.constant(obs)))
    assert found.tolist() == [[True, False, True], [True, True, True]]
