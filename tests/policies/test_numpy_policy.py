"""The policy that acts in NumPy: its actions, what the environment gets, how it comes out of a checkpoint."""

import copy

import numpy as np
import pytest
from plain_policy import POLICY

from drl_cli import checkpoints
from drl_cli.errors import CheckpointError
from drl_cli.policies import policy_from_manifest
from drl_cli.policies.numpy_policy import NumpyPolicy, policy_from_checkpoint
from drl_cli.policies.policy_spec import ActionSpec, Dense, NetSpec, PolicySpec


def _policy(mean=(0.5, -0.5), log_std=-1.0, low=(-2.0, 0.0), high=(4.0, 1.0), **action):
    """A policy whose heads are constants."""
    net = NetSpec("policy", (("obs", 3),), (), (("mean", 2), ("log_std", 2)))
    weights = {
        "policy/mean/kernel": np.zeros((3, 2), np.float32),
        "policy/mean/bias": np.float32(mean),
        "policy/log_std/kernel": np.zeros((3, 2), np.float32),
        "policy/log_std/bias": np.full(2, log_std, np.float32),
    }
    return NumpyPolicy(PolicySpec((net,), "squashed_gaussian", (3,), ActionSpec(low, high, **action)), weights)


OBS = np.zeros((4, 3), np.float32)


def test_greedy_action_is_the_same_for_every_row_and_needs_no_generator():
    action, state, columns = _policy().act(OBS, (), None, False)
    np.testing.assert_allclose(action, [[0.46211716, -0.46211716]] * 4, rtol=1e-6)  # tanh(0.5)
    assert (state, columns, action.dtype) == ((), {}, np.float32)


def test_explored_actions_differ_by_row_and_repeat_with_the_generator():
    first, again = (_policy().act(OBS, (), np.random.default_rng(3), True)[0] for _ in range(2))
    assert len(np.unique(first)) == 8 and np.array_equal(first, again)


def test_not_normalised_policy_acts_in_the_environments_units():
    action, _, _ = _policy(normalize=False).act(OBS[:1], (), None, False)
    np.testing.assert_allclose(action, [[0.46211716 * 3 + 1, -0.46211716 * 0.5 + 0.5]], rtol=1e-6)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"normalize": True, "clip": True}, [[-2.0, 1.0], [4.0, 0.0], [1.0, 0.5], [4.0, 0.0]]),
        ({"normalize": True, "clip": False}, [[-2.0, 1.0], [4.0, 0.0], [1.0, 0.5], [7.0, -0.5]]),
        ({"normalize": False, "clip": True}, [[-1.0, 1.0], [1.0, 0.0], [0.0, 0.0], [2.0, 0.0]]),
        ({"normalize": False, "clip": False}, [[-1.0, 1.0], [1.0, -1.0], [0.0, 0.0], [2.0, -2.0]]),
    ],
)
def test_to_env_rescales_and_clips_as_the_spec_says(keys, expected):
    action = np.float32([[-1.0, 1.0], [1.0, -1.0], [0.0, 0.0], [2.0, -2.0]])
    before = action.copy()
    found = _policy(**keys).to_env(action)
    assert found.tolist() == expected and found.dtype == np.float32
    assert np.array_equal(action, before)


def test_random_actions_fill_the_bounds_evenly():
    action = _policy(normalize=False).random(np.zeros((20_000, 3)), np.random.default_rng(0))
    assert action.dtype == np.float32 and action.shape == (20_000, 2)
    np.testing.assert_allclose(action.min(axis=0), [-2.0, 0.0], atol=0.01)
    np.testing.assert_allclose(action.max(axis=0), [4.0, 1.0], atol=0.01)
    np.testing.assert_allclose(action.mean(axis=0), [1.0, 0.5], atol=0.05)


def test_a_displaced_mean_is_squashed_with_its_noise():
    policy = _policy(normalize=False)
    found = policy.displaced(policy.heads(OBS), np.float32([[0.0, 0.5], [-0.5, 0.0], [9.0, 9.0], [0.0, 0.0]]))
    # tanh, stretched to [-2, 4] and [0, 1]
    np.testing.assert_allclose(
        found, [[2.3863515, 0.5], [1.0, 0.2689414], [4.0, 1.0], [2.3863515, 0.2689414]], atol=1e-6
    )


