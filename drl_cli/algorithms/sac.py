"""The config of SAC: every key with its default, meaning, unit and bounds.

Read by everything that runs SAC, as attributes. Names and meanings are RLlib's (SAC, 1.0.1; Haarnoja et al. 2018,
arXiv:1812.05905; Discrete actions: Christodoulou 2019, arXiv:1910.07207); where a default differs, the key's ``why``
says so.
"""

from drl_cli.config.schema import default, key
from drl_cli.config.sections.max_entropy import SoftKeys
from drl_cli.config.sections.off_policy import DelayKeys, OffPolicyKeys, TargetKeys, TwinKeys


class SACConfig(
    SoftKeys, TwinKeys, DelayKeys, TargetKeys, OffPolicyKeys, defaults={"normalize_actions": default(True)}
):
    """Soft actor-critic with twin critics and a learnt temperature."""

    target_entropy_fraction: float = key(
        0.3,
        "For Discrete actions and target_entropy auto: share of ln n, the entropy of a uniform choice among n actions, "
        "that alpha is learnt to keep.",
        "share",
        gt=0,
        le=1,
        rllib=0.98,
        why="0.98 of the largest entropy is a coin flip; a policy that balances a pole is surer than that",
    )
