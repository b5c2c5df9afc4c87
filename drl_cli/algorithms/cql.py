"""CQL, conservative Q-learning: its keys and its row; the nets are SAC's. The update is ``cql_graph``.

Names and meanings are RLlib's (CQL, 1.3 to 1.13; Kumar et al. 2020, arXiv:2006.04779), and SAC's for what it is made of;
where a default differs, the key's ``why`` says so. Targets leave the entropy out, as in RLlib's CQL.
"""

from drl_cli.algorithms.sac import SAC, SACConfig
from drl_cli.config.schema import Whole, default, key
from drl_cli.config.sections.offline import RECORDED


class CQLConfig(SACConfig, defaults={**RECORDED, "backup_entropy": default(False)}):
    """SAC from recorded experience, whose critics are held down on actions that the data does not show."""

    bc_iters: Whole = key(
        1000,
        "Updates at the start in which the policy clones the recorded actions instead of maximising Q.",
        "updates",
        ge=0,
        rllib=20_000,
        why="a small policy has copied its data after a thousand; 20,000 updates are minutes on one core",
    )
    temperature: float = key(
        1.0,
        "Temperature of the soft maximum over actions: towards 0 the largest value alone is held down.",
        gt=0,
        le=1e6,
    )
    num_actions: Whole = key(
        4,
        "Actions that the soft maximum is estimated from, so many each of uniform ones, of the policy's here and of its in "
        "the next state: the lever for what an update costs. Discrete actions are summed over without it.",
        "actions",
        ge=1,
        le=1000,
        rllib=10,
        why="an update of 2x64 nets costs 4 times SAC's instead of 11, and the pendulum takes as many of them",
    )
    lagrangian: bool = key(
        False, "Learn a factor of the penalty that keeps the gap between soft maximum and data at lagrangian_thresh."
    )
    lagrangian_thresh: float = key(
        5.0,
        "The gap to keep, times min_q_weight: the factor grows above it and falls below.",
        "return",
        needs=("lagrangian", 1),
        ge=-1e9,
        le=1e9,
    )
    min_q_weight: float = key(
        5.0,
        "Weight of the gap between the soft maximum of Q over all actions and Q of the recorded one, beside the squared TD "
        "error; 0 is SAC.",
        ge=0,
        le=1e6,
    )


CQL = SAC._replace(name="CQL", config=CQLConfig, graph="drl_cli.algorithms.cql_graph", reads=True, several=False)
