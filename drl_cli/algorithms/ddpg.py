"""DDPG, TD3 and APEX_DDPG: their keys, their nets, their rows. The update is ``ddpg_graph``.

Names and meanings are RLlib's (1.0.1; Lillicrap et al. 2016, arXiv:1509.02971; Fujimoto et al. 2018, arXiv:1802.09477);
where a default differs, the key's ``why`` says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import model_validator
from typing_extensions import Self

from drl_cli.algorithms.apex import APEX_DEFAULTS
from drl_cli.algorithms.row import ALL_OBSERVATIONS, Algorithm, Nets
from drl_cli.config.schema import RATE_ALLOWED, Rate, Section, Widths, default, key
from drl_cli.config.sections.exploration import NoiseExploration
from drl_cli.config.sections.model import ACTIVATIONS, RESIDUAL, residual_misfit
from drl_cli.config.sections.off_policy import DelayKeys, OffPolicyKeys, TargetKeys, TwinKeys

if TYPE_CHECKING:
    import numpy as np

    from drl_cli.envs.env_spec import EnvSpec
    from drl_cli.policies.nets import Layer
    from drl_cli.policies.policy_spec import NetSpec, PolicySpec

HEAD_SCALE = 0.1  # of the policy's head: first actions in the middle of the bounds, where tanh still has a slope
_WIDTHS = "a list of whole numbers in [1, 65536], at most 32"
_WIDTHS_WHY = "2x64 runs many times the updates a second on one core and suffices for small and medium tasks"
_RANDOM_WHY = "what the replay holds when learning begins is then all random"
_TAU_WHY = "targets that follow faster suit runs of minutes with small nets"


class DDPGExploration(
    NoiseExploration,
    defaults={"final_scale": default(1.0), "random_timesteps": default(None, rllib=1000, why=_RANDOM_WHY)},
):
    """Ornstein-Uhlenbeck noise that stays as it is; RLlib's later versions let it fade to 0.02."""


class TD3Exploration(
    NoiseExploration,
    defaults={
        "type": default("GaussianNoise"),
        "final_scale": default(1.0),
        "stddev": default(0.1),
        "random_timesteps": default(None, rllib=10_000, why=_RANDOM_WHY),
    },
):
    """Gaussian noise of constant size."""


class ApexDDPGExploration(NoiseExploration, defaults={"type": default("PerWorkerOrnsteinUhlenbeckNoise")}):
    """Noise that differs from environment to environment, and is correlated in time, which carries far."""


class ActorCriticNets(Section):
    """Layers and step sizes of a policy and its critics."""

    actor_hiddens: Widths = key(
        (64, 64), "Units of each hidden layer of the policy.", "units", _WIDTHS, rllib=[400, 300], why=_WIDTHS_WHY
    )
    actor_hidden_activation: ACTIVATIONS = key("relu", "Activation of each hidden layer of the policy.")
    critic_hiddens: Widths = key(
        (64, 64), "Units of each hidden layer of a critic.", "units", _WIDTHS, rllib=[400, 300], why=_WIDTHS_WHY
    )
    critic_hidden_activation: ACTIVATIONS = key("relu", "Activation of each hidden layer of a critic.")
    layer_norm: bool = key(
        False,
        "Layer normalisation before each hidden activation, in policy and critics. Required by ParameterNoise: it "
        "makes equal weight noise have similar effects in different layers.",
    )
    residual_blocks: bool = key(False, RESIDUAL.format(hiddens="actor_hiddens and critic_hiddens"))
    actor_lr: Rate = key(1e-3, "Learning rate of the policy (Adam).", "per update", RATE_ALLOWED)
    critic_lr: Rate = key(1e-3, "Learning rate of the critics (Adam).", "per update", RATE_ALLOWED)

    @model_validator(mode="after")
    def _has_blocks_of_one_width(self) -> Self:
        if self.residual_blocks:
            for name in ("actor_hiddens", "critic_hiddens"):
                residual_misfit(name, getattr(self, name), self.layer_norm)
        return self


class _DeterministicKeys(ActorCriticNets):
    """The two kinds of net, what smooths the critics' target, the loss."""

    smooth_target_policy: bool = key(
        False,
        (
            "Target policy smoothing: add clipped noise to the target policy's actions, so that the policy cannot "
            "exploit narrow peaks of the critics."
        ),
    )
    target_noise: float = key(
        0.2,
        "Standard deviation of that noise.",
        "policy's units, [-1, 1] if actions are normalised",
        needs=("smooth_target_policy", 1),
        ge=0,
        le=1e6,
    )
    target_noise_clip: float = key(
        0.5,
        "Clip value of that noise.",
        "policy's units, [-1, 1] if actions are normalised",
        needs=("smooth_target_policy", 1),
        ge=0,
        le=1e6,
    )
    use_huber: bool = key(False, "Use the Huber loss of TD errors instead of the squared error.")
    huber_threshold: float = key(
        1.0, "TD error above which the Huber loss is linear.", "reward", needs=("use_huber", 1), gt=0, le=1e9
    )
    l2_reg: float = key(
        1e-6,
        "L2 regularisation of both losses: weight of half the squared norm of the weights, without biases.",
        ge=0,
        le=1e3,
    )


