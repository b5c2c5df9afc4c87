"""Keys of evaluation: how the policy is scored while it learns.

Mixed into the config of every algorithm. The keys with ``_confirm_`` and ``_hold`` are this project's own: the
first evaluation of ten episodes that reaches a goal is often luck, so fresh episodes confirm it before it may stop a run.
So is ``lr_factor_by_return``: how soon a run learns differs from seed to seed, and a schedule over env steps cannot know it.
"""

from typing import Literal

from drl_cli.config.episode_metrics import UNBOUNDED_STEPS
from drl_cli.config.schema import FactorByReturn, PlainMapping, Section, Whole, key


class EvaluationConfig(Section):
    """What differs from training while the policy is scored."""

    explore: bool = key(
        False,
        "Whether evaluation episodes explore.",
        rllib="true for SAC, false for DQN, DDPG and related algorithms",
        why="scores the policy that would be deployed",
    )
    env_config: PlainMapping = key({}, "Keyword arguments of gymnasium.make that override env_config in evaluations.")
    horizon: Whole | None = key(
        None, "Truncate evaluation episodes after this many steps; null uses horizon.", "env steps", ge=1
    )


class EvaluationKeys(Section):
    """When and how the policy is scored."""

    evaluation_interval: Whole | None = key(
        5,
        "Iterations between two evaluations; null: no evaluations.",
        "iterations",
        ge=1,
        rllib=None,
        why="episode_reward_mean averages past episodes with exploration; an evaluation scores the current policy",
    )
    evaluation_num_episodes: Whole = key(
        10,
        "Length of one evaluation: episodes, or env steps with evaluation_duration_unit timesteps.",
        "episodes or env steps",
        ge=1,
        le=10_000_000,
    )
    evaluation_duration_unit: Literal["episodes", "timesteps"] = key(
        "episodes",
        "Unit of evaluation_num_episodes. With timesteps, whole episodes are played, sixteen at a time, until they "
        "have this many env steps in total.",
    )
    evaluation_num_workers: Whole = key(
        0,
        "Testers that share the episodes of an evaluation; 0 means one tester, like 1. A score does not depend on "
        "their number.",
        "processes",
        needs=("num_workers", 1),
        ge=0,
        le=1000,
    )
    evaluation_parallel_to_training: bool | None = key(
        None,
        "Whether training continues during an evaluation; null: yes with workers, no in a run without workers, "
        "which is a single process.",
        needs=("num_workers", 1),
        rllib=False,
        why="testers are separate processes; waiting for them would leave the learner idle",
    )
    custom_eval_function: str | None = key(
        None,
        "A function of your own that replaces evaluation episodes: the name under which a module of --import, or an "
        "installed package, has registered it (drl_cli.register_evaluation).",
        allowed="the name of a registered evaluation, or null",
        needs=("evaluation_interval", 1),
        min_length=1,
        max_length=200,
    )
    evaluation_max_steps: Whole | None = key(
        None,
        "Cut an episode of an evaluation after this many env steps and count its return as it stands; null cuts after "
        f"{UNBOUNDED_STEPS:,} where the environment has no limit of its own, and nowhere else.",
        "env steps",
        ge=1,
    )
    evaluation_config: EvaluationConfig = key(EvaluationConfig(), "Settings that differ from training in evaluations.")
    evaluation_confirm_episodes: Whole = key(
        50,
        "Further episodes that must confirm the goal when an evaluation reaches it; 0: no confirmation.",
        "episodes",
        ge=0,
        le=100_000,
    )
    evaluation_hold: Whole = key(
        0,
        "Evaluations to continue for after the goal has been reached, to see whether it is held.",
        "evaluations",
        ge=0,
        le=10_000,
    )
    lr_factor_by_return: FactorByReturn | None = key(
        None,
        "[[return, factor], …]: the learning rates are multiplied by the factor that belongs to the highest "
        "episode_reward_mean of an evaluation so far (of the episodes that confirm a goal, where there are any), linear "
        "between the points. It lets a policy that has reached a return keep it: [[200, 1], [240, 0.1]]. Below 1 it slows "
        "policy_average and the batch statistics of CROSSQ's and XQC's policy down too. The step sizes of ES and ARS are "
        "multiplied, max_kl of TRPO by the factor's square. null: no factor.",
        allowed="null, or a list of at least two [return, factor] pairs whose returns rise and whose factors are in [0, 10]",
        needs=("evaluation_interval", 1),
    )
