"""The config of CrossQ: every key with its default, meaning, unit and bounds.

Batch normalisation in the critics instead of target networks (Bhatt et al. 2024, arXiv:1902.05605). RLlib has no such
algorithm; keys that SAC has too mean what they mean there.
"""

from drl_cli.config.schema import default, key
from drl_cli.config.sections.max_entropy import SoftKeys
from drl_cli.config.sections.off_policy import DelayKeys, OffPolicyKeys, TwinKeys


class CrossQConfig(
    SoftKeys,
    TwinKeys,
    DelayKeys,
    OffPolicyKeys,
    defaults={"policy_delay": default(3), "training_intensity": default(None)},  # RLlib has no CrossQ
):
    """SAC without target networks: critics with batch normalisation see this and the next state in one pass."""

    bn_momentum: float = key(
        0.99,
        "Share that the running mean and variance of batch normalisation keep at each update.",
        "share per update",
        ge=0,
        lt=1,
    )
    beta_1: float = key(
        0.5, "Adam's decay of the mean gradient, for all parts; the paper's, where 0.9 is usual.", ge=0, lt=1
    )
