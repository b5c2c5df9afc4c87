"""How a replay replaces goals (``experience.hindsight``), from the keys of a config and an environment made for it.

User: ``actors.replay_buffer``, in the run's process or in that of a shard.
"""

from __future__ import annotations

import numpy as np

from drl_cli.actors.fragment_transforms import clipped_rewards
from drl_cli.config.sections.off_policy import OffPolicyKeys
from drl_cli.envs import make, preprocessors
from drl_cli.envs.env_spec import EnvSetup
from drl_cli.envs.goals import GoalOutcomes
from drl_cli.errors import ConfigError
from drl_cli.experience.hindsight import Relabelling


def relabelling(config: OffPolicyKeys, env: EnvSetup | None) -> Relabelling:
    """Return how goals are replaced; ``env``: with ``spaces``. Rewards are clipped as those of recorded steps are.

    Raises ConfigError for an environment without goals, EnvError for what it raises.
    """
    layout = () if env is None or "spaces" not in env else env["spaces"].get("goal", ())
    if env is None or not layout:
        raise ConfigError("hindsight_goals: the environment has no goals. Set it to 0.")
    plan = env.get("preprocessing")
    make.make_ready(env)
    made = make.make(env["id"], env["env_config"], preprocessing=plan)
    outcomes, rule = (
        GoalOutcomes(made, knows_ends=not config.no_done_at_end),
        preprocessors.reward_rule(config.clip_rewards, plan),
    )

    def clipped_outcomes(achieved: np.ndarray, desired: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        reward, ends = outcomes(achieved, desired)
        return clipped_rewards(reward, rule), ends

    achieved, desired, size = layout
    share = config.hindsight_goals / (config.hindsight_goals + 1)
    window = (config.n_step, config.gamma)
    return Relabelling((achieved, desired, size), share, config.hindsight_strategy, window, clipped_outcomes)
