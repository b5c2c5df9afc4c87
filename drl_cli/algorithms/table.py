"""The algorithms that run here, one row each: which schema, nets, graph, postprocessing and loop, and which spaces fit.

Light: names dotted paths, imports none of them. Read by ``experiment`` (schema, spaces), ``runtime`` (nets, graph, loop) and
``cli``. Names are RLlib's.
"""

from typing import NamedTuple

from drl_cli.errors import InputError, suggestion


class Algorithm(NamedTuple):
    """A row: ``actions`` and ``observations`` name kinds of spaces as ``acting.envs.describe`` does."""

    name: str
    config: str
    nets: str  # the nets as plain data: policy_spec, initial_weights
    graph: str
    postprocess: str
    loop: str
    actions: tuple
    observations: tuple


ALGORITHMS = (
    Algorithm(
        name="SAC",
        config="drl_cli.configs.sac:SACConfig",
        nets="drl_cli.algorithms.sac_nets",
        graph="drl_cli.algorithms.sac",
        postprocess="n_step",
        loop="drl_cli.runtime.loops.replay",
        actions=("Box",),
        observations=("Box1d",),
    ),
)

NOT_BUILT = {
    "TD3": "Box",
    "DDPG": "Box",
    "APEX_DDPG": "Box",
    "CQL": "Box",
    "RNNSAC": "Box",
    "DQN": "Discrete",
    "SimpleQ": "Discrete",
    "APEX": "Discrete",
    "R2D2": "Discrete",
    "PG": "Box and Discrete",
    "A2C": "Box and Discrete",
    "A3C": "Box and Discrete",
    "PPO": "Box and Discrete",
    "APPO": "Box and Discrete",
    "DDPPO": "Box and Discrete",
    "TRPO": "Box and Discrete",
    "IMPALA": "Box and Discrete",
    "MARWIL": "Box and Discrete",
    "BC": "Box and Discrete",
    "ES": "Box and Discrete",
    "ARS": "Box and Discrete",
    "QMIX": "other",
    "DREAMER": "other",
    "MAML": "other",
    "MBMPO": "other",
    "CRR": "other",
    "SlateQ": "other",
    "AlphaStar": "other",
    "BanditLinTS": "other",
    "BanditLinUCB": "other",
    "contrib/MADDPG": "other",
    "contrib/AlphaZero": "other",
    "contrib/RandomAgent": "other",
    "contrib/LinTS": "other",
    "contrib/LinUCB": "other",
}
"""RLlib's algorithms that do not run here yet, with the actions they take."""


def names():
    """Return the names that ``--run`` takes."""
    return tuple(row.name for row in ALGORITHMS)


def fitting():
    """Return {kind of space: the names of the algorithms that take it, as text} for the kinds that the rows name."""
    kinds = dict.fromkeys(kind for row in ALGORITHMS for kind in row.actions + row.observations)
    return {kind: ", ".join(r.name for r in ALGORITHMS if kind in r.actions + r.observations) for kind in kinds}


def find(name):
    """Return the row of the algorithm ``name``. Raises InputError with the nearest name."""
    for row in ALGORITHMS:
        if row.name == name:
            return row
    if name in NOT_BUILT:
        instead = (
            "; SAC runs on the same Box actions" if "Box" in NOT_BUILT[name] else f". What runs: {', '.join(names())}"
        )
        raise InputError(f"{name} is not built yet{instead}.")
    hint = suggestion(name, names()) or suggestion(name, NOT_BUILT) or f" What runs: {', '.join(names())}."
    raise InputError(f"Unknown algorithm {str(name)[:60]!r}.{hint}")
