"""Keys that algorithms share which learn from trajectories: their batch, and those of actor-critics, their net and their loss.

``OnPolicyKeys`` is mixed into the configs of PPO, A2C, PG, TRPO, A3C, IMPALA and APPO, ``TrajectoryKeys`` into PQN's too.
Names and meanings are RLlib's (PPO, A3C; 1.0.1).

Deviations:
- Losses are means over the steps of a batch everywhere; RLlib's A2C, A3C and IMPALA take sums, whose ``grad_clip`` means
  another thing for every batch size. The defaults here are those of means.
- ``lr`` and ``entropy_coeff`` take a number or points of a schedule; RLlib's ``lr_schedule`` and
  ``entropy_coeff_schedule`` are read as them.
- Without a critic, ``batch_mode: truncate_episodes`` is refused: the return of a cut episode would be taken for a whole one.
- Only actions that the policy drew are learnt from: no random phase, no noise on top.
"""

import math
from typing import Annotated, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from drl_cli.config.schema import RATE_ALLOWED, MisfitError, Rate, Section, Whole, default, key
from drl_cli.config.sections.common import CommonKeys
from drl_cli.config.sections.environment import EnvironmentKeys
from drl_cli.config.sections.evaluation import EvaluationKeys
from drl_cli.config.sections.exploration import TYPE, ExplorationConfig
from drl_cli.config.sections.iteration import IterationKeys
from drl_cli.config.sections.model import ACTIVATIONS, Name, RecurrentNetwork
from drl_cli.config.sections.resources import ResourceKeys
from drl_cli.config.sections.rollout import RolloutKeys
from drl_cli.config.sections.served_input import ServedInput

Norm = Annotated[float, Field(gt=0, le=1e9)]


CLIP_WHY = "as in OpenAI's baselines"
LOG_STD_MIN = -20.0  # the lowest bound, as in policies.action_specs


class OnPolicyNetwork(RecurrentNetwork):
    """The network of the policy, and, with heads of its own, of the value."""

    fcnet_activation: ACTIVATIONS = key("tanh", "Activation of each hidden layer.")
    free_log_std: bool = key(
        False,
        "Whether the log standard deviations of Box actions are state-independent variables instead of outputs of "
        "the network.",
    )
    log_std_init: float = key(
        0.0,
        "Initial log standard deviation of Box actions, with free_log_std or without: -2 is a deviation of 0.14 before the "
        "actions are scaled to their range, for tasks that wide noise hides, such as HalfCheetah. That of use_sde is "
        "log_std_init, outside of model.",
        ge=LOG_STD_MIN,
        le=2,
    )
    log_std_min: float = key(
        LOG_STD_MIN,
        "Lower bound of the log standard deviations of Box actions, above which they stay wide enough to explore: -1.2 is a "
        "deviation of 0.3 before the actions are scaled to their range.",
        ge=LOG_STD_MIN,
        le=2,
    )
    lstm_use_prev_action_reward: bool = key(False, "Whether the LSTM also receives the previous action and reward.")
    custom_action_dist: Name | None = key(
        None,
        "A custom action distribution, by the name registered with register_action_dist; null: Gaussian for Box actions, "
        "categorical for Discrete and MultiDiscrete, Bernoulli for MultiBinary. Load its module with --import.",
        allowed="the name of a registered action distribution, or null",
    )

    @model_validator(mode="after")
    def _has_one_distribution(self) -> Self:
        if self.custom_action_dist is not None and self.free_log_std:
            raise MisfitError("free_log_std", "true is for the Gaussian, which custom_action_dist replaces; keep one")
        if self.custom_action_dist is not None and self.log_std_min > LOG_STD_MIN:
            raise MisfitError("log_std_min", "is of the Gaussian, which custom_action_dist replaces; keep one")
        if self.custom_action_dist is not None and self.log_std_init:
            raise MisfitError("log_std_init", "is of the Gaussian, which custom_action_dist replaces; keep one")
        if self.log_std_init and self.log_std_init < self.log_std_min:
            raise MisfitError(
                "log_std_init", f"{self.log_std_init:g} is below log_std_min ({self.log_std_min:g}); raise it"
            )
        return self


class OnPolicyExploration(ExplorationConfig):
    """How training actions are drawn: from the policy, and from nothing else."""

    type: Literal["StochasticSampling", "RND"] = key("StochasticSampling", TYPE)

    @model_validator(mode="after")
    def _draws_from_the_policy(self) -> Self:
        if self.random_timesteps:
            raise MisfitError(
                "random_timesteps", "actions that the policy did not draw cannot be learnt from; leave it out"
            )
        return self


