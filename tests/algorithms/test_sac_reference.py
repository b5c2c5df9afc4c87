"""SAC's update against a slow one in float64: the papers' losses written out, their gradients by finite differences."""

import pytest
from machine import spaces
from max_entropy_machine import ACTION, OBS, block, config, machine
from slow import SlowUpdate, compare, follow_targets
from slow_sac import Losses

pytestmark = pytest.mark.tensorflow

LAYER_NORM = {"fcnet_hiddens": (3,), "fcnet_activation": "tanh", "layer_norm": True}
RESIDUAL = {"fcnet_hiddens": (3,), "fcnet_activation": "tanh", "residual_blocks": True}
CASES = {
    "plain": {},
    "single critic": {"twin_q": False},
    "layer norm": {"Q_model": LAYER_NORM, "policy_model": LAYER_NORM},
    "residual blocks": {"Q_model": RESIDUAL, "policy_model": RESIDUAL, "twin_q": False},
    "policy delay": {"policy_delay": 2},
    "clipped": {"grad_clip": 0.05},
    "target entropy a number": {"target_entropy": 0.5},
    "entropy not in the targets": {"backup_entropy": False},
    "bounds of the environment": {"normalize_actions": False},
    "prioritized": {"prioritized_replay": True},
    "state-dependent exploration": {"use_sde": True, "log_std_init": -0.5},
    "several": {
        "twin_q": False,
        "Q_model": LAYER_NORM,
        "policy_model": LAYER_NORM,
        "policy_delay": 2,
        "prioritized_replay": True,
    },
    "several others": {"grad_clip": 0.05, "target_entropy": 0.5, "backup_entropy": False, "normalize_actions": False},
}


@pytest.mark.parametrize("keys", CASES.values(), ids=CASES)
def test_update_matches_the_papers_in_float64(keys):
    made = config("sac", tau=0.2, **keys)
    low, high = (-1.0, 3.0) if keys.get("normalize_actions") is False else (-1.0, 1.0)
    with machine("sac", made, spaces(OBS, ACTION, low, high)) as started:
        slow = SlowUpdate(made, started.values(), Losses(made, low, high), follow_targets(0.2))
        assert compare(started, slow, block("sac", made), updates=3) == 3
