"""A2C and PG (REINFORCE): their keys and their rows; the nets are ``actor_critic_nets``. The update is ``a2c_graph``.

Names and meanings are RLlib's (A2C and PG, 1.0.1; Mnih et al. 2016, arXiv:1602.01783; Williams 1992). RLlib's losses are sums
over a batch, ours are means: with Adam the step is the same, and its ``grad_clip: 40`` over 200 steps is 0.2 here.

Deviations of PG: a baseline, which RLlib's lacks; returns are never cut, where RLlib takes the rewards of a fragment for those
of the episode.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from drl_cli.algorithms.actor_critic_nets import NETS
from drl_cli.algorithms.row import ALL_ACTIONS, ALL_OBSERVATIONS, Algorithm
from drl_cli.config.schema import MisfitError, Whole, default, key
from drl_cli.config.sections.averaged_policy import ScoredAverageKeys
from drl_cli.config.sections.iteration import least_seconds
from drl_cli.config.sections.on_policy import (
    CLIP_WHY,
    OnPolicyKeys,
    StateDependentKeys,
    StragglerKeys,
    sequence_length,
)
from drl_cli.config.sections.resources import LearnerKeys

STANDARDIZE = "Whether the advantages of a batch are shifted and scaled to mean 0 and standard deviation 1."


class A2CConfig(
    StateDependentKeys,
    ScoredAverageKeys,
    LearnerKeys,
    StragglerKeys,
    OnPolicyKeys,
    defaults={
        "rollout_fragment_length": default(16, rllib=20, why="gives a batch of 128 with 8 environments"),
        "train_batch_size": default(
            128, rllib=200, why="one fragment of 8 environments: smaller batches, more gradient steps"
        ),
        "lr": default(1e-3, rllib=1e-4, why="for small nets; RLlib's is tuned for Atari games and hours of training"),
        "lambda_": default(0.95, rllib=1.0, why="less variance, as for PPO"),
        "entropy_coeff": default(0.01),
        "grad_clip": default(0.5, rllib="40, for a sum over 200 steps: 0.2 for their mean", why=CLIP_WHY),
        "min_iter_time_s": least_seconds(10),
    },
):
    """Advantage actor-critic: one gradient step per batch."""

    standardize_advantages: bool = key(False, STANDARDIZE)
    microbatch_size: Annotated[Whole, Field(ge=1, le=10_000_000)] | None = key(
        None,
        "Env steps whose gradient is computed at a time, for batches that do not fit into memory; the gradient step "
        "uses the whole batch. null: all at once.",
        "env steps",
    )

    @model_validator(mode="after")
    def _takes_whole_sequences(self) -> A2CConfig:
        least = sequence_length(self)
        if self.microbatch_size is not None and not least <= self.microbatch_size <= self.train_batch_size:
            raise MisfitError(
                "microbatch_size",
                f"{self.microbatch_size} is not between one sequence ({least}) and train_batch_size {self.train_batch_size}",
            )
        return self


class PGConfig(
    ScoredAverageKeys,
    LearnerKeys,
    StragglerKeys,
    OnPolicyKeys,
    defaults={
        "num_workers": default(0),
        "lr": default(3e-3, rllib=4e-4, why="for small nets; the loss is a mean over a larger batch"),
        "rollout_fragment_length": default(64, rllib=200, why="gives a batch of 512 with 8 environments"),
        "train_batch_size": default(
            512, rllib=200, why="Monte Carlo returns have a high variance and need larger batches"
        ),
        "use_critic": default(
            True,
            rllib=False,
            why="lower variance, and bootstrapping where a fragment cuts an episode; false is plain REINFORCE",
        ),
        "use_gae": default(False),
    },
):
    """REINFORCE: the log-probability of each action, weighted with the return that followed, less a learnt baseline."""

    standardize_advantages: bool = key(True, STANDARDIZE, rllib=False, why="one step size for returns of any scale")


A2C = Algorithm(
    name="A2C",
    config=A2CConfig,
    nets=NETS,
    graph="drl_cli.algorithms.a2c_graph",
    postprocess="trajectory",
    loop="sync",
    actions=ALL_ACTIONS,
    observations=ALL_OBSERVATIONS,
    several=True,
)
PG = A2C._replace(name="PG", config=PGConfig)
