"""The configs of ES and ARS: every key with its default, meaning, unit and bounds.

Names and meanings are RLlib's (ES, ARS; 1.0.1). Sources: Salimans et al. 2017, "Evolution Strategies as a Scalable
Alternative to Reinforcement Learning" (arXiv 1703.03864), algorithm 2; Mania et al. 2018, "Simple random search provides a
competitive approach to reinforcement learning" (arXiv 1803.07055), algorithms 1 and 2 (V2-t: filter and top directions).

Deviations:
- ``num_workers: 0`` runs too, in one process and reproducible; RLlib wants at least one worker.
- ``rollouts_used`` and ``num_rollouts`` count directions, as in RLlib; each is two episodes, θ + σε and θ − σε, which
  begin alike (the same environment seed).
- An iteration is closed by index: the episodes that belong to it are known before the first has begun. RLlib takes
  whichever come in until there are enough, and so prefers short ones.
- ``eval_prob`` is 0: the tester scores the policy. RLlib knows of its score only by these episodes; here they are reported
  as ``info/unperturbed_reward_mean``, and ``episode_reward_mean`` is of all episodes, as in every other algorithm.
- ``noise_size`` is sized to the policy (RLlib: 250 million numbers, a gigabyte), and small policies need no table.
- ``action_noise_std`` is a share of half the action range; RLlib's is in the environment's units.
"""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from drl_cli.config.schema import MisfitError, Whole, default, key
from drl_cli.config.sections.common import CommonKeys
from drl_cli.config.sections.deterministic import ReproducibleKeys
from drl_cli.config.sections.model import Network
from drl_cli.config.sections.resources import SessionArgs

_UNDISCOUNTED = "the papers rank whole, undiscounted returns"


class LinearNetwork(
    Network,
    defaults={
        "fcnet_hiddens": default(
            (),
            rllib=[256, 256],
            why="Mania et al. 2018: a linear policy suffices for their tasks, 70,000 weights are unnecessary",
        ),
        "fcnet_activation": default("tanh"),
    },
):
    """The network of the policy; without hidden layers it is linear."""


class EvolutionKeys(
    CommonKeys,
    defaults={
        "gamma": default(1.0, rllib="0.99, without effect", why=_UNDISCOUNTED),
        "num_envs_per_worker": default(
            32, rllib=1, why="one forward pass in NumPy for 32 perturbed policies costs little more than for one"
        ),
        "rollout_fragment_length": default(
            1000,
            rllib="200, without effect",
            why=(
                "a call ends after so many steps and the next continues its episodes, so that long episodes do not "
                "delay replies"
            ),
        ),
        "observation_filter": default("MeanStdFilter"),
        "xla": default(False),
    },
):
    """What evolution strategies have in common."""

    model: LinearNetwork = key(LinearNetwork(), "The network of the policy.")
    noise_stdev: float = key(
        0.1,
        "Standard deviation of the weight perturbations.",
        "weight",
        gt=0,
        le=1e3,
        rllib=0.02,
        why="policies start with zero weights on filtered observations, where 0.02 hardly changes an action",
    )
    noise_size: Annotated[Whole, Field(ge=1, le=2**33)] | None = key(
        None,
        "Size of the noise table shared by the workers of a node; null: 64 numbers per weight for policies of more "
        "than 10,000 weights, and a generator instead of a table for smaller ones.",
        "numbers",
        "null, or a whole number of at least the policy's weights",
        rllib=250_000_000,
        why="a gigabyte, whatever the policy",
    )
    action_noise_std: float = key(
        0.0,
        "Standard deviation of noise on Box actions during training.",
        "share of half the action range",
        ge=0,
        le=10,
        rllib="0.01 for ES, 0 for ARS",
        why="the weights are already perturbed",
    )
    eval_prob: float = key(
        0.0,
        "Share of training episodes played with the unperturbed policy, see report_length.",
        "share of episodes",
        ge=0,
        le=0.9,
        rllib="0.003 for ES, 0.03 for ARS",
        why="the tester scores the policy (evaluation_interval); these would only cost time",
    )
    report_length: Whole = key(
        10,
        "Most recent unperturbed training episodes averaged in info/unperturbed_reward_mean.",
        "episodes",
        ge=1,
        le=100_000,
    )

    @model_validator(mode="after")
    def _needs_no_graph(self) -> "EvolutionKeys":
        """Refuse what has no effect without a graph and without a value of states."""
        if self.learner_actor and self.num_workers == 0:
            raise MisfitError("learner_actor", "true needs num_workers 1 or more: without workers there is no Ray")
        if self.num_gpus:
            raise MisfitError(
                "num_gpus", f"{self.num_gpus:g}: an update is a sum of a few vectors in NumPy; keep it at 0"
            )
        if self.xla or self.tf_session_args != SessionArgs():
            name = "xla" if self.xla else "tf_session_args"
            raise MisfitError(name, "it is for algorithms that use TensorFlow, which this one does not; omit it")
        if self.reward_scaling:
            raise MisfitError(
                "reward_scaling", "scaling rewards changes neither the order of returns nor their standardised values"
            )
        return self


