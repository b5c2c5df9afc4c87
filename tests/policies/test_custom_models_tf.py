"""Graphs of custom models: the same numbers as in NumPy, sessions that act, and what cannot be learnt from refused."""

import dataclasses
import json

import numpy as np
import pytest
from own_models import QUICK, SESSION, Tangent, broken, known  # noqa: F401  known is for all tests

from drl_cli.errors import ConfigError
from drl_cli.policies import custom_models, custom_models_tf
from drl_cli.policies.forward import Forward
from drl_cli.policies.forward_tf import TFNet, variables_of
from drl_cli.policies.numpy_policy import NumpyPolicy
from drl_cli.policies.policy_spec import ActionSpec, Dense, NetSpec, PolicySpec
from drl_cli.tf1.tensorflow import tf

pytestmark = pytest.mark.tensorflow

RNG = np.random.default_rng(7)
OBS, ACTION = RNG.normal(0, 2, (6, 3)).astype(np.float32), RNG.normal(0, 1, (6, 2)).astype(np.float32)
IMAGE = RNG.integers(0, 256, (6, 4, 5, 2), dtype=np.uint8)


def net_of(name=QUICK, copies=1, image=(), **more):
    inputs = (("obs", int(np.prod(image)) if image else 3), ("action", 2))
    return NetSpec("net", inputs, (Dense(7, "tanh"),), (("q", 2),), copies, image, custom=(name, "{}"), **more)


def weights_of(net):
    rng = np.random.default_rng(0)
    initial = net.initial_weights(np.random.default_rng(1))
    return {name: np.abs(value + rng.normal(0, 0.3, value.shape)).astype("f4") for name, value in initial.items()}


def policy_of(name):
    net = NetSpec("policy", (("obs", 3),), (), (("mean", 2),), custom=(name, "{}"))
    return PolicySpec((net,), "deterministic", (3,), ActionSpec((-1.0, -2.0), (1.0, 2.0)))


def in_tensorflow(net, weights, *inputs):
    with tf.Graph().as_default(), tf.Session() as session:
        variables = variables_of(net.weight_shapes(), weights)
        heads = TFNet(net, variables)(*map(tf.constant, inputs))
        session.run(tf.variables_initializer(list(variables.values())))
        return session.run(heads)


@pytest.mark.parametrize("image", [False, True])
@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("more", [{}, {"batch_norm": True}])
def test_numpy_and_graph_agree(copies, image, more):
    net = net_of(copies=copies, image=IMAGE.shape[1:] if image else (), **more)
    weights, obs = weights_of(net), IMAGE if image else OBS
    found = in_tensorflow(net, weights, obs, ACTION)["q"]
    assert found.shape == ((2, 6, 2) if copies == 2 else (6, 2))
    np.testing.assert_allclose(found, Forward(net, weights)([obs, ACTION])["q"], atol=1e-5)


@pytest.mark.parametrize("copies", [1, 2])
def test_several_actions_in_a_state_are_judged_as_one_by_one(copies):
    net = net_of(copies=copies)
    weights, actions = weights_of(net), RNG.normal(0, 1, (6, 4, 2)).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        seen = TFNet(net, {name: tf.constant(value) for name, value in weights.items()})
        found = session.run(seen.several(tf.constant(OBS), tf.constant(actions)))["q"]
    for index in range(4):
        single = Forward(net, weights)([OBS, actions[:, index]])["q"]
        np.testing.assert_allclose(found[..., index, :], single, atol=1e-5)


def test_lstm_behind_a_model_is_the_same_in_both():
    net = NetSpec("net", (("obs", 3),), (), (("q", 2),), lstm=5, custom=(QUICK, "{}"))
    weights, state = weights_of(net), tuple(RNG.normal(0, 1, (2, 2, 5)).astype(np.float32))
    with tf.Graph().as_default(), tf.Session() as session:
        seen = TFNet(net, {name: tf.constant(value) for name, value in weights.items()})
        heads, _ = seen.sequence(tf.constant(OBS.reshape(2, 3, 3)), tuple(map(tf.constant, state)))
        found = session.run(heads)["q"]
    forward = Forward(net, weights)
    for step in range(3):
        heads, state = forward.run(OBS.reshape(2, 3, 3)[:, step], state)
        np.testing.assert_allclose(found[:, step], heads["q"], atol=1e-5)


