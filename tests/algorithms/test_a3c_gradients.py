"""A3C's gradients: NumPy's are TensorFlow's, for every distribution and net; and what they are made of."""

import dataclasses

import numpy as np
import pytest
from batch_machine import BatchMachine, config
from machine import SCOPE, discrete_spaces

from drl_cli.actors.graph_gradients import GraphGradients
from drl_cli.algorithms import a3c_graph, actor_critic_nets
from drl_cli.algorithms.a3c_gradients import NumpyGradients, is_computed
from drl_cli.policies.numpy_policy import NumpyPolicy
from drl_cli.tf1.tensorflow import function, tf

pytestmark = pytest.mark.tensorflow

KINDS = ("Discrete", "MultiDiscrete", "MultiBinary", "Box")
NETS = {
    "separate": {},
    "shared": {"vf_share_layers": True},
    "free log_std": {"model": {"free_log_std": True}},
    "shared free log_std": {"vf_share_layers": True, "model": {"free_log_std": True}},
    "layer norm, deep": {"model": {"layer_norm": True, "fcnet_hiddens": (6, 5), "fcnet_activation": "elu"}},
    "swish": {"model": {"fcnet_activation": "swish", "fcnet_hiddens": (6, 5, 4)}},
    "relu": {"model": {"fcnet_activation": "relu"}, "vf_share_layers": True},
    "no hidden layer": {"model": {"fcnet_hiddens": ()}},
    "linear": {"model": {"fcnet_activation": "linear"}},
}
TERMS = {"entropy_coeff": 0.3, "vf_loss_coeff": 0.7, "lambda": 0.8}


def _case(kind, keys, mask=(), seed=3):
    """Return (A3CConfig, PolicySpec, NumpyPolicy with weights none of which is special, a trajectory batch)."""
    made = config("A2C", **(TERMS | keys))
    with BatchMachine("A2C", made, kind) as machine:
        batch, spec, initial = machine.batch(seed), machine.spec, machine.initial
    rng = np.random.default_rng(seed)
    weights = {name: (value + rng.normal(0, 0.3, value.shape)).astype(np.float32) for name, value in initial.items()}
    if mask:
        spec = dataclasses.replace(spec, mask=mask)
        allowed = NumpyPolicy(spec).allowed(batch["obs"].reshape(-1, 3)).reshape(*batch["obs"].shape[:2], 2)
        batch["action"] = np.argmax(allowed, axis=-1).astype(np.int32)
    del batch["logp"]  # A3C needs none
    return config("A3C", **(TERMS | keys)), spec, NumpyPolicy(spec, weights), batch


def _both(made, spec, policy, batch):
    return NumpyGradients(made, spec)(policy, batch, 0.3), GraphGradients(made, spec)(policy, batch, 0.3)


def _assert_equal(found, expected, spec):
    trained = [name for net in spec.nets for name in net.trainable()]
    assert sorted(found[0]) == sorted(expected[0]) == sorted(trained)
    shapes = spec.weight_shapes()
    for name in trained:
        assert (found[0][name].shape, found[0][name].dtype) == (shapes[name], np.float32)
        np.testing.assert_allclose(found[0][name], expected[0][name], atol=2e-5, rtol=2e-4, err_msg=name)
    assert set(found[1]) == set(expected[1])
    for name, value in found[1].items():
        np.testing.assert_allclose(value, expected[1][name], atol=2e-5, rtol=2e-4, err_msg=name)


CASES = [(kind, net) for kind in KINDS for net in NETS if kind in ("Discrete", "Box") or net in ("separate", "shared")]


@pytest.mark.parametrize(("kind", "net"), CASES)
def test_numpy_computes_the_graphs_gradient(kind, net):
    made, spec, policy, batch = _case(kind, NETS[net])
    assert is_computed(spec)
    found, expected = _both(made, spec, policy, batch)
    _assert_equal(found, expected, spec)
    assert all(np.abs(found[0][name]).max() > 1e-6 for name in found[0])


def test_numpy_computes_the_graphs_gradient_under_a_mask():
    made, spec, policy, batch = _case("Discrete", {}, mask=(0, 2))
    found, expected = _both(made, spec, policy, batch)
    _assert_equal(found, expected, spec)
    unmasked = NumpyPolicy(dataclasses.replace(spec, mask=()), policy.weights)
    other, _ = NumpyGradients(made, unmasked.spec)(unmasked, batch, 0.3)
    assert np.abs(other["policy/logits/kernel"] - found[0]["policy/logits/kernel"]).max() > 1e-3


