"""R2D2's graph in a session of its own, for tests: ``machine(config(…))``, and blocks of sequences for it."""

import numpy as np
from machine import Machine, discrete_spaces

from drl_cli.algorithms import r2d2, r2d2_graph
from drl_cli.algorithms.r2d2 import R2D2Config

RATE = 1e-2
OBS, ACTIONS, CELLS, ROWS = 2, 3, 3, 4


def config(**keys):
    """Return an R2D2Config of a small net and short sequences, one update per env step, without XLA."""
    model = {"fcnet_hiddens": [3], "fcnet_activation": "tanh", "lstm_cell_size": CELLS, "max_seq_len": 4}
    small = {
        "hiddens": [2],
        "train_batch_size": ROWS,
        "updates_per_call": 4,
        "training_intensity": float(ROWS),
        "target_network_update_freq": 0,
        "grad_clip": None,
        "burn_in": 2,
        "n_step": 2,
        "xla": False,
    }
    return R2D2Config.model_validate(small | keys | {"model": model})


def machine(made, seed=5, xla=False):
    """Return a Machine of R2D2's graph."""
    return Machine(made, discrete_spaces(OBS, ACTIONS), seed, xla, modules=(r2d2, r2d2_graph), rates={"lr": RATE})


def random_block(made, seed=0):
    """Return a block of random sequences: episodes that begin in the burn-in, end among the learnt steps, or do neither."""
    rng = np.random.default_rng(seed)
    lead, learnt = (made.updates_per_call, made.train_batch_size), made.model.max_seq_len
    whole = made.burn_in + learnt + made.n_step
    ends = rng.integers(1, learnt + made.n_step + 3, lead)[
        ..., None
    ]  # steps of the episode from the first learnt one on
    left = np.maximum(ends - np.arange(learnt), 0)
    ahead = np.minimum(left, made.n_step)
    mask = (left > 0).astype(np.float32)
    dead = (left <= made.n_step) & (rng.random(lead) < 0.6)[..., None]
    begins = np.zeros((*lead, whole), np.float32)
    first = rng.integers(0, made.burn_in + 3, lead)
    for at in map(tuple, np.argwhere(first <= made.burn_in)):
        begins[(*at, first[at])] = 1.0
    block = {
        "obs": rng.normal(0, 2, (*lead, whole, OBS)).astype(np.float32),
        "begins": begins,
        "action": rng.integers(0, ACTIONS, (*lead, learnt), dtype=np.int32) * mask.astype(np.int32),
        "reward": (rng.normal(0, 3, (*lead, learnt)) * mask).astype(np.float32),
        "discount": np.where(dead, 0.0, 0.9**ahead).astype(np.float32) * mask,
        "ahead": ahead.astype(np.int32),
        "mask": mask,
    }
    if not made.zero_init_states:
        block |= {f"state_{index}": rng.normal(0, 0.5, (*lead, CELLS)).astype(np.float32) for index in (0, 1)}
    if made.prioritized_replay:
        block["weight"] = rng.uniform(0.2, 1.0, lead).astype(np.float32)
    return block
