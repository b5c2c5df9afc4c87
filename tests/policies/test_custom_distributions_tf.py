"""Registered action distributions in graphs: right pairs pass the comparison with NumPy, and wrong ones are named."""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest

from drl_cli import plugins
from drl_cli.errors import ConfigError
from drl_cli.policies import custom_distributions_tf, custom_models_tf
from drl_cli.policies.custom_distributions import made, register_action_dist
from drl_cli.policies.custom_distributions_tf import check, greedy_action
from drl_cli.policies.policy_spec import ActionSpec, DiscreteSpec, NetSpec, PolicySpec
from drl_cli.tf1.tensorflow import tf

pytestmark = pytest.mark.tensorflow
BOX = ActionSpec((-2.0, 0.0), (2.0, 4.0), normalize=False)


@pytest.fixture(autouse=True)
def example(monkeypatch):
    """docs/examples/own_distribution.py, imported anew."""
    monkeypatch.setattr(plugins.ACTION_DISTS, "_things", {})
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "docs" / "examples"))
    monkeypatch.delitem(sys.modules, "own_distribution", raising=False)
    import own_distribution

    yield own_distribution
    sys.modules.pop("own_distribution", None)


def spec_of(name="beta", action=BOX):
    return PolicySpec((), "custom", (3,), action, scored=True, custom=(name, "{}"))


class Softmax:
    """A softmax in NumPy, with everything that the built-in one has."""

    def __init__(self, action, options):
        self.heads = {"scores": action.n}

    def greedy(self, heads):
        return heads["scores"].argmax(axis=-1)

    def sample(self, heads, rng):
        return (heads["scores"] + rng.gumbel(size=heads["scores"].shape)).argmax(axis=-1)

    def logp(self, heads, action):
        logp = heads["scores"] - np.log(np.exp(heads["scores"]).sum(axis=-1, keepdims=True))
        return logp[np.arange(len(action)), action]


class TFSoftmax:
    def __init__(self, tf, action, options):
        self.tf, self.n = tf, action.n

    def logp(self, heads, action):
        return self.tf.reduce_sum(self.tf.nn.log_softmax(heads["scores"]) * self.tf.one_hot(action, self.n), axis=-1)

    def entropy(self, heads):
        logp = self.tf.nn.log_softmax(heads["scores"])
        return -self.tf.reduce_sum(self.tf.exp(logp) * logp, axis=-1)

    def kl(self, old, new):
        one, other = self.tf.nn.log_softmax(old["scores"]), self.tf.nn.log_softmax(new["scores"])
        return self.tf.reduce_sum(self.tf.exp(one) * (one - other), axis=-1)


def test_beta_is_that_of_scipy_in_both_forms(example):
    stats = pytest.importorskip("scipy.stats")
    twin = made(("beta", "{}"), BOX)
    heads = {"alpha": np.float32([[0.5, -1.0]]), "beta": np.float32([[1.0, 2.0]])}
    action = np.float32([[-1.5, 3.0]])
    alpha, beta = (1 + np.log1p(np.exp(heads[name].astype(float))) for name in ("alpha", "beta"))
    expected = stats.beta.logpdf((action - [-2.0, 0.0]) / 4.0, alpha, beta).sum() - 2 * np.log(4.0)
    with tf.Graph().as_default(), tf.Session() as session:
        graph = custom_distributions_tf.TFCustomDistribution(spec_of())
        tensors = {name: tf.constant(value) for name, value in heads.items()}
        found = session.run([graph.logp(tensors, tf.constant(action)), graph.entropy(tensors), graph.greedy(tensors)])
    np.testing.assert_allclose(twin.logp(heads, action), [expected], rtol=1e-5)
    np.testing.assert_allclose(found[0], [expected], rtol=1e-5)
    entropy = stats.beta.entropy(alpha, beta).sum() + 2 * np.log(4.0)
    np.testing.assert_allclose([found[1], twin.entropy(heads)], [[entropy]] * 2, rtol=1e-5)
    np.testing.assert_allclose(found[2], twin.greedy(heads), atol=1e-5)


def test_check_of_right_pairs_refuses_nothing():
    assert check(spec_of()) is None
    register_action_dist("softmax", Softmax, TFSoftmax)
    assert check(spec_of("softmax", DiscreteSpec(3, 1))) is None


