"""CQL, conservative Q-learning: its keys and its row; the nets are SAC's. The update is ``cql_graph``.

Names and meanings are RLlib's (CQL, 1.3 to 1.13; Kumar et al. 2020, arXiv:2006.04779), and SAC's for what it is made of;
where a default differs, the key's ``why`` says so. Targets leave the entropy out, as in RLlib's CQL.
"""

from pydantic import model_validator
from typing_extensions import Self

from drl_cli.algorithms.sac import SAC, SACConfig
from drl_cli.config.schema import MisfitError, Whole, default, key
from drl_cli.config.sections.offline import RECORDED


class CQLConfig(SACConfig, defaults={**RECORDED, "backup_entropy": default(False)}):
    """SAC from recorded experience, whose critics are held down on actions that the data does not show."""

    bc_iters: Whole = key(
        1000,
        "Updates at the start in which the policy clones the recorded actions instead of maximising Q.",
        "updates",
        ge=0,
        rllib=20_000,
        why="a small policy has cloned its data after a thousand; 20,000 updates take minutes on one core",
    )
    temperature: float = key(
        1.0,
        "Temperature of the log-sum-exp over actions: towards 0 it penalises only the largest value.",
        gt=0,
        le=1e6,
    )
    num_actions: Whole = key(
        4,
        "Actions from which the log-sum-exp is estimated: this many uniform ones, this many of the policy in the "
        "state, and this many of the policy in the next state. Dominates the cost of an update. Not used for "
        "Discrete actions, where the sum is exact.",
        "actions",
        ge=1,
        le=1000,
        rllib=10,
        why=(
            "an update of 2x64 nets then costs 4 times SAC's instead of 11 times, and Pendulum needs the same "
            "number of updates"
        ),
    )
    lagrangian: bool = key(
        False,
        (
            "Learn a factor of the penalty that keeps the gap between the log-sum-exp and the data's Q at "
            "lagrangian_thresh."
        ),
    )
    lagrangian_thresh: float = key(
        5.0,
        "Target of that gap, times min_q_weight: the factor grows above it and falls below.",
        "return",
        needs=("lagrangian", 1),
        ge=-1e9,
        le=1e9,
    )
    min_q_weight: float = key(
        5.0,
        "Weight of the conservative penalty, log-sum-exp of Q over all actions minus Q of the recorded action, "
        "relative to the squared TD error; 0 is SAC.",
        ge=0,
        le=1e6,
    )

    @model_validator(mode="after")
    def _compares_whole_critics(self) -> Self:
        if self.critic_dropout:
            raise MisfitError(
                "critic_dropout",
                "CQL compares Q of recorded and other actions, which masks would tell apart; leave it out",
            )
        return self


CQL = SAC._replace(
    name="CQL",
    config=CQLConfig,
    graph="drl_cli.algorithms.cql_graph",
    actions=("Box", "Discrete"),
    reads=True,
    several=False,
)
