"""QMIX and VDN: their keys, their nets, their rows. The update is ``qmix_graph``.

Names and meanings are RLlib's (QMIX, 1.0.1). Sources: value decomposition, Sunehag et al. 2018 (arXiv 1706.05296); monotonic
mixing, Rashid et al. 2018 (arXiv 1803.11485). Where a default differs from RLlib's, the key's ``why`` says so.

Deviations: agents have a memory only with ``model.use_lstm`` (the papers' have GRU cells) and learn from sequences then,
as R2D2's with stored states, otherwise from transitions; the papers' learn from whole episodes. All of the mixing
network's hypernetworks have the hidden layers of ``hypernet_hiddens`` (the paper's: the last bias alone has one).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import model_validator
from typing_extensions import Self

from drl_cli.algorithms.dqn import DQNExploration
from drl_cli.algorithms.row import Algorithm, Nets, target_updates
from drl_cli.algorithms.team_nets import ACTIONS, OBSERVATIONS, TeamKeys
from drl_cli.config.schema import RATE_ALLOWED, MisfitError, Rate, Whole, Widths, default, key
from drl_cli.config.sections.exploration import TYPE
from drl_cli.config.sections.model import RecurrentNetwork
from drl_cli.config.sections.off_policy import LearnersPriorities, OffPolicyKeys, TargetKeys
from drl_cli.config.sections.offline import reads
from drl_cli.config.sections.replay import SequenceKeys

if TYPE_CHECKING:
    import numpy as np

    from drl_cli.envs.env_spec import EnvSpec
    from drl_cli.policies.policy_spec import NetSpec, PolicySpec

MIXER = "mixer"
_OF_SEQUENCES = ("burn_in", "replay_sequence_length", "zero_init_states")


class TeamValueExploration(DQNExploration):
    """A share of random actions, each agent's drawn by itself, that falls from 1 to 0.02 over 10,000 env steps."""

    type: Literal["EpsilonGreedy", "PerWorkerEpsilonGreedy", "Random"] = key("EpsilonGreedy", TYPE)


class TeamValueNetwork(
    RecurrentNetwork, defaults={"fcnet_activation": default("relu", rllib="tanh", why="as in the papers")}
):
    """The network of each agent's action values, which may end in an LSTM."""


class QMIXConfig(
    TeamKeys,
    LearnersPriorities,
    TargetKeys,
    OffPolicyKeys,
    SequenceKeys,
    defaults={
        "tau": default(1.0),
        "target_network_update_freq": default(500),
        "grad_clip": default(10.0),
        "n_step": default(1),
        "buffer_size": default(50_000, rllib=1000, why="counted in env steps, not in episodes"),
        "learning_starts": default(1000),
        "train_batch_size": default(64, rllib=32, why="transitions, of which an episode has many"),
        "training_intensity": default(None),
        "timesteps_per_iteration": default(1000),
    },
):
    """Q-learning of a team: the value of all agents' actions is mixed from that of each agent's own."""

    # Another section than that of the classes above: pydantic checks it, pyright takes it for an assignment.
    model: TeamValueNetwork = key(TeamValueNetwork(), "The network of each agent's action values.")  # pyright: ignore
    mixer: Literal["qmix", "vdn"] = key(
        "qmix",
        "How the agents' values become one: vdn adds them up; qmix mixes them by a network whose weights depend on the state "
        "and are not negative, so that what is best for each agent is best for all.",
    )
    mixing_embed_dim: Whole = key(
        32, "Units of the mixing network's hidden layer, with mixer qmix.", "units", ge=1, le=4096
    )
    hypernet_hiddens: Widths = key(
        (64,),
        "Units of the hidden layers between the state and each of the mixing network's weights and biases, with mixer qmix.",
        "units",
        "a list of whole numbers in [1, 65536], at most 32",
    )
    double_q: bool = key(
        True, "Double Q-learning: the online network chooses the next actions, the target network values them."
    )
    lr: Rate = key(5e-4, "Adam's step size of all weights.", "per update", RATE_ALLOWED)
    adam_epsilon: float = key(1e-8, "What Adam adds to the root of the mean squared gradient.", gt=0, le=1)
    exploration_config: TeamValueExploration = key(TeamValueExploration(), "How to explore.")

    @model_validator(mode="after")
    def _memory_fits(self) -> Self:
        if not self.model.use_lstm:
            for name in _OF_SEQUENCES:
                if getattr(self, name) != type(self).model_fields[name].default:
                    raise MisfitError(
                        name, "without model.use_lstm no sequences are replayed; set that too, or leave it out"
                    )
        elif not self.share_weights:
            raise MisfitError("share_weights", "false with model.use_lstm: agents with a memory share their weights")
        elif reads(self):
            raise MisfitError("input", "files hold no states of the LSTM for its sequences to begin with; leave it out")
        return self


class VDNConfig(QMIXConfig, defaults={"mixer": default("vdn", rllib="qmix", why="that is what VDN is")}):
    """QMIX whose agents' values are added up."""


def policy_spec(config: QMIXConfig, spaces: EnvSpec) -> PolicySpec:
    """Return the PolicySpec over each agent's action values for a team's ``spaces`` (see ``envs.make.describe``)."""
    from drl_cli.algorithms.team_nets import team_net
    from drl_cli.policies import net_builders
    from drl_cli.policies.policy_spec import NetSpec, PolicySpec

    team, about, seen = team_net(config, spaces, config.share_weights)
    cells = config.model.lstm_cell_size if config.model.use_lstm else 0
    net = NetSpec(name="q", layers=net_builders.layers(config.model), heads=(("q", team.widest),), lstm=cells, **seen)
    state = tuple((team.count, *shape) for shape in net.state_shapes)
    return PolicySpec((net,), "joint_q", action=net_builders.action(config, spaces), state=state, **about)


def mixer_spec(config: QMIXConfig, spec: PolicySpec) -> NetSpec | None:
    """Return the NetSpec of the hypernetworks, from the state to the mixing network's weights; None with mixer vdn.

    Heads: w1 (A·E) and b1 (E) of the hidden layer, w2 (E) and b2 (1) of the output.
    """
    from drl_cli.policies.policy_spec import Dense, NetSpec

    team, width = spec.team, config.mixing_embed_dim
    if config.mixer == "vdn" or team is None:
        return None
    hidden = tuple(Dense(units, "relu") for units in config.hypernet_hiddens)
    heads = (("w1", team.count * width), ("b1", width), ("w2", width), ("b2", 1))
    return NetSpec(MIXER, (("state", team.state[1]),), (), heads, head_layers=hidden)


def initial_weights(config: QMIXConfig, spec: PolicySpec, seed: int) -> dict[str, np.ndarray]:
    """Return {name: float32 array} of agents' net, mixing network and the targets of both, drawn from ``seed`` alone."""
    from drl_cli.policies import net_builders
    from drl_cli.randomness import generator

    rng = generator(seed, "init")
    mixer = mixer_spec(config, spec)
    nets = (spec.nets[0],) if mixer is None else (spec.nets[0], mixer)
    return net_builders.with_targets({name: w for net in nets for name, w in net.initial_weights(rng).items()})


QMIX = Algorithm(
    name="QMIX",
    config=QMIXConfig,
    nets=Nets(policy_spec, initial_weights, target_updates),
    graph="drl_cli.algorithms.qmix_graph",
    postprocess="n_step",
    loop="replay",
    actions=ACTIONS,
    observations=OBSERVATIONS,
    team=True,
    sees_team_state=True,
)
VDN = QMIX._replace(name="VDN", config=VDNConfig, sees_team_state=False)
