"""Policies of every kind that can be exported: name → (PolicySpec, weights none of which is at its special first value)."""

import dataclasses

import numpy as np
import scored_policies

from drl_cli.policies import filters
from drl_cli.policies.nets import Residual
from drl_cli.policies.policy_spec import ActionSpec, Conv, Dense, DiscreteSpec, NetSpec, PolicySpec, ValueSpec

BOX = ActionSpec((-2.0, 0.0), (2.0, 1.0))
GAUSSIAN, CONVS = (("mean", 2), ("log_std", 2)), (Conv(4, 3, 2), Conv(5, 4, 1, "elu", "valid"))


def _net(heads, size=5, **more):
    return NetSpec(
        "policy", (("obs", size),), **({"layers": (Dense(7, "tanh"), Dense(6, "swish"))} | more), heads=heads
    )


def _box(distribution, heads=GAUSSIAN, action=BOX, **more):
    return PolicySpec((_net(heads, **more),), distribution, (5,), action)


def _q(heads, value, mask=(), **more):
    return PolicySpec((_net(heads, **more),), "q", (5,), DiscreteSpec(3, -1), value=value, mask=mask)


def _image(dtype, frames=1, **more):
    shape = (9, 11, 3 * frames)
    net = _net((("q", 3),), int(np.prod(shape)), layers=(Dense(7),), image=shape, convs=CONVS, **more)
    return PolicySpec((net,), "q", (9, 11, 3), DiscreteSpec(3), obs_dtype=dtype, frames=frames, value=ValueSpec())


PLAIN = {
    "squashed_gaussian": _box("squashed_gaussian"),
    "state-dependent exploration": _box("squashed_gaussian", sde=True),
    "deterministic, batch and layer normalisation": _box(
        "deterministic", (("mean", 2),), layers=(Dense(7, "elu", True), Dense(6)), batch_norm=True
    ),
    "squashed gaussian, kernels of unit length": _box(
        "squashed_gaussian", layers=(Dense(7, "elu"), Dense(6)), batch_norm=True, unit_kernels=True
    ),
    "deterministic, residual blocks": _box("deterministic", (("mean", 2),), layers=(Residual(6, 2, "relu"),)),
    "gaussian that is neither scaled nor clipped": _box(
        "gaussian", action=ActionSpec((-2.0, 0.0), (2.0, 1.0), False, False)
    ),
    "linear, as of ES and ARS": _box("gaussian", layers=(), free_heads=("log_std",)),
    "q": _q((("q", 3),), ValueSpec()),
    "dueling, noisy, categorical": _q(
        (("value", 11), ("advantage", 33)),
        ValueSpec("categorical", 11, -3.0, 5.0),
        head_layers=(Dense(4, "relu", False, True),),
        noisy_heads=True,
    ),
    "quantile with a mask": _q((("q", 15),), ValueSpec("quantile", 5), mask=(2, 3)),
    "board beside its mask": PolicySpec(
        (
            _net(
                (("q", 3),),
                29,
                layers=(Dense(7),),
                image=(4, 3, 2),
                image_at=3,
                convs=(Conv(4, 3, 1, "relu", "valid"),),
            ),
        ),
        "q",
        (29,),
        DiscreteSpec(3),
        value=ValueSpec(),
        mask=(0, 3),
    ),
    "image of bytes": _image("uint8"),
    "image of bytes from 0 to 1, three frames": _image("uint8", 3, zero_mean=False),
    "image of floats": _image("float32"),
}
SCORED = {
    "gaussian": {},
    "gaussian, LSTM that sees what it did": {"lstm": 4, "lstm_use_prev_action_reward": True},
    "categorical": {"share": True},
    "categorical, LSTM that sees what it did": {"lstm": 4, "lstm_use_prev_action_reward": True},
    "masked": {},
    "multi_categorical": {},
    "multi_categorical, LSTM that sees what it did": {"lstm": 4, "lstm_use_prev_action_reward": True},
    "multi_bernoulli": {},
    "multi_bernoulli, LSTM that sees what it did": {"lstm": 4, "lstm_use_prev_action_reward": True},
    "masked, LSTM": {"lstm": 4},
}
FILTERED = ("squashed_gaussian", "quantile with a mask", "linear, as of ES and ARS")
NAMES = [*PLAIN, *SCORED, *(f"{name}, filtered" for name in FILTERED)]


def made(name):
    """Return (PolicySpec, {name: float32 array})."""
    if name in SCORED:
        return scored_policies.made(name.split(",")[0], **SCORED[name])
    spec = PLAIN[name.removesuffix(", filtered")]
    rng = np.random.default_rng(1)
    net = spec.nets[0]
    weights = {n: w + rng.normal(0, 0.3, w.shape).astype("f4") for n, w in net.initial_weights(rng).items()}
    weights = {n: np.abs(w) + 0.5 if n.endswith("/var") else w for n, w in weights.items()}
    if name.endswith(", filtered"):
        spec = dataclasses.replace(spec, filter=True)
        mean, var = np.float32([1, -2, 0, 0, 5]), np.float32([4, 0.25, 1, 1, 100])
        if spec.mask:
            mean[2:5], var[2:5] = 0, 1
        weights |= {filters.MEAN: mean, filters.VAR: var}
    assert spec.misfit() is None
    return spec, weights
