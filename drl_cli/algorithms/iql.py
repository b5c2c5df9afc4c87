"""The config of IQL: every key with its default, meaning, unit and bounds.

Implicit Q-learning (Kostrikov et al. 2021, arXiv:2110.06169). Names and meanings are RLlib's (IQL, 2.49 and later) where it has
them; where a default differs, the key's ``why`` says so.
"""

from drl_cli.algorithms.ddpg import ActorCriticNets
from drl_cli.config.schema import RATE_ALLOWED, Rate, default, key
from drl_cli.config.sections.exploration import DrawnExploration
from drl_cli.config.sections.off_policy import LearnersPriorities, OffPolicyKeys, TargetKeys, TwinKeys
from drl_cli.config.sections.offline import RECORDED

_RATE_WHY = "for small nets, as in the other algorithms"
_SPEED_WHY = "2x64 runs six times the updates a second of 2x256 on one core and suffices for small and medium tasks"


class IQLConfig(
    LearnersPriorities,
    ActorCriticNets,
    TwinKeys,
    TargetKeys,
    OffPolicyKeys,
    defaults={
        **RECORDED,
        "actor_hiddens": default((64, 64), rllib=[256, 256], why=_SPEED_WHY),
        "critic_hiddens": default((64, 64), rllib=[256, 256], why=_SPEED_WHY),
        "actor_lr": default(1e-3, rllib=3e-4, why=_RATE_WHY),
        "critic_lr": default(1e-3, rllib=3e-4, why=_RATE_WHY),
        "tau": default(
            0.01, rllib=1.0, why="the paper's soft targets (0.005), twice as fast for the higher learning rates"
        ),
    },
):
    """Q-learning that never asks what actions are worth that nobody took; the policy clones the better ones of the data."""

    expectile: float = key(
        0.7,
        "Expectile of the recorded actions' values that a state's value is: 0.5 is their mean, towards 1 the best of them.",
        gt=0,
        lt=1,
        rllib=0.8,
        why="the paper's for its locomotion tasks; RLlib's is for one data set",
    )
    beta: float = key(
        3.0,
        "Factor of the advantage in the exponent that weighs a recorded action: 0 clones all alike.",
        "1 / return",
        ge=0,
        le=1e6,
        rllib=0.1,
        why="the paper's for its locomotion tasks; returns are to be of the order of 1, see reward_scaling",
    )
    max_advantage_weight: float = key(
        100.0, "Largest weight of a recorded action, so that no single one drowns the others.", ge=1, le=1e9
    )
    value_lr: Rate = key(
        1e-3, "Adam's step size of the state's value.", "per update", RATE_ALLOWED, rllib=3e-4, why=_RATE_WHY
    )
    exploration_config: DrawnExploration = key(DrawnExploration(), "How to explore.")
