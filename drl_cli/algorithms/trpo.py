"""TRPO: its keys and its row; the nets are ``actor_critic_nets``. The update is ``trpo_graph``.

RLlib never had TRPO: its names are taken where it has the thing for other
algorithms, the others are those of the published implementations. Source of defaults: Schulman et al. 2015 (arXiv
1502.05477), appendix D and E, OpenAI's Spinning Up, and the recipes of rl-baselines3-zoo.
"""

from __future__ import annotations

from pydantic import model_validator

from drl_cli.algorithms.actor_critic_nets import NETS
from drl_cli.algorithms.row import ALL_ACTIONS, ALL_OBSERVATIONS, Algorithm
from drl_cli.config.schema import RATE_ALLOWED, MisfitError, Rate, Whole, default, key
from drl_cli.config.sections.averaged_policy import ScoredAverageKeys
from drl_cli.config.sections.on_policy import OnPolicyKeys, StateDependentKeys, StragglerKeys, check_minibatch

_ONLY_VALUE_LOSS = 1.0  # the one vf_loss_coeff that says nothing


class TRPOConfig(
    StateDependentKeys,
    ScoredAverageKeys,
    StragglerKeys,
    OnPolicyKeys,
    defaults={
        # A run makes some tens of updates, each of large operations: too few to pay for the compiler.
        "xla": default(False),
        "lr": default(1e-3),
        "min_iter_time_s": default(None),  # RLlib has no TRPO
        "grad_clip": default(None),
        "adam_epsilon": default(1e-8),
        "vf_loss_coeff": default(_ONLY_VALUE_LOSS),
    },
):
    """Trust region policy optimization; ``lr``, ``grad_clip`` and ``adam_epsilon`` are those of the value's fit."""

    max_kl: Rate = key(
        0.02,
        "Trust region: largest mean KL divergence between old and new policy over the batch. A schedule that "
        "decreases lets the policy converge.",
        "nats",
        RATE_ALLOWED,
    )
    cg_iterations: Whole = key(
        10,
        "Maximum number of conjugate gradient iterations, with one Fisher-vector product each.",
        "iterations",
        ge=1,
        le=1000,
    )
    cg_damping: float = key(
        0.1,
        "Damping, added to the diagonal of the Fisher matrix: larger values shorten steps in directions that hardly "
        "change the policy.",
        ge=0,
        le=1e6,
    )
    fisher_fraction: float = key(
        0.25,
        "Share of the batch used for Fisher-vector products; gradient and line search use the whole batch.",
        "share",
        gt=0,
        le=1,
    )
    line_search_steps: Whole = key(
        10,
        "Maximum number of line search steps, longest first; if none improves the surrogate within max_kl, the "
        "policy is not changed.",
        "steps",
        ge=1,
        le=1000,
    )
    line_search_shrink: float = key(0.8, "Ratio of successive step lengths in the line search.", "share", gt=0, lt=1)
    vf_iterations: Whole = key(
        10, "Epochs of the value function over the batch, in shuffled minibatches.", "epochs", ge=0, le=10_000
    )
    sgd_minibatch_size: Whole = key(
        128, "Env steps per minibatch of the value function.", "env steps", ge=1, le=10_000_000
    )

    @model_validator(mode="after")
    def _keeps_policy_and_value_apart(self) -> TRPOConfig:
        """Refuse layers that two updates would train, and keys that have no effect for that reason."""
        if self.vf_share_layers:
            raise MisfitError(
                "vf_share_layers",
                "TRPO needs false: training the value function would move the policy out of its trust region",
            )
        regions = [self.max_kl] if isinstance(self.max_kl, (int, float)) else [value for _, value in self.max_kl]
        if min(regions) <= 0:
            raise MisfitError(
                "max_kl", "with 0 the policy never changes; it must be above 0 at every point of a schedule"
            )
        if self.vf_loss_coeff != _ONLY_VALUE_LOSS:
            raise MisfitError(
                "vf_loss_coeff", "TRPO trains the value function separately, with learning rate lr; omit it"
            )
        if self.num_gpus > 1:
            raise MisfitError("num_gpus", f"{self.num_gpus:g} means towers, which TRPO does not have; use 1 or less")
        if self.sgd_minibatch_size > self.train_batch_size:
            raise MisfitError(
                "sgd_minibatch_size", f"{self.sgd_minibatch_size} is more than train_batch_size {self.train_batch_size}"
            )
        check_minibatch(self, self.sgd_minibatch_size)
        return self


TRPO = Algorithm(
    name="TRPO",
    config=TRPOConfig,
    nets=NETS,
    graph="drl_cli.algorithms.trpo_graph",
    postprocess="trajectory",
    loop="sync",
    actions=ALL_ACTIONS,
    observations=ALL_OBSERVATIONS,
)
