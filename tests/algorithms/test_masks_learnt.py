"""Learning honours action masks: the next action that a target believes in is one of those that the next observation allows."""

import dqn_machine
import max_entropy_machine
import numpy as np
import pytest
import r2d2_machine
from machine import Machine, discrete_spaces

from drl_cli.algorithms import iql, iql_graph, r2d2, r2d2_graph
from drl_cli.algorithms.iql import IQLConfig

pytestmark = pytest.mark.tensorflow

N, START = 3, 1  # actions; the mask in observations of 1 + 3 numbers
SPACES = discrete_spaces(1 + N, N) | {"mask": [START, N]}
ALLOWED = np.float32([0.0, 1.0, 1.0])
Q = np.float32([5.0, 1.0, 2.0])  # the best action is the one that is never allowed


def _constant(machine, **biases):
    """Let every net be constant: all weights 0, but for ``biases`` by the ends of their names."""
    values = {name: np.zeros_like(value) for name, value in machine.values().items()}
    for name in values:
        for end, value in biases.items():
            if name.endswith(end.replace("__", "/")):
                values[name] = np.asarray(value, values[name].dtype)
    machine.set(**values)


def _masked(block):
    for name in ("obs", "next_obs"):
        if name in block:
            block[name][..., START:] = ALLOWED
    return block


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("atoms", [{}, {"n_quantiles": 2}])
def test_target_of_dqn_is_the_best_allowed_value(double, atoms):
    made = dqn_machine.config(double_q=double, updates_per_call=1, **atoms)
    block = _masked(dqn_machine.random_block(made, 1 + N, N))
    expected = (block["reward"] + block["discount"] * 2.0 - Q[block["action"]]).mean()
    with dqn_machine.machine(made, SPACES) as machine:
        assert machine.spec.mask == (START, N)
        _constant(machine, q__bias=np.repeat(Q, 2 if atoms else 1))
        found = machine.run(block, 1)["stats"]["mean_td_error"]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_target_of_r2d2_is_the_best_allowed_value():
    made = r2d2_machine.config(updates_per_call=1, use_h_function=False)
    block = r2d2_machine.random_block(made)
    block["obs"] = np.zeros((*block["obs"].shape[:-1], 1 + N), np.float32)
    block["obs"][..., START:] = ALLOWED
    error = block["reward"] + block["discount"] * 2.0 - Q[block["action"]]
    expected = (error * block["mask"]).sum() / block["mask"].sum()
    with Machine(made, SPACES, 5, False, modules=(r2d2, r2d2_graph), rates={"lr": 1e-2}) as machine:
        # Dueling streams: the advantages' mean is taken off again.
        _constant(machine, advantage__bias=Q, value__bias=[Q.mean()])
        found = machine.run(block, 1)["stats"]["mean_td_error"]
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("asked", [None, 0.25])
def test_soft_policy_spreads_over_what_is_allowed_and_its_entropy_target_knows_how_much_that_is(asked):
    made = max_entropy_machine.config("discrete", target_entropy=asked, updates_per_call=1)
    block = max_entropy_machine.block("discrete", made)
    for name in ("obs", "next_obs"):
        block[name] = np.zeros((*block[name].shape[:-1], 1 + N), np.float32)
    with max_entropy_machine.machine("discrete", made, _masked(block) and SPACES) as machine:
        _constant(machine, log_alpha=1.0)
        stats = machine.run(block, 1)["stats"]
        after = machine.values()
    target = made.target_entropy_fraction * np.log(2.0) if asked is None else 0.25
    np.testing.assert_allclose(stats["policy_entropy"], np.log(2.0), rtol=1e-5)
    np.testing.assert_allclose(stats["alpha_loss"], np.log(2.0) - target, rtol=1e-4)
    assert all(np.isfinite(value).all() for value in after.values())
    assert (after["policy/logits/bias"][0] == 0.0) and after["num_updates"] == 1


def test_soft_maximum_of_cql_is_over_what_is_allowed():
    made = max_entropy_machine.config("cql discrete", updates_per_call=1)
    block = max_entropy_machine.block("cql discrete", made)
    for name in ("obs", "next_obs"):
        block[name] = np.zeros((*block[name].shape[:-1], 1 + N), np.float32)
    block["action"] = 1 + block["action"] % 2  # what is allowed is what can have been recorded
    with max_entropy_machine.machine("cql discrete", made, _masked(block) and SPACES) as machine:
        _constant(machine, q__bias=np.tile(Q, (2, 1)))
        stats = machine.run(block, 1)["stats"]
    expected = np.log(np.exp(1.0) + np.exp(2.0)) - Q[block["action"]].mean()
    np.testing.assert_allclose(stats["cql_gap"], expected, rtol=1e-5)


def test_policy_of_iql_weighs_recorded_actions_against_what_is_allowed():
    made = IQLConfig(train_batch_size=4, updates_per_call=1)
    block = _masked(dqn_machine.random_block(dqn_machine.config(updates_per_call=1), 1 + N, N))
    block["action"][:] = 1
    rates = dict.fromkeys(iql_graph.RATES, 1e-2)
    with Machine(made, SPACES, 5, False, modules=(iql, iql_graph), rates=rates) as machine:
        _constant(machine)
        stats = machine.run(block, 1)["stats"]
        bias = machine.values()["policy/logits/bias"]
    np.testing.assert_allclose(stats["data_logp"], -np.log(2.0), rtol=1e-5)
    assert bias[0] == 0.0 and bias[1] > 0.0 > bias[2]