@pytest.mark.parametrize(
    ("numpy", "graph", "line"),
    [
        ({}, {"logp": lambda s, h, a: s.tf.reduce_sum(a * h["alpha"] * h["beta"], -1)}, "logp of the same action and heads is"),
        ({}, {"logp": lambda s, h, a: h["alpha"][:, 0]}, "no gradient of logp reaches the head beta"),
        ({}, {"entropy": lambda s, h: s.tf.reduce_sum(h["alpha"], -1)}, "entropy of its TensorFlow class is"),
        ({}, {"kl": lambda s, old, new: s.tf.reduce_sum(old["alpha"] - new["alpha"], -1)}, "kl of its TensorFlow class is"),
        ({}, {"logp": lambda s, h, a: h["alpha"]}, r"returned float32 of shape \(10000, 2\), not float32 \[rows\]"),
        ({}, {"greedy": lambda s, h: h["alpha"]}, "greedy differs between its NumPy and its TensorFlow class"),
        ({}, {"entropy": lambda s, h: h["alpah"]}, "entropy of its TensorFlow class failed: KeyError: 'alpah'"),
        ({"sample": lambda s, h, rng: s.low + s.width * rng.beta(*s.shapes(h)[::-1])}, {}, "sample and logp are not of one"),
    ],
)  # fmt: skip
def test_check_of_a_wrong_pair_names_what_differs(example, numpy, graph, line):
    register_action_dist("wrong", type("Mine", (example.Beta,), numpy), type("TFMine", (example.TFBeta,), graph))
    with pytest.raises(ConfigError, match=line) as caught:
        check(spec_of("wrong"))
    assert str(caught.value).startswith("model.custom_action_dist wrong: ") and "\n" not in str(caught.value)


def test_entropy_and_kl_that_say_they_are_approximate_are_not_compared_with_draws(example):
    parts = {"approximate": True, "entropy": lambda self, heads: self.tf.reduce_sum(heads["alpha"], -1)}
    register_action_dist("rough", example.Beta, type("Rough", (example.TFBeta,), parts))
    assert check(spec_of("rough")) is None


def test_an_export_takes_the_greedy_action_as_the_policy_counts_it_or_says_that_there_is_none():
    spec = spec_of("softmax", DiscreteSpec(3))
    with tf.Graph().as_default(), tf.Session() as session:
        heads = {"scores": tf.constant([[0.0, 2.0, 1.0], [3.0, 0.0, 0.0]])}
        register_action_dist("softmax", Softmax, TFSoftmax)
        with pytest.raises(ConfigError, match=r"softmax: an export needs greedy\(heads\) of its TensorFlow class"):
            greedy_action(spec, heads)
        parts = {"greedy": lambda self, heads: self.tf.argmax(heads["scores"], axis=-1)}
        register_action_dist("softmax", Softmax, type("WithGreedy", (TFSoftmax,), parts))
        found = greedy_action(spec, heads)
        assert found.dtype == tf.int32 and session.run(found).tolist() == [1, 0]
    assert check(spec) is None


def test_what_xla_cannot_compile_is_said_of_the_distribution():
    spec = dataclasses.replace(spec_of(), nets=(NetSpec("policy", (("obs", 3),), (), (("alpha", 2), ("beta", 2))),))
    error = tf.errors.InvalidArgumentError(None, None, "Detected unsupported operations: EagerPyFunc")
    with (
        pytest.raises(
            ConfigError, match=r"^model.custom_action_dist beta: XLA cannot compile its graph: .*Set xla: false"
        ),
        custom_models_tf.blamed(spec, xla=True),
    ):
        raise error
    with pytest.raises(tf.errors.InvalidArgumentError), custom_models_tf.blamed(spec, xla=False):
        raise error


def test_a_dotted_name_is_loaded_where_the_graph_is_built(example):
    register_action_dist("named", example.Beta, "own_distribution:TFBeta")
    assert check(spec_of("named")) is None
    register_action_dist("missing", example.Beta, "no_such_module_of_mine:TFBeta")
    with pytest.raises(ConfigError, match="missing: its TensorFlow class failed: .*no_such_module_of_mine"):
        check(spec_of("missing"))
