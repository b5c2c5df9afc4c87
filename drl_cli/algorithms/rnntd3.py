"""RNNTD3, TD3 with LSTMs that learns from sequences of the replay: its keys, its nets, its row.

The update is ``rnntd3_graph``. RLlib has no such algorithm: TD3's keys mean what they mean there (Fujimoto et al. 2018,
arXiv:1802.09477), those of sequences what they mean in RNNSAC. Source: Ni et al. 2022, "Recurrent Model-Free RL Can Be a Strong
Baseline for Many POMDPs" (arXiv:2110.05038), whose actor and critics have an LSTM each.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar, Literal

from drl_cli.algorithms import ddpg
from drl_cli.algorithms.ddpg import TD3Config, TD3Exploration, target_updates
from drl_cli.algorithms.rnnsac import BURN_IN_WHY
from drl_cli.algorithms.row import ALL_OBSERVATIONS, Algorithm, Nets
from drl_cli.config.schema import default, key
from drl_cli.config.sections.exploration import TYPE
from drl_cli.config.sections.model import Memory, Vision
from drl_cli.config.sections.off_policy import RecurrentReplayKeys

if TYPE_CHECKING:
    import numpy as np

    from drl_cli.envs.env_spec import EnvSpec
    from drl_cli.policies.policy_spec import NetSpec, PolicySpec

__all__ = [
    "RNNTD3",
    "RNNTD3Config",
    "RNNTD3Exploration",
    "RNNTD3Network",
    "critic_specs",
    "initial_weights",
    "policy_spec",
    "target_updates",
]


class RNNTD3Network(
    Memory, Vision, defaults={"use_lstm": default(True, rllib=False, why="RNNTD3 is TD3 with an LSTM")}
):
    """What every net has: convolutions for images before its hidden layers, and an LSTM after them."""


class RNNTD3Exploration(TD3Exploration):
    """Noise that is added to the actions; none that depends on features of a net without a memory or on its weights."""

    type: Literal[
        "GaussianNoise",
        "OrnsteinUhlenbeckNoise",
        "PerWorkerGaussianNoise",
        "PerWorkerOrnsteinUhlenbeckNoise",
        "Random",
    ] = key("GaussianNoise", TYPE)


class RNNTD3Config(
    RecurrentReplayKeys,
    TD3Config,
    defaults={
        "burn_in": default(5, rllib=0, why=BURN_IN_WHY),
        "buffer_size": default(100_000),
        "learning_starts": default(1000),
        "updates_per_call": default(10),
        "publish_every": default(10),
    },
):
    """Recurrent TD3: policy and critics with an LSTM each, which learn from replayed sequences."""

    without_memory: ClassVar[str] = "TD3"

    # Other sections than those of the classes above: pydantic checks them, pyright takes them for assignments.
    model: RNNTD3Network = key(  # pyright: ignore
        RNNTD3Network(), "The LSTM behind actor_hiddens and critic_hiddens, and what comes before these layers."
    )
    exploration_config: RNNTD3Exploration = key(RNNTD3Exploration(), "How to explore.")  # pyright: ignore


def policy_spec(config: RNNTD3Config, spaces: EnvSpec) -> PolicySpec:
    """Return the PolicySpec of a recurrent deterministic policy for ``spaces`` (see ``envs.make.describe``)."""
    spec = ddpg.policy_spec(config, spaces)
    net = dataclasses.replace(spec.nets[0], lstm=config.model.lstm_cell_size)
    return dataclasses.replace(spec, nets=(net,), state=net.state_shapes)


def critic_specs(config: RNNTD3Config, spec: PolicySpec) -> tuple[NetSpec, NetSpec]:
    """Return the NetSpecs of the critics' memory, an LSTM over observations, and of the critics over it and an action."""
    from drl_cli.policies import net_builders

    layers = ddpg.hidden_layers(config.critic_hiddens, config.critic_hidden_activation, config)
    copies = 2 if config.twin_q else 1
    return net_builders.recurrent_critics(spec.nets[0], layers, config.model.lstm_cell_size, spec.action.size, copies)


def initial_weights(config: RNNTD3Config, spec: PolicySpec, seed: int) -> dict[str, np.ndarray]:
    """Return {name: float32 array} of policy, critics and the targets of both, drawn from ``seed`` alone."""
    return ddpg.drawn_weights(spec, critic_specs(config, spec), seed)


RNNTD3 = Algorithm(
    name="RNNTD3",
    config=RNNTD3Config,
    nets=Nets(policy_spec, initial_weights, target_updates),
    graph="drl_cli.algorithms.rnntd3_graph",
    postprocess="sequences",
    loop="replay",
    actions=("Box",),
    observations=ALL_OBSERVATIONS,
)