def test_heads_and_features_are_those_of_one_pass():
    net = NetSpec("policy", (("obs", 3),), (Dense(5, "tanh"),), (("mean", 2),))
    weights = net.initial_weights(np.random.default_rng(0))
    policy = NumpyPolicy(PolicySpec((net,), "deterministic", (3,), ActionSpec((-1.0,) * 2, (1.0,) * 2)), weights)
    obs = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)
    heads, features = policy.heads_and_features(obs)
    np.testing.assert_allclose(features, np.tanh(obs @ weights["policy/dense_0/kernel"]), atol=1e-6)
    assert np.array_equal(heads["mean"], policy.heads(obs)["mean"]) and policy.weights is weights


def test_a_policy_with_another_net_leaves_the_first_one_as_it_is():
    policy = _policy()
    noisy = {name: array + np.float32(1.0) for name, array in policy.weights.items()}
    other = policy.with_net(policy.net_of(noisy))
    np.testing.assert_allclose(other.act(OBS, (), None, False)[0], [[0.90514825, 0.46211716]] * 4, rtol=1e-6)
    np.testing.assert_allclose(policy.act(OBS, (), None, False)[0], [[0.46211716, -0.46211716]] * 4, rtol=1e-6)


# -- out of a checkpoint ----------------------------------------------------------------------------------------


def test_policy_of_a_checkpoint_acts(tmp_path, write_checkpoint):
    ckpt = checkpoints.load(write_checkpoint(tmp_path, 10))
    policy = policy_from_checkpoint(ckpt)
    action, _, _ = policy.act(np.float32([[1.0, 0.0, 0.5]]), (), None, False)
    stored = {name.removeprefix("default_policy/"): array for name, array in ckpt.arrays("weights").items()}
    hidden = np.tanh([1.0, 0.0, 0.5] @ stored["policy/dense_0/kernel"] + stored["policy/dense_0/bias"])
    expected = np.tanh(hidden @ stored["policy/mean/kernel"] + stored["policy/mean/bias"])
    np.testing.assert_allclose(action[0], expected, rtol=1e-5)
    np.testing.assert_allclose(policy.to_env(action)[0], 2 * expected, rtol=1e-5)


def _changed(*path, value):
    data = copy.deepcopy(POLICY)
    at = data
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return {"default_policy": data}


@pytest.mark.parametrize(
    ("policies", "said"),
    [
        (None, "holds no policy"),
        ([], "holds no policy"),
        ({}, "holds no policy"),
        ({"other": POLICY}, "holds no policy"),
        ({"default_policy": None}, "description cannot be read"),
        (_changed("nets", 0, "layers", 0, "units", value=5), "do not fit the policy's description"),
        (_changed("nets", 0, "layers", value=[]), "do not fit the policy's description"),
        (_changed("nets", 0, "name", value="other"), "has no array named 'default_policy/other/"),
    ],
)
def test_policy_of_a_checkpoint_that_does_not_fit_is_refused(tmp_path, write_checkpoint, policies, said):
    ckpt = checkpoints.load(write_checkpoint(tmp_path, 10, policies=policies))
    with pytest.raises(CheckpointError, match=said):
        policy_from_checkpoint(ckpt)


def test_policy_with_weights_that_are_not_finite_is_refused(tmp_path):
    spec = policy_from_manifest.policy_spec(POLICY)
    weights = {name: np.zeros(shape, np.float32) for name, shape in spec.weight_shapes().items()}
    weights["policy/mean/bias"] = np.float32([np.nan])
    with checkpoints.Writer(tmp_path, 1) as writer:
        named = {f"default_policy/{name}": array for name, array in weights.items()}
        checkpoints.write_arrays(writer.folder / "weights.safetensors", named)
        checkpoints.write_json(writer.folder / "state.json", {})
        path = writer.commit({"policies": {"default_policy": POLICY}})
    with pytest.raises(CheckpointError, match="policy/mean/bias holds values that are not finite"):
        policy_from_checkpoint(checkpoints.load(path))
