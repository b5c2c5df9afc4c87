"""The key of algorithms whose acting policy can be a running average of the one that is trained (Polyak & Juditsky 1992).

Those that learn from a replay, and those whose update corrects for the difference between the two: PPO, MAPPO, IMPALA and APPO.
"""

from drl_cli.config.schema import Section, key


class AveragedPolicyKeys(Section):
    """Which weights act: the newest, or their average."""

    policy_average: float = key(
        0.0,
        "Decay of a running average of the policy's weights, per update; the average acts, is evaluated and is "
        "checkpointed. 0 uses the newest weights. The averaging window is about 1 / (1 - policy_average) updates.",
        "share per update",
        ge=0,
        lt=1,
    )
