"""R2D2, DQN with an LSTM that learns from sequences of the replay: its keys, its net, its row.

The update is ``r2d2_graph``. Names and meanings are RLlib's (R2D2 of 1.8 to 1.13). Source: Kapturowski et al. 2019,
"Recurrent Experience Replay in Distributed Reinforcement Learning". Deviations: ``burn_in`` comes before what is learnt and
is shorter at an episode's start; ``replay_sequence_length`` may be given (RLlib computes it); ``train_batch_size`` counts
sequences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from drl_cli.algorithms.dqn import DQNExploration, QLearningKeys, initial_weights, values_spec
from drl_cli.algorithms.row import ALL_OBSERVATIONS, Algorithm, Nets, target_updates
from drl_cli.config.schema import default, key
from drl_cli.config.sections.exploration import TYPE
from drl_cli.config.sections.model import RecurrentNetwork
from drl_cli.config.sections.off_policy import RecurrentReplayKeys

if TYPE_CHECKING:
    from drl_cli.envs.env_spec import EnvSpec
    from drl_cli.policies.policy_spec import PolicySpec

__all__ = ["R2D2", "R2D2Config", "R2D2Exploration", "R2D2Network", "initial_weights", "policy_spec", "target_updates"]


class R2D2Network(RecurrentNetwork, defaults={"use_lstm": default(True, rllib=False, why="R2D2 is DQN with an LSTM")}):
    """The network in front of the action values, which ends in an LSTM."""


class R2D2Exploration(DQNExploration):
    """A share of random actions that falls from 1 to 0.02 over 10,000 env steps."""

    type: Literal["EpsilonGreedy", "PerWorkerEpsilonGreedy", "SoftQ", "Random"] = key("EpsilonGreedy", TYPE)


class R2D2Config(
    RecurrentReplayKeys,
    QLearningKeys,
    defaults={
        "tau": default(1.0),
        "target_network_update_freq": default(
            500, rllib=2500, why="after as many updates as DQN's; a sequence holds more information than a transition"
        ),
        "grad_clip": default(40.0),
        "buffer_size": default(100_000),
        "learning_starts": default(1000),
        "rollout_fragment_length": default(
            25, rllib=4, why="one message per 100 steps; the replay is independent of fragment boundaries"
        ),
        "n_step": default(3, rllib=1, why="rewards propagate three times as fast"),
        "updates_per_call": default(10),
        "publish_every": default(10),
        "timesteps_per_iteration": default(1000),
    },
):
    """Recurrent replay: DQN with an LSTM, double, dueling, with n-step returns of rescaled values."""

    without_memory: ClassVar[str] = "DQN"

    # Another section than that of the class above: pydantic checks it, pyright takes it for an assignment.
    model: R2D2Network = key(R2D2Network(), "The network before the Q-value head.")  # pyright: ignore
    exploration_config: R2D2Exploration = key(R2D2Exploration(), "How to explore.")
    use_h_function: bool = key(
        True, "Whether values are rescaled by h(x) = sign(x)(sqrt(|x| + 1) - 1) + h_function_epsilon x."
    )
    h_function_epsilon: float = key(1e-3, "The share of x in h(x).", needs=("use_h_function", 1), ge=1e-6, le=1)


def policy_spec(config: R2D2Config, spaces: EnvSpec) -> PolicySpec:
    """Return the PolicySpec of a recurrent policy over action values for ``spaces`` (see ``envs.make.describe``)."""
    from drl_cli.policies.policy_spec import ValueSpec

    return values_spec(config, spaces, ValueSpec(), config.model.lstm_cell_size)


R2D2 = Algorithm(
    name="R2D2",
    config=R2D2Config,
    nets=Nets(policy_spec, initial_weights, target_updates),
    graph="drl_cli.algorithms.r2d2_graph",
    postprocess="sequences",
    loop="replay",
    actions=("Discrete",),
    observations=ALL_OBSERVATIONS,
)
