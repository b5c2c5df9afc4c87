"""MARWIL and BC: their keys, their nets, their rows. The update is ``marwil_graph``.

Names and meanings are RLlib's (MARWIL, 1.0.1 to 1.13; Wang et al. 2018, "Exponentially Weighted Imitation Learning for
Batched Historical Data"). Deviations:
- ``moving_average_sqd_adv_norm_start``: null, an average without a bias towards any start. RLlib's start of 100 with its
  rate of 1e-8 is never forgotten: whatever the rewards, advantages are divided by 10.
- ``max_advantage_weight`` bounds the weights of the steps; RLlib's are unbounded.
- A timestep is a step learnt from: with ``training_intensity`` 1 files of n steps are a pass every n timesteps.
- Losses are means, the value's is half of the squared error, as RLlib's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from drl_cli.algorithms.actor_critic_nets import DISTRIBUTIONS
from drl_cli.algorithms.row import ALL_ACTIONS, ALL_OBSERVATIONS, Algorithm, Nets
from drl_cli.algorithms.row import no_targets as target_updates
from drl_cli.config.schema import RATE_ALLOWED, Rate, default, key
from drl_cli.config.sections.exploration import DrawnExploration
from drl_cli.config.sections.model import ACTIVATIONS, Network
from drl_cli.config.sections.off_policy import BufferedKeys

if TYPE_CHECKING:
    import numpy as np

    from drl_cli.envs.env_spec import EnvSpec
    from drl_cli.policies.policy_spec import PolicySpec


class ImitationNetwork(Network):
    """The network of the policy, and of the value."""

    fcnet_activation: ACTIVATIONS = key("tanh", "Activation of each hidden layer.")
    free_log_std: bool = key(
        False,
        "Whether the log standard deviations of Box actions are state-independent variables instead of outputs of "
        "the network.",
    )


class ImitationKeys(
    BufferedKeys,
    defaults={
        "buffer_size": default(
            1_000_000, rllib="1000 batches, later 10,000 steps", why="the whole data set is kept as long as it fits"
        ),
        "learning_starts": default(0),
        "train_batch_size": default(512, rllib=2000, why="more and smaller updates in the same time"),
        "training_intensity": default(1.0),
        "updates_per_call": default(100),
        "timesteps_per_iteration": default(
            51_200,
            rllib=0,
            why="one call of the learner, 100 updates of 512 steps; stop rules are checked after each call",
        ),
        "rollout_fragment_length": default(200),
        "evaluation_interval": default(
            1,
            rllib=None,
            why="only evaluations play episodes, so nothing else measures the agent",
        ),
    },
):
    """What both have: a policy that learns to act as recorded."""

    model: ImitationNetwork = key(ImitationNetwork(), "The networks of policy and value.")
    lr: Rate = key(
        1e-3,
        "Learning rate of all weights (Adam).",
        "per update",
        RATE_ALLOWED,
        rllib=1e-4,
        why="for small nets and minutes of training",
    )
    bc_logstd_coeff: float = key(
        0.0, "Weight of a bonus on the mean log standard deviation of Box actions in the loss.", ge=0, le=1e3
    )
    exploration_config: DrawnExploration = key(DrawnExploration(), "Exploration, if the algorithm samples.")


class MARWILConfig(ImitationKeys):
    """Imitation in which steps weigh more the better they turned out."""

    beta: float = key(
        1.0,
        (
            "Inverse temperature of the advantage weights: the weight of a step is exp(beta · advantage / scale). 0 "
            "is BC."
        ),
        ge=0,
        le=1e3,
    )
    vf_coeff: float = key(
        1.0, "Weight of the value loss relative to the policy loss.", needs=("beta", 1e-12), ge=0, le=1e6
    )
    vf_share_layers: bool = key(False, "Whether policy and value share the hidden layers.", needs=("beta", 1e-12))
    max_advantage_weight: float = key(
        20.0,
        "Largest weight of a step.",
        needs=("beta", 1e-12),
        ge=1,
        le=1e9,
        rllib="no bound",
        why="a single lucky step would dominate a batch; the bound is that of CRR (Wang et al. 2020)",
    )
    moving_average_sqd_adv_norm_start: Annotated[float, Field(gt=0, le=1e12)] | None = key(
        None,
        "Initial value of the running mean of squared advantages, whose root is the scale; null: estimated from the "
        "data, from the first batch on.",
        "squared return",
        needs=("beta", 1e-12),
        rllib=100,
        why="with slow update rates the initial value would dominate the scale",
    )
    moving_average_sqd_adv_norm_update_rate: float = key(
        0.01,
        "Weight of each batch in that running mean.",
        "share per update",
        needs=("beta", 1e-12),
        gt=0,
        le=1,
        rllib=1e-8,
        why="with 1e-8 it takes a hundred million updates to converge",
    )


class BCConfig(ImitationKeys):
    """Behaviour cloning: MARWIL without advantages, and without the net for values."""

    @property
    def beta(self) -> float:
        """Every step weighs the same."""
        return 0.0


def policy_spec(config: MARWILConfig | BCConfig, spaces: EnvSpec) -> PolicySpec:
    """Return the PolicySpec for ``spaces`` (see ``envs.make.describe``).

    The first net is "policy"; values are a head of it, or a net "value" of the same layers.
    """
    from drl_cli.policies import net_builders
    from drl_cli.policies.policy_spec import VALUE_HEAD, NetSpec, PolicySpec

    model, action = config.model, net_builders.action(config, spaces)
    about, seen = net_builders.observation(config, spaces)
    heads = net_builders.drawing_heads(action)
    layers = net_builders.layers(model)
    has_value = config.beta > 0
    is_shared = isinstance(config, MARWILConfig) and has_value and config.vf_share_layers
    acting = NetSpec(
        name="policy",
        layers=layers,
        heads=(*heads, VALUE_HEAD) if is_shared else heads,
        free_heads=tuple(head for head, _ in heads if head.startswith("log_std")) if model.free_log_std else (),
        **seen,
    )
    value = NetSpec(name="value", layers=layers, heads=(VALUE_HEAD,), **seen)
    return PolicySpec(
        nets=(acting, value) if has_value and not is_shared else (acting,),
        distribution=DISTRIBUTIONS[action.kind],
        action=action,
        scored=has_value,
        mask=net_builders.mask(spaces),
        **about,
    )


def initial_weights(config: ImitationKeys, spec: PolicySpec, seed: int) -> dict[str, np.ndarray]:
    """Return {name: float32 array} of all nets, drawn from ``seed`` alone."""
    from drl_cli.policies.nets import orthogonal_weights
    from drl_cli.randomness import generator

    del config
    rng = generator(seed, "init")
    return {name: value for net in spec.nets for name, value in orthogonal_weights(net, rng).items()}


MARWIL = Algorithm(
    name="MARWIL",
    config=MARWILConfig,
    nets=Nets(policy_spec, initial_weights, target_updates),
    graph="drl_cli.algorithms.marwil_graph",
    postprocess="monte_carlo",
    loop="replay",
    actions=ALL_ACTIONS,
    observations=ALL_OBSERVATIONS,
    reads=True,
)
BC = MARWIL._replace(name="BC", config=BCConfig)
