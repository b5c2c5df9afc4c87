"""A policy as plain data: shapes and names of its weights, first weights, JSON and back, hostile data."""

import copy
import json

import numpy as np
import pytest

from drl_cli.errors import CheckpointError
from drl_cli.policies import policy_from_manifest
from drl_cli.policies.policy_spec import ActionSpec, Dense, NetSpec, PolicySpec

NET = NetSpec(
    name="policy",
    inputs=(("obs", 3),),
    layers=(Dense(5, "tanh"), Dense(4, "swish", layer_norm=True)),
    heads=(("mean", 2), ("log_std", 2)),
)
SPEC = PolicySpec((NET,), "squashed_gaussian", (3,), ActionSpec((-2.0, 0.0), (2.0, 0.5), normalize=False, clip=True))
DATA = json.loads(json.dumps(SPEC.to_dict()))


def test_weight_shapes_of_two_layers_and_two_heads_are_in_order_of_use():
    assert list(NET.weight_shapes().items()) == [
        ("policy/dense_0/kernel", (3, 5)),
        ("policy/dense_0/bias", (5,)),
        ("policy/dense_1/kernel", (5, 4)),
        ("policy/dense_1/bias", (4,)),
        ("policy/dense_1/norm_scale", (4,)),
        ("policy/dense_1/norm_offset", (4,)),
        ("policy/mean/kernel", (4, 2)),
        ("policy/mean/bias", (2,)),
        ("policy/log_std/kernel", (4, 2)),
        ("policy/log_std/bias", (2,)),
    ]
    assert SPEC.weight_names() == list(NET.weight_shapes())


def test_weight_shapes_of_copies_have_a_leading_axis_and_inputs_add_up():
    net = NetSpec("critic", (("obs", 3), ("action", 2)), (Dense(7, layer_norm=True),), (("q", 1),), copies=2)
    assert net.input_size == 5
    assert net.weight_shapes() == {
        "critic/dense_0/kernel": (2, 5, 7),
        "critic/dense_0/bias": (2, 7),
        "critic/dense_0/norm_scale": (2, 7),
        "critic/dense_0/norm_offset": (2, 7),
        "critic/q/kernel": (2, 7, 1),
        "critic/q/bias": (2, 1),
    }


def test_weight_shapes_without_layers_connect_inputs_to_heads():
    net = NetSpec("policy", (("obs", 3),), (), (("mean", 2),))
    assert net.weight_shapes() == {"policy/mean/kernel": (3, 2), "policy/mean/bias": (2,)}


def test_initial_weights_keep_glorot_bounds_and_fill_them():
    net = NetSpec("policy", (("obs", 10),), (Dense(50, layer_norm=True),), (("mean", 40),))
    weights = net.initial_weights(np.random.default_rng(0), head_scale=0.1)
    # sqrt(6 / (10 + 50)) = 0.316228, sqrt(6 / (50 + 40)) = 0.258199
    assert 0.310 < np.abs(weights["policy/dense_0/kernel"]).max() <= 0.31623
    assert 0.0255 < np.abs(weights["policy/mean/kernel"]).max() <= 0.02582
    assert abs(weights["policy/dense_0/kernel"].mean()) < 0.03
    assert (weights["policy/dense_0/bias"] == 0).all()
    assert (weights["policy/dense_0/norm_scale"] == 1).all()
    assert (weights["policy/dense_0/norm_offset"] == 0).all()
    assert {array.dtype for array in weights.values()} == {np.dtype("float32")}


def test_initial_weights_of_copies_differ_and_use_the_fan_of_one_copy():
    net = NetSpec("critic", (("obs", 10),), (Dense(50),), (("q", 1),), copies=2)
    kernel = net.initial_weights(np.random.default_rng(0))["critic/dense_0/kernel"]
    assert 0.310 < np.abs(kernel).max() <= 0.31623
    assert not np.array_equal(kernel[0], kernel[1])


