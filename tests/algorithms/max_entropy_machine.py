"""The maximum-entropy algorithms in sessions of their own, for tests: ``machine(kind, keys)``, ``block(made)``, ``KINDS``."""

import numpy as np
from machine import RATES, Machine, discrete_spaces, spaces

from drl_cli.algorithms import cql_graph, crossq, crossq_graph, sac, sac_graph, tqc, tqc_graph, xqc, xqc_graph
from drl_cli.algorithms.cql import CQLConfig
from drl_cli.algorithms.crossq import CrossQConfig
from drl_cli.algorithms.sac import SACConfig
from drl_cli.algorithms.tqc import TQCConfig
from drl_cli.algorithms.xqc import XQCConfig
from drl_cli.config.sections.max_entropy import Optimization

OBS, ACTION, N, SEED = 2, 2, 3, 5
JOINT = (2, N)  # what the Discrete parts of Composite actions choose among; their Box part is between them
SPACES = {"Box": spaces(OBS, ACTION), "Discrete": discrete_spaces(OBS, N)}
PARTS = [discrete_spaces(OBS, JOINT[0])["action"], SPACES["Box"]["action"], SPACES["Discrete"]["action"]]
SPACES["Composite"] = SPACES["Box"] | {
    "action": {"kind": "Composite", "parts": [{"path": [at], **part} for at, part in enumerate(PARTS)]}
}
KINDS = {
    "sac": (SACConfig, (sac, sac_graph), "Box"),
    "discrete": (SACConfig, (sac, sac_graph), "Discrete"),
    "hybrid": (SACConfig, (sac, sac_graph), "Composite"),
    "tqc": (TQCConfig, (tqc, tqc_graph), "Box"),
    "crossq": (CrossQConfig, (crossq, crossq_graph), "Box"),
    "xqc": (XQCConfig, (xqc, xqc_graph), "Box"),
    "cql": (CQLConfig, (sac, cql_graph), "Box"),
    "cql discrete": (CQLConfig, (sac, cql_graph), "Discrete"),
}
_SMALL = {"tqc": {"n_quantiles": 3, "top_quantiles_to_drop_per_net": 1}, "crossq": {"policy_delay": 1}}
_SMALL["xqc"] = {"policy_delay": 1, "reward_scaling": False, "num_atoms": 5, "v_min": -2.0, "v_max": 3.0}
_SMALL |= dict.fromkeys(("cql", "cql discrete"), {"bc_iters": 0, "num_actions": 2})


def config(kind, **keys):
    """Return the config of ``kind`` with a small net and batch; ``hiddens`` and ``activation`` are those of both nets."""
    model = {"fcnet_hiddens": keys.pop("hiddens", (3,)), "fcnet_activation": keys.pop("activation", "tanh")}
    small = {"train_batch_size": 4, "updates_per_call": 8, "Q_model": model, "policy_model": model}
    given = small | {"optimization": Optimization(**RATES), "initial_alpha": 0.3} | _SMALL.get(kind, {}) | keys
    return KINDS[kind][0](**given)


def machine(kind, made, of_spaces=None, xla=False):
    """Return the Machine of ``kind`` for the config ``made``."""
    _, modules, actions = KINDS[kind]
    return Machine(made, of_spaces or SPACES[actions], SEED, xla, modules)


def block(kind, made, seed=0):
    """Return a block of random transitions of every kind of discount, with weights where the config asks for them."""
    rng = np.random.default_rng(seed)
    lead = (made.updates_per_call, made.train_batch_size)
    found = {
        "obs": rng.normal(0, 1, (*lead, OBS)).astype(np.float32),
        "action": rng.uniform(-1, 1, (*lead, ACTION)).astype(np.float32),
        "reward": rng.normal(0, 1, lead).astype(np.float32),
        "discount": rng.choice(np.float32([0.0, 0.9, 0.81]), lead),
        "next_obs": rng.normal(0, 1, (*lead, OBS)).astype(np.float32),
    }
    if KINDS[kind][2] == "Discrete":
        found["action"] = rng.integers(0, N, lead).astype(np.int32)
    if KINDS[kind][2] == "Composite":
        first, last = (rng.integers(0, n, (*lead, 1)) for n in JOINT)
        found["action"] = np.concatenate([first, found["action"], last], axis=-1, dtype=np.float32)
    if made.prioritized_replay:
        found["weight"] = rng.uniform(0.1, 1.0, lead).astype(np.float32)
    return found
