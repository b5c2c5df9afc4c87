"""Keys of algorithms that learn a squashed Gaussian policy with an entropy bonus: SAC, TQC, CrossQ, XQC.

Names and meanings are RLlib's SAC (1.0.1; Haarnoja et al. 2018, arXiv:1812.05905) where it has them; ``use_sde`` and
``log_std_init`` are Stable-Baselines3's (Raffin et al. 2021, arXiv:2005.05719).
"""

from typing import Annotated, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from drl_cli.config.schema import RATE_ALLOWED, MisfitError, Rate, Section, key
from drl_cli.config.sections.exploration import DrawnExploration
from drl_cli.config.sections.model import FullyConnected
from drl_cli.config.sections.off_policy import LearnersPriorities

_RATE_WHY = "for small nets: LunarLander runs with 1e-3 landed within a minute, one of four with 2e-3 failed"


class Optimization(Section):
    """Learning rates of the three parts."""

    actor_learning_rate: Rate = key(
        1e-3, "Learning rate of the policy (Adam).", "per update", RATE_ALLOWED, rllib=3e-4, why=_RATE_WHY
    )
    critic_learning_rate: Rate = key(
        1e-3, "Learning rate of the critics (Adam).", "per update", RATE_ALLOWED, rllib=3e-4, why=_RATE_WHY
    )
    entropy_learning_rate: Rate = key(
        1e-3,
        "Learning rate of the temperature alpha (Adam); 0 keeps alpha at initial_alpha.",
        "per update",
        RATE_ALLOWED,
        rllib=3e-4,
        why=_RATE_WHY,
    )


class SoftKeys(LearnersPriorities):
    """The policy, its critics, and the temperature alpha that weighs entropy against reward."""

    Q_model: FullyConnected = key(FullyConnected(), "The network of each critic.")
    policy_model: FullyConnected = key(FullyConnected(), "The network of the policy.")
    initial_alpha: float = key(
        0.2,
        "Initial temperature alpha, the weight of the entropy relative to the reward.",
        gt=0,
        le=1e6,
        rllib=1.0,
        why="used in the measured LunarLander runs; at 1.0 entropy outweighs small rewards until alpha has decreased",
    )
    target_entropy: Literal["auto"] | Annotated[float, Field(ge=-1e6, le=1e6)] | None = key(
        "auto",
        "Target entropy for learning alpha; auto (or null) is minus the number of action dimensions, and for "
        "Discrete actions target_entropy_fraction times the maximum entropy. Of Dict and Tuple actions it is that of the Box "
        "parts; choices have a temperature and a target of their own (target_entropy_fraction).",
        "nats",
        "'auto', null or a number in [-1e6, 1e6]",
    )
    backup_entropy: bool = key(
        True,
        "Whether the critics' targets include the entropy of the next action, as in SAC; false: the reward alone. "
        "The entropy rewards every further step of an episode, which with gamma near 1 can outweigh the reward for "
        "ending it.",
    )
    optimization: Optimization = key(Optimization(), "Learning rates.")
    use_sde: bool = key(
        False,
        "State-dependent exploration (gSDE): the noise is a linear function of the policy's last hidden features, "
        "whose matrix is resampled every exploration_config.sde_sample_freq steps, so that it is smooth in time. "
        "For Box actions.",
    )
    log_std_init: float = key(
        -3.0,
        "Initial log standard deviation of the elements of the noise matrix.",
        ge=-20,
        le=2,
        needs=("use_sde", 1),
    )
    exploration_config: DrawnExploration = key(DrawnExploration(), "How to explore.")

    @model_validator(mode="after")
    def _explores_in_one_way(self) -> Self:
        exploration = self.exploration_config
        if self.use_sde and exploration.type not in ("StochasticSampling", "Random"):
            raise MisfitError(
                "use_sde", f"true draws the noise of StochasticSampling; {exploration.type} is another one"
            )
        if exploration.sde_sample_freq is not None and not self.use_sde:
            raise MisfitError("exploration_config.sde_sample_freq", "it needs use_sde: true")
        return self
