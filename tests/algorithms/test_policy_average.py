"""The running average of the policy that is trained, of rows that learn from trajectories."""

import numpy as np
import pytest
from batch_machine import BatchMachine, config
from team_spaces import team_spaces

pytestmark = pytest.mark.tensorflow

ONE_STEP = {"train_batch_size": 12, "num_sgd_iter": 1}
ROWS = {
    "PPO": ONE_STEP | {"sgd_minibatch_size": 12, "kl_coeff": 0.2},
    "PPO shared": ONE_STEP | {"sgd_minibatch_size": 12, "vf_share_layers": True},
    "MAPPO": ONE_STEP | {"sgd_minibatch_size": 24},
    "IMPALA": ONE_STEP,
    "APPO": ONE_STEP,
    "A2C": {"train_batch_size": 12},
    "PG": {"train_batch_size": 12},
    "TRPO": {"train_batch_size": 12, "max_kl": 0.1, "sgd_minibatch_size": 12, "vf_iterations": 1},
}


def machine_of(name, average):
    """Return the machine of a row of ``ROWS`` whose weights are averaged with ``average``."""
    row = name.split()[0]
    kind = team_spaces((3, 2), (2, 2), 2, box=True) if row == "MAPPO" else "Box"
    return BatchMachine(row, config(row, policy_average=average, **ROWS[name]), kind)


@pytest.mark.parametrize("name", ROWS)
def test_what_is_published_is_the_running_average_of_what_learns(name):
    with machine_of(name, 0.75) as machine:
        acting = machine.values()
        for seed in range(3):
            out = machine.learn(machine.batch(seed), lr=0.1)
            assert (int(out.updates) >= 1, bool(out.finite)) == (True, True)
            after = machine.values()
            for weight in machine.initial:
                learnt = after["learnt_" + weight]
                expected = 0.75 * acting[weight] + 0.25 * learnt
                np.testing.assert_allclose(after[weight], expected, rtol=1e-5, atol=1e-6, err_msg=weight)
            acting = after
        assert any(np.abs(acting["learnt_" + weight] - acting[weight]).max() > 0.01 for weight in machine.initial)
        names = {published.split("/", 1)[1] for published in machine.graph.published}
        assert names == set(machine.spec.weight_names())


@pytest.mark.parametrize("name", ROWS)
def test_first_batch_teaches_the_same_with_and_without_an_average(name):
    with machine_of(name, 0.0) as machine:
        machine.learn(machine.batch(), lr=0.1)
        plain = machine.values()
    with machine_of(name, 0.75) as machine:
        machine.learn(machine.batch(), lr=0.1)
        averaged = machine.values()
    for weight in machine.initial:
        np.testing.assert_array_equal(averaged["learnt_" + weight], plain[weight], err_msg=weight)


def test_divergence_is_that_from_the_policy_that_sampled():
    made = config("PPO", policy_average=0.75, **ROWS["PPO"])
    with BatchMachine("PPO", made) as machine:
        machine.learn(machine.batch(), lr=0.1)
        moved = machine.learn(machine.batch(1), lr=0.0)
        after = machine.values()
        machine.set(**{weight: after["learnt_" + weight] for weight in machine.initial})
        same = machine.learn(machine.batch(1), lr=0.0)
    assert moved.stats["first_kl"] > 1e-4
    assert same.stats["first_kl"] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("name", ROWS)
def test_workers_sample_with_the_trained_weights_where_nothing_corrects_for_the_average(name):
    with machine_of(name, 0.75) as machine:
        sampled = dict(machine.graph.sampled)
        published = set(machine.graph.published)
    if name.split()[0] in ("PPO", "MAPPO"):  # whose ratios and divergences are measured from the average
        assert sampled == {}
    else:
        assert set(sampled) == published
        for one, trained in sampled.items():
            scope, _, weight = one.partition("/")
            assert trained == f"{scope}/learnt_{weight}"
