"""DDPPO: decentralized distributed PPO; its keys and its row. The nets are ``actor_critic_nets``, the update is ``ppo_graph``.

Every worker samples and learns in its own process, and the workers share gradients (``actors.decentralized_learner``,
``runtime.loops.decentralized``). Source: Wijmans et al. 2019, "DD-PPO: Learning Near-Perfect PointGoal Navigators from 2.5
Billion Frames" (arXiv 1911.00357). Names and meanings are RLlib's (DDPPO, 1.0.1), ``straggler_cutoff`` is ours.

Deviations from RLlib:
- ``num_workers: 0`` runs too, in one process and reproducible.
- Gradients travel through Ray's object store; RLlib's workers need torch's collectives.
- Workers that are late are cut off, as in the paper; RLlib waits for all of them.
- ``kl_coeff`` adapts here; RLlib's DDPPO refuses the penalty.
"""

from __future__ import annotations

import math

from pydantic import field_validator, model_validator

from drl_cli.algorithms.actor_critic_nets import NETS
from drl_cli.algorithms.ppo import ClippedSurrogateKeys
from drl_cli.algorithms.row import ALL_ACTIONS, ALL_OBSERVATIONS, Algorithm
from drl_cli.config.schema import MisfitError, Whole, default, key
from drl_cli.config.sections.served_input import is_served
from drl_cli.errors import ConfigError


class DDPPOConfig(
    ClippedSurrogateKeys,
    defaults={
        "rollout_fragment_length": default(
            128, rllib=100, why="with 8 environments the 1024 steps of a fragment make 8 minibatches of 128"
        ),
        "num_envs_per_worker": default(
            8, rllib=5, why="one forward pass of a small net in NumPy costs about the same for 5 and 8 rows"
        ),
        "sgd_minibatch_size": default(128, rllib=50, why="the minibatch of PPO, of which every worker brings as much"),
        "num_sgd_iter": default(10),
    },
):
    """PPO without a central learner: workers learn in their own processes and average their gradients at every step."""

    train_batch_size: Whole | None = key(  # pyright: ignore[reportIncompatibleVariableOverride]: null is of few rows
        None,
        "Env steps that each worker learns from at a time: always those of its fragment, num_envs_per_worker x "
        "rollout_fragment_length, the meaning of null.",
        "env steps",
        "null, num_envs_per_worker x rollout_fragment_length, or -1 (RLlib's null)",
        rllib=-1,
        why="RLlib's DDPPO also learns from one fragment of each worker, and refuses the key",
    )
    straggler_cutoff: float = key(
        0.6,
        "Share of the workers after which the others end their fragments early, and learn from what they have; every step "
        "counts equally. 1 waits for all workers.",
        "share",
        gt=0,
        le=1,
    )

    def check_agents(self, agents: int) -> None:
        """Raise ConfigError for a minibatch of more steps than a fragment has."""
        steps = agents * self.num_envs_per_worker * self.rollout_fragment_length
        if self.sgd_minibatch_size > steps:
            raise ConfigError(
                f"sgd_minibatch_size: {self.sgd_minibatch_size} is more than the {steps} steps of a fragment, "
                f"num_envs_per_worker {self.num_envs_per_worker} x rollout_fragment_length {self.rollout_fragment_length}. "
                f"Set it to {steps} or less."
            )

    @model_validator(mode="after")
    def _learns_in_its_workers(self) -> DDPPOConfig:
        steps = self.num_envs_per_worker * self.rollout_fragment_length
        if self.train_batch_size not in (None, steps):
            raise MisfitError(
                "train_batch_size",
                f"{self.train_batch_size} is not num_envs_per_worker {self.num_envs_per_worker} x rollout_fragment_length "
                f"{self.rollout_fragment_length}: each worker learns from its own fragment. Omit the key",
            )
        if self.num_gpus:
            raise MisfitError(
                "num_gpus", f"{self.num_gpus:g} is for a learner, and workers learn on their CPUs; leave it out"
            )
        if self.learner_actor:
            raise MisfitError("learner_actor", "true needs a learner, and workers learn themselves; leave it out")
        if self.broadcast_dtype != "float32":
            raise MisfitError(
                "broadcast_dtype",
                f"{self.broadcast_dtype} is for weights that are sent to workers, and none are; leave it out",
            )
        if is_served(self):
            raise MisfitError("input", "policy_server: workers that learn themselves step environments; use PPO")
        return self

    @field_validator("train_batch_size", mode="before")
    @classmethod
    def _reads_rllibs_null(cls, value: object) -> object:
        return None if type(value) is int and value == -1 else value


def finished_workers(config: DDPPOConfig, workers: int) -> int:
    """Return of ``workers`` that sample how many must have finished before the others are cut off (``straggler_cutoff``)."""
    return math.ceil(config.straggler_cutoff * workers - 1e-9)


DDPPO = Algorithm(
    name="DDPPO",
    config=DDPPOConfig,
    nets=NETS,
    graph="drl_cli.algorithms.ppo_graph",
    postprocess="trajectory",
    loop="decentralized",
    actions=ALL_ACTIONS,
    observations=ALL_OBSERVATIONS,
)
