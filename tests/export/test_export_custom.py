"""Policies with a network of one's own: exported as the graph that it is, refused where drl would have to know more."""

import json

import numpy as np
import pytest
from own_models import QUICK, SESSION, known  # noqa: F401  known is for all tests

from drl_cli.errors import InputError
from drl_cli.export import export_policy
from drl_cli.policies.numpy_policy import NumpyPolicy
from drl_cli.policies.policy_spec import ActionSpec, Dense, DiscreteSpec, NetSpec, PolicySpec, ValueSpec

pytestmark = pytest.mark.process

FACTS = {"algorithm": "X", "env": "Y-v0", "counters": {"training_iteration": 3}, "spaces": {"obs": {}, "action": {}}}


def _policy(name, image=False):
    own = (name, json.dumps({"units": 5}))
    if image:
        net = NetSpec("q", (("obs", 192),), (Dense(6),), (("q", 3),), image=(8, 8, 3), custom=own)
        spec = PolicySpec((net,), "q", (8, 8, 3), DiscreteSpec(3), obs_dtype="uint8", value=ValueSpec())
    else:
        net = NetSpec("policy", (("obs", 4),), (), (("mean", 2), ("log_std", 2)), custom=own)
        spec = PolicySpec((net,), "squashed_gaussian", (4,), ActionSpec((-2.0, 0.0), (2.0, 1.0)))
    assert spec.misfit() is None
    return NumpyPolicy(spec, net.initial_weights(np.random.default_rng(1)))


@pytest.mark.parametrize("image", [False, True])
@pytest.mark.parametrize("name", [QUICK, SESSION])
@pytest.mark.parametrize(("form", "out"), [("savedmodel", "m"), ("tflite", "m.tflite")])
def test_network_of_ones_own_is_exported_as_its_graph(name, image, form, out, tmp_path):
    found = export_policy.export(_policy(name, image), FACTS, form, tmp_path / out).comparison
    assert found.differing == found.ties if image else found.difference < 1e-5


def test_onnx_of_a_network_of_ones_own_is_refused_with_what_goes(tmp_path):
    with pytest.raises(InputError, match=f"model.custom_model {QUICK}.*Export it as savedmodel or tflite"):
        export_policy.export(_policy(QUICK), FACTS, "onnx", tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []
