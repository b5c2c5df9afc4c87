"""The key of algorithms whose policy can be a running average of the one that is trained (Polyak & Juditsky 1992).

The average acts where algorithms learn from a replay, and in PPO and MAPPO, whose ratios are measured from it. In A2C, PG,
TRPO, IMPALA and APPO the trained policy samples, and its average is only evaluated and kept.
"""

from drl_cli.config.schema import Section, key

UNIT = "share per update"
WINDOW = "0 uses the newest weights. The averaging window is about 1 / (1 - policy_average) updates."


class AveragedPolicyKeys(Section):
    """Which weights act: the newest, or their average."""

    policy_average: float = key(
        0.0,
        "Decay of a running average of the policy's weights, per update; the average acts, is evaluated and is "
        f"checkpointed. {WINDOW}",
        UNIT,
        ge=0,
        lt=1,
    )


class ScoredAverageKeys(Section):
    """Which weights are evaluated and kept: the newest, or their average."""

    policy_average: float = key(
        0.0,
        "Decay of a running average of the policy's weights, per update; the average is evaluated and checkpointed, while "
        f"the newest weights sample. {WINDOW}",
        UNIT,
        ge=0,
        lt=1,
    )
