"""CrossQ, SAC with batch normalisation in the critics instead of target networks: its keys, its nets, its row.

Source: Bhatt et al. 2024 (arXiv:1902.05605). RLlib has no such algorithm; keys that SAC has too mean what they mean there.
The update is ``crossq_graph``.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pydantic import model_validator
from typing_extensions import Self

from drl_cli.algorithms import sac
from drl_cli.algorithms.row import ALL_OBSERVATIONS, Algorithm, Nets
from drl_cli.algorithms.row import no_targets as target_updates
from drl_cli.config.schema import MisfitError, default, key
from drl_cli.config.sections.max_entropy import SoftKeys
from drl_cli.config.sections.off_policy import DelayKeys, OffPolicyKeys, TwinKeys

if TYPE_CHECKING:
    import numpy as np

    from drl_cli.envs.env_spec import EnvSpec
    from drl_cli.policies.policy_spec import NetSpec, PolicySpec

__all__ = ["CROSSQ", "CrossQConfig", "critic_spec", "initial_weights", "policy_spec", "target_updates"]


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
        "Momentum of the running mean and variance of batch normalisation, per update.",
        "share per update",
        ge=0,
        lt=1,
    )
    beta_1: float = key(0.5, "Adam's beta_1, for all networks; the paper's value, where 0.9 is usual.", ge=0, lt=1)

    @property
    def critics(self) -> int:
        """How many critics there are."""
        return 2 if self.twin_q else 1

    @model_validator(mode="after")
    def _normalises_by_the_batch(self) -> Self:
        for name in ("Q_model", "policy_model"):
            if getattr(self, name).residual_blocks:
                raise MisfitError(
                    f"{name}.residual_blocks",
                    "layers are normalised by the batch here; leave it out, or use SAC",
                )
        return self


def policy_spec(config: CrossQConfig, spaces: EnvSpec) -> PolicySpec:
    """Return the PolicySpec of a squashed Gaussian policy with batch normalisation for ``spaces``."""
    spec = sac.policy_spec(config, spaces)
    return dataclasses.replace(spec, nets=(dataclasses.replace(spec.nets[0], batch_norm=True),))


def critic_spec(config: CrossQConfig, spec: PolicySpec) -> NetSpec:
    """Return the NetSpec of the critics (two copies with ``twin_q``) that fit ``spec``."""
    return dataclasses.replace(sac.critic_spec(config, spec), batch_norm=True)


def initial_weights(config: CrossQConfig, spec: PolicySpec, seed: int) -> dict[str, np.ndarray]:
    """Return {name: float32 array} of policy and critics, drawn from ``seed`` alone."""
    policy, critics = sac.online_weights(config, spec, critic_spec(config, spec), seed)
    return policy | critics


CROSSQ = Algorithm(
    name="CROSSQ",
    config=CrossQConfig,
    nets=Nets(policy_spec, initial_weights, target_updates),
    graph="drl_cli.algorithms.crossq_graph",
    postprocess="n_step",
    loop="replay",
    actions=("Box",),
    observations=ALL_OBSERVATIONS,
    several=True,
)
