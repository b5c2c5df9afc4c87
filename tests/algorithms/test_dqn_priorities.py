"""A worker's first priorities are the learner's for the same transitions, where the targets equal the acting net."""

import numpy as np
import pytest
from dqn_machine import config, machine, random_block
from machine import discrete_spaces

from drl_cli.acting.policy import NumpyPolicy
from drl_cli.acting.priorities import ROWS, first_priorities
from drl_cli.algorithms import describing

COLUMNS = ("obs", "action", "reward", "discount", "next_obs")
CASES = {
    "means": {"dueling": True},
    "double": {"double_q": True},
    "atoms": {"num_atoms": 11, "v_min": -2.0, "v_max": 2.0, "dueling": True, "double_q": True},
    "quantiles": {"n_quantiles": 5, "double_q": True},
    "images": {"double_q": True},
}


@pytest.mark.parametrize("case", CASES)
def test_worker_and_learner_agree_where_targets_equal_the_acting_net(monkeypatch, case):
    filters = ((4, 3, 2, "same"), (5, 4, 1, "valid"))
    monkeypatch.setattr(describing, "conv_filters", lambda model, height, width: filters)
    made = config(train_batch_size=ROWS + 36, updates_per_call=2, training_intensity=100.0, **CASES[case])
    obs = (8, 8, 1) if case == "images" else 2
    block = random_block(made, obs, 3)
    with machine(made, discrete_spaces(obs, 3)) as running:
        running.run(block, 2)  # tau 1 at every update: the targets are the net
        values = running.values()
        learner = running.run(block, 1)["rows"]["priority"][0]
    policy = NumpyPolicy(running.spec, {name: values[name] for name in running.spec.weight_names()})
    worker = first_priorities(policy, *(block[name][0] for name in COLUMNS))
    np.testing.assert_allclose(worker, learner, rtol=1e-4, atol=1e-5)
    assert learner.std() > 0.03
