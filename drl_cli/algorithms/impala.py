"""IMPALA and APPO: their keys and their rows; the nets are ``actor_critic_nets``. Updates: ``impala_graph``, ``appo_graph``.

Names and meanings are RLlib's (1.0.1). Sources: Espeholt et al. 2018 (IMPALA); Luo et al. 2020, "IMPACT" (arXiv
1912.00167), for the target policy, replayed batches and several passes; Schulman et al. 2017 (the clipped surrogate).

Deviations:
- Losses are means over the steps of a batch; RLlib's IMPALA takes sums. Of a sum over its 500 steps the gradient is 500
  times as long: its ``grad_clip`` 40 is 0.08 here, and its RMSProp's ``epsilon`` 0.1 is 0.1 / 500² = 4e-7.
- ``learner_queue_size`` bounds what waits for the learner, in batches; a longer queue makes nothing faster, and everything
  that is learnt older.
- ``lambda`` weighs V-trace's traces too (remark 2 of the paper).
- ``target_update_frequency`` counts train batches. RLlib 1.0.1 compares env steps with a number of passes, and so copies
  at every batch.
- ``vtrace_drop_last_ts`` has nothing to do: the value of the real observation after the last step is known.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from drl_cli.algorithms.actor_critic_nets import NETS
from drl_cli.algorithms.row import ALL_ACTIONS, ALL_OBSERVATIONS, Algorithm
from drl_cli.config.schema import MisfitError, Section, Whole, default, key
from drl_cli.config.sections.averaged_policy import ScoredAverageKeys
from drl_cli.config.sections.deterministic import DeterministicKeys
from drl_cli.config.sections.iteration import least_seconds
from drl_cli.config.sections.on_policy import OnPolicyKeys
from drl_cli.config.sections.resources import NO_GPU, LearnerKeys, learners

Threshold = Annotated[float, Field(gt=0, le=1e6)]

_STREAM = {
    "num_workers": default(2),
    "min_iter_time_s": least_seconds(10),
    "rollout_fragment_length": default(50),
    "train_batch_size": default(
        800,
        rllib=500,
        why="two fragments of 8 environments; batches consist of whole fragments, so 500 would also become 800",
    ),
    "lr": default(
        1e-3, rllib=5e-4, why="one gradient step per batch; with a larger step size small tasks take half the batches"
    ),
    "grad_clip": default(
        0.5, rllib="40, for a sum over 500 steps: 0.08 for their mean", why="as in the other algorithms of this family"
    ),
    "lambda_": default(1.0),
    "entropy_coeff": default(0.01),
}
"""What both start from in place of the on-policy family's defaults."""


class VTraceKeys(Section):
    """V-trace, the off-policy correction for steps of older behaviour policies."""

    vtrace: bool = key(
        True,
        "Whether V-trace corrects values and advantages for the policy lag; false treats the steps as on-policy and "
        "estimates advantages as A3C does.",
    )
    vtrace_clip_rho_threshold: Threshold | None = key(
        1.0,
        "Clip of the importance weights of temporal differences (rho-bar in the paper), which determines the policy "
        "whose value is learnt. null: no clipping.",
        needs=("vtrace", 1),
    )
    vtrace_clip_pg_rho_threshold: Threshold | None = key(
        1.0,
        "Clip of the importance weights in the policy gradient. null: no clipping.",
        needs=("vtrace", 1),
    )


class StreamKeys(Section):
    """How fragments reach the learner, how many passes it makes over them, and how often its weights are broadcast."""

    num_sgd_iter: Whole = key(1, "Epochs over each train batch; one gradient step per epoch.", "passes", ge=1, le=1000)
    minibatch_buffer_size: Whole = key(
        1,
        "Train batches whose epochs are interleaved; 1 makes all epochs over a batch before the next batch. Has an "
        "effect only if num_sgd_iter is above 1.",
        "train batches",
        needs=("num_sgd_iter", 2),
        ge=1,
        le=1000,
    )
    replay_buffer_num_slots: Whole = key(
        0, "Newest fragments kept for trajectory replay; 0 keeps none.", "fragments", ge=0, le=10_000
    )
    replay_proportion: float = key(
        0.0,
        "Replayed fragments added to the queue per new one, on average, sampled from the slots.",
        "fragments per fragment",
        needs=("replay_buffer_num_slots", 1),
        ge=0,
        le=100,
    )
    learner_queue_size: Whole = key(
        2,
        "Capacity of the learner's queue, in train batches; while it is full, workers have at most one request each.",
        "train batches",
        ge=1,
        le=1000,
        rllib=16,
        why="a batch that waits for fifteen others is learnt from fifteen versions later",
    )
    learner_queue_timeout: float = key(
        300.0,
        "Longest time that the learner waits for a train batch before the run fails.",
        "seconds",
        needs=("num_workers", 1),
        gt=0,
        le=86_400,
    )
    max_sample_requests_in_flight_per_worker: Whole = key(
        2,
        "Sample requests that a worker may have outstanding; with 2 it starts the next one immediately.",
        "fragments",
        needs=("num_workers", 1),
        ge=1,
        le=100,
    )
    broadcast_interval: Whole = key(
        1, "Train batches between two pushes of the learner's weights.", "calls", ge=1, le=1000
    )
    num_aggregation_workers: Whole = key(
        0,
        "Processes that join fragments to train batches ahead of the learner, one batch each; with 0 the learner joins them.",
        "processes",
        needs=("num_workers", 1),
        ge=0,
        le=1000,
    )


