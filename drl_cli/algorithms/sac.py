"""SAC: its keys with their defaults, meanings, units and bounds, its nets, and its row. The update is ``sac_graph``.

Names and meanings of the keys are RLlib's (SAC, 1.0.1; Haarnoja et al. 2018, arXiv:1812.05905; Discrete actions:
Christodoulou 2019, arXiv:1910.07207); where a default differs, the key's ``why`` says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from drl_cli.algorithms.row import ALL_OBSERVATIONS, Algorithm, Nets, target_updates
from drl_cli.config.schema import default, key
from drl_cli.config.sections.deterministic import DeterministicKeys
from drl_cli.config.sections.ensemble import EnsembleKeys
from drl_cli.config.sections.max_entropy import SoftKeys
from drl_cli.config.sections.off_policy import DelayKeys, OffPolicyKeys, TargetKeys
from drl_cli.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np

    from drl_cli.config.sections.model import FullyConnected
    from drl_cli.envs.env_spec import EnvSpec
    from drl_cli.policies.policy_spec import NetSpec, PolicySpec

__all__ = ["SAC", "SACConfig", "critic_spec", "initial_weights", "online_weights", "policy_spec", "target_updates"]


class SACConfig(
    DeterministicKeys,
    EnsembleKeys,
    DelayKeys,
    TargetKeys,
    OffPolicyKeys,
    defaults={"normalize_actions": default(True)},
):
    """Soft actor-critic with twin critics, or an ensemble of them, and a learnt temperature."""

    target_entropy_fraction: float = key(
        0.3,
        "For Discrete actions with target_entropy auto, and for the choices of Dict and Tuple actions: the target, as a "
        "share of ln n, the entropy of the uniform policy over n (joint) actions.",
        "share",
        gt=0,
        le=1,
        rllib=0.98,
        why="0.98 of the maximum entropy is nearly uniform; a policy that balances a pole is more deterministic",
    )


def policy_spec(config: SoftKeys, spaces: EnvSpec) -> PolicySpec:
    """Return the PolicySpec for ``spaces`` (see ``envs.make.describe``).

    Box actions: a squashed Gaussian, with state-dependent exploration when the config says ``use_sde``. Discrete actions: a
    softmax. A Dict or Tuple of both: a squashed Gaussian and a softmax over the joint choices; ConfigError for other parts.
    """
    from drl_cli.policies import net_builders
    from drl_cli.policies.policy_spec import CompositeSpec, DiscreteSpec, NetSpec, PolicySpec, joint_misfit

    if not isinstance(config, OffPolicyKeys):
        raise TypeError(f"{type(config).__name__} has no OffPolicyKeys, which describe what a policy observes")
    action = net_builders.action(config, spaces)
    about, seen = net_builders.observation(config, spaces)
    layers = net_builders.layers(config.policy_model)
    if isinstance(action, CompositeSpec):
        problem = joint_misfit(action)
        if problem:
            raise ConfigError(f"SAC: actions with {problem}. PPO takes them all; or change them in a wrapper.")
        net = NetSpec(name="policy", layers=layers, heads=action.joint_heads(), **seen)
        return PolicySpec((net,), "hybrid", action=action, **about)
    if isinstance(action, DiscreteSpec):
        net = NetSpec(name="policy", layers=layers, heads=(("logits", action.n),), **seen)
        return PolicySpec((net,), "categorical", action=action, mask=net_builders.mask(spaces), **about)
    heads = (("mean", action.size), ("log_std", action.size))
    net = NetSpec(name="policy", layers=layers, heads=heads, sde=config.use_sde, **seen)
    return PolicySpec((net,), "squashed_gaussian", action=action, **about)


class CriticKeys(Protocol):
    """The keys that critics are made of; CrossQ has them too."""

    @property
    def Q_model(self) -> FullyConnected:
        """The network of each critic."""
        ...

    @property
    def critics(self) -> int:
        """How many there are."""
        ...


def critic_spec(config: CriticKeys, spec: PolicySpec) -> NetSpec:
    """Return the NetSpec of the critics that fit ``spec``, a copy each.

    For Box actions the value of the state and an action, for Discrete ones the value of every action in the state; of a Dict
    or Tuple that of every joint choice, in the state and with the numbers of its Box parts.
    """
    from drl_cli.policies import net_builders
    from drl_cli.policies.policy_spec import CompositeSpec, NetSpec

    if isinstance(spec.action, CompositeSpec):
        box = spec.action.box_part()
        inputs = (*spec.nets[0].inputs, ("action", box.size)) if box else spec.nets[0].inputs
        heads = (("q", spec.action.joint_choices()),)
    elif spec.distribution == "categorical":
        inputs, heads = spec.nets[0].inputs, (("q", spec.action.size),)
    else:
        inputs, heads = (*spec.nets[0].inputs, ("action", spec.action.size)), (("q", 1),)
    layers = net_builders.layers(config.Q_model)
    return NetSpec("critic", inputs, layers, heads, config.critics, **net_builders.sight(spec.nets[0]))


def initial_weights(config: SACConfig, spec: PolicySpec, seed: int) -> dict[str, np.ndarray]:
    """Return {name: float32 array} of policy, critics and target critics, drawn from ``seed`` alone."""
    from drl_cli.policies import net_builders

    policy, critics = online_weights(config, spec, critic_spec(config, spec), seed)
    return policy | net_builders.with_targets(critics)


def online_weights(
    config: SoftKeys, spec: PolicySpec, critics: NetSpec, seed: int
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return ({name: float32 array} of the policy, the same of ``critics``), drawn from ``seed`` alone.

    The policy's heads start small: mean near zero, so that the first actions are spread by the noise and not pushed
    against the bounds by a random net. State-dependent deviations start at ``log_std_init``.
    """
    from drl_cli.randomness import generator

    rng = generator(seed, "init")
    policy = spec.nets[0].initial_weights(rng, head_scale=0.1, log_std=config.log_std_init)
    return policy, critics.initial_weights(rng)


SAC = Algorithm(
    name="SAC",
    config=SACConfig,
    nets=Nets(policy_spec, initial_weights, target_updates),
    graph="drl_cli.algorithms.sac_graph",
    postprocess="n_step",
    loop="replay",
    actions=("Box", "Discrete", "Composite"),
    observations=ALL_OBSERVATIONS,
    several=True,
)
