"""PPO: its keys and its row; the nets are ``actor_critic_nets``. The update is ``ppo_graph``.

Names and meanings are RLlib's (PPO, 1.0.1; Schulman et al. 2017, arXiv:1707.06347); ``use_sde`` and ``log_std_init`` are
Stable-Baselines3's (Raffin et al. 2021, arXiv:2005.05719). Where a default differs from RLlib's, the key's ``why`` says so.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from drl_cli.algorithms.actor_critic_nets import NETS
from drl_cli.algorithms.row import ALL_ACTIONS, ALL_OBSERVATIONS, Algorithm
from drl_cli.config.schema import MisfitError, Whole, default, key
from drl_cli.config.sections.averaged_policy import AveragedPolicyKeys
from drl_cli.config.sections.deterministic import DeterministicKeys
from drl_cli.config.sections.on_policy import OnPolicyKeys, StateDependentKeys, StragglerKeys, check_minibatch
from drl_cli.config.sections.resources import LearnerKeys
from drl_cli.errors import ConfigError

RECIPES_WHY = "the usual one of published recipes for small and medium tasks"


class ClippedSurrogateKeys(
    StateDependentKeys,
    AveragedPolicyKeys,
    OnPolicyKeys,
    defaults={
        "train_batch_size": default(2048, rllib=4000, why=RECIPES_WHY),
        "lr": default(3e-4, rllib=5e-5, why=RECIPES_WHY),
        "vf_loss_coeff": default(
            0.5, rllib=1.0, why="for the full squared error; equals half the squared error of the published recipes"
        ),
    },
):
    """What PPO has wherever its gradients are applied: passes over a batch in minibatches, and what keeps them near."""

    num_sgd_iter: Whole = key(
        10,
        "Passes over each batch.",
        "passes",
        ge=1,
        le=10_000,
        rllib=30,
        why="the number in published recipes; thirty take three times as long and move far from the behaviour policy",
    )
    sgd_minibatch_size: Whole = key(
        128,
        "Steps per gradient step, of all agents that share a policy; with an LSTM, in whole sequences.",
        "agent steps",
        ge=1,
        le=10_000_000,
    )
    shuffle_sequences: bool = key(True, "Whether each epoch shuffles the batch.")
    clip_param: Annotated[float, Field(gt=0, le=100)] | None = key(
        0.2,
        "Clip of the surrogate: largest deviation from 1 of the ratio of new to old action probability; null: no "
        "clipping.",
        "ratio",
        rllib=0.3,
        why="the paper's value",
    )
    vf_clip_param: Annotated[float, Field(gt=0, le=1e9)] | None = key(
        None,
        "Value clipping: largest change of a state's value in one batch, in units of return; null: no clipping.",
        "return",
        rllib=10.0,
        why=(
            "no value suits all tasks: 10 stalls Pendulum, whose returns are in the hundreds, and Andrychowicz et "
            "al. 2021 found that value clipping hurts for every value"
        ),
    )
    kl_coeff: float = key(
        0.0,
        "Initial weight of a penalty on the KL divergence between new and old policy. It adapts: times 1.5 after a "
        "batch that diverged by more than twice kl_target, times 0.5 after less than half of it. 0: no penalty.",
        "per nat",
        ge=0,
        le=1e6,
        rllib=0.2,
        why="the published recipes use clipping alone",
    )
    kl_target: float = key(
        0.01, "The KL divergence that kl_coeff adapts to.", "nats", gt=0, le=100, needs=("kl_coeff", 1e-12)
    )

    def check_agents(self, agents: int) -> None:
        """Raise ConfigError for a minibatch of more steps than ``agents`` agents, which act at once, bring to a batch."""
        batch, most = self.train_batch_size, self.train_batch_size * agents
        if self.sgd_minibatch_size <= most:
            return
        whole = f"train_batch_size {batch}"
        if agents > 1:
            whole = f"the {most} agent steps of a batch: {whole} times {agents} agents"
        raise ConfigError(
            f"sgd_minibatch_size: {self.sgd_minibatch_size} is more than {whole}. Set it to {most} or less."
        )

    @model_validator(mode="after")
    def _goes_over_the_batch_in_minibatches(self) -> ClippedSurrogateKeys:
        check_minibatch(self, self.sgd_minibatch_size)
        if self.clip_param is None and not self.kl_coeff:
            raise MisfitError(
                "clip_param", "null needs a kl_coeff above 0: nothing else would keep the policy close to the old one"
            )
        return self


class PPOConfig(DeterministicKeys, LearnerKeys, StragglerKeys, ClippedSurrogateKeys):
    """Proximal policy optimisation: several passes over each batch, with steps that stay near the policy that sampled."""


PPO = Algorithm(
    name="PPO",
    config=PPOConfig,
    nets=NETS,
    graph="drl_cli.algorithms.ppo_graph",
    postprocess="trajectory",
    loop="sync",
    actions=ALL_ACTIONS,
    observations=ALL_OBSERVATIONS,
    several=True,
)