class OptimiserKeys(Section):
    """Which optimiser takes the steps."""

    opt_type: Literal["adam", "rmsprop"] = key(
        "adam", "adam (with adam_epsilon) or rmsprop (with the next three keys)."
    )
    decay: float = key(0.99, "Decay of RMSProp's running mean of squared gradients.", gt=0, lt=1)
    momentum: float = key(0.0, "Momentum coefficient of RMSProp.", ge=0, lt=1)
    epsilon: float = key(
        4e-7,
        "RMSProp's epsilon, added to the mean squared gradient under the root.",
        gt=0,
        le=1,
        rllib=0.1,
        why="for a mean over a batch the equivalent of RLlib's, which is for a sum over 500 steps",
    )


class IMPALAConfig(
    DeterministicKeys,
    LearnerKeys,
    VTraceKeys,
    StreamKeys,
    OptimiserKeys,
    ScoredAverageKeys,
    OnPolicyKeys,
    defaults={**_STREAM, "num_gpus": default(0.0, rllib=1, why=NO_GPU)},
):
    """An actor-critic whose workers never wait: V-trace corrects for the age of their policies."""

    @model_validator(mode="after")
    def _streams(self) -> IMPALAConfig:
        """Refuse what each key allows but the keys together do not."""
        if self.num_gpus > 1:
            raise MisfitError(
                "num_gpus", "must be at most 1: only the batches of synchronous loops, as PPO's, are split over several"
            )
        if not self.use_critic:
            raise MisfitError("use_critic", "must be true: V-trace corrects values, and has none without a critic")
        if self.replay_proportion and not self.replay_buffer_num_slots:
            raise MisfitError("replay_proportion", "above 0 needs replay_buffer_num_slots 1 or more to draw from")
        return self


class APPOConfig(
    IMPALAConfig,
    defaults={
        "lr": default(5e-4),
        "num_gpus": default(0.0),
        "replay_buffer_num_slots": default(
            0,
            rllib="100, from which nothing is sampled while replay_proportion is 0",
            why="lower policy lag",
        ),
        "num_sgd_iter": default(4, rllib=1, why="the clipped surrogate allows several epochs over the same steps"),
    },
):
    """IMPALA with PPO's clipped surrogate, measured against a target policy that follows now and then."""

    clip_param: float = key(
        0.4,
        "Clip of the surrogate: largest deviation from 1 of the ratio of the new policy's probability to the target "
        "policy's.",
        gt=0,
        le=10,
    )
    use_kl_loss: bool = key(False, "Whether the loss includes a penalty on the KL divergence from the target policy.")
    kl_coeff: float = key(
        1.0,
        "Initial weight of that penalty; it is adapted to kl_target.",
        "per nat",
        needs=("use_kl_loss", 1),
        ge=0,
        le=1e6,
    )
    kl_target: float = key(
        0.01,
        "Target KL divergence: above twice the target the weight of the penalty grows by half, below half the "
        "target it is halved.",
        "nats",
        needs=("use_kl_loss", 1),
        gt=0,
        le=1e6,
    )
    target_update_frequency: Whole = key(
        1, "Train batches between two updates of the target policy.", "train batches", ge=1, le=100_000
    )

    @model_validator(mode="after")
    def _has_one_learner(self) -> APPOConfig:
        if learners(self) > 1:
            raise MisfitError(
                "num_learners",
                f"{self.num_learners}: APPO has one learner; PPO, A2C, PG, MAPPO and IMPALA may have more",
            )
        return self


def passes_per_call(config: StreamKeys) -> int:
    """Return the passes over a train batch in one call of the learner: all, unless the passes of several take turns."""
    return config.num_sgd_iter if config.minibatch_buffer_size == 1 else 1


def target_updates(config: APPOConfig, updates: int) -> int:
    """Return how often APPO's target policy has been copied after ``updates`` gradient steps."""
    return updates // (config.target_update_frequency * config.num_sgd_iter)


IMPALA = Algorithm(
    name="IMPALA",
    config=IMPALAConfig,
    nets=NETS,
    graph="drl_cli.algorithms.impala_graph",
    postprocess="trajectory",
    loop="stream",
    actions=ALL_ACTIONS,
    observations=ALL_OBSERVATIONS,
    several=True,
)
APPO = IMPALA._replace(
    name="APPO",
    config=APPOConfig,
    nets=NETS._replace(target_updates=target_updates),
    graph="drl_cli.algorithms.appo_graph",
)