def test_gradient_of_a_lookup_is_an_array():
    def graph(self, tf, weights, inputs):
        return tf.gather(weights["layer/kernel"], tf.cast(inputs[:, 0] > 0, tf.int32)) + weights["mean"]

    net = net_of(broken("lookup", graph=graph, forward=None))
    with tf.Graph().as_default():
        weights = {name: tf.constant(value) for name, value in weights_of(net).items()}
        q = TFNet(net, weights)(tf.constant(OBS), tf.constant(ACTION))["q"]
        (gradient,) = tf.gradients(q, [weights["net/custom/layer/kernel"]])
        assert gradient.shape == (3, 4)


def test_session_acts_as_numpy_does_and_takes_new_weights():
    quick, slow = NumpyPolicy(policy_of(QUICK)), NumpyPolicy(policy_of(SESSION))
    for seed in (1, 2):
        weights = policy_of(QUICK).nets[0].initial_weights(np.random.default_rng(seed))
        quick.set_weights(weights)
        slow.set_weights(weights)
        expected = quick.act(OBS, (), None, False)[0]
        found = slow.act(OBS, (), None, False)[0]
        assert found.dtype == np.float32 and found.shape == (6, 2)
        np.testing.assert_allclose(found, expected, atol=1e-6)
        np.testing.assert_array_equal(slow.act(OBS[:1], (), None, False)[0], slow.act(OBS[:1], (), None, False)[0])
    other = slow.net_of(policy_of(QUICK).nets[0].initial_weights(np.random.default_rng(3)))
    before = slow.heads(OBS)["mean"]
    assert np.abs(other(OBS)["mean"] - before).max() > 0.1
    np.testing.assert_array_equal(slow.heads(OBS)["mean"], before)


def test_numpy_loads_no_session(monkeypatch):
    monkeypatch.setattr("drl_cli.policies.numpy_policy.load", lambda name: pytest.fail(f"{name} was loaded"))
    policy = NumpyPolicy(policy_of(QUICK), policy_of(QUICK).nets[0].initial_weights(np.random.default_rng(1)))
    assert policy.act(OBS, (), None, False)[0].shape == (6, 2)


def test_right_models_pass():
    assert custom_models_tf.check(policy_of(QUICK)) is None
    assert custom_models_tf.check(policy_of(SESSION)) is None


def _dense(x, tf, weights):
    return tf.matmul(x, weights["layer/kernel"]) + weights["mean"]


WRONG = {
    "graph of another width": (
        {"graph": lambda self, tf, w, x: x},
        r"graph returned float32 of shape \(None, 3\); it must be float32 \[rows, 4\]",
    ),
    "graph of another type": (
        {"graph": lambda self, tf, w, x: tf.cast(_dense(x, tf, w), tf.float64)},
        "returned float64",
    ),
    "nothing": ({"graph": lambda self, tf, w, x: None}, "failed in graph: ValueError: None values not supported"),
    "shapes that do not fit": (
        {"graph": lambda self, tf, w, x: tf.matmul(x, w["mean"])},
        r"failed in graph: ValueError: .* \(test_custom_models_tf.py, line \d+\)\.$",
    ),
    "a variable that is missing": (
        {"graph": lambda self, tf, w, x: tf.matmul(x, w["kernel"])},
        "failed in graph: KeyError: 'kernel'; its variables are layer/kernel, mean",
    ),
    "a variable that is not used": (
        {"graph": lambda self, tf, w, x: tf.tanh(tf.matmul(x, w["layer/kernel"]))},
        "no gradient reaches its variable mean",
    ),
    "a step without a slope": (
        {"graph": lambda self, tf, w, x: tf.one_hot(tf.argmax(_dense(x, tf, w), -1), 4)},
        "no gradient reaches its variable layer/kernel",
    ),
    "NaN": (
        {"graph": lambda self, tf, w, x: tf.math.log(_dense(x, tf, w) - 9)},
        "graph returns non-finite numbers",
    ),
    "a slope that is no number": (
        {"graph": lambda self, tf, w, x: tf.sqrt(tf.nn.relu(_dense(x, tf, w) - 9))},
        "graph has non-finite gradients",
    ),
    "rows that see others": (
        {"graph": lambda self, tf, w, x: _dense(x - tf.reduce_mean(x, axis=0), tf, w)},
        "graph makes something else of an observation alone",
    ),
    "numbers of rows that are fixed": (
        {"graph": lambda self, tf, w, x: _dense(x, tf, w) + tf.reshape(x, [5, 3])[:, :1]},
        "graph failed: Input to reshape is a tensor with 3 values, but the requested shape has 15",
    ),
}


