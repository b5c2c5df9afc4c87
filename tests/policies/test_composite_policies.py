"""Policies over the actions of a Dict or Tuple: units, uniform actions, descriptions in manifests, and no export."""

import copy
import json

import numpy as np
import pytest
from scored_policies import ACTIONS, made

from drl_cli.errors import CheckpointError, InputError
from drl_cli.export.export_policy import export
from drl_cli.policies import policy_from_manifest
from drl_cli.policies.action_specs import ActionSpec, CompositeSpec, DiscreteSpec
from drl_cli.policies.numpy_policy import NumpyPolicy

SPEC, WEIGHTS = made("composite")
POLICY = NumpyPolicy(SPEC, WEIGHTS)
ACTED = np.float32([[2, 0.5, -3.0, 1, 0, 2, 0, 1, 1], [0, -1.0, 1.0, 0, 3, 1, 1, 0, 0]])


def test_boxes_are_in_the_environments_units_and_clipped_for_it_alone():
    recorded, given = POLICY.recorded(ACTED), POLICY.to_env(ACTED)
    np.testing.assert_allclose(recorded[:, 1:3], [[1.0, -1.0], [-2.0, 1.0]])  # bounds [-2, 2] and [0, 1]
    np.testing.assert_allclose(given[:, 1:3], [[1.0, 0.0], [-2.0, 1.0]])
    for found in (recorded, given):
        assert np.array_equal(np.delete(found, (1, 2), axis=1), np.delete(ACTED, (1, 2), axis=1))
    np.testing.assert_allclose(POLICY.as_acted(recorded), ACTED, atol=1e-6)


def test_uniform_actions_fill_every_part_and_their_log_probability_is_that_of_all_parts():
    rng, obs = np.random.default_rng(0), np.zeros((20_000, 6), np.float32)
    action = POLICY.random(obs, rng)
    assert action.dtype == np.float32 and action[:, 1:3].min() < -0.99 and action[:, 1:3].max() > 0.99
    whole = action[:, [0, 3, 4, 5, 6, 7, 8]]
    assert whole.max(axis=0).tolist() == [2, 1, 3, 2, 1, 1, 1] and not whole.min(axis=0).any()
    choices = np.log(3 * 2 * 4 * 3 * 2 * 2 * 2)
    np.testing.assert_allclose(POLICY.random_columns(obs[:1])["logp"], [-choices - np.log(2.0 * 2.0)], rtol=1e-6)
    np.testing.assert_allclose(POLICY.random_logp(obs[:1]), [-choices - np.log(4.0 * 1.0)], rtol=1e-6)


def test_log_probability_of_what_was_acted_is_that_of_its_record():
    rng, obs = np.random.default_rng(1), np.random.default_rng(2).normal(0, 1, (30, 6)).astype(np.float32)
    action, _, columns = POLICY.act(obs, (), rng, True)
    found = POLICY.logp(POLICY.heads(obs), POLICY.recorded(action))
    np.testing.assert_allclose(found, columns["logp"] - np.log(2.0) - np.log(0.5), atol=1e-5)  # half ranges


DATA = json.loads(json.dumps(SPEC.to_dict()))


def _with(value, *path):
    data = copy.deepcopy(DATA)
    at = data
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return data


def test_description_survives_json():
    assert policy_from_manifest.policy_spec(DATA) == SPEC
    assert [part["kind"] for part in DATA["action"]["parts"]] == ["Discrete", "Box", "MultiDiscrete", "MultiBinary"]


@pytest.mark.parametrize(
    "data",
    [
        _with([], "action", "parts"),
        _with(DATA["action"]["parts"] * 100, "action", "parts"),
        _with({"kind": "Composite", "parts": DATA["action"]["parts"]}, "action", "parts", 0),
        _with("Text", "action", "parts", 0, "kind"),
        _with(10**9, "action", "parts", 0, "n"),
        _with(DATA["action"]["parts"][:2], "action", "parts"),
        _with("hybrid", "distribution"),
        _with([0, 3], "mask"),
    ],
    ids=["none", "many", "nested", "unknown", "huge", "of other heads", "joint choices of switches", "mask"],
)
def test_description_of_anything_else_is_refused(data):
    with pytest.raises(CheckpointError, match="description"):
        policy_from_manifest.policy_spec(data)


def test_more_numbers_than_a_manifest_may_ask_for_are_a_misfit():
    assert ACTIONS["composite"].misfit() is None
    assert "65537 numbers" in CompositeSpec((DiscreteSpec(65_536), DiscreteSpec(1))).misfit()
    assert "action bounds" in CompositeSpec((ActionSpec((1.0,), (0.0,)),)).misfit()


def test_export_is_refused_in_one_line_and_leaves_nothing(tmp_path):
    with pytest.raises(InputError, match=r"a Dict or Tuple is not exported: .* Play it with drl rollout"):
        export(POLICY, {}, "onnx", tmp_path / "policy.onnx")
    assert list(tmp_path.iterdir()) == []
