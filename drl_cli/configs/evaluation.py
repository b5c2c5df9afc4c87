"""Keys of the evaluation: the part that scores the policy while it learns.

Mixed into the config of every algorithm. The keys with ``_confirm_`` and ``_hold`` are this project's own: a first
touch of a goal by ten episodes is often luck, so a touch is confirmed by fresh episodes before it may stop a run.
"""

from drl_cli.configs.schema import PlainMapping, Section, Whole, key


class EvaluationConfig(Section):
    """What differs from training while the policy is scored."""

    explore: bool = key(
        False,
        "Whether evaluation episodes explore.",
        rllib="true for SAC, false for DQN, DDPG and their kin",
        why="a score is asked of the policy one would deploy",
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
    evaluation_num_episodes: Whole = key(10, "Episodes of one evaluation.", "episodes", ge=1, le=100_000)
    evaluation_config: EvaluationConfig = key(EvaluationConfig(), "What differs from training while scoring.")
    evaluation_confirm_episodes: Whole = key(
        50,
        "When an evaluation reaches the goal, this many fresh episodes must confirm it before it counts; 0 "
        "believes it.",
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