@pytest.mark.parametrize(("parts", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_graph_is_refused_in_one_line(parts, message):
    with pytest.raises(ConfigError, match=message) as caught:
        custom_models_tf.check(policy_of(broken("wrong", **({"forward": None} | parts))))
    assert str(caught.value).startswith("model.custom_model wrong") and "\n" not in str(caught.value)


def test_a_forward_that_is_not_the_graph_is_refused_with_how_far_they_are_apart():
    name = broken("apart", forward=lambda self, w, x: np.tanh(x @ w["layer/kernel"] + w["mean"]) + np.float32(0.25))
    with pytest.raises(
        ConfigError, match=r"forward and graph disagree: .* they differ by up to 0.25\. Make them agree"
    ):
        custom_models_tf.check(policy_of(name))


def test_a_forgotten_bias_shows_though_it_begins_at_zero():
    name = broken("forgetful", initial_weights=None, forward=lambda self, w, x: np.tanh(x @ w["layer/kernel"]))
    custom_models.try_out(policy_of(name))
    with pytest.raises(ConfigError, match="forward and graph disagree"):
        custom_models_tf.check(policy_of(name))


def test_arguments_reach_the_class():
    model = custom_models.made((SESSION, json.dumps({"units": 9})), (3,))
    assert (model.features, model.shapes) == (9, {"layer/kernel": (3, 9), "mean": (9,)})
    assert not model.has_forward and isinstance(model._model, Tangent)


XLA_ERROR = (
    "Graph execution error:\n\nDetected unsupported operations when trying to compile graph learn[] on XLA_CPU_JIT: PyFunc "
    "(No registered 'PyFunc' OpKernel for XLA_CPU_JIT devices){{node PyFunc}}\nThe op is created at: \n"
)
BLAMED = {
    "operation without XLA": (
        tf.errors.InvalidArgumentError(None, None, XLA_ERROR),
        "model.custom_model tests_tangent: XLA cannot compile its graph: it has no PyFunc. Set xla: false.",
    ),
    "operation without a second gradient": (
        LookupError("gradient registry has no entry for: LRNGrad"),
        "model.custom_model tests_tangent: graph cannot be differentiated as often as this algorithm does: gradient registry "
        "has no entry for: LRNGrad.",
    ),
}


@pytest.mark.parametrize(("error", "message"), BLAMED.values(), ids=BLAMED)
def test_what_cannot_be_compiled_or_differentiated_again_is_the_models(error, message):
    with pytest.raises(ConfigError) as caught, custom_models_tf.blamed(policy_of(SESSION), xla=True):
        raise error
    assert str(caught.value) == message
    plain = NetSpec("policy", (("obs", 3),), (), (("mean", 2),))
    with (
        pytest.raises(type(error)),
        custom_models_tf.blamed(dataclasses.replace(policy_of(SESSION), nets=(plain,)), xla=True),
    ):
        raise error


def test_session_sees_images_as_numpy_does():
    custom_nets = [net_of(name, image=IMAGE.shape[1:]) for name in (QUICK, SESSION)]
    weights = weights_of(custom_nets[0])
    running = custom_models_tf.SessionFeatures(custom_nets[1].own)
    found = Forward(custom_nets[1], weights, running)([IMAGE, ACTION])["q"]
    np.testing.assert_allclose(found, Forward(custom_nets[0], weights)([IMAGE, ACTION])["q"], atol=1e-5)
