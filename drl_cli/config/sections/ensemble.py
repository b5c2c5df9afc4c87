"""Keys of SAC's critics: how many, which enter the target, what the policy maximises, and dropout in them.

REDQ: Chen et al. 2021, "Randomized Ensembled Double Q-Learning" (arXiv 2101.05982). DroQ: Hiraoka et al. 2022, "Dropout
Q-Functions for Doubly Efficient Reinforcement Learning" (arXiv 2110.02034). RLlib has neither; with the defaults the critics
are those of its SAC.
"""

from typing import Annotated, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from drl_cli.config.schema import MisfitError, Whole, key
from drl_cli.config.sections.max_entropy import SoftKeys
from drl_cli.config.sections.off_policy import TwinKeys


class EnsembleKeys(SoftKeys, TwinKeys):
    """An ensemble of critics, two by default."""

    num_critics: Whole = key(
        2,
        "Critics with twin_q. REDQ has 10, with target_critics 2, training_intensity 20 times train_batch_size and "
        "policy_delay 20.",
        "nets",
        ge=2,
        le=32,
        needs=("twin_q", 1),
    )
    target_critics: Annotated[Whole, Field(ge=1, le=32)] | None = key(
        None,
        "REDQ: target critics that are drawn at random at every update, whose minimum is the target; null: all.",
        "nets",
        "null or a whole number in [1, 32], at most num_critics",
        needs=("twin_q", 1),
    )
    policy_q: Literal["min", "mean"] | None = key(
        None,
        "What the policy maximises: the minimum of all critics, as in SAC, or their mean, as in REDQ and DroQ; null: mean "
        "with target_critics or critic_dropout, otherwise min.",
        allowed="'min', 'mean' or null",
        needs=("twin_q", 1),
    )
    critic_dropout: float = key(
        0.0,
        "DroQ: dropout rate of every hidden layer of critics and target critics, before Q_model.layer_norm, which the paper "
        "combines it with; its rates are 0.001 to 0.1, with training_intensity 20 times train_batch_size and policy_delay 20.",
        "share of units",
        ge=0,
        lt=1,
    )

    @model_validator(mode="after")
    def _draws_from_its_critics(self) -> Self:
        if self.twin_q and self.target_critics is not None and self.target_critics > self.num_critics:
            raise MisfitError(
                "target_critics", f"{self.target_critics} cannot be drawn from num_critics {self.num_critics}"
            )
        if self.critic_dropout and not self.Q_model.fcnet_hiddens:
            raise MisfitError("critic_dropout", "it drops hidden units, and Q_model.fcnet_hiddens has none")
        if self.critic_dropout and self.Q_model.residual_blocks:
            raise MisfitError("critic_dropout", "it is for plain hidden layers; leave out Q_model.residual_blocks")
        return self

    @property
    def critics(self) -> int:
        """How many critics there are."""
        return self.num_critics if self.twin_q else 1

    @property
    def target_minimum_of(self) -> int:
        """How many target critics the minimum of a target is over."""
        return min(self.target_critics or self.critics, self.critics)

    @property
    def policy_maximises_mean(self) -> bool:
        """Whether the policy maximises the mean of the critics and not their minimum."""
        if self.policy_q is None:
            return self.target_critics is not None or self.critic_dropout > 0
        return self.policy_q == "mean"
