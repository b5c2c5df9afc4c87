"""XQC, CrossQ with kernels on the unit sphere and critics of distributions: its keys, its nets, its row.

Source: Palenicek et al. 2025 (arXiv:2509.25174). RLlib has no such algorithm; keys that CrossQ or DQN has too mean what they
mean there. The update is ``xqc_graph``.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pydantic import model_validator
from typing_extensions import Self

from drl_cli.algorithms import crossq, sac
from drl_cli.algorithms.crossq import CrossQConfig
from drl_cli.algorithms.row import ALL_OBSERVATIONS, Algorithm, Nets, target_updates
from drl_cli.config.schema import MisfitError, Whole, default, key
from drl_cli.config.sections.off_policy import AtomKeys, TargetKeys

if TYPE_CHECKING:
    import numpy as np

    from drl_cli.envs.env_spec import EnvSpec
    from drl_cli.policies.policy_spec import NetSpec, PolicySpec

__all__ = ["XQC", "XQCConfig", "critic_spec", "initial_weights", "policy_spec", "target_updates"]


class XQCConfig(
    AtomKeys,
    TargetKeys,
    CrossQConfig,
    defaults={
        "v_min": default(-5.0),
        "v_max": default(5.0),
        "tau": default(0.05),
        "beta_1": default(0.9),
        "initial_alpha": default(0.01),
        "reward_scaling": default(True),
    },
):
    """CrossQ with target networks, kernels on the unit sphere, and critics that learn distributions by cross-entropy."""

    num_atoms: Whole = key(
        101,
        "Atoms of the return distribution of each critic. They span v_min to v_max, which are in units of the scaled "
        "reward: with reward_scaling, in standard deviations of the discounted return.",
        "atoms",
        ge=2,
        le=1000,
    )

    @model_validator(mode="after")
    def _has_one_normalisation(self) -> Self:
        for name in ("Q_model", "policy_model"):
            if getattr(self, name).layer_norm:
                raise MisfitError(f"{name}.layer_norm", "layers are normalised by the batch here; leave it out")
        return self


def policy_spec(config: XQCConfig, spaces: EnvSpec) -> PolicySpec:
    """Return the PolicySpec of a squashed Gaussian policy with XQC's layers for ``spaces``."""
    spec = crossq.policy_spec(config, spaces)
    return dataclasses.replace(spec, nets=(dataclasses.replace(spec.nets[0], unit_kernels=True),))


def critic_spec(config: XQCConfig, spec: PolicySpec) -> NetSpec:
    """Return the NetSpec of the critics of ``num_atoms`` atoms (two copies with ``twin_q``) that fit ``spec``."""
    net = crossq.critic_spec(config, spec)
    return dataclasses.replace(net, heads=(("q", config.num_atoms),), unit_kernels=True)


def initial_weights(config: XQCConfig, spec: PolicySpec, seed: int) -> dict[str, np.ndarray]:
    """Return {name: float32 array} of policy, critics and target critics, drawn from ``seed`` alone.

    Target critics have no running statistics: they are normalised by the batch.
    """
    from drl_cli.policies import net_builders

    net = critic_spec(config, spec)
    policy, critics = sac.online_weights(config, spec, net, seed)
    followed = net_builders.with_targets({name: critics[name] for name in net.trainable()})
    return policy | critics | followed


XQC = Algorithm(
    name="XQC",
    config=XQCConfig,
    nets=Nets(policy_spec, initial_weights, target_updates),
    graph="drl_cli.algorithms.xqc_graph",
    postprocess="n_step",
    loop="replay",
    actions=("Box",),
    observations=ALL_OBSERVATIONS,
    several=True,
)
