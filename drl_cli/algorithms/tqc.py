"""The config of TQC: every key with its default, meaning, unit and bounds.

Truncated quantile critics (Kuznetsov et al. 2020, arXiv:2005.04269). RLlib has no such algorithm; keys that SAC has too
mean what they mean there, the others are named as in Stable-Baselines3's contrib package.
"""

from pydantic import model_validator

from drl_cli.config.schema import MisfitError, Whole, default, key
from drl_cli.config.sections.max_entropy import SoftKeys
from drl_cli.config.sections.off_policy import DelayKeys, OffPolicyKeys, TargetKeys


class TQCConfig(
    SoftKeys,
    DelayKeys,
    TargetKeys,
    OffPolicyKeys,
    defaults={"training_intensity": default(None)},  # RLlib has no TQC
):
    """SAC whose critics predict quantiles of the return, of which the highest are left out of the target."""

    num_critics: Whole = key(
        2, "Critics, whose quantiles are pooled for the target. The paper has 5.", "nets", ge=1, le=32
    )
    n_quantiles: Whole = key(25, "Quantiles that each critic predicts.", "quantiles", ge=1, le=1000)
    top_quantiles_to_drop_per_net: Whole = key(
        2,
        "Highest quantiles of the pooled target that are dropped, for each critic: against overestimation.",
        "quantiles",
        ge=0,
        le=999,
    )

    @model_validator(mode="after")
    def _keeps_quantiles(self):
        if self.top_quantiles_to_drop_per_net >= self.n_quantiles:
            raise MisfitError(
                "top_quantiles_to_drop_per_net",
                f"{self.top_quantiles_to_drop_per_net} leaves none of n_quantiles {self.n_quantiles}",
            )
        return self