class TrajectoryKeys(
    CommonKeys,
    EnvironmentKeys,
    RolloutKeys,
    ServedInput,
    EvaluationKeys,
    IterationKeys,
    ResourceKeys,
    defaults={
        "num_workers": default(0, rllib=2, why="a single process needs no Ray, and is reproducible bit for bit"),
        "num_envs_per_worker": default(
            8, rllib=1, why="one forward pass of a small net in NumPy costs about the same for 1 and 8 rows"
        ),
        "rollout_fragment_length": default(
            128, rllib=200, why="with 8 environments two fragments make a batch of 2048 steps"
        ),
    },
):
    """What every algorithm has that learns from trajectories of its newest, or almost newest, policy."""

    batch_mode: Literal["truncate_episodes", "complete_episodes"] = key(
        "truncate_episodes",
        "truncate_episodes: every fragment has rollout_fragment_length steps of each environment; "
        "complete_episodes: each environment continues until its episode ends.",
    )
    train_batch_size: Whole = key(
        2048,
        "Env steps sampled with one version of the weights and trained on together; rounded up to whole fragments.",
        "env steps",
        ge=1,
        le=10_000_000,
        rllib=200,
        why="the usual batch size of published recipes for small and medium tasks",
    )
    lr: Rate = key(
        3e-4,
        "Learning rate of all weights (Adam).",
        "per update",
        RATE_ALLOWED,
        rllib=1e-4,
        why="the usual learning rate of published recipes for small and medium tasks",
    )
    adam_epsilon: float = key(
        1e-5,
        "Adam's epsilon, added to the root of the mean squared gradient.",
        gt=0,
        le=1,
        rllib=1e-8,
        why="as in OpenAI's baselines: steps become small as gradients vanish",
    )
    grad_clip: Norm | None = key(
        0.5,
        "Gradient clipping by global norm, for the gradient of the mean loss; null: no clipping.",
        "norm",
        rllib=None,
        why=CLIP_WHY,
    )
    fake_gpus: bool = key(
        False,
        "Place the towers of num_gpus on the CPU, to test them on a machine without GPUs.",
        alias="_fake_gpus",
        needs=("num_gpus", 1),
    )

    @model_validator(mode="after")
    def _learns_where_it_can(self) -> Self:
        if self.learner_actor and self.num_workers == 0:
            raise MisfitError("learner_actor", "true needs num_workers 1 or more: without workers there is no Ray")
        if self.num_gpus > 1 and not self.num_gpus.is_integer():
            raise MisfitError("num_gpus", f"{self.num_gpus:g} is neither a share of one GPU nor a whole number of them")
        return self

    def check_agents(self, agents: int) -> None:
        """Raise ConfigError for values that do not fit ``agents`` agents of one policy; here all fit."""
        del agents


class OnPolicyKeys(TrajectoryKeys):
    """What every actor-critic has that learns from trajectories."""

    model: OnPolicyNetwork = key(OnPolicyNetwork(), "The networks of policy and value.")
    vf_share_layers: bool = key(
        False,
        "Whether policy and value share the hidden layers; always true with model.use_lstm.",
    )
    exploration_config: OnPolicyExploration = key(OnPolicyExploration(), "How to explore.")
    use_critic: bool = key(True, "Whether a learnt state value serves as baseline, and to bootstrap truncated returns.")
    use_gae: bool = key(
        True,
        "Whether to use generalised advantage estimation (GAE); false: Monte Carlo returns minus the value. Needs "
        "use_critic.",
    )
    lambda_: float = key(
        0.95,
        "Lambda of GAE: 0 bootstraps from the next state, 1 uses rewards alone.",
        alias="lambda",
        needs=("use_gae", 1),
        ge=0,
        le=1,
        rllib=1.0,
        why="the value recommended by Schulman et al. 2016 and used in published recipes",
    )
    vf_loss_coeff: float = key(0.5, "Weight of the value loss relative to the policy loss.", ge=0, le=1e6)
    entropy_coeff: Rate = key(0.0, "Weight of the entropy bonus in the loss.", "per nat", RATE_ALLOWED)

    @model_validator(mode="after")
    def _takes_no_cut_return_for_a_whole_one(self) -> Self:
        """Refuse what each key allows but the keys together do not."""
        if self.use_gae and not self.use_critic:
            raise MisfitError("use_gae", "true needs use_critic true: its estimates are made of values")
        if not self.use_critic and self.batch_mode == "truncate_episodes":
            raise MisfitError(
                "use_critic",
                "false needs batch_mode complete_episodes: without a value, nothing stands in for what a cut episode "
                "would have brought",
            )
        return self


