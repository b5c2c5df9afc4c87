"""TQC, truncated quantile critics: its keys, its nets (SAC's policy, critics of quantiles), its row.

Source: Kuznetsov et al. 2020 (arXiv:2005.04269). RLlib has no such algorithm; keys that SAC has too mean what they mean
there, the others are named as in Stable-Baselines3's contrib package. The update is ``tqc_graph``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import model_validator

from drl_cli.algorithms.row import ALL_OBSERVATIONS, Algorithm, Nets, target_updates
from drl_cli.algorithms.sac import online_weights, policy_spec
from drl_cli.config.schema import MisfitError, Whole, default, key
from drl_cli.config.sections.max_entropy import SoftKeys
from drl_cli.config.sections.off_policy import DelayKeys, OffPolicyKeys, TargetKeys

if TYPE_CHECKING:
    import numpy as np

    from drl_cli.policies.policy_spec import NetSpec, PolicySpec

__all__ = ["TQC", "TQCConfig", "critic_spec", "initial_weights", "policy_spec", "target_updates"]


class TQCConfig(
    SoftKeys,
    DelayKeys,
    TargetKeys,
    OffPolicyKeys,
    defaults={"training_intensity": default(None)},  # RLlib has no TQC
):
    """SAC whose critics predict quantiles of the return, of which the highest are left out of the target."""

    num_critics: Whole = key(
        2, "Critics, whose quantiles are pooled for the target. The paper uses 5.", "nets", ge=1, le=32
    )
    n_quantiles: Whole = key(25, "Quantiles per critic.", "quantiles", ge=1, le=1000)
    top_quantiles_to_drop_per_net: Whole = key(
        2,
        "Largest quantiles of the pooled target to drop, per critic, against overestimation.",
        "quantiles",
        ge=0,
        le=999,
    )

    @model_validator(mode="after")
    def _keeps_quantiles(self) -> TQCConfig:
        if self.top_quantiles_to_drop_per_net >= self.n_quantiles:
            raise MisfitError(
                "top_quantiles_to_drop_per_net",
                f"{self.top_quantiles_to_drop_per_net} leaves none of n_quantiles {self.n_quantiles}",
            )
        return self


def critic_spec(config: TQCConfig, spec: PolicySpec) -> NetSpec:
    """Return the NetSpec of the ``num_critics`` critics of ``n_quantiles`` quantiles each that fit ``spec``."""
    from drl_cli.policies import net_builders
    from drl_cli.policies.policy_spec import NetSpec

    acting = spec.nets[0]
    inputs = (*acting.inputs, ("action", spec.action.size))
    heads = (("quantiles", config.n_quantiles),)
    layers = net_builders.layers(config.Q_model)
    return NetSpec("critic", inputs, layers, heads, config.num_critics, **net_builders.sight(acting))


def initial_weights(config: TQCConfig, spec: PolicySpec, seed: int) -> dict[str, np.ndarray]:
    """Return {name: float32 array} of policy, critics and target critics, drawn from ``seed`` alone."""
    from drl_cli.policies import net_builders

    policy, critics = online_weights(config, spec, critic_spec(config, spec), seed)
    return policy | net_builders.with_targets(critics)


TQC = Algorithm(
    name="TQC",
    config=TQCConfig,
    nets=Nets(policy_spec, initial_weights, target_updates),
    graph="drl_cli.algorithms.tqc_graph",
    postprocess="n_step",
    loop="replay",
    actions=("Box",),
    observations=ALL_OBSERVATIONS,
)
