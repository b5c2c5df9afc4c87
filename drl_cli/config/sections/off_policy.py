"""Keys that off-policy algorithms share: targets, critics, an averaged policy, and what no two keys may say together.

Mixed into the configs of SAC, TQC, CrossQ, DDPG, DQN, IQL and their kin. Names and meanings are RLlib's (SAC, DDPG and DQN,
1.0.1), except for ``policy_average``.
"""

import math
from typing import Annotated

from pydantic import Field, model_validator

from drl_cli.config.schema import MisfitError, Section, Whole, default, key
from drl_cli.config.sections.common import CommonKeys
from drl_cli.config.sections.environment import EnvironmentKeys
from drl_cli.config.sections.estimates import EstimateKeys
from drl_cli.config.sections.evaluation import EvaluationKeys
from drl_cli.config.sections.iteration import STEPS_WHY, IterationKeys, least_seconds
from drl_cli.config.sections.model import Vision
from drl_cli.config.sections.offline import InputKeys, reads_only
from drl_cli.config.sections.replay import BufferKeys, ReplayKeys, learns_returns, learnt_steps, span
from drl_cli.config.sections.resources import ResourceKeys
from drl_cli.config.sections.rollout import RolloutKeys


class TargetKeys(Section):
    """How the target networks follow."""

    tau: float = key(
        0.01,
        "Share of the learnt networks that goes into their targets at a target update; 1 copies them.",
        "share per target update",
        gt=0,
        le=1,
        rllib=0.005,
        why="fits the higher learning rates: targets that follow twice as fast",
    )
    target_network_update_freq: Whole = key(
        0,
        "Env steps sampled between two updates of the target networks; 0 updates them after every update.",
        "env steps",
        ge=0,
    )


class TwinKeys(Section):
    """One critic or two."""

    twin_q: bool = key(True, "Two critics, the lower of which is believed.")


class DelayKeys(Section):
    """How often the policy is updated."""

    policy_delay: Whole = key(1, "Updates of the critics for each one of the policy.", "updates", ge=1, le=1000)


class LearnersPriorities(Section):
    """Priorities are the learner's alone: workers have nothing to judge by."""

    @model_validator(mode="after")
    def _leaves_priorities_to_the_learner(self):
        if self.worker_side_prioritization:
            raise MisfitError(
                "worker_side_prioritization",
                "workers judge for DQN, DDPG and their kin; here the learner gives all priorities. Leave it out",
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
    """What every algorithm has that learns from a buffer, which workers fill or files."""

    grad_clip: Annotated[float, Field(gt=0, le=1e9)] | None = key(
        None,
        "Largest global norm of the gradients of each part (policy, critics, …); null never clips. RLlib's is the norm "
        "of each variable.",
        "norm",
    )

    @model_validator(mode="after")
    def _fits_together(self):
        """Refuse what each key allows but the keys together do not."""
        if self.learner_actor and self.num_workers == 0:
            raise MisfitError("learner_actor", "true needs num_workers 1 or more: without workers there is no Ray")
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
    ReplayKeys,
    BufferedKeys,
    defaults={
        "min_iter_time_s": least_seconds(1),
        "timesteps_per_iteration": default(1000, rllib=100, why=STEPS_WHY),
    },
):
    """What every algorithm has that learns the values of actions from a replay."""

    model: Vision = key(Vision(), "What sees observations in front of the other layers: of images, or of your own.")
    policy_average: float = key(
        0.0,
        "Share that the past keeps, at each update, in a running average of the policy's weights; the average is what "
        "acts, is scored and is checkpointed. 0 acts with the newest weights. 1 / (1 - policy_average) updates is its "
        "memory.",
        "share per update",
        ge=0,
        lt=1,
    )


def _window(config):
    """Say what is drawn from the replay."""
    if learns_returns(config):
        return "2 steps"
    return f"n_step {config.n_step}" if learnt_steps(config) == 1 else f"{span(config)} steps"
