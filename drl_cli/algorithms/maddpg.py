"""MADDPG: its keys, its nets, its row; DDPG of several agents with central critics. The update is ``maddpg_graph``.

Names and meanings are RLlib's DDPG's where it has them. Source: Lowe et al. 2017, "Multi-Agent Actor-Critic for Mixed
Cooperative-Competitive Environments" (arXiv 1706.02275); twin critics as in TD3 (Ackermann et al. 2019, arXiv 1910.01465).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import model_validator

from drl_cli.algorithms.ddpg import ActorCriticNets, drawn_weights, hidden_layers
from drl_cli.algorithms.row import Algorithm, Nets, target_updates
from drl_cli.algorithms.team_nets import OBSERVATIONS, TeamKeys, team_net
from drl_cli.config.schema import MisfitError, default, key
from drl_cli.config.sections.exploration import TYPE, ExplorationConfig
from drl_cli.config.sections.off_policy import LearnersPriorities, OffPolicyKeys, TargetKeys, TwinKeys
from drl_cli.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np

    from drl_cli.envs.env_spec import EnvSpec
    from drl_cli.policies.policy_spec import NetSpec, PolicySpec

NOISES = ("GaussianNoise", "OrnsteinUhlenbeckNoise", "PerWorkerGaussianNoise", "PerWorkerOrnsteinUhlenbeckNoise")
_OWN_REWARDS = "it changes the reward of the team, not those of its agents, which are learnt from; leave it out"


class TeamActorExploration(ExplorationConfig):
    """Discrete actions are drawn from the policy; those of a Box need noise."""

    type: Literal[
        "StochasticSampling",
        "GaussianNoise",
        "OrnsteinUhlenbeckNoise",
        "PerWorkerGaussianNoise",
        "PerWorkerOrnsteinUhlenbeckNoise",
        "Random",
    ] = key("StochasticSampling", TYPE)


class MADDPGConfig(
    TeamKeys,
    ActorCriticNets,
    TwinKeys,
    TargetKeys,
    LearnersPriorities,
    OffPolicyKeys,
    defaults={
        "share_weights": default(False),
        "twin_q": default(False),
        "n_step": default(1),
        "gamma": default(0.95),
        "train_batch_size": default(256, rllib=1024, why="four times the updates in the time"),
        "learning_starts": default(1500),
        "buffer_size": default(1_000_000),
        "timesteps_per_iteration": default(1000),
    },
):
    """Multi-agent DDPG: each agent acts on what it observes; its critic sees what all observe and do."""

    takes_scaled_rewards: ClassVar[bool] = False

    action_reg: float = key(
        1e-3,
        "Factor of the mean square of logits, or of a Box's actions before they are squashed, in the policy's loss.",
        ge=0,
        le=1e3,
    )
    gumbel_temperature: float = key(
        1.0,
        "Temperature of the softmax through which gradients reach the policies of Discrete actions (Gumbel-softmax, straight "
        "through).",
        gt=0,
        le=100,
    )
    exploration_config: TeamActorExploration = key(TeamActorExploration(), "How to explore.")

    @model_validator(mode="after")
    def _learns_from_the_agents_rewards(self) -> MADDPGConfig:
        if self.n_step > 1:
            raise MisfitError("n_step", f"{self.n_step}: the agents' own rewards are known of one step; set it to 1")
        if self.reward_scaling:
            raise MisfitError("reward_scaling", f"true: {_OWN_REWARDS}")
        if self.clip_rewards:
            raise MisfitError("clip_rewards", _OWN_REWARDS)
        return self


def policy_spec(config: MADDPGConfig, spaces: EnvSpec) -> PolicySpec:
    """Return the PolicySpec for a team's ``spaces`` (see ``envs.make.describe``): a softmax, or a Box's actions outright.

    Raises ConfigError for an exploration that does not fit the actions.
    """
    from drl_cli.policies import net_builders
    from drl_cli.policies.policy_spec import NetSpec, PolicySpec

    team, about, seen = team_net(config, spaces, config.share_weights)
    action, chosen = net_builders.action(config, spaces), config.exploration_config.type
    is_box = action.kind == "Box"
    if is_box and chosen == "StochasticSampling":
        raise ConfigError(
            "exploration_config.type: StochasticSampling draws Discrete actions; those of a Box are named outright and need "
            f"noise. Give one of {', '.join(NOISES)}."
        )
    if not is_box and chosen in NOISES:
        raise ConfigError(f"exploration_config.type: {chosen} is for Box actions. Give StochasticSampling.")
    layers = hidden_layers(config.actor_hiddens, config.actor_hidden_activation, config)
    heads = (("mean" if is_box else "logits", team.widest),)
    net = NetSpec(name="policy", layers=layers, heads=heads, **seen)
    return PolicySpec((net,), "deterministic" if is_box else "multi_categorical", action=action, **about)


def critic_spec(config: MADDPGConfig, spec: PolicySpec) -> NetSpec:
    """Return the NetSpec of the critics, each agent's own, with ``twin_q`` two of them: copy c·A + a is agent a's c-th."""
    from drl_cli.policies.policy_spec import NetSpec

    team = spec.team
    if team is None:
        raise TypeError("a policy of a team is needed")
    return NetSpec(
        name="critic",
        inputs=(("obs", team.count * team.obs), ("action", team.count * team.widest)),
        layers=hidden_layers(config.critic_hiddens, config.critic_hidden_activation, config),
        heads=(("q", 1),),
        copies=team.count * (2 if config.twin_q else 1),
    )


def initial_weights(config: MADDPGConfig, spec: PolicySpec, seed: int) -> dict[str, np.ndarray]:
    """Return {name: float32 array} of policy, critics and the targets of both, drawn from ``seed`` alone."""
    return drawn_weights(spec, (critic_spec(config, spec),), seed)


MADDPG = Algorithm(
    name="MADDPG",
    config=MADDPGConfig,
    nets=Nets(policy_spec, initial_weights, target_updates),
    graph="drl_cli.algorithms.maddpg_graph",
    postprocess="n_step",
    loop="replay",
    actions=("Box", "MultiDiscrete"),
    observations=OBSERVATIONS,
    team=True,
)
