"""IQL, implicit Q-learning: its keys, its nets (policy, critics, the value of a state), its row.

Source: Kostrikov et al. 2021 (arXiv:2110.06169). Names and meanings are RLlib's (IQL, 2.49 and later) where it has them;
where a default differs, the key's ``why`` says so. The update is ``iql_graph``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from drl_cli.algorithms.ddpg import ActorCriticNets, hidden_layers
from drl_cli.algorithms.row import ALL_OBSERVATIONS, Algorithm, Nets, target_updates
from drl_cli.config.schema import RATE_ALLOWED, Rate, default, key
from drl_cli.config.sections.exploration import DrawnExploration
from drl_cli.config.sections.off_policy import LearnersPriorities, OffPolicyKeys, TargetKeys, TwinKeys
from drl_cli.config.sections.offline import RECORDED

if TYPE_CHECKING:
    import numpy as np

    from drl_cli.envs.env_spec import EnvSpec
    from drl_cli.policies.policy_spec import NetSpec, PolicySpec

__all__ = ["IQL", "IQLConfig", "critic_spec", "initial_weights", "policy_spec", "target_updates", "value_spec"]

HEAD_SCALE = 0.1  # of the policy's head: first actions in the middle of the bounds
_RATE_WHY = "for small nets, as in the other algorithms"
_SPEED_WHY = "2x64 runs six times the updates a second of 2x256 on one core and suffices for small and medium tasks"


class IQLConfig(
    LearnersPriorities,
    ActorCriticNets,
    TwinKeys,
    TargetKeys,
    OffPolicyKeys,
    defaults={
        **RECORDED,
        "actor_hiddens": default((64, 64), rllib=[256, 256], why=_SPEED_WHY),
        "critic_hiddens": default((64, 64), rllib=[256, 256], why=_SPEED_WHY),
        "actor_lr": default(1e-3, rllib=3e-4, why=_RATE_WHY),
        "critic_lr": default(1e-3, rllib=3e-4, why=_RATE_WHY),
        "tau": default(
            0.01, rllib=1.0, why="the paper's soft updates (0.005), twice as fast for the higher learning rates"
        ),
    },
):
    """Q-learning from recorded actions alone, without values of any others; the policy clones the better ones."""

    expectile: float = key(
        0.7,
        "Expectile of the recorded actions' Q-values that defines a state's value: 0.5 is their mean, 1 the maximum "
        "in the limit.",
        gt=0,
        lt=1,
        rllib=0.8,
        why="the paper's for its locomotion tasks; RLlib's is for one data set",
    )
    beta: float = key(
        3.0,
        "Inverse temperature of the advantage weights exp(beta · advantage) of recorded actions: 0 weights all "
        "equally.",
        "1 / return",
        ge=0,
        le=1e6,
        rllib=0.1,
        why="the paper's for its locomotion tasks; returns must be of the order of 1, see reward_scaling",
    )
    max_advantage_weight: float = key(100.0, "Clip of the advantage weight of a recorded action.", ge=1, le=1e9)
    value_lr: Rate = key(
        1e-3, "Learning rate of the state value (Adam).", "per update", RATE_ALLOWED, rllib=3e-4, why=_RATE_WHY
    )
    exploration_config: DrawnExploration = key(DrawnExploration(), "How to explore.")


def policy_spec(config: IQLConfig, spaces: EnvSpec) -> PolicySpec:
    """Return the PolicySpec for ``spaces`` (see ``envs.make.describe``).

    Box actions: a Gaussian with deviations that no state changes, as the paper's; it is not squashed, so that recorded actions
    at the bounds are actions like others. Discrete actions: a softmax.
    """
    from drl_cli.policies import net_builders
    from drl_cli.policies.policy_spec import DiscreteSpec, NetSpec, PolicySpec

    action = net_builders.action(config, spaces)
    about, seen = net_builders.observation(config, spaces)
    layers = hidden_layers(config.actor_hiddens, config.actor_hidden_activation, config)
    if isinstance(action, DiscreteSpec):
        net = NetSpec(name="policy", layers=layers, heads=(("logits", action.n),), **seen)
        return PolicySpec((net,), "categorical", action=action, mask=net_builders.mask(spaces), **about)
    heads = (("mean", action.size), ("log_std", action.size))
    net = NetSpec(name="policy", layers=layers, heads=heads, free_heads=("log_std",), **seen)
    return PolicySpec((net,), "gaussian", action=action, **about)


def critic_spec(config: IQLConfig, spec: PolicySpec) -> NetSpec:
    """Return the NetSpec of the critics (two copies with ``twin_q``) that fit ``spec``.

    For Box actions the value of the state and an action, for Discrete ones the value of every action in the state.
    """
    if spec.distribution == "categorical":
        return _net_of_critics(config, spec, "critic", (), ("q", spec.action.size), 2 if config.twin_q else 1)
    return _net_of_critics(config, spec, "critic", (("action", spec.action.size),), ("q", 1), 2 if config.twin_q else 1)


def value_spec(config: IQLConfig, spec: PolicySpec) -> NetSpec:
    """Return the NetSpec of the value of a state, with the critics' layers."""
    return _net_of_critics(config, spec, "value", (), ("value", 1), 1)


def initial_weights(config: IQLConfig, spec: PolicySpec, seed: int) -> dict[str, np.ndarray]:
    """Return {name: float32 array} of policy, value, critics and target critics, drawn from ``seed`` alone."""
    from drl_cli.policies import net_builders
    from drl_cli.randomness import generator

    rng = generator(seed, "init")
    policy = spec.nets[0].initial_weights(rng, head_scale=HEAD_SCALE)
    critics = critic_spec(config, spec).initial_weights(rng)
    return policy | value_spec(config, spec).initial_weights(rng) | net_builders.with_targets(critics)


def _net_of_critics(
    config: IQLConfig,
    spec: PolicySpec,
    name: str,
    more: tuple[tuple[str, int], ...],
    head: tuple[str, int],
    copies: int,
) -> NetSpec:
    """Return the spec of a net with the policy's inputs and ``more``."""
    from drl_cli.policies import net_builders
    from drl_cli.policies.policy_spec import NetSpec

    acting = spec.nets[0]
    layers = hidden_layers(config.critic_hiddens, config.critic_hidden_activation, config)
    return NetSpec(name, (*acting.inputs, *more), layers, (head,), copies, **net_builders.sight(acting))


IQL = Algorithm(
    name="IQL",
    config=IQLConfig,
    nets=Nets(policy_spec, initial_weights, target_updates),
    graph="drl_cli.algorithms.iql_graph",
    postprocess="n_step",
    loop="replay",
    actions=("Box", "Discrete"),
    observations=ALL_OBSERVATIONS,
    reads=True,
)
