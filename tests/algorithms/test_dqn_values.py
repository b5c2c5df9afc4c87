"""What DQN's values converge to in a world whose values are known."""

import numpy as np
import pytest
from dqn_machine import config, machine
from machine import discrete_spaces

from drl_cli.policies.numpy_policy import NumpyPolicy

pytestmark = pytest.mark.tensorflow

LOOP, CUT, FIRST, LAST, CHOICE = range(5)
SUPPORT = {"num_atoms": 41, "v_min": -4.0, "v_max": 16.0}


def _synthetic(made, rng):
    """Transitions between five states (one-hot) with two actions, drawn evenly.

    LOOP and CUT pay 1 for ever, CUT behind a truncation: whatever is done leads to LOOP, at a discount of 0.9. FIRST leads
    to LAST, which ends. CHOICE ends with the action as its reward.
    """
    lead = (made.updates_per_call, made.train_batch_size)
    state, action = rng.integers(0, 5, lead), rng.integers(0, 2, lead, dtype=np.int32)
    following = np.array([LOOP, LOOP, LAST, LAST, CHOICE])[state]
    reward = np.where(state == CHOICE, action, np.float32([1.0, 1.0, 1.0, 2.0, 0.0])[state])
    one_hot = np.eye(5, dtype=np.float32)
    return {
        "obs": one_hot[state],
        "action": action,
        "reward": reward.astype(np.float32),
        "discount": np.float32([0.9, 0.9, 0.9, 0.0, 0.0])[state],
        "next_obs": one_hot[following],
    }


@pytest.mark.parametrize(
    "keys",
    [{}, {"double_q": True, "dueling": True}, SUPPORT | {"double_q": True}, {"n_quantiles": 5}],
    ids=["plain", "double dueling", "atoms", "quantiles"],
)
def test_values_reach_those_of_a_synthetic_world(keys):
    """Reward 1 for ever at gamma 0.9 is worth 10, also from behind a truncation; a real end is worth its exact sum."""
    shape = {"fcnet_hiddens": (32,), "hiddens": (), "train_batch_size": 64, "updates_per_call": 50}
    made = config(**shape, tau=0.1, training_intensity=64.0, **keys)
    rng = np.random.default_rng(0)
    with machine(made, discrete_spaces(5, 2), xla=True) as running:
        for rate in [1e-2] * 24 + [1e-3] * 10:
            assert running.run(_synthetic(made, rng), 50, lr=rate)["finite"]
        values = running.values()
    policy = NumpyPolicy(running.spec, {name: values[name] for name in running.spec.weight_names()})
    q = policy.q_values(np.eye(5, dtype=np.float32))
    np.testing.assert_allclose(q[[LOOP, CUT]], 10.0, atol=0.3)
    np.testing.assert_allclose(q[FIRST], 2.8, atol=0.1)  # 1 + 0.9·2
    np.testing.assert_allclose(q[LAST], 2.0, atol=0.1)
    np.testing.assert_allclose(q[CHOICE], [0.0, 1.0], atol=0.1)
