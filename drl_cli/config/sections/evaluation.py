"""Keys of evaluation: how the policy is scored while it learns.

Mixed into the config of every algorithm. The keys with ``_confirm_`` and ``_hold`` are this project's own: the
first evaluation of ten episodes that reaches a goal is often luck, so fresh episodes confirm it before it may stop a run.
"""

from typing import Literal

from drl_cli.config.episode_metrics import UNBOUNDED_STEPS
from drl_cli.config.schema import PlainMapping, Section, Whole, key


class EvaluationConfig(Section):
    """What differs from training while the policy is scored."""

    explore: bool = key(
        False,
        "Whether evaluation episodes explore.",
        rllib="true for SAC, false for DQN, DDPG and their kin",
        why="the score is that of the policy one would deploy",
    )
    env_config: PlainMapping = key({}, "Keyword arguments of gymnasium.make, laid over the training's env_config.")
    horizon: Whole | None = key(
        None, "Cut evaluation episodes after this many steps; null takes the training's horizon.", "env steps", ge=1
    )


class EvaluationKeys(Section):
    """When and how the policy is scored."""

    evaluation_interval: Whole | None = key(
        5,
        "Score the policy after every so many iterations; null never.",
        "iterations",
        ge=1,
        rllib=None,
        why="episode_reward_mean scores the exploring policy of the past; an evaluation says how good the agent is now",
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
        "What evaluation_num_episodes counts. With timesteps whole episodes are played, sixteen at a time, until they have "
        "so many env steps together.",
    )
    evaluation_num_workers: Whole = key(
        0,
        "Testers that share the episodes of an evaluation; 0 is one tester, as 1 is. A score does not depend on how many "
        "there are.",
        "processes",
        needs=("num_workers", 1),
        ge=0,
        le=1000,
    )
    evaluation_parallel_to_training: bool | None = key(
        None,
        "Whether training goes on while the policy is scored; null: with workers it does, in a run without workers, which "
        "is one process, it waits.",
        needs=("num_workers", 1),
        rllib=False,
        why="the testers are processes of their own: a wait would leave the learner idle",
    )
    custom_eval_function: str | None = key(
        None,
        "Your own function that scores the policy in place of the usual episodes: the name under which a module of --import, "
        "or an installed package, has registered it (drl_cli.register_evaluation).",
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
    evaluation_config: EvaluationConfig = key(EvaluationConfig(), "What differs from training while scoring.")
    evaluation_confirm_episodes: Whole = key(
        50,
        "When an evaluation reaches the goal, this many fresh episodes must confirm it before it counts; 0 counts it as "
        "it is.",
        "episodes",
        ge=0,
        le=100_000,
    )
    evaluation_hold: Whole = key(
        0,
        "Evaluations to go on for after the goal was reached, to see whether it holds.",
        "evaluations",
        ge=0,
        le=10_000,
    )
