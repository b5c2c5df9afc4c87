"""A worker's first priorities are the learner's for the same transitions, where the targets equal what acts."""

import dqn_machine
import machine
import numpy as np
import pytest

from drl_cli.actors.initial_priorities import ROWS, first_priorities
from drl_cli.algorithms import ddpg, ddpg_graph
from drl_cli.algorithms.ddpg import DDPGConfig
from drl_cli.config.sections.model import Vision
from drl_cli.policies.numpy_policy import NumpyPolicy

pytestmark = pytest.mark.tensorflow

COLUMNS = ("obs", "action", "reward", "discount", "next_obs")
SIZES = {"train_batch_size": ROWS + 36, "updates_per_call": 2, "training_intensity": 100.0}
FILTERS = ((4, 3, 2), (5, 4, 1))
IMAGE = (8, 8, 1)
OF_VALUES = {
    "means": {"dueling": True},
    "double": {"double_q": True},
    "atoms": {"num_atoms": 11, "v_min": -2.0, "v_max": 2.0, "dueling": True, "double_q": True},
    "quantiles": {"n_quantiles": 5, "double_q": True},
    "images": {"double_q": True, "conv_filters": FILTERS},
}


def _priorities_of_both(running, block):
    """Return (worker's, learner's) for the first batch after two updates that end with equal targets."""
    running.run(block, 2)
    values = running.values()
    learner = running.run(block, 1)["rows"]["priority"][0]
    policy = NumpyPolicy(running.spec, {name: values[name] for name in running.spec.weight_names()})
    return first_priorities(policy, *(block[name][0] for name in COLUMNS)), learner


@pytest.mark.parametrize("case", OF_VALUES)
def test_worker_and_learner_agree_on_action_values(case):
    made = dqn_machine.config(**SIZES, **OF_VALUES[case])
    obs = IMAGE if case == "images" else 2
    with dqn_machine.machine(made, machine.discrete_spaces(obs, 3)) as running:
        worker, learner = _priorities_of_both(running, dqn_machine.random_block(made, obs, 3))
    np.testing.assert_allclose(worker, learner, rtol=1e-4, atol=1e-5)
    assert learner.std() > 0.03


@pytest.mark.parametrize("twin_q", [True, False])
@pytest.mark.parametrize("obs", [2, IMAGE], ids=["vectors", "images"])
def test_worker_and_learner_agree_on_the_mean_over_critics(obs, twin_q):
    keys = {"actor_hiddens": (8,), "critic_hiddens": (8,), "tau": 1.0, "model": Vision(conv_filters=FILTERS)}
    made = DDPGConfig(prioritized_replay=True, worker_side_prioritization=True, twin_q=twin_q, **SIZES, **keys)
    spaces = machine.spaces(2, 2, -1.0, 3.0) | {"obs": machine.discrete_spaces(obs, 3)["obs"]}
    rng = np.random.default_rng(0)
    block = machine.random_block(made, 2, 2) | {"weight": np.ones((2, ROWS + 36), np.float32)}
    if obs == IMAGE:
        block |= {name: rng.integers(0, 256, (2, ROWS + 36, *IMAGE), np.uint8) for name in ("obs", "next_obs")}
    rates = {"actor_lr": 1e-2, "critic_lr": 2e-2}
    with machine.Machine(made, spaces, modules=(ddpg, ddpg_graph), rates=rates) as running:
        worker, learner = _priorities_of_both(running, block)
    np.testing.assert_allclose(worker, learner, rtol=1e-4, atol=1e-5)
    assert learner.std() > 0.03
