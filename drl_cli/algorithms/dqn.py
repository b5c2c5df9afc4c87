"""DQN, SimpleQ, APEX and QRDQN: their keys, their net, their rows. The update is ``dqn_graph``.

Names and meanings are RLlib's (1.0.1) and, for QRDQN, which it lacks, Stable-Baselines3's. Sources: Mnih et al. 2015;
van Hasselt et al. 2016 (double); Wang et al. 2016 (dueling); Bellemare et al. 2017 (atoms); Fortunato et al. 2018
(noisy); Hessel et al. 2018 (Rainbow: all of them); Dabney et al. 2018 (quantiles). Where a default differs from
RLlib's, the key's ``why`` says so.

Deviation: with ``model.layer_norm`` the layers of the streams are normalised too; with ``model.residual_blocks`` they are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import model_validator

from drl_cli.algorithms.apex import APEX_DEFAULTS
from drl_cli.algorithms.row import ALL_OBSERVATIONS, Algorithm, Nets, target_updates
from drl_cli.config.schema import RATE_ALLOWED, MisfitError, Rate, Section, Whole, Widths, default, key
from drl_cli.config.sections.deterministic import DeterministicKeys
from drl_cli.config.sections.exploration import ValueExploration
from drl_cli.config.sections.model import Network
from drl_cli.config.sections.off_policy import AtomKeys, OffPolicyKeys, TargetKeys
from drl_cli.config.sections.resources import NO_GPU

if TYPE_CHECKING:
    import numpy as np

    from drl_cli.envs.env_spec import EnvSpec
    from drl_cli.policies.policy_spec import PolicySpec, ValueSpec

STREAM_ACTIVATION = "relu"  # RLlib's, whatever the layers in front of the streams have
_EPSILONS = ("initial_epsilon", "final_epsilon", "epsilon_timesteps", "epsilon_schedule")


class DQNExploration(
    ValueExploration,
    defaults={
        "initial_epsilon": default(1.0),
        "final_epsilon": default(0.02),
        "epsilon_timesteps": default(10_000),
    },
):
    """A share of random actions that falls from 1 to 0.02 over 10,000 env steps."""


class ApexExploration(ValueExploration, defaults={"type": default("PerWorkerEpsilonGreedy")}):
    """A share of random actions that differs from environment to environment."""


class ValueNetwork(
    Network,
    defaults={"fcnet_activation": default("relu", rllib="tanh", why="the same as in the hidden layers after it")},
):
    """The network in front of the action values."""


class ValueKeys(Section):
    """The net of action values and how it is learnt."""

    model: ValueNetwork = key(ValueNetwork(), "The network before the Q-value head.")
    dueling: bool = key(True, "Dueling network: separate streams for the state value and the advantages.")
    hiddens: Widths = key(
        (64,),
        "Units of each hidden layer between that network and the Q-values, in each stream.",
        "units",
        "a list of whole numbers in [1, 65536], at most 32",
        rllib=[256],
        why="as wide as the layers of model before it",
    )
    double_q: bool = key(
        True, "Double Q-learning: the online network selects the next action, the target network evaluates it."
    )
    noisy: bool = key(
        False,
        "Noisy nets: explore by parametric noise in these layers instead of random actions; epsilon is 0 unless "
        "exploration_config sets one.",
    )
    sigma0: float = key(0.5, "Initial scale of that noise (sigma_0).", needs=("noisy", 1), gt=0, le=100)
    lr: Rate = key(5e-4, "Learning rate (Adam).", "per update", RATE_ALLOWED)
    adam_epsilon: float = key(1e-8, "Adam's epsilon, added to the root of the mean squared gradient.", gt=0, le=1)
    exploration_config: DQNExploration = key(DQNExploration(), "How to explore.")

    @model_validator(mode="before")
    @classmethod
    def _noise_needs_no_epsilon(cls, data: Any) -> Any:
        if not isinstance(data, dict) or data.get("noisy", cls.model_fields["noisy"].default) is not True:
            return data
        given = data.get("exploration_config", {})
        epsilon_greedy = cls.model_fields["exploration_config"].default.type == "EpsilonGreedy"
        if not isinstance(given, dict) or given.get("type", "EpsilonGreedy") != "EpsilonGreedy" or not epsilon_greedy:
            return data
        if set(given) & set(_EPSILONS):
            return data
        return {**data, "exploration_config": {**given, "initial_epsilon": 0.0, "final_epsilon": 0.0}}

    @model_validator(mode="after")
    def _has_one_noise(self) -> ValueKeys:
        if self.noisy and self.exploration_config.type == "ParameterNoise":
            raise MisfitError("noisy", "both this key and ParameterNoise perturb the weights; use one of them")
        return self


class QLearningKeys(ValueKeys, TargetKeys, OffPolicyKeys):
    """What DQN, QR-DQN and R2D2 have."""


class QRDQNConfig(
    QLearningKeys,
    defaults={
        "tau": default(1.0),
        "target_network_update_freq": default(500),
        "buffer_size": default(50_000),
        "learning_starts": default(1000),
        "train_batch_size": default(64),
        "dueling": default(False),
        "double_q": default(False),
        "training_intensity": default(None),  # RLlib has no QR-DQN
    },
):
    """DQN that learns quantiles of the return of each action."""

    n_quantiles: Whole = key(
        50, "Quantiles of each action's return distribution. The paper uses 200.", "quantiles", ge=2, le=1000
    )


class DQNConfig(
    DeterministicKeys,
    AtomKeys,
    QLearningKeys,
    defaults={
        "tau": default(1.0),
        "target_network_update_freq": default(500),
        "grad_clip": default(40.0),
        "buffer_size": default(50_000),
        "prioritized_replay": default(True),
        "learning_starts": default(1000),
        "rollout_fragment_length": default(
            25, rllib=4, why="one message per 100 steps; the replay is independent of fragment boundaries"
        ),
        "train_batch_size": default(
            64, rllib=32, why="between what published recipes use for CartPole and LunarLander"
        ),
        "n_step": default(3, rllib=1, why="rewards propagate three times as fast"),
        "training_intensity": default(
            None,
            rllib="null: a batch of 32 per 4 env steps",
            why="a ratio that does not depend on the number of workers",
        ),
        "timesteps_per_iteration": default(1000),
    },
):
    """Deep Q-learning, optionally double, dueling, distributional, noisy, prioritized and with n-step returns."""

    num_atoms: Whole = key(
        1,
        "Atoms of each action's return distribution (C51); 1 learns only the mean.",
        "atoms",
        ge=1,
        le=1000,
    )


class SimpleQConfig(
    DQNConfig,
    defaults={
        "double_q": default(False),
        "dueling": default(False),
        "hiddens": default(()),
        "compress_observations": default(False, rllib=True, why="useful for images only; set it to true for them"),
        "n_step": default(1),
        "prioritized_replay": default(False),
    },
):
    """DQN without its extensions; each can be switched on."""


class ApexConfig(
    DQNConfig,
    defaults={
        **APEX_DEFAULTS,
        "target_network_update_freq": default(
            500, rllib="500000 transitions trained", why="counted in env steps as for DQN; RLlib's is for 32 workers"
        ),
        "num_gpus": default(0.0, rllib=1, why=NO_GPU),
    },
):
    """DQN with many workers, each environment with its share of random actions, and a replay in shards."""

    # Another section than that of the class above: pydantic checks it, pyright takes it for an assignment.
    exploration_config: ApexExploration = key(ApexExploration(), "How to explore.")  # pyright: ignore


def policy_spec(config: DQNConfig | QRDQNConfig, spaces: EnvSpec) -> PolicySpec:
    """Return the PolicySpec of a policy over action values for ``spaces`` (see ``envs.make.describe``).

    Quantiles for QRDQN, for the others with ``num_atoms`` above 1 a distribution over atoms. Noise, as in Rainbow, is in the
    layers of the streams and in their outputs.
    """
    return values_spec(config, spaces, _value(config))


def values_spec(config: QLearningKeys, spaces: EnvSpec, value: ValueSpec, lstm: int = 0) -> PolicySpec:
    """Return the PolicySpec over action values that ``value`` describes, with ``lstm`` recurrent cells."""
    from drl_cli.policies import net_builders
    from drl_cli.policies.policy_spec import Dense, NetSpec, PolicySpec

    action = net_builders.action(config, spaces)
    about, seen = net_builders.observation(config, spaces)
    heads = (("value", value.atoms), ("advantage", action.size * value.atoms))
    streams = (Dense(units, STREAM_ACTIVATION, config.model.layer_norm, config.noisy) for units in config.hiddens)
    net = NetSpec(
        name="q",
        layers=net_builders.layers(config.model),
        heads=heads if config.dueling else (("q", action.size * value.atoms),),
        head_layers=tuple(streams),
        noisy_heads=config.noisy,
        lstm=lstm,
        **seen,
    )
    mask = net_builders.mask(spaces)
    return PolicySpec((net,), "q", action=action, value=value, state=net.state_shapes, mask=mask, **about)


def initial_weights(config: ValueKeys, spec: PolicySpec, seed: int) -> dict[str, np.ndarray]:
    """Return {name: float32 array} of the net and its target, drawn from ``seed`` alone."""
    from drl_cli.policies import net_builders
    from drl_cli.randomness import generator

    return net_builders.with_targets(spec.nets[0].initial_weights(generator(seed, "init"), sigma=config.sigma0))


def _value(config: DQNConfig | QRDQNConfig) -> ValueSpec:
    from drl_cli.policies.policy_spec import ValueSpec

    if isinstance(config, QRDQNConfig):
        return ValueSpec("quantile", config.n_quantiles)
    if config.num_atoms == 1:
        return ValueSpec()
    return ValueSpec("categorical", config.num_atoms, float(config.v_min), float(config.v_max))


DQN = Algorithm(
    name="DQN",
    config=DQNConfig,
    nets=Nets(policy_spec, initial_weights, target_updates),
    graph="drl_cli.algorithms.dqn_graph",
    postprocess="n_step",
    loop="replay",
    actions=("Discrete",),
    observations=ALL_OBSERVATIONS,
    several=True,
)
QRDQN = DQN._replace(name="QRDQN", config=QRDQNConfig)
SimpleQ = DQN._replace(name="SimpleQ", config=SimpleQConfig)
APEX = DQN._replace(name="APEX", config=ApexConfig)
