"""Keys that off-policy algorithms share: target networks, critics; and values that exclude one another.

Mixed into the configs of SAC, TQC, CrossQ, XQC, DDPG, DQN, IQL and their kin. Names and meanings are RLlib's (SAC, DDPG and
DQN, 1.0.1).
"""

import math
from typing import Annotated, ClassVar

from pydantic import Field, model_validator
from typing_extensions import Self

from drl_cli.config.schema import MisfitError, Section, Whole, default, key
from drl_cli.config.sections.averaged_policy import AveragedPolicyKeys
from drl_cli.config.sections.common import CommonKeys
from drl_cli.config.sections.deterministic import is_deterministic
from drl_cli.config.sections.environment import EnvironmentKeys
from drl_cli.config.sections.estimates import EstimateKeys
from drl_cli.config.sections.evaluation import EvaluationKeys
from drl_cli.config.sections.iteration import STEPS_WHY, IterationKeys, least_seconds
from drl_cli.config.sections.model import Memory, Vision
from drl_cli.config.sections.offline import InputKeys, reads, reads_only
from drl_cli.config.sections.replay import BufferKeys, ReplayKeys, SequenceKeys, learnt_steps, replay_resources, span
from drl_cli.config.sections.resources import ResourceKeys
from drl_cli.config.sections.rollout import RolloutKeys


class TargetKeys(Section):
    """How the target networks follow."""

    tau: float = key(
        0.01,
        "Polyak (soft) update: weight of the online networks in each update of the target networks; 1 copies them.",
        "share per target update",
        gt=0,
        le=1,
        rllib=0.005,
        why="matches the higher learning rates: targets that follow twice as fast",
    )
    target_network_update_freq: Whole = key(
        0,
        "Env steps sampled between two updates of the target networks; 0: after every update.",
        "env steps",
        ge=0,
    )


class TwinKeys(Section):
    """One critic or two."""

    twin_q: bool = key(True, "Clipped double Q-learning: two critics, with the minimum of their estimates as target.")


class AtomKeys(Section):
    """The range of the atoms of a distribution over returns; ``num_atoms`` is a key of who has them."""

    v_min: float = key(-10.0, "Lowest of these values.", "return", needs=("num_atoms", 2), ge=-1e9, le=1e9)
    v_max: float = key(10.0, "Highest of these values.", "return", needs=("num_atoms", 2), ge=-1e9, le=1e9)

    @model_validator(mode="after")
    def _spans_a_range(self) -> Self:
        if self.v_min >= self.v_max:
            raise MisfitError("v_min", f"{self.v_min:g} is not below v_max {self.v_max:g}")
        return self


class DelayKeys(Section):
    """How often the policy is updated."""

    policy_delay: Whole = key(1, "Delayed policy updates: critic updates per policy update.", "updates", ge=1, le=1000)


class LearnersPriorities(Section):
    """Priorities are the learner's alone: workers have nothing to judge by."""

    @model_validator(mode="after")
    def _leaves_priorities_to_the_learner(self) -> Self:
        if isinstance(self, ReplayKeys) and self.worker_side_prioritization:
            raise MisfitError(
                "worker_side_prioritization",
                "workers compute priorities for DQN, DDPG and their kin; here the learner computes all of them. Leave it out",
            )
        return self


class BufferedKeys(
    CommonKeys,
    EnvironmentKeys,
    RolloutKeys,
    InputKeys,
    EstimateKeys,
    BufferKeys,
    EvaluationKeys,
    IterationKeys,
    ResourceKeys,
):
    """What every algorithm has that learns from a buffer, which workers or files fill."""

    grad_clip: Annotated[float, Field(gt=0, le=1e9)] | None = key(
        None,
        "Gradient clipping by global norm, for each part (policy, critics, …); null: no clipping. RLlib clips the "
        "norm of each variable.",
        "norm",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        """Refuse what each key allows but the keys together do not."""
        if self.learner_actor and self.num_workers == 0:
            raise MisfitError("learner_actor", "true needs num_workers 1 or more: without workers there is no Ray")
        if replay_resources(self) and not (self.num_replay_shards and self.num_workers and not is_deterministic(self)):
            name = "custom_resources_for_replay" if self.custom_resources_for_replay else "memory_for_replay"
            text = "only Ray actors are placed by resources: set num_replay_shards and num_workers to 1 or more"
            raise MisfitError(name, f"{text}{', and deterministic to false' if is_deterministic(self) else ''}")
        if reads_only(self) and self.num_replay_shards > 1:
            raise MisfitError("num_replay_shards", "files are read into one part; leave it out")
        shards = max(1, self.num_replay_shards)
        streams = math.ceil(max(1, self.num_workers) / shards) * self.num_envs_per_worker
        least = shards * streams * (span(self) + 1)
        if self.buffer_size < least:
            raise MisfitError(
                "buffer_size",
                f"{self.buffer_size} is too small: windows of {_window(self)} from {streams} environments in each "
                f"part of the replay need {least} or more",
            )
        return self


class OffPolicyKeys(
    AveragedPolicyKeys,
    ReplayKeys,
    BufferedKeys,
    defaults={
        "min_iter_time_s": least_seconds(1),
        "timesteps_per_iteration": default(1000, rllib=100, why=STEPS_WHY),
    },
):
    """What every algorithm has that learns the values of actions from a replay."""

    model: Vision = key(Vision(), "The layers before all others: convolutions for images, or a custom network.")


class RecurrentReplayKeys(SequenceKeys, OffPolicyKeys):
    """What every algorithm has whose nets always end in an LSTM and learn from sequences of a replay."""

    without_memory: ClassVar[str]
    """The algorithm that it is without the LSTM."""

    train_batch_size: Whole = key(
        32, "Sequences per update, of up to model.max_seq_len trained steps each.", "sequences", ge=1, le=100_000
    )
    training_intensity: Annotated[float, Field(gt=0, le=1e6)] | None = key(
        None,
        "Sequences trained per env step sampled, enforced in both directions; null means 0.4 times "
        "train_batch_size, which is 0.4 updates per env step.",
        "sequences trained per env step sampled",
        rllib="null: one update per fragment, which with more workers trains less per step",
        why="a ratio that does not depend on the number of workers",
    )

    @model_validator(mode="after")
    def _learns_from_sequences(self) -> Self:
        if isinstance(self.model, Memory) and not self.model.use_lstm:
            raise MisfitError(
                "model.use_lstm",
                f"without it the algorithm is {self.without_memory}: use --run {self.without_memory}",
            )
        if self.worker_side_prioritization:
            raise MisfitError("worker_side_prioritization", "workers do not compute priorities of sequences; omit it")
        if reads(self):
            raise MisfitError("input", "files hold no states of the LSTM for its sequences to begin with; leave it out")
        return self


def _window(config: BufferedKeys) -> str:
    """Return in words what is drawn from the replay."""
    if not isinstance(config, ReplayKeys):
        return "2 steps"
    return f"n_step {config.n_step}" if learnt_steps(config) == 1 else f"{span(config)} steps"
