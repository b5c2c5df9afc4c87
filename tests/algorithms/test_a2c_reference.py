"""A2C and PG against a slow one in float64, microbatches and towers against the whole, and what is refused."""

import numpy as np
import pytest
from batch_machine import BatchMachine, config
from pydantic import ValidationError
from slow_trajectories import Slow, compare

pytestmark = pytest.mark.tensorflow

LSTM = {"model": {"use_lstm": True, "lstm_cell_size": 2, "max_seq_len": 2}}
PLAIN = {"use_critic": False, "batch_mode": "complete_episodes"}

CASES = {
    "A2C": ("A2C", "Box", {"entropy_coeff": 0.1}),
    "A2C, Discrete, shared layers, clipped": ("A2C", "Discrete", {"vf_share_layers": True, "grad_clip": 0.1}),
    "A2C, standardised": ("A2C", "Box", {"standardize_advantages": True}),
    "A2C with an LSTM": ("A2C", "Discrete", LSTM),
    "PG with a baseline": ("PG", "Discrete", {}),
    "PG": ("PG", "Box", PLAIN | {"standardize_advantages": False}),
}


def slow_step(made, slow, batch):
    """One gradient step on the means; returns the mean loss."""
    judged = slow.judge(batch)
    if made.standardize_advantages:
        slow.standardize(judged)

    def loss(heads, value, action, logp, old):
        found = -slow.logp(heads, action) * old["advantage"] - made.entropy_coeff * slow.entropy(heads)
        if made.use_critic:
            found += made.vf_loss_coeff * (value - old["target"]) ** 2 / 2
        return found

    return slow.descend(batch, range(batch["mask"].size // slow.sequence), judged, loss)


@pytest.mark.parametrize(("row", "kind", "keys"), CASES.values(), ids=CASES)
def test_learning_from_a_batch_matches_the_papers_in_float64(row, kind, keys):
    made = config(row, **keys)
    with BatchMachine(row, made, kind) as machine:
        slow = Slow(machine)
        for number in range(2):
            batch = machine.batch(seed=number)
            out = machine.learn(batch)
            total = slow_step(made, slow, {name: np.float64(values) for name, values in batch.items()})
            np.testing.assert_allclose(out.stats["total_loss"], total, rtol=1e-3, atol=1e-4)
            assert (out.updates, out.finite) == (1, True)
        compare(machine, slow)


SPLITS = {
    "microbatches": {"microbatch_size": 5, "train_batch_size": 12},
    "towers": {"num_gpus": 2.0, "_fake_gpus": True},
    "both": {"microbatch_size": 5, "train_batch_size": 12, "num_gpus": 3.0, "_fake_gpus": True},
}


@pytest.mark.parametrize("more", [{}, LSTM], ids=["dense", "lstm"])
@pytest.mark.parametrize("split", SPLITS.values(), ids=SPLITS)
def test_gradient_in_pieces_is_that_of_the_whole(split, more):
    found = []
    for keys in ({}, split):
        with BatchMachine("A2C", config("A2C", grad_clip=0.2, **more, **keys)) as machine:
            stats = machine.learn(machine.batch()).stats
            found.append(machine.values() | {f"stat {name}": value for name, value in stats.items()})
    for name, value in found[0].items():
        np.testing.assert_allclose(found[1][name], value, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("row", ["A2C", "PG"])
def test_batch_without_a_valid_step_and_one_that_is_not_finite_change_nothing(row):
    with BatchMachine(row, config(row)) as machine:
        before, batch = machine.values(), machine.batch()
        empty = machine.learn(batch | {"mask": np.zeros_like(batch["mask"])})
        infinite = machine.learn(batch | {"reward": np.where(batch["mask"] > 0, np.inf, 0.0)})
        after = machine.values()
    assert (empty.updates, empty.finite, infinite.updates, infinite.finite) == (0, True, 0, False)
    assert [name for name in before if not np.array_equal(before[name], after[name])] == []


def test_pg_without_a_critic_leaves_the_value_alone():
    with BatchMachine("PG", config("PG", **PLAIN)) as machine:
        before = machine.values()
        machine.learn(machine.batch())
        changed = {name for name, value in machine.values().items() if not np.array_equal(value, before[name])}
    # Adam's counter apart, nothing of the value's moves
    assert changed and not [name for name in changed if "value/" in name]


@pytest.mark.parametrize("row", ["PG", "A2C", "PPO"])
def test_cut_returns_are_never_taken_for_whole_ones(row):
    with pytest.raises(ValidationError, match="nothing stands in for what a cut episode"):
        config(row, use_critic=False, use_gae=False)
    assert config(row, use_critic=False, use_gae=False, batch_mode="complete_episodes").use_critic is False
