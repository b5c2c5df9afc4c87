"""DQN's graph in a session of its own, for tests: ``machine(config(…), spaces)``, and blocks of transitions for it."""

import numpy as np
from machine import Machine

from drl_cli.algorithms import dqn, dqn_graph
from drl_cli.algorithms.dqn import DQNConfig, QRDQNConfig, ValueNetwork

RATE = 1e-2
VARIANTS = {
    "plain": {},
    "double dueling": {"double_q": True, "dueling": True},
    "atoms": {"num_atoms": 5, "v_min": -2.0, "v_max": 3.0, "double_q": True, "dueling": True},
    "quantiles": {"n_quantiles": 3},
}


MODEL = {"fcnet_hiddens": (3,), "fcnet_activation": "tanh", "layer_norm": False}


def config(**keys):
    """Return a DQNConfig, or a QRDQNConfig if ``n_quantiles`` is given, of a small net and batch.

    Without DQN's extensions unless asked for; keys of ``model`` stand beside the others.
    """
    model = MODEL | {name: keys.pop(name) for name in (*MODEL, "conv_filters") if name in keys}
    defaults = {
        "model": ValueNetwork(**model),
        "dueling": False,
        "hiddens": (2,),
        "double_q": False,
        "target_network_update_freq": 0,
        "training_intensity": 4.0,  # one update per env step
        "train_batch_size": 4,
        "updates_per_call": 8,
        "prioritized_replay": False,
        "grad_clip": None,
    }
    kind = QRDQNConfig if "n_quantiles" in keys else DQNConfig
    return kind(**(defaults | keys))


def machine(made, of_spaces, seed=5, xla=False):
    """Return a Machine of DQN's graph."""
    return Machine(made, of_spaces, seed, xla, modules=(dqn, dqn_graph), rates={"lr": RATE})


def random_block(made, obs, n, seed=0):
    """Return a block of random transitions of every kind of discount; ``obs``: numbers, or the shape of an image."""
    rng = np.random.default_rng(seed)
    lead = (made.updates_per_call, made.train_batch_size)

    def seen():
        if isinstance(obs, tuple):
            return rng.integers(0, 256, (*lead, *obs), dtype=np.uint8)
        return rng.normal(0, 1, (*lead, obs)).astype(np.float32)

    block = {
        "obs": seen(),
        "action": rng.integers(0, n, lead, dtype=np.int32),
        "reward": rng.normal(0, 1, lead).astype(np.float32),
        "discount": rng.choice(np.float32([0.0, 0.9, 0.81]), lead),
        "next_obs": seen(),
    }
    if made.prioritized_replay:
        block["weight"] = rng.uniform(0.2, 1.0, lead).astype(np.float32)
    return block
