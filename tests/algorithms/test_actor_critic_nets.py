"""The nets of actor-critics: what is shared, what is free, and first weights that are orthogonal."""

import dataclasses
import json

import numpy as np
import pytest
from scored_policies import ACTIONS, MASK, OBS, config, made

from drl_cli.algorithms import actor_critic_nets
from drl_cli.policies.forward import Forward
from drl_cli.policies.nets import orthogonal
from drl_cli.policies.policy_from_manifest import policy_spec

HEADS = {
    "gaussian": (("mean", 2), ("log_std", 2)),
    "categorical": (("logits", 3),),
    "masked": (("logits", 3),),
    "multi_categorical": (("logits", 9),),
    "multi_bernoulli": (("logits", 3),),
    "composite": (("logits_0", 3), ("mean_1", 2), ("log_std_1", 2), ("logits_2", 9), ("logits_3", 3)),
}


def _first(name, **keys):
    spec, _ = made(name, **keys)
    return spec, actor_critic_nets.initial_weights(config(**keys), spec, 1)


@pytest.mark.parametrize("name", ACTIONS)
def test_policy_and_value_share_their_layers_when_asked_or_recurrent(name):
    for keys, shared in (({}, False), ({"share": True}, True), ({"lstm": 4}, True)):
        spec, _ = made(name, **keys)
        value = (("value", 1),)
        assert [net.heads for net in spec.nets] == ([HEADS[name] + value] if shared else [HEADS[name], value])
        assert spec.state == (((4,), (4,)) if keys.get("lstm") else ()) and spec.scored
        assert spec.mask == (MASK if name == "masked" else ())
        assert spec.distribution == name.replace("masked", "categorical") and spec.misfit() is None


def test_free_deviations_are_one_vector_that_begins_at_one():
    spec, weights = _first("gaussian", free=True)
    assert weights["policy/log_std/free"].tolist() == [0.0, 0.0]
    assert "policy/log_std/kernel" not in weights and spec.weight_shapes()["policy/log_std/free"] == (2,)


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("name, head", [("gaussian", "log_std"), ("composite", "log_std_1")])
def test_deviations_begin_where_log_std_init_says(name, head, free):
    spec, weights = _first(name, free=free, log_std_init=-2.0)
    obs = np.random.default_rng(0).standard_normal((5, OBS)).astype(np.float32)
    heads = Forward(spec.nets[0], weights)(obs)
    np.testing.assert_allclose(np.broadcast_to(heads[head], (5, 2)), np.full((5, 2), -2.0), atol=0.0 if free else 0.05)


def test_lower_bound_of_deviations_comes_from_the_config_and_back_from_a_manifest():
    spec, _ = made("gaussian", log_std_min=-1.2)
    assert spec.log_std_min == -1.2 and policy_spec(json.loads(json.dumps(spec.to_dict()))) == spec
    of_before = {name: value for name, value in spec.to_dict().items() if name != "log_std_min"}
    assert policy_spec(json.loads(json.dumps(of_before))).log_std_min == -20.0


def test_free_deviations_of_a_part_are_a_vector_of_its_own():
    spec, weights = _first("composite", free=True)
    assert weights["policy/log_std_1/free"].tolist() == [0.0, 0.0] and spec.nets[0].free_heads == ("log_std_1",)


def test_first_kernels_are_orthogonal_with_their_gains():
    _, weights = _first("categorical")
    for name, gain in (("policy/dense_0", 2.0), ("policy/dense_1", 2.0), ("value/dense_1", 2.0), ("value/value", 1.0)):
        kernel = weights[name + "/kernel"].astype(np.float64)
        rows, units = kernel.shape
        product = kernel @ kernel.T if rows < units else kernel.T @ kernel
        np.testing.assert_allclose(product, gain * np.eye(min(rows, units)), atol=1e-6)
        assert not weights[name + "/bias"].any()
    logits = weights["policy/logits/kernel"].astype(np.float64)
    np.testing.assert_allclose(logits.T @ logits, 1e-4 * np.eye(3), atol=1e-9)


def test_gates_of_an_lstm_are_orthogonal_each_and_forget_nothing_at_first():
    _, weights = _first("categorical", lstm=4)
    kernel, bias = weights["policy/lstm/kernel"], weights["policy/lstm/bias"]
    for gate in range(4):
        own = kernel[7:, 4 * gate : 4 * gate + 4]
        np.testing.assert_allclose(own.T @ own, np.eye(4), atol=1e-5)
    assert bias.tolist() == [0.0] * 4 + [1.0] * 4 + [0.0] * 8


def test_first_weights_depend_on_the_seed_alone():
    spec, first = _first("gaussian")
    same, other = (actor_critic_nets.initial_weights(config(), spec, seed) for seed in (1, 2))
    assert all(np.array_equal(first[name], same[name]) for name in first) and set(first) == set(spec.weight_names())
    assert not np.array_equal(first["policy/dense_0/kernel"], other["policy/dense_0/kernel"])
    assert not np.array_equal(first["policy/dense_0/kernel"], first["value/dense_0/kernel"])


def test_kernels_of_convolutions_are_orthogonal_as_matrices():
    kernel = orthogonal(np.random.default_rng(0), (3, 3, 2, 5), 2.0)
    flat = kernel.reshape(18, 5)
    assert kernel.dtype == np.float32
    np.testing.assert_allclose(flat.T @ flat, 4.0 * np.eye(5), atol=1e-5)


def test_images_pass_through_convolutions():
    asked = config(conv_filters=None, conv_activation="relu", zero_mean=True)
    spaces = {"obs": {"kind": "Box", "shape": [16, 16, 1], "dtype": "uint8"}, "frames": 2}
    spec = actor_critic_nets.policy_spec(asked, spaces | {"action": {"kind": "Discrete", "n": OBS, "start": 0}})
    assert spec.misfit() is None and [net.image for net in spec.nets] == [(16, 16, 2)] * 2
    assert all(net.convs for net in spec.nets)


def test_boards_pass_through_convolutions_where_they_are_asked_for():
    spaces = {"obs": {"kind": "Box", "shape": [91], "dtype": "float32"}, "mask": [0, 7], "board": [7, 6, 7, 2]}
    spaces |= {"action": {"kind": "Discrete", "n": 7, "start": 0}}
    spec = actor_critic_nets.policy_spec(config(conv_filters=((8, 4, 1),), conv_activation="relu"), spaces)
    assert spec.misfit() is None
    assert spec.weight_shapes()["policy/conv_0/kernel"] == (4, 4, 2, 8)
    assert spec.weight_shapes()["value/dense_0/kernel"][0] == 3 * 4 * 8 + 7
    assert policy_spec(spec.to_dict()) == spec
    further = dataclasses.replace(spec, nets=tuple(dataclasses.replace(net, image_at=8) for net in spec.nets))
    assert "observations of shape (91,)" in str(further.misfit())
    plain = actor_critic_nets.policy_spec(config(conv_filters=None), spaces)
    assert not plain.nets[0].image