@pytest.mark.parametrize("kind", ["Discrete", "Box"])
def test_numpy_computes_the_graphs_gradient_behind_a_filter(kind):
    made, spec, policy, batch = _case(kind, {})
    plain, _ = NumpyGradients(made, spec)(policy, batch, 0.3)
    spec = dataclasses.replace(spec, filter=True)
    moments = {"filter/mean": np.float32([0.3, -0.2, 0.1]), "filter/var": np.float32([0.5, 2.0, 1e-4])}
    policy = NumpyPolicy(spec, policy.weights | moments)
    found, expected = _both(made, spec, policy, batch)
    _assert_equal(found, expected, spec)
    assert np.abs(found[0]["policy/dense_0/kernel"] - plain["policy/dense_0/kernel"]).max() > 1e-3


@pytest.mark.parametrize(("keys", "beyond"), [({}, 3.0), ({"log_std_min": -1.0}, -1.1)])
def test_deviations_beyond_their_bounds_get_no_gradient_in_either(keys, beyond):
    made, spec, policy, batch = _case("Box", {"model": {"free_log_std": True, **keys}})
    policy.set_weights(policy.weights | {"policy/log_std/free": np.float32([beyond, -0.5])})
    found, expected = _both(made, spec, policy, batch)
    _assert_equal(found, expected, spec)
    assert found[0]["policy/log_std/free"][0] == 0.0 != found[0]["policy/log_std/free"][1]


@pytest.mark.parametrize(
    "keys",
    [{"use_gae": False}, {"use_gae": False, "use_critic": False, "batch_mode": "complete_episodes"}],
    ids=["whole returns less the value", "no critic"],
)
def test_numpy_computes_the_graphs_gradient_of_other_advantages(keys):
    made, spec, policy, batch = _case("Discrete", keys)
    found, expected = _both(made, spec, policy, batch)
    _assert_equal(found, expected, spec)
    assert ("vf_loss" in found[1]) == made.use_critic
    assert (np.abs(found[0]["value/value/kernel"]).max() > 0) == made.use_critic


def test_gradient_without_a_critic_is_that_of_reinforce_by_hand():
    """One state, two actions with equal probabilities: the gradient of the logits is the mean of −R·(onehot − p)."""
    keys = {"use_gae": False, "use_critic": False, "batch_mode": "complete_episodes", "model": {"fcnet_hiddens": ()}}
    made, spec, policy, _ = _case("Discrete", keys)
    policy.set_weights({name: np.zeros_like(value) for name, value in policy.weights.items()})
    batch = {
        "obs": np.ones((1, 2, 3), np.float32),
        "action": np.int32([[0, 1]]),
        "reward": np.float32([[1.0, 4.0]]),
        "discount": np.float32([[0.5, 0.0]]),
        "trace": np.float32([[1.0, 0.0]]),
        "mask": np.ones((1, 2), np.float32),
        "end_obs": np.ones((2, 3), np.float32),
        "end_at": np.int32([1, 2]),
    }
    gradients, stats = NumpyGradients(made, spec)(policy, batch, 0.0)
    # returns 3 and 4: ½·(−3·½ + 4·½) = ¼ for the first logit
    np.testing.assert_allclose(gradients["policy/logits/bias"], [0.25, -0.25], atol=1e-6)
    np.testing.assert_allclose(gradients["policy/logits/kernel"], np.float32([[0.25, -0.25]] * 3), atol=1e-6)
    np.testing.assert_allclose(stats["policy_loss"], 3.5 * np.log(2), rtol=1e-6)
    np.testing.assert_allclose(stats["entropy"], np.log(2), rtol=1e-6)


def test_padding_changes_no_gradient():
    made, spec, policy, batch = _case("Discrete", {})
    first, _ = NumpyGradients(made, spec)(policy, batch, 0.3)
    padding = batch["mask"] == 0
    assert padding.sum() == 3
    batch["obs"][padding] = 1e3
    other, _ = NumpyGradients(made, spec)(policy, batch, 0.3)
    for name in first:
        np.testing.assert_allclose(first[name], other[name], atol=1e-7)


