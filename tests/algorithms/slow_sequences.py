"""Sequences of a replay for tests of RNNSAC and RNNTD3, and an LSTM over them in float64, a step at a time."""

import numpy as np
from max_entropy_machine import ACTION, OBS
from slow import affine

CELLS, ROWS, LEARNT = 3, 3, 3


def random_block(made, seed=0):
    """Return random sequences: episodes that begin in the burn-in, end among the learnt steps, or do neither."""
    rng, lead = np.random.default_rng(seed), (made.updates_per_call, made.train_batch_size)
    whole = made.burn_in + LEARNT + made.n_step
    ends = rng.integers(1, LEARNT + made.n_step + 2, lead)[
        ..., None
    ]  # steps of the episode from the first learnt one on
    left = np.maximum(ends - np.arange(LEARNT), 0)
    ahead, mask = np.minimum(left, made.n_step), (left > 0).astype(np.float32)
    begins = np.zeros((*lead, whole), np.float32)
    begins[:, 0, min(1, made.burn_in)] = 1.0
    dead = (left <= made.n_step) & (rng.random(lead) < 0.6)[..., None]
    block = {
        "obs": rng.normal(0, 1, (*lead, whole, OBS)).astype(np.float32),
        "begins": begins,
        "action": (rng.uniform(-0.9, 0.9, (*lead, LEARNT, ACTION)) * mask[..., None]).astype(np.float32),
        "reward": (rng.normal(0, 1, (*lead, LEARNT)) * mask).astype(np.float32),
        "discount": np.where(dead, 0.0, 0.9**ahead).astype(np.float32) * mask,
        "ahead": ahead.astype(np.int32),
        "mask": mask,
    }
    if not made.zero_init_states:
        block |= {f"state_{index}": rng.normal(0, 0.5, (*lead, CELLS)).astype(np.float32) for index in (0, 1)}
    if made.prioritized_replay:
        block["weight"] = rng.uniform(0.2, 1.0, lead).astype(np.float32)
    return block


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def remember(weights, net, obs, begins, state):
    """Return (outputs of the LSTM [steps, CELLS], the state after them) of ``net`` for ``obs`` [steps, OBS]."""
    found = []
    for seen, first in zip(obs, begins, strict=True):
        output, cell = (np.zeros(CELLS), np.zeros(CELLS)) if first else state
        x = np.tanh(affine(weights, f"{net}/dense_0", seen))
        into, keep, out, candidate = affine(weights, f"{net}/lstm", np.concatenate([x, output])).reshape(4, CELLS)
        cell = sigmoid(keep) * cell + sigmoid(into) * np.tanh(candidate)
        state = (sigmoid(out) * np.tanh(cell), cell)
        found.append(state[0])
    return np.array(found), state


def compare_paddings(start, block):
    """Compare updates from ``block`` with other values in its padding; ``start()`` returns a new Machine each time.

    Returns the names of what was compared. AssertionError where one differs.
    """
    other, pads = {name: values.copy() for name, values in block.items()}, block["mask"] == 0
    assert 3 < pads.sum() < pads.size - 3
    for name in ("action", "reward", "discount", "ahead"):
        other[name][pads] = {"ahead": 1}.get(name, 0.7)
    found = []
    for each in (block, other):
        with start() as running:
            out = running.run(each, len(each["mask"]))
            found.append({**out["stats"], **running.values(), "priority": out["rows"]["priority"]})
    for name, value in found[0].items():
        np.testing.assert_allclose(found[1][name], value, rtol=1e-4, atol=1e-6, err_msg=name)
    return set(found[0])