class ESConfig(
    ReproducibleKeys,
    EvolutionKeys,
    defaults={"num_workers": default(2, rllib=10, why="most machines have fewer cores")},
):
    """Evolution strategies: all perturbed policies count by the rank of their return; Adam takes the step."""

    episodes_per_batch: Whole = key(
        64,
        "Perturbed episodes per update, two for each direction (antithetic sampling).",
        "episodes",
        ge=2,
        le=10_000_000,
        rllib=1000,
        why="for small and medium tasks more updates with fewer episodes are better",
    )
    train_batch_size: Whole = key(
        0,
        "Minimum env steps per update: directions are added until it is reached.",
        "env steps",
        ge=0,
        le=1_000_000_000,
        rllib=10_000,
        why="early episodes are short, and 10,000 steps of them add little to 64 episodes",
    )
    stepsize: float = key(
        0.1,
        "Learning rate of all weights (Adam).",
        "per update",
        gt=0,
        le=10,
        rllib=0.01,
        why="equal to the scale of the noise (noise_stdev), as in RLlib, where both are smaller",
    )
    l2_coeff: float = key(0.005, "L2 regularisation: weight of half the squared norm of the weights.", ge=0, le=1e3)
    return_proc_mode: Literal["centered_rank"] = key(
        "centered_rank",
        "Fitness shaping of returns: centered ranks from -0.5 to 0.5, with ties averaged.",
    )


class ARSConfig(EvolutionKeys, defaults={"num_workers": default(2)}):
    """Augmented random search: the best directions count by their return, in units of the returns' deviation."""

    num_rollouts: Whole = key(32, "Directions per update, two episodes each.", "directions", ge=1, le=10_000_000)
    rollouts_used: Whole = key(
        16,
        "Top directions used in the update, by the better return of the two signs.",
        "directions",
        ge=1,
        le=10_000_000,
        rllib=32,
        why="half of them, as in most of the paper's settings",
    )
    sgd_stepsize: float = key(
        0.1,
        "Step size of the update along the weighted sum of directions.",
        "per update",
        gt=0,
        le=1e3,
        rllib=0.01,
        why="equal to the scale of the noise (noise_stdev), as in RLlib, where both are smaller",
    )
    offset: float = key(
        0.0,
        "Subtracted from each step's reward before returns are compared, to remove a survival bonus.",
        "reward",
        ge=-1e9,
        le=1e9,
    )

    @model_validator(mode="after")
    def _uses_what_it_tries(self) -> "ARSConfig":
        if self.rollouts_used > self.num_rollouts:
            raise MisfitError("rollouts_used", f"{self.rollouts_used} is more than num_rollouts {self.num_rollouts}")
        return self


def pairs(config: EvolutionKeys) -> int:
    """Return the directions that one step is made of at least."""
    if isinstance(config, ARSConfig):
        return config.num_rollouts
    if isinstance(config, ESConfig):
        return -(-config.episodes_per_batch // 2)
    raise TypeError(f"{type(config).__name__} is a config of neither ES nor ARS")


def pairs_side_by_side(config: EvolutionKeys) -> int:
    """Return the directions that a worker tries side by side: their episodes are its environments."""
    return -(-config.num_envs_per_worker // 2)