class DDPGConfig(
    _DeterministicKeys,
    TwinKeys,
    DelayKeys,
    TargetKeys,
    OffPolicyKeys,
    defaults={
        "twin_q": default(False),
        "tau": default(0.01, rllib=0.002, why=_TAU_WHY),
        "prioritized_replay": default(True),
        "buffer_size": default(1_000_000, rllib=50_000, why="the paper's; older experience stabilises the critic"),
        "timesteps_per_iteration": default(1000),
    },
):
    """Deep deterministic policy gradient."""

    exploration_config: DDPGExploration = key(DDPGExploration(), "How to explore.")


class TD3Config(
    DDPGConfig,
    defaults={
        "twin_q": default(True),
        "policy_delay": default(2),
        "smooth_target_policy": default(True),
        "l2_reg": default(0.0),
        "tau": default(0.01, rllib=0.005, why=_TAU_WHY),
        "train_batch_size": default(100),
        "prioritized_replay": default(False),
        "buffer_size": default(1_000_000),
        "learning_starts": default(1500, rllib=10_000, why="small tasks are half solved by then"),
    },
):
    """DDPG with twin critics, delayed policy updates and smoothed targets."""

    # Another section than that of the class above: pydantic checks it, pyright takes it for an assignment.
    exploration_config: TD3Exploration = key(TD3Exploration(), "How to explore.")  # pyright: ignore


class ApexDDPGConfig(
    DDPGConfig,
    defaults={
        **APEX_DEFAULTS,
        "target_network_update_freq": default(
            0, rllib="500000 transitions trained", why="soft target updates after every update, by tau"
        ),
    },
):
    """DDPG with many workers, each with noise of its own, and a replay in shards that workers give priorities."""

    # Another section than that of the class above: pydantic checks it, pyright takes it for an assignment.
    exploration_config: ApexDDPGExploration = key(ApexDDPGExploration(), "How to explore.")  # pyright: ignore


def policy_spec(config: DDPGConfig, spaces: EnvSpec) -> PolicySpec:
    """Return the PolicySpec of a deterministic policy for ``spaces`` (see ``envs.make.describe``).

    Where workers compute the initial priorities, the critics travel with it.
    """
    from drl_cli.policies import net_builders
    from drl_cli.policies.policy_spec import NetSpec, PolicySpec

    action = net_builders.action(config, spaces)
    about, seen = net_builders.observation(config, spaces)
    layers = hidden_layers(config.actor_hiddens, config.actor_hidden_activation, config)
    net = NetSpec(name="policy", layers=layers, heads=(("mean", action.size),), **seen)
    spec = PolicySpec((net,), "deterministic", action=action, **about)
    if not config.worker_side_prioritization:
        return spec
    return PolicySpec((net, critic_spec(config, spec)), "deterministic", action=action, **about)


def critic_spec(config: DDPGConfig, spec: PolicySpec) -> NetSpec:
    """Return the NetSpec of the critics (two copies with ``twin_q``) that fit ``spec``."""
    from drl_cli.policies import net_builders
    from drl_cli.policies.policy_spec import NetSpec

    acting = spec.nets[0]
    return NetSpec(
        name="critic",
        inputs=(*acting.inputs, ("action", spec.action.size)),
        layers=hidden_layers(config.critic_hiddens, config.critic_hidden_activation, config),
        heads=(("q", 1),),
        copies=2 if config.twin_q else 1,
        **net_builders.sight(acting),
    )


def initial_weights(config: DDPGConfig, spec: PolicySpec, seed: int) -> dict[str, np.ndarray]:
    """Return {name: float32 array} of policy, critics and the targets of both, drawn from ``seed`` alone."""
    return drawn_weights(spec, (critic_spec(config, spec),), seed)


def drawn_weights(spec: PolicySpec, critics: Sequence[NetSpec], seed: int) -> dict[str, np.ndarray]:
    """Return ``initial_weights`` for the nets of ``critics``."""
    from drl_cli.policies import net_builders
    from drl_cli.randomness import generator

    rng = generator(seed, "init")
    weights = spec.nets[0].initial_weights(rng, head_scale=HEAD_SCALE)
    for net in critics:
        weights.update(net.initial_weights(rng))
    return net_builders.with_targets(weights)


def updates_per_target_update(config: DDPGConfig) -> int:
    """Return every how many updates the targets move: a multiple of the policy's delay, since they move with it."""
    from drl_cli.policies import net_builders

    delay = config.policy_delay
    return delay * max(1, round(net_builders.updates_per_target_update(config) / delay))


def target_updates(config: DDPGConfig, updates: int) -> int:
    """Return how often the targets have moved after ``updates`` updates."""
    return updates // updates_per_target_update(config)


def hidden_layers(hiddens: tuple[int, ...], activation: str, config: ActorCriticNets) -> tuple[Layer, ...]:
    """Return the hidden layers of a policy or a critic: ``hiddens`` units each, all with the same ``activation``."""
    from drl_cli.policies import net_builders

    return net_builders.hidden_layers(hiddens, activation, config)


DDPG = Algorithm(
    name="DDPG",
    config=DDPGConfig,
    nets=Nets(policy_spec, initial_weights, target_updates),
    graph="drl_cli.algorithms.ddpg_graph",
    postprocess="n_step",
    loop="replay",
    actions=("Box",),
    observations=ALL_OBSERVATIONS,
    several=True,
)
TD3 = DDPG._replace(name="TD3", config=TD3Config)
APEX_DDPG = DDPG._replace(name="APEX_DDPG", config=ApexDDPGConfig)
