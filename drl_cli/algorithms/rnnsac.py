"""RNNSAC, SAC with LSTMs that learns from sequences of the replay: its keys, its nets, its row.

The update is ``rnnsac_graph``. Names and meanings are RLlib's (RNNSAC of 1.6 to 2.4). Sources: Haarnoja et al. 2018
(arXiv:1812.05905); Kapturowski et al. 2019, "Recurrent Experience Replay in Distributed Reinforcement Learning" (stored states,
burn-in); Ni et al. 2022, "Recurrent Model-Free RL Can Be a Strong Baseline for Many POMDPs" (arXiv:2110.05038), whose actor and
critics have an LSTM each. Deviations from RLlib: the critics' action joins after their LSTM, which sees observations alone;
``burn_in`` and ``train_batch_size`` as in R2D2; Box actions only.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar

from pydantic import model_validator
from typing_extensions import Self

from drl_cli.algorithms import sac
from drl_cli.algorithms.row import ALL_OBSERVATIONS, Algorithm, Nets, target_updates
from drl_cli.config.schema import MisfitError, default, key
from drl_cli.config.sections.max_entropy import SoftKeys
from drl_cli.config.sections.model import Memory, Vision
from drl_cli.config.sections.off_policy import DelayKeys, RecurrentReplayKeys, TargetKeys, TwinKeys

if TYPE_CHECKING:
    import numpy as np

    from drl_cli.envs.env_spec import EnvSpec
    from drl_cli.policies.policy_spec import NetSpec, PolicySpec

BURN_IN_WHY = "the critics' LSTM has no stored states: it starts each sequence from zero, and needs some steps"

__all__ = [
    "BURN_IN_WHY",
    "RNNSAC",
    "RNNSACConfig",
    "RNNSACNetwork",
    "critic_specs",
    "initial_weights",
    "policy_spec",
    "target_updates",
]


class RNNSACNetwork(
    Memory, Vision, defaults={"use_lstm": default(True, rllib=False, why="RNNSAC is SAC with an LSTM")}
):
    """What every net has: convolutions for images before its hidden layers, and an LSTM after them."""


class RNNSACConfig(
    SoftKeys,
    RecurrentReplayKeys,
    TwinKeys,
    DelayKeys,
    TargetKeys,
    defaults={
        "burn_in": default(5, rllib=0, why=BURN_IN_WHY),
        "buffer_size": default(100_000),
        "learning_starts": default(1000),
        "normalize_actions": default(True),
        "updates_per_call": default(10),
        "publish_every": default(10),
    },
):
    """Recurrent SAC: policy and critics with an LSTM each, which learn from replayed sequences."""

    without_memory: ClassVar[str] = "SAC"

    # Another section than that of the class above: pydantic checks it, pyright takes it for an assignment.
    model: RNNSACNetwork = key(  # pyright: ignore
        RNNSACNetwork(), "The LSTM behind policy_model and Q_model, and what comes before these layers."
    )

    @property
    def critics(self) -> int:
        """How many critics there are."""
        return 2 if self.twin_q else 1

    @model_validator(mode="after")
    def _explores_without_features(self) -> Self:
        if self.use_sde:
            raise MisfitError("use_sde", "true fits no LSTM: its features change with every step; leave it out")
        return self


def policy_spec(config: RNNSACConfig, spaces: EnvSpec) -> PolicySpec:
    """Return the PolicySpec of a recurrent squashed Gaussian for ``spaces`` (see ``envs.make.describe``)."""
    spec = sac.policy_spec(config, spaces)
    net = dataclasses.replace(spec.nets[0], lstm=config.model.lstm_cell_size)
    return dataclasses.replace(spec, nets=(net,), state=net.state_shapes)


def critic_specs(config: RNNSACConfig, spec: PolicySpec) -> tuple[NetSpec, NetSpec]:
    """Return the NetSpecs of the critics' memory, an LSTM over observations, and of the critics over it and an action."""
    from drl_cli.policies import net_builders

    layers, cells = net_builders.layers(config.Q_model), config.model.lstm_cell_size
    return net_builders.recurrent_critics(spec.nets[0], layers, cells, spec.action.size, config.critics)


def initial_weights(config: RNNSACConfig, spec: PolicySpec, seed: int) -> dict[str, np.ndarray]:
    """Return {name: float32 array} of policy, critics and target critics, drawn from ``seed`` alone."""
    from drl_cli.policies import net_builders
    from drl_cli.randomness import generator

    memory, critic = critic_specs(config, spec)
    rng = generator(seed, "init")
    policy = spec.nets[0].initial_weights(rng, head_scale=0.1)
    return policy | net_builders.with_targets(memory.initial_weights(rng) | critic.initial_weights(rng))


RNNSAC = Algorithm(
    name="RNNSAC",
    config=RNNSACConfig,
    nets=Nets(policy_spec, initial_weights, target_updates),
    graph="drl_cli.algorithms.rnnsac_graph",
    postprocess="sequences",
    loop="replay",
    actions=("Box",),
    observations=ALL_OBSERVATIONS,
)
