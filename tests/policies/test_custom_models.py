"""Custom models: registered classes, what is wrong with some, their weights' names, shapes and first values, their NumPy."""

import json

import numpy as np
import own_models
import pytest
from own_models import QUICK, SESSION, broken, known  # noqa: F401  known is for all tests

from drl_cli.errors import ConfigError, InputError
from drl_cli.policies import custom_models
from drl_cli.policies.backward import is_differentiable
from drl_cli.policies.forward import Forward
from drl_cli.policies.policy_from_manifest import policy_spec
from drl_cli.policies.policy_spec import ActionSpec, Dense, NetSpec, PolicySpec

OBS = np.random.default_rng(7).normal(0, 2, (6, 3)).astype(np.float32)
ACTION = np.random.default_rng(8).normal(0, 1, (6, 2)).astype(np.float32)


def net_of(name=QUICK, copies=1, layers=(), image=(), **arguments):
    """A critic that sees three numbers, or an image, with a custom model, and an action beside it."""
    inputs = (("obs", int(np.prod(image)) if image else 3), ("action", 2))
    custom = (name, json.dumps(arguments))
    return NetSpec("net", inputs, layers, (("q", 1),), copies, image, custom=custom)


def weights_of(net):
    """Weights none of which is at its special first value."""
    rng = np.random.default_rng(0)
    initial = net.initial_weights(np.random.default_rng(1))
    return {name: value + rng.normal(0, 0.3, value.shape).astype("f4") for name, value in initial.items()}


def spec_of(name=QUICK, **arguments):
    net = NetSpec("policy", (("obs", 3),), (), (("mean", 2),), custom=(name, json.dumps(arguments)))
    return PolicySpec((net,), "deterministic", (3,), ActionSpec((-1.0, -2.0), (1.0, 2.0)))


def test_names_and_shapes_are_the_model_s_then_the_layers_behind_it():
    assert net_of(layers=(Dense(7),), units=5).weight_shapes() == {
        "net/custom/layer/kernel": (3, 5),
        "net/custom/mean": (5,),
        "net/dense_0/kernel": (7, 7),
        "net/dense_0/bias": (7,),
        "net/q/kernel": (7, 1),
        "net/q/bias": (1,),
    }


def test_copies_have_variables_of_their_own():
    net = net_of(copies=3)
    assert net.weight_shapes()["net/custom/layer/kernel"] == (3, 3, 4)
    kernel = net.initial_weights(np.random.default_rng(0))["net/custom/layer/kernel"]
    assert np.abs(kernel[0] - kernel[1]).max() > 0.1 and kernel.dtype == np.float32


def test_every_variable_of_a_model_is_trained_whatever_its_name():
    net = net_of()
    assert "net/custom/mean" in net.trainable() and len(net.trainable()) == 4


def test_first_weights_are_the_model_s_own_else_glorot_uniform_and_zero():
    model = custom_models.made((QUICK, '{"start": 0.25, "units": 2}'), (300,))
    first = model.initial_weights(np.random.default_rng(0))
    np.testing.assert_array_equal(first["mean"], np.float32([0.25, 0.25]))
    limit = (6 / 302) ** 0.5
    assert 0.95 * limit < np.abs(first["layer/kernel"]).max() <= limit
    name = broken("plain", initial_weights=None)
    assert not custom_models.made((name, "{}"), (3,)).initial_weights(np.random.default_rng(0))["mean"].any()


def test_forward_is_the_model_s_with_the_other_inputs_beside_its_features():
    net = net_of(layers=(Dense(7, "tanh"),))
    weights = weights_of(net)
    features = np.tanh(OBS @ weights["net/custom/layer/kernel"] + weights["net/custom/mean"])
    joined = np.concatenate([features, ACTION], axis=1)
    hidden = np.tanh(joined @ weights["net/dense_0/kernel"] + weights["net/dense_0/bias"])
    expected = hidden @ weights["net/q/kernel"] + weights["net/q/bias"]
    np.testing.assert_allclose(Forward(net, weights)([OBS, ACTION])["q"], expected, atol=1e-6)


def test_copies_run_as_single_nets_and_each_on_rows_of_its_own():
    net, single = net_of(copies=2, layers=(Dense(5),)), net_of(layers=(Dense(5),))
    weights = weights_of(net)
    each = [Forward(single, {name: value[copy] for name, value in weights.items()}) for copy in (0, 1)]
    found = Forward(net, weights)([OBS, ACTION])["q"]
    assert found.shape == (2, 6, 1)
    for copy in (0, 1):
        np.testing.assert_allclose(found[copy], each[copy]([OBS, ACTION])["q"], atol=1e-6)
    acting = NetSpec("net", (("obs", 3),), (), (("q", 1),), 2, custom=(QUICK, "{}"))
    weights = weights_of(acting)
    own = Forward(acting, weights)(np.stack([OBS, 2 * OBS]))["q"]
    alike = Forward(acting, weights)(2 * OBS)["q"]
    np.testing.assert_allclose(own[1], alike[1], atol=1e-6)
    assert np.abs(own[0] - alike[0]).max() > 1e-3


def test_bytes_of_an_image_are_scaled_before_a_model_sees_them():
    net = net_of(image=(4, 4, 1))
    weights = weights_of(net)
    image = np.random.default_rng(3).integers(0, 256, (6, 4, 4, 1), dtype=np.uint8)
    scaled = (image.astype(np.float32) - 128) / 128
    found = Forward(net, weights)([image, ACTION])["q"]
    np.testing.assert_allclose(found, Forward(net, weights)([scaled, ACTION])["q"], atol=1e-6)