class StragglerKeys(Section):
    """Slow workers, for loops in which all workers sample with one version of the weights."""

    straggler_cutoff: float = key(
        1.0,
        "Share of a train batch after which it is trained on without waiting for the workers that are late. What they bring "
        "fills places of the next batch, oldest first, as far as that lacks fragments too; the rest is dropped. 1 waits for "
        "all workers.",
        "share",
        needs=("num_workers", 1),
        gt=0,
        le=1,
    )

    @model_validator(mode="after")
    def _lets_a_fragment_be_late(self) -> Self:
        if isinstance(self, TrajectoryKeys) and self.straggler_cutoff < 1 and not late_fragments(self):
            count = fragments_of_batch(self)
            text = f"{self.straggler_cutoff:g} of {count} {'fragment' if count == 1 else 'fragments'} is all of them"
            hint = f"set it to {1 - 1 / count:.4g} or below" if count > 1 else "raise train_batch_size"
            raise MisfitError("straggler_cutoff", f"{text}; {hint}, or leave it out")
        return self


def fragments_of_batch(config: TrajectoryKeys) -> int:
    """Return the fragments that make up a batch; of complete episodes, which bring more steps, fewer may do."""
    return math.ceil(config.train_batch_size / (config.num_envs_per_worker * config.rollout_fragment_length))


def late_fragments(config: TrajectoryKeys) -> int:
    """Return the fragments that a batch is trained on without, where they come late (``straggler_cutoff``)."""
    cutoff = config.straggler_cutoff if isinstance(config, StragglerKeys) else 1.0
    return min(int((1.0 - cutoff) * fragments_of_batch(config) + 1e-9), fragments_of_batch(config) - 1)


class StateDependentKeys(Section):
    """State-dependent exploration, whose noise is smooth in time. Stable-Baselines3's keys (Raffin et al. 2021)."""

    use_sde: bool = key(
        False,
        "State-dependent exploration (gSDE): the noise is a linear function of the policy's last hidden features, "
        "whose matrix is resampled every exploration_config.sde_sample_freq steps, so that it is smooth in time. "
        "For Box actions.",
    )
    log_std_init: float = key(
        -2.0,
        "Initial log standard deviation of the elements of the noise matrix. That of a Gaussian policy, without use_sde, is "
        "model.log_std_init.",
        ge=-20,
        le=2,
        needs=("use_sde", 1),
    )

    @model_validator(mode="after")
    def _explores_in_one_way(self) -> Self:
        if not isinstance(self, OnPolicyKeys):
            return self
        if self.use_sde and self.model.use_lstm:
            raise MisfitError("use_sde", "true fits no LSTM: its features change with every step; keep one of them")
        if self.use_sde and self.model.free_log_std:
            raise MisfitError(
                "use_sde", "true makes the deviations of the features, model.free_log_std of nothing; keep one"
            )
        if self.use_sde and self.model.log_std_init:
            raise MisfitError("model.log_std_init", "is that of the Gaussian; that of use_sde is log_std_init")
        if self.use_sde and self.model.custom_action_dist is not None:
            raise MisfitError("use_sde", "true is for the Gaussian, which model.custom_action_dist replaces; keep one")
        if self.exploration_config.sde_sample_freq is not None and not self.use_sde:
            raise MisfitError("exploration_config.sde_sample_freq", "it needs use_sde: true")
        return self


def sequence_length(config: TrajectoryKeys) -> int:
    """Return the steps of the sequences that are learnt from: ``model.max_seq_len`` with an LSTM, else 1."""
    return config.model.max_seq_len if isinstance(config, OnPolicyKeys) and config.model.use_lstm else 1


def check_minibatch(config: OnPolicyKeys, size: int) -> None:
    """Raise MisfitError for an ``sgd_minibatch_size`` of less than one sequence."""
    if size < sequence_length(config):
        raise MisfitError(
            "sgd_minibatch_size", f"{size} is less than one sequence, model.max_seq_len {config.model.max_seq_len}"
        )
