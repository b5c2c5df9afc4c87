"""What the tests of scored policies share: specs and nets over every kind of action, with and without a mask."""

from types import SimpleNamespace

import numpy as np

from drl_cli.algorithms import actor_critic_nets
from drl_cli.policies.policy_spec import (
    ActionSpec,
    CompositeSpec,
    DiscreteSpec,
    MultiBinarySpec,
    MultiDiscreteSpec,
    PolicySpec,
)

OBS, ROWS = 6, 5
ACTIONS = {
    "gaussian": ActionSpec((-2.0, 0.0), (2.0, 1.0)),
    "categorical": DiscreteSpec(3, 2),
    "masked": DiscreteSpec(3),
    "multi_categorical": MultiDiscreteSpec((2, 4, 3), (0, 1, -5)),
    "multi_bernoulli": MultiBinarySpec(3),
}
ACTIONS["composite"] = CompositeSpec(
    tuple(ACTIONS[part] for part in ("categorical", "gaussian", "multi_categorical", "multi_bernoulli"))
)
SPACES = {
    "gaussian": {"kind": "Box", "shape": [2], "low": [-2.0, 0.0], "high": [2.0, 1.0]},
    "categorical": {"kind": "Discrete", "n": 3, "start": 2},
    "masked": {"kind": "Discrete", "n": 3, "start": 0},
    "multi_categorical": {"kind": "MultiDiscrete", "nvec": [2, 4, 3], "start": [0, 1, -5]},
    "multi_bernoulli": {"kind": "MultiBinary", "n": 3},
}
SPACES["composite"] = {
    "kind": "Composite",
    "parts": [
        {"path": [at], **SPACES[part]}
        for at, part in enumerate(("categorical", "gaussian", "multi_categorical", "multi_bernoulli"))
    ],
}
MASK = (2, 3)


def bare(name):
    """Return a PolicySpec without nets, as distributions want it."""
    return PolicySpec((), name.replace("masked", "categorical"), (OBS,), ACTIONS[name], scored=True)


def heads(name, seed=0, rows=ROWS):
    """Return {head: float32 [rows, size]}; of "masked" with "allowed", one action alone in the first row."""
    rng = np.random.default_rng(seed)
    size = ACTIONS[name].size
    if name == "composite":
        return {head: rng.normal(0, 2, (rows, width)).astype(np.float32) for head, width in ACTIONS[name].heads()}
    if name == "gaussian":
        drawn = rng.normal(0, 2, (2, rows, size)).astype(np.float32)
        return {"mean": drawn[0], "log_std": drawn[1]}
    found = {"logits": rng.normal(0, 2, (rows, size)).astype(np.float32)}
    if name == "masked":
        allowed = np.random.default_rng(7).random((rows, size)) < 0.5
        allowed[0], allowed[1:, 0] = [False, True, False], True
        found["allowed"] = allowed
    return found


def config(share=False, lstm=0, free=False, **more):
    """Return what the nets of an actor-critic read of a config."""
    model = {
        "fcnet_hiddens": (8, 7),
        "fcnet_activation": "tanh",
        "layer_norm": False,
        "residual_blocks": False,
        "use_lstm": lstm > 0,
        "lstm_cell_size": lstm or 1,
        "free_log_std": free,
        "log_std_init": 0.0,
        "log_std_min": -20.0,
        "lstm_use_prev_action_reward": False,
        "custom_model": None,
        "custom_action_dist": None,
    }
    rest = {"observation_filter": "NoFilter", "reward_scaling": False, "normalize_actions": True, "clip_actions": True}
    return SimpleNamespace(model=SimpleNamespace(**(model | more)), vf_share_layers=share, **rest)


def made(name, **keys):
    """Return (PolicySpec, its initial weights, moved a little so that nothing is at its special first value)."""
    asked = config(**keys)
    spaces = {"obs": {"kind": "Box", "shape": [OBS], "dtype": "float32"}, "action": SPACES[name]}
    if name == "masked":
        spaces["mask"] = list(MASK)
    spec = actor_critic_nets.policy_spec(asked, spaces)
    rng = np.random.default_rng(3)
    weights = actor_critic_nets.initial_weights(asked, spec, 1)
    return spec, {n: (w + rng.normal(0, 0.3, w.shape)).astype(np.float32) for n, w in weights.items()}
