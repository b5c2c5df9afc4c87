"""The config of SAC: every key with its default, meaning, unit and bounds.

Read by everything that runs SAC, as attributes. Names and meanings are RLlib's (SAC, 1.0.1; Haarnoja et al. 2018,
arXiv:1812.05905); where a default differs, the key's ``why`` says so.
"""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from drl_cli.configs.environment import EnvironmentKeys
from drl_cli.configs.evaluation import EvaluationKeys
from drl_cli.configs.iteration import IterationKeys
from drl_cli.configs.model import FullyConnected
from drl_cli.configs.replay import ReplayKeys
from drl_cli.configs.resources import ResourceKeys
from drl_cli.configs.rollout import RolloutKeys
from drl_cli.configs.schema import RATE_ALLOWED, Rate, Section, Whole, key

_RATE_WHY = "for small nets: LunarLander runs with 1e-3 landed within a minute, one of four with 2e-3 failed"


class Optimization(Section):
    """Learning rates of the three parts."""

    actor_learning_rate: Rate = key(
        1e-3, "Adam's step size of the policy.", "per update", RATE_ALLOWED, rllib=3e-4, why=_RATE_WHY
    )
    critic_learning_rate: Rate = key(
        1e-3, "Adam's step size of the critics.", "per update", RATE_ALLOWED, rllib=3e-4, why=_RATE_WHY
    )
    entropy_learning_rate: Rate = key(
        1e-3,
        "Adam's step size of the temperature alpha; 0 keeps alpha at initial_alpha.",
        "per update",
        RATE_ALLOWED,
        rllib=3e-4,
        why=_RATE_WHY,
    )


class SACConfig(EnvironmentKeys, RolloutKeys, ReplayKeys, EvaluationKeys, IterationKeys, ResourceKeys):
    """Soft actor-critic with twin critics and a learnt temperature."""

    twin_q: bool = key(True, "Two critics, the lower of which is believed.")
    Q_model: FullyConnected = key(FullyConnected(), "The network of each critic.")
    policy_model: FullyConnected = key(FullyConnected(), "The network of the policy.")
    tau: float = key(
        0.01,
        "Share of the critics that goes into their targets at a target update.",
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
    initial_alpha: float = key(
        0.2,
        "Temperature alpha at the start: the weight of entropy beside reward.",
        gt=0,
        le=1e6,
        rllib=1.0,
        why="what the measured LunarLander runs start from; at 1.0 entropy outweighs small rewards until alpha is down",
    )
    target_entropy: Literal["auto"] | Annotated[float, Field(ge=-1e6, le=1e6)] | None = key(
        "auto",
        "Entropy that alpha is learnt to keep; auto (or null) is minus the number of action dimensions.",
        "nats",
        "'auto', null or a number in [-1e6, 1e6]",
    )
    optimization: Optimization = key(Optimization(), "Learning rates.")
    grad_clip: Annotated[float, Field(gt=0, le=1e9)] | None = key(
        None, "Largest global norm of the gradients of each part (policy, critics, alpha); null never clips.", "norm"
    )
    policy_delay: Whole = key(1, "Updates of the critics for each one of the policy.", "updates", ge=1, le=1000)
    policy_average: float = key(
        0.0,
        "Share that the past keeps, at each update, in a running average of the policy's weights; the average is what "
        "acts, is scored and is checkpointed. 0 acts with the newest weights. 1 / (1 - policy_average) updates is its "
        "memory.",
        "share per update",
        ge=0,
        lt=1,
    )

    @model_validator(mode="after")
    def _fits_together(self):
        """Refuse what each key allows but the keys together do not."""
        if self.learning_starts > self.buffer_size:
            raise ValueError(
                f"learning_starts {self.learning_starts} is more than buffer_size {self.buffer_size}: learning "
                "would never start"
            )
        if self.learner_actor and self.num_workers == 0:
            raise ValueError("learner_actor true needs num_workers 1 or more: without workers there is no Ray")
        if self.num_replay_shards and self.num_workers == 0:
            raise ValueError("num_replay_shards 1 needs num_workers 1 or more: without workers there is no Ray")
        return self