def test_initial_weights_depend_on_the_seed_alone():
    first, again, other = (NET.initial_weights(np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["policy/dense_0/kernel"], other["policy/dense_0/kernel"])


def test_spec_through_json_comes_back_equal():
    assert policy_from_manifest.policy_spec(DATA) == SPEC


def test_policy_bounds_are_one_when_normalised_else_the_spaces_own():
    low, high = SPEC.action.policy_bounds()
    assert low.tolist() == [-2.0, 0.0] and high.tolist() == [2.0, 0.5] and low.dtype == np.float32
    low, high = ActionSpec((-2.0, 0.0), (2.0, 0.5)).policy_bounds()
    assert low.tolist() == [-1.0, -1.0] and high.tolist() == [1.0, 1.0] and high.dtype == np.float32


def _without(key):
    data = copy.deepcopy(DATA)
    del data[key]
    return data


def _with(value, *path):
    data = copy.deepcopy(DATA)
    at = data
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return data


RESIDUAL = {"units": 5, "blocks": 2, "activation": "relu"}
PLAIN = DATA["nets"][0]["layers"][0]
UNIT = DATA["nets"][0] | {"layers": [PLAIN], "batch_norm": True, "unit_kernels": True}
HOSTILE = {
    "nothing": None,
    "a list": [],
    "a text": "policy",
    "empty": {},
    "no nets key": _without("nets"),
    "no action key": _without("action"),
    "no state key": _without("state"),
    "a key of another version": _with(1, "dreams"),
    "free heads that are no heads": _with(["std"], "nets", 0, "free_heads"),
    "scored squashed Gaussian": _with(True, "scored"),
    "deviations of at least a text": _with("-1", "log_std_min"),
    "deviations of at least nothing that is a number": _with(float("nan"), "log_std_min"),
    "a mask of Box actions": _with([0, 2], "mask"),
    "a filter that is a text": _with("MeanStdFilter", "filter"),
    "nets is a text": _with("policy", "nets"),
    "no nets": _with([], "nets"),
    "two nets": _with(DATA["nets"] * 2, "nets"),
    "net is a number": _with([1], "nets"),
    "key of another version in a net": _with(True, "nets", 0, "dueling"),
    "copies two": _with(2, "nets", 0, "copies"),
    "copies zero": _with(0, "nets", 0, "copies"),
    "unknown activation": _with("__import__", "nets", 0, "layers", 0, "activation"),
    "units zero": _with(0, "nets", 0, "layers", 0, "units"),
    "units negative": _with(-5, "nets", 0, "layers", 0, "units"),
    "units huge": _with(10**12, "nets", 0, "layers", 0, "units"),
    "units infinite": _with(float("inf"), "nets", 0, "layers", 0, "units"),
    "units text": _with("5", "nets", 0, "layers", 0, "units"),
    "units fraction": _with(5.5, "nets", 0, "layers", 0, "units"),
    "layer_norm text": _with("false", "nets", 0, "layers", 0, "layer_norm"),
    "residual blocks none": _with(RESIDUAL | {"blocks": 0}, "nets", 0, "layers", 0),
    "residual blocks too many": _with(RESIDUAL | {"blocks": 65}, "nets", 0, "layers", 0),
    "residual blocks with a key of dense layers": _with(RESIDUAL | {"layer_norm": True}, "nets", 0, "layers", 0),
    "unit kernels without batch normalisation": _with(UNIT | {"batch_norm": False}, "nets", 0),
    "unit kernels of a normalised layer": _with(UNIT | {"layers": DATA["nets"][0]["layers"]}, "nets", 0),
    "unit kernels of residual blocks": _with(UNIT | {"layers": [RESIDUAL]}, "nets", 0),
    "layers null": _with(None, "nets", 0, "layers"),
    "too many layers": _with([DATA["nets"][0]["layers"][0]] * 1000, "nets", 0, "layers"),
    "inputs do not fit obs": _with([["obs", 4]], "nets", 0, "inputs"),
    "inputs triple": _with([["obs", 3, 1]], "nets", 0, "inputs"),
    "heads missing": _with([["mean", 2]], "nets", 0, "heads"),
    "heads of another size": _with([["mean", 3], ["log_std", 3]], "nets", 0, "heads"),
    "name is a number": _with(7, "nets", 0, "name"),
    "unknown distribution": _with("categorical", "distribution"),
    "distribution null": _with(None, "distribution"),
    "obs_shape negative": _with([-3], "obs_shape"),
    "obs_shape of another size": _with([3, 2], "obs_shape"),
    "obs_shape a number": _with(3, "obs_shape"),
    "a recurrent state": _with([[64]], "state"),
    "no action dimensions": _with({"low": [], "high": [], "normalize": True, "clip": True}, "action"),
    "bounds of unequal length": _with([2.0], "action", "high"),
    "bounds not a number": _with([2.0, float("nan")], "action", "high"),
    "bounds infinite": _with([2.0, float("inf")], "action", "high"),
    "bound beyond float": _with([2.0, 10**400], "action", "high"),
    "bounds crossed": _with([-3.0, 0.5], "action", "high"),
    "bounds null": _with([None, None], "action", "low"),
    "clip text": _with("no", "action", "clip"),
}


def test_from_dict_of_kernels_of_unit_length_with_batch_normalisation_gives_the_net():
    net = policy_from_manifest.policy_spec(_with(UNIT, "nets", 0)).nets[0]
    assert net.unit_kernels and list(net.weight_shapes())[:5] == [
        "policy/norm_0/scale",
        "policy/norm_0/mean",
        "policy/norm_0/var",
        "policy/dense_0/kernel",
        "policy/norm_1/scale",
    ]


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_from_dict_of_anything_but_a_spec_is_refused(data):
    with pytest.raises(CheckpointError) as caught:
        policy_from_manifest.policy_spec(data)
    message = str(caught.value)
    assert (
        message.startswith(("The policy's description", "This version does not support the policy's description"))
        and len(message) < 500
    )