@pytest.mark.parametrize(("optimiser", "clip"), [("adam", None), ("adam", 0.05), ("rmsprop", 0.05)])
def test_step_with_numpys_gradient_is_a2cs_step(optimiser, clip):
    """A2C learns from the batch in its graph; A3C's learner applies what NumPy makes of it."""
    keys = TERMS | {"grad_clip": clip}
    with BatchMachine("A2C", config("A2C", **keys), "Box") as machine:
        batch = machine.batch(4)
        policy = NumpyPolicy(machine.spec, machine.initial)
        machine.learn(batch)
        expected, spec, initial = machine.values(), machine.spec, machine.initial
    made = config("A3C", **keys, opt_type=optimiser)
    gradients, _ = NumpyGradients(made, spec)(policy, batch, 0.3)
    values, out = _applied(made, spec, initial, gradients)
    assert values["num_updates"] == 1 and out["finite"]
    norm = np.sqrt(sum(np.square(gradient).sum() for gradient in gradients.values()))
    np.testing.assert_allclose(out["norm"], norm, rtol=1e-4)
    scale = min(1.0, clip / norm) if clip else 1.0
    for name, gradient in gradients.items():
        if optimiser == "adam":
            np.testing.assert_allclose(values[name], expected[name], atol=2e-5, err_msg=name)
        else:
            g = gradient * scale
            step = 1e-2 * g / np.sqrt(0.99 + 0.01 * np.square(g) + made.epsilon)
            np.testing.assert_allclose(values[name], initial[name] - step, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("begins", [False, True])
def test_step_with_the_graphs_gradient_of_an_lstm_is_a2cs_step(begins):
    keys = TERMS | {"model": {"use_lstm": True, "lstm_cell_size": 4, "max_seq_len": 2}}
    with BatchMachine("A2C", config("A2C", **keys), "Discrete") as machine:
        batch = machine.batch(4)
        batch["begins"] *= begins
        machine.learn(batch)
        expected, spec, initial = machine.values(), machine.spec, machine.initial
    assert not is_computed(spec)
    made = config("A3C", **keys)
    gradients, _ = GraphGradients(made, spec)(NumpyPolicy(spec, initial), batch, 0.3)
    assert np.abs(gradients["policy/lstm/kernel"]).max() > 1e-4
    values, _ = _applied(made, spec, initial, gradients)
    for name in initial:
        np.testing.assert_allclose(values[name], expected[name], atol=2e-5, err_msg=name)


def test_nets_with_convolutions_are_left_to_the_graph():
    made = config("A3C", model={"conv_filters": ((2, 3, 2), (2, 2, 1))})
    space = {"kind": "Box", "shape": [8, 8, 1], "dtype": "uint8"}
    spec = actor_critic_nets.policy_spec(made, discrete_spaces(3, 2) | {"obs": space})
    assert not is_computed(spec)
    weights = actor_critic_nets.initial_weights(made, spec, 3)
    rng = np.random.default_rng(0)
    batch = {
        "obs": rng.integers(0, 256, (2, 3, 8, 8, 1), np.uint8),
        "action": np.int32([[0, 1, 1], [1, 0, 1]]),
        "reward": np.ones((2, 3), np.float32),
        "discount": np.full((2, 3), 0.9, np.float32),
        "trace": np.ones((2, 3), np.float32),
        "mask": np.ones((2, 3), np.float32),
        "end_obs": rng.integers(0, 256, (4, 8, 8, 1), np.uint8),
        "end_at": np.int32([2, 5, 6, 6]),
    }
    gradients, stats = GraphGradients(made, spec)(NumpyPolicy(spec, weights), batch, 0.0)
    assert sorted(gradients) == sorted(weights)
    # A step along the gradient of the policy's loss makes what paid more likely.
    policy = NumpyPolicy(spec, {name: weights[name] - 0.5 * gradients[name] for name in weights})
    _, after = GraphGradients(made, spec)(policy, batch, 0.0)
    assert stats["vf_loss"] > after["vf_loss"] > 0
    assert np.abs(gradients["policy/conv_0/kernel"]).max() > 1e-6


def test_gradient_that_is_not_finite_changes_nothing():
    made, spec, policy, batch = _case("Discrete", {})
    gradients, _ = NumpyGradients(made, spec)(policy, batch, 0.3)
    gradients["policy/logits/bias"][0] = np.nan
    values, out = _applied(made, spec, policy.weights, gradients)
    assert not out["finite"] and values["num_updates"] == 0
    for name, value in policy.weights.items():
        np.testing.assert_array_equal(values[name], value)


def _applied(made, spec, initial, gradients):
    """Return ({name without scope: value} after one step, what it said)."""
    with tf.Graph().as_default(), tf.Session() as session:
        built = a3c_graph.build(made, spec, initial, 0, SCOPE)
        session.run(tf.variables_initializer(list(built.variables.values())))
        step = function(built.apply, autograph=False)
        out = session.run(step({n: tf.constant(g) for n, g in gradients.items()}, {"lr": tf.constant(1e-2)}))
        values = session.run({variable.op.name: variable for variable in built.variables.values()})
        return {name.removeprefix(SCOPE): value for name, value in values.items()}, out
