"""Keys of sampling: how many workers and environments, how long a fragment, how they explore.

Mixed into the config of every algorithm that samples; ``WorkerKeys`` alone where what is tried are weights. Key names and
meanings are RLlib's (COMMON_CONFIG, 1.0.1).
"""

from typing import Literal

from drl_cli.configs.exploration import ExplorationConfig
from drl_cli.configs.output import OutputKeys
from drl_cli.configs.schema import Section, Whole, key


class WorkerKeys(Section):
    """How many workers step how many environments, and what all of them share."""

    num_workers: Whole = key(
        0,
        "Rollout workers that sample in processes of their own; 0 samples in the run's one process, without Ray, "
        "and is "
        "reproducible bit for bit.",
        "processes",
        ge=0,
        le=10_000,
    )
    num_envs_per_worker: Whole = key(
        4,
        "Environments that one worker steps side by side, with one forward pass for all of them.",
        "environments",
        ge=1,
        le=4096,
        rllib=1,
        why="one forward pass of a small net in NumPy costs about the same for 1 and 8 rows, so more are nearly free",
    )
    rollout_fragment_length: Whole = key(
        25,
        "Steps of each environment that one call to a worker collects; a worker's fragment has "
        "num_envs_per_worker times "
        "as many.",
        "env steps per environment",
        ge=1,
        le=100_000,
        rllib=1,
        why="one step per call would cost a message for each; the replay keeps stream order, so borders change nothing",
    )
    observation_filter: Literal["NoFilter", "MeanStdFilter"] = key(
        "NoFilter",
        "MeanStdFilter centres observations and divides them by their deviation, both running over all that was sampled, "
        "and limits them to 10 deviations. All workers share the statistics, which are part of the policy. Not for images.",
    )


class RolloutKeys(WorkerKeys, OutputKeys):
    """Keys of the part that steps environments with one policy, and explores on top of it."""

    explore: bool = key(True, "Whether training samples with exploration; false samples greedy actions.")
    exploration_config: ExplorationConfig = key(ExplorationConfig(), "How to explore.")


def filter_misfits(config, shape):
    """Return one line for a filter that does not fit observations of ``shape``; an empty list where it does."""
    if config.observation_filter == "NoFilter" or len(shape) == 1:
        return []
    return [
        f"observation_filter: {config.observation_filter} is for vectors of numbers, the environment's observations are "
        f"images of shape {tuple(shape)}, which nets scale themselves. Leave the key out."
    ]