def test_a_model_without_numpy_needs_what_runs_it():
    net = net_of(SESSION)
    with pytest.raises(ValueError, match="the custom model of net runs in a graph only"):
        Forward(net, weights_of(net))
    ones = Forward(net, weights_of(net), lambda weights, x: np.ones((len(x), 4), np.float32))
    assert ones.features([OBS, ACTION]).shape == (6, 6)


def test_gradients_of_a_model_are_the_graph_s_affair():
    assert not is_differentiable(net_of())


def test_description_survives_a_manifest_and_needs_the_model_registered():
    spec = spec_of(units=3)
    plain = json.loads(json.dumps(spec.to_dict()))
    assert policy_spec(plain) == spec
    plain["nets"][0]["custom"][0] = "tests_quik_tangent"
    with pytest.raises(InputError, match="'tests_quik_tangent'. Did you mean 'tests_quick_tangent'?.*--import MODULE"):
        policy_spec(plain)


@pytest.mark.parametrize("custom", [["name"], ["name", "3"], ["name", "{"], ["a", "{}", "c"], "ab"])
def test_damaged_description_is_refused(custom):
    plain = json.loads(json.dumps(spec_of().to_dict()))
    plain["nets"][0]["custom"] = custom
    with pytest.raises(InputError, match="description cannot be read"):
        policy_spec(plain)


@pytest.mark.parametrize("thing", [3, lambda shape: None, dict, own_models.QuickTangent((3,))])
def test_only_a_class_with_a_graph_is_registered(thing):
    with pytest.raises(InputError, match=r"register_model\('x'\): a model must be a class with a method graph"):
        custom_models.register_model("x", thing)


def _init(**attributes):
    return lambda self, shape: vars(self).update({"features": 4, "variables": {"layer/kernel": (3, 4)}} | attributes)


def _times_two(self, weights, inputs):
    return np.tanh(np.multiply(inputs, 2, out=inputs) @ weights["layer/kernel"] + weights["mean"])


WRONG = {
    "no features": ({"__init__": _init(features=None)}, "features must be the number .* and it has none"),
    "features that are no number": ({"__init__": _init(features="4")}, "features must be the number .* they are '4'"),
    "no feature": ({"__init__": _init(features=0)}, "it has 0 features; they are counted from 1 to 65536"),
    "no variables": (
        {"__init__": _init(variables=None)},
        "its variables must be a dict {name: shape}, and it has none",
    ),
    "a list": ({"__init__": _init(variables=[3])}, "and they are a list"),
    "a strange name": ({"__init__": _init(variables={"a b": (3,)})}, "'a b' is not a valid variable name"),
    "a name that leads out": ({"__init__": _init(variables={"../a": (3,)})}, "'../a' is not a valid variable name"),
    "a shape that is none": ({"__init__": _init(variables={"a": 3})}, "a has the shape 3, which is no tuple"),
    "an empty side": (
        {"__init__": _init(variables={"a": (3, 0)})},
        r"a has the shape \(3, 0\), a side of which is below 1",
    ),
    "too much": ({"__init__": _init(variables={"a": (2**15, 2**15)})}, "hold more than 268,435,456 numbers"),
    "another argument": (
        {"__init__": lambda self, shape, unit=3: None},
        r"cannot be made for observations of shape \(3,\) with {'units': 4}: TypeError.*unexpected keyword argument 'units'",
    ),
    "first weights of another shape": (
        {"initial_weights": lambda self, rng: {"mean": np.zeros(3)}},
        r"initial_weights returned shape \(3,\) for mean; it needs float32 of shape \(4,\)",
    ),
    "first weights of nobody": (
        {"initial_weights": lambda self, rng: {"bias": np.zeros(4)}},
        "initial_weights returned 'bias', which is none of its variables",
    ),
    "first weights that are no numbers": (
        {"initial_weights": lambda self, rng: {"mean": np.full(4, np.nan)}},
        "numbers that are not finite for mean",
    ),
    "another width": (
        {"forward": lambda self, weights, inputs: inputs},
        r"forward returned float32 of shape \(5, 3\) for 5 observations; it must be float32 \[rows, 4\]",
    ),
    "NaN": ({"forward": lambda self, w, x: np.log(x @ w["layer/kernel"])}, "forward returns non-finite numbers"),
    "raising": (
        {"forward": lambda self, weights, inputs: weights["kernel"]},
        r"failed in forward: KeyError: 'kernel'; its variables are layer/kernel, mean \(test_custom_models.py, line \d+\)\.$",
    ),
    "rows that see others": (
        {"forward": lambda self, w, x: np.tanh((x - x.mean(axis=0)) @ w["layer/kernel"] + w["mean"])},
        r"something else of an observation alone than beside others \(by .*each row must be by itself",
    ),
    "writing into what it sees": ({"forward": _times_two}, "forward modifies its input observations"),
}


@pytest.mark.parametrize(("parts", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_model_is_refused_in_one_line_before_a_run(parts, message):
    name = broken("wrong", graph=lambda self, tf, weights, inputs: None, **parts)
    arguments = {"units": 4} if "argument" in message else {}
    with pytest.raises(ConfigError, match=message) as caught:
        custom_models.try_out(spec_of(name, **arguments))
    assert str(caught.value).startswith("model.custom_model wrong") and "\n" not in str(caught.value)


def test_a_right_model_is_tried_out_without_a_word():
    assert custom_models.try_out(spec_of()) is None
    assert custom_models.try_out(spec_of(SESSION)) is None
