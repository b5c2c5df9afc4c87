"""SimBa's residual blocks: their weights, their first values, and the forward pass against one row at a time."""

import numpy as np

from drl_cli.policies import policy_from_manifest
from drl_cli.policies.forward import Forward
from drl_cli.policies.nets import Dense, NetSpec, Residual, orthogonal_weights
from drl_cli.policies.policy_spec import ActionSpec, PolicySpec

NET = NetSpec("policy", (("obs", 3),), (Residual(4, 2),), (("mean", 1), ("log_std", 1)))


def _normed(weights, scope, x):
    return (x - x.mean()) / np.sqrt(x.var() + 1e-6) * weights[f"{scope}/norm_scale"] + weights[f"{scope}/norm_offset"]


def _affine(weights, scope, x):
    return x @ weights[f"{scope}/kernel"] + weights[f"{scope}/bias"]


def _row(weights, x):
    """The features of one row, block by block as in the paper's figure."""
    x = _affine(weights, "policy/dense_0", x)
    for block in ("policy/dense_0/block_0", "policy/dense_0/block_1"):
        wide = np.maximum(_affine(weights, f"{block}/wide", _normed(weights, block, x)), 0)
        x = x + _affine(weights, f"{block}/narrow", wide)
    return _normed(weights, "policy/dense_0", x)


def test_weights_are_an_embedding_blocks_of_four_times_the_units_and_a_last_norm():
    assert NET.weight_shapes() == {
        "policy/dense_0/kernel": (3, 4),
        "policy/dense_0/bias": (4,),
        **{
            f"policy/dense_0/block_{block}/{name}": shape
            for block in (0, 1)
            for name, shape in {
                "norm_scale": (4,),
                "norm_offset": (4,),
                "wide/kernel": (4, 16),
                "wide/bias": (16,),
                "narrow/kernel": (16, 4),
                "narrow/bias": (4,),
            }.items()
        },
        "policy/dense_0/norm_scale": (4,),
        "policy/dense_0/norm_offset": (4,),
        "policy/mean/kernel": (4, 1),
        "policy/mean/bias": (1,),
        "policy/log_std/kernel": (4, 1),
        "policy/log_std/bias": (1,),
    }


def test_forward_pass_is_that_of_one_row_at_a_time():
    rng = np.random.default_rng(0)
    weights = {name: rng.normal(0, 1, shape).astype(np.float32) for name, shape in NET.weight_shapes().items()}
    rows = rng.normal(0, 2, (5, 3)).astype(np.float32)
    before, features = rows.copy(), Forward(NET, weights).features(rows)
    np.testing.assert_allclose(features, [_row(weights, row) for row in rows], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(rows, before)  # nothing is added to the caller's array


def test_first_weights_are_orthogonal_in_the_embedding_and_he_normal_in_the_blocks():
    net = NetSpec("critic", (("obs", 20),), (Residual(64, 1),), (("q", 1),), copies=2)
    weights = net.initial_weights(np.random.default_rng(0))
    for kernel in weights["critic/dense_0/kernel"]:  # [20, 64]: orthogonal rows of length 1
        np.testing.assert_allclose(kernel @ kernel.T, np.eye(20), atol=1e-5)
    wide, narrow = (weights[f"critic/dense_0/block_0/{part}/kernel"] for part in ("wide", "narrow"))
    np.testing.assert_allclose([wide.std(), narrow.std()], [np.sqrt(2 / 64), np.sqrt(2 / 256)], rtol=0.02)
    for name, value in weights.items():
        if not name.endswith("kernel"):
            assert (value == (1.0 if name.endswith("norm_scale") else 0.0)).all()
        elif not name.startswith("critic/q"):
            assert not np.array_equal(value[0], value[1])


def test_first_weights_of_actor_critics_keep_those_of_the_blocks():
    weights = orthogonal_weights(NET, np.random.default_rng(0))
    expected = NET.initial_weights(np.random.default_rng(0))
    for name in expected:
        assert ("policy/dense_0" in name) == np.array_equal(weights[name], expected[name]) or name.endswith("bias")


def test_blocks_through_a_manifest_come_back_equal():
    spec = PolicySpec((NET,), "squashed_gaussian", (3,), ActionSpec((-1.0,), (1.0,)))
    assert policy_from_manifest.policy_spec(spec.to_dict()) == spec
    assert spec.nets[0].layers != (Dense(4),) and not spec.is_noisy
