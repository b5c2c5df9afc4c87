"""PQN, Q-learning from parallel environments without replay or target networks: its keys, its net, its row.

Source: Gallici et al. 2024, "Simplifying Deep Temporal Difference Learning" (arXiv:2407.04811). RLlib has no such algorithm;
keys that PPO or DQN have too mean what they mean there. The update is ``pqn_graph``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import model_validator

from drl_cli.algorithms.row import ALL_OBSERVATIONS, Algorithm, Nets, no_targets
from drl_cli.config.schema import MisfitError, Whole, default, key
from drl_cli.config.sections.averaged_policy import ScoredAverageKeys
from drl_cli.config.sections.exploration import ValueExploration
from drl_cli.config.sections.model import Network
from drl_cli.config.sections.on_policy import TrajectoryKeys
from drl_cli.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np

    from drl_cli.envs.env_spec import EnvSpec
    from drl_cli.policies.policy_spec import PolicySpec


class PQNNetwork(
    Network,
    defaults={
        "fcnet_activation": default(
            "relu", rllib="tanh", why="as in the paper, and in the other algorithms with action values"
        ),
        "layer_norm": default(True),
    },
):
    """The network of the action values, whose layers are normalised: what keeps its targets stable."""


class PQNExploration(
    ValueExploration,
    defaults={
        "random_timesteps": default(0),
        "initial_epsilon": default(1.0),
        "final_epsilon": default(0.05),
        "epsilon_timesteps": default(20_000),
    },
):
    """A share of random actions that falls from 1 to 0.05 over 20,000 env steps."""


class PQNConfig(
    ScoredAverageKeys,
    TrajectoryKeys,
    defaults={
        "rollout_fragment_length": default(32),
        "train_batch_size": default(256),
        "lr": default(1e-3),
        "grad_clip": default(10.0),
        "min_iter_time_s": default(0.0),
    },
):
    """Q-learning from steps of the newest policy alone: lambda-returns, layer normalisation, no replay, no target network."""

    model: PQNNetwork = key(PQNNetwork(), "The network of the action values.")
    exploration_config: PQNExploration = key(PQNExploration(), "How to explore.")
    lambda_: float = key(
        0.65,
        "Lambda of the returns: 0 bootstraps from the next state, 1 uses rewards alone.",
        alias="lambda",
        ge=0,
        le=1,
    )
    num_sgd_iter: Whole = key(4, "Passes over each batch.", "passes", ge=1, le=10_000)
    sgd_minibatch_size: Whole = key(
        64, "Steps per gradient step, of all agents that share a policy.", "agent steps", ge=1, le=10_000_000
    )
    shuffle_sequences: bool = key(True, "Whether each epoch shuffles the batch.")

    def check_agents(self, agents: int) -> None:
        """Raise ConfigError for a minibatch of more steps than ``agents`` agents, which act at once, bring to a batch."""
        most = self.train_batch_size * agents
        if self.sgd_minibatch_size > most:
            raise ConfigError(
                f"sgd_minibatch_size: {self.sgd_minibatch_size} is more than the {most} steps of a batch "
                f"(train_batch_size {self.train_batch_size}). Set it to {most} or less."
            )

    @model_validator(mode="after")
    def _keeps_its_targets_stable(self) -> PQNConfig:
        if not (self.model.layer_norm or self.model.residual_blocks or self.model.custom_model):
            raise MisfitError(
                "model.layer_norm",
                "false leaves nothing that keeps Q-learning without a target network stable; omit it",
            )
        return self


def policy_spec(config: PQNConfig, spaces: EnvSpec) -> PolicySpec:
    """Return the PolicySpec of a policy over action values for ``spaces`` (see ``envs.make.describe``)."""
    from drl_cli.policies import net_builders
    from drl_cli.policies.policy_spec import NetSpec, PolicySpec, ValueSpec

    action = net_builders.action(config, spaces)
    about, seen = net_builders.observation(config, spaces)
    net = NetSpec(name="q", layers=net_builders.layers(config.model), heads=(("q", action.size),), **seen)
    return PolicySpec((net,), "q", action=action, value=ValueSpec(), mask=net_builders.mask(spaces), **about)


def initial_weights(config: PQNConfig, spec: PolicySpec, seed: int) -> dict[str, np.ndarray]:
    """Return {name: float32 array} of the net, drawn from ``seed`` alone."""
    from drl_cli.randomness import generator

    del config
    return spec.nets[0].initial_weights(generator(seed, "init"))


PQN = Algorithm(
    name="PQN",
    config=PQNConfig,
    nets=Nets(policy_spec, initial_weights, no_targets),
    graph="drl_cli.algorithms.pqn_graph",
    postprocess="trajectory",
    loop="sync",
    actions=("Discrete",),
    observations=ALL_OBSERVATIONS,
    several=True,
)
