"""Every kind of policy in every format: what was written does what NumPy does, and as a user would run it."""

import json

import exported_policies
import numpy as np
import pytest

from drl_cli.acting.policy import NumpyPolicy
from drl_cli.export import comparing, exporting, signature
from drl_cli.tf1.tensorflow import lite, tf

FACTS = {"algorithm": "X", "env": "Y-v0", "counters": {"training_iteration": 3}, "spaces": {"obs": {}, "action": {}}}
PATHS = {"savedmodel": "m", "onnx": "m.onnx", "tflite": "m.tflite"}


@pytest.mark.parametrize("form", exporting.FORMATS)
@pytest.mark.parametrize("name", exported_policies.NAMES)
def test_exported_policy_does_what_numpy_does(name, form, tmp_path):
    policy = NumpyPolicy(*exported_policies.made(name))
    done = exporting.export(policy, FACTS, form, tmp_path / PATHS[form])
    if policy.is_box:
        assert done.comparison.difference <= 2e-5
    else:
        assert done.comparison.differing == done.comparison.ties <= 1
    if policy.spec.state:
        assert done.comparison.state <= 2e-6
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        {PATHS[form], PATHS[form] + ".json"} if form != "savedmodel" else {"m"}
    )
